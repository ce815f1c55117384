// A plugin that lets tests create sessions from sessions, as plugins do, and a session whose turn a test holds.

import { defineTool, type Plugin, type Session } from "marling";
import type { ScriptStep } from "marling/testing";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import type { SessionCreateRequest } from "../../src/plugin/session-create.ts";
import { plugin, type Stage, type StageOptions, stage } from "./tools-support.ts";

/** A plugin whose commands create and close sessions. */
export const family: Plugin = plugin("family", (ctx) => {
  const count = ctx.durable({ version: 1, initial: () => 0 });
  return {
    turn: {
      before: () => {
        count.update((n) => n + 1);
        return undefined;
      },
    },
    operations: {
      commands: {
        "family.create": {
          session: "required",
          handler: (command, request) =>
            command.sessionLifecycle.createSession(request as SessionCreateRequest),
        },
        "family.close": {
          session: "required",
          handler: (command, id) => command.sessionLifecycle.closeSession(id as string),
        },
        "family.read": {
          session: "required",
          handler: async (command, id) => (await command.sessions.snapshotSession(id as string)).sessionId,
        },
      },
      queries: {
        "family.who": {
          session: "required",
          handler: () => ({
            isRoot: ctx.isRoot,
            parent: ctx.parentSessionId ?? null,
            subagent: (ctx.subagent ?? null) as never,
            hidden: ctx.toolAccess.hiddenTools,
            tools: ctx.toolAccess.tools,
          }),
        },
        "family.count": { session: "required", handler: () => count.get() },
      },
    },
  };
});

/** Creates a session from another and opens it. */
export async function create(
  { runtime }: Pick<Stage, "runtime">,
  from: Session,
  request: SessionCreateRequest,
): Promise<Session> {
  const { output } = await from.command("family.create", request);
  return runtime.session((output as { readonly sessionId: string }).sessionId);
}

export interface Held extends Stage {
  readonly begun: Deferred<void>;
  readonly gate: Deferred<void>;
}

/** A session whose tool `wait` holds a turn until the test lets it go. */
export async function held(script: readonly ScriptStep[], options: StageOptions = {}): Promise<Held> {
  const [begun, gate] = [deferred<void>(), deferred<void>()];
  const wait = defineTool({
    name: "wait",
    description: "Waits.",
    input: { type: "object" },
    execute: async () => {
      begun.resolve();
      await gate.promise;
      return null;
    },
  });
  return { ...(await stage({ tools: [wait], script, ...options })), begun, gate };
}
