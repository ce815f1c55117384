// Hosts and attachments behind the end of the hook, the operation or the tool that was given them. The tables below are
// complete by their types: a hook with a host, a member of a view or a member of a tool's context cannot be forgotten.

import type { PluginParts, ToolContext } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HookContext, HookName } from "../../src/plugin/hooks.ts";
import { HOST_VIEWS, type HostViewName } from "../../src/plugin/host-services.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { acting, hostTool } from "./services-support.ts";
import { plugin } from "./tools-support.ts";

/** Hooks whose every context has a host. Events have some that live as long as their session. */
type Hosted = { [K in HookName]: HookContext<K> extends { readonly host: object } ? K : never }[HookName];

type Host = Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>;
type Catch = (ctx: { readonly host: object }) => undefined;

/** For each of them, the view that it is given and a plugin that keeps it. */
const HOOKS_WITH_HOST: {
  readonly [K in Hosted]: readonly [view: HostViewName, parts: (kept: Catch) => PluginParts];
} = {
  "prompt.contribute": ["prompt", (kept) => ({ prompt: kept })],
  "turn.before": ["turn", (kept) => ({ turn: { before: kept } })],
  "turn.after": ["turnResult", (kept) => ({ turn: { after: kept } })],
  "turn.checkpoint": ["checkpoint", (kept) => ({ turn: { checkpoint: kept } })],
  "tool_calls.before": ["tool", (kept) => ({ toolCalls: { before: kept } })],
  "tool_calls.after": ["tool", (kept) => ({ toolCalls: { after: kept } })],
  "session.mutate_config": ["configChanged", (kept) => ({ session: { mutateConfig: kept } })],
  "context.prepare_turn": ["history", (kept) => ({ context: { prepareTurn: { transform: kept } } })],
  "context.compact": ["history", (kept) => ({ context: { compact: { compact: kept } } })],
};

/** What a tool's context has that does something; the rest are values, and what only says something. */
const DOES: { readonly [Member in keyof ToolContext]-?: "does" | "is" } = {
  sessionId: "is",
  turnId: "is",
  callId: "is",
  frameId: "is",
  attempt: "is",
  maxAttempts: "is",
  signal: "is",
  idempotencyKey: "is",
  paths: "is",
  binding: "is",
  progress: "is",
  pending: "is",
  completionKey: "does",
  callTools: "does",
  attachments: "does",
  host: "does",
  directCompletion: "does",
};

/** How each function among the members of an object answers. */
async function answers(members: object): Promise<Readonly<Record<string, unknown>>> {
  const asked = Object.entries(members as Host).map(async ([name, call]) => [
    name,
    await call("s", "s", "s").then(
      () => "answered",
      (thrown: { readonly code?: string }) => thrown.code,
    ),
  ]);
  return Object.fromEntries(await Promise.all(asked));
}

function allStale(names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, "stale_scope"]));
}

describe.each(BACKINGS)("on $name", ({ open }) => {
  test.each(Object.keys(HOOKS_WITH_HOST) as Hosted[])(
    "[H3] every service of the host of %s is stale when the hook has ended",
    async (hook) => {
      const [view, parts] = HOOKS_WITH_HOST[hook];
      const hosts: object[] = [];
      const kept: Catch = (ctx) => void hosts.push(ctx.host);
      const { session } = await live({
        store: open()(),
        tools: [hostTool("look", async () => "seen")],
        plugins: [plugin("keeping", parts(kept))],
        script: [callTool("look"), say("done")],
      });
      await session.run("go");
      await session.configure({ maxTurns: 7 });
      await session.compact();
      expect(hosts.length).toBeGreaterThan(0);
      for (const host of hosts) {
        expect(Object.keys(host)).toEqual(HOST_VIEWS[view]);
        expect(await answers(host)).toEqual(allStale(HOST_VIEWS[view]));
      }
    },
  );

  test("[H3] every service of the host of an action is stale when the action has ended", async () => {
    const hosts: object[] = [];
    const keep = async (host: object): Promise<string> => {
      hosts.push(host);
      return "kept";
    };
    const { session } = await live({
      store: open()(),
      plugins: [acting({ "acting.keep": keep })],
      script: [],
    });
    await session.action("acting.keep", null);
    expect(await answers(hosts[0] ?? {})).toEqual(allStale(HOST_VIEWS.action));
  });

  test.each([false, true])(
    "[H3] everything that a tool's context does is stale when the call has ended (orchestrating: %s)",
    async (isOrchestrating) => {
      const contexts: ToolContext[] = [];
      const look = hostTool(
        "look",
        async (_host, _args, ctx) => {
          contexts.push(ctx);
          return "seen";
        },
        isOrchestrating ? { isOrchestrating } : {},
      );
      const { session } = await live({
        store: open()(),
        tools: [look],
        script: [callTool("look"), say("done")],
      });
      await session.run("go");
      const [context] = contexts;
      const does = Object.entries(DOES).flatMap(([name, kind]) => (kind === "does" ? [name] : []));
      expect(Object.keys(context ?? {}).filter((name) => !(name in DOES))).toEqual([]);
      for (const name of does) {
        const member = (context as unknown as Readonly<Record<string, unknown>>)[name];
        const members = typeof member === "function" ? { [name]: member } : (member as object);
        expect(Object.keys(members).length).toBeGreaterThan(0);
        expect(await answers(members)).toEqual(allStale(Object.keys(members)));
      }
    },
  );

  test("[H3] a hook that runs out of time can do nothing any more", async () => {
    let late: Promise<unknown> | undefined;
    const slow = plugin("slow", {
      turn: {
        before: async ({ host }) => {
          late = new Promise((resolve) => setTimeout(resolve, 60)).then(() => host.createSession({}));
          late.catch(() => undefined);
          await late;
          return undefined;
        },
      },
    });
    const { session } = await live({
      store: open()(),
      plugins: [slow],
      hookTimeoutMs: 5,
      script: [say("done")],
    });
    await session.run("go").catch(() => undefined);
    await expect(late).rejects.toMatchObject({ code: "stale_scope" });
  });
});
