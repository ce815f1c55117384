// Compile-time tests: each expected error has its reason behind it. Nothing here runs.

import { z } from "zod";
import { unreachable } from "../../src/base/unreachable.ts";
import type { CallId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { Json } from "../../src/model/json.ts";
import { definePlugin } from "../../src/plugin/define-plugin.ts";
import { type Directive, directive } from "../../src/plugin/directive.ts";
import type { LifecycleEvent } from "../../src/plugin/hook-context.ts";
import type { HookRunner } from "../../src/plugin/hook-runner.ts";
import type { PluginParts } from "../../src/plugin/plugin.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import { configCtx, restored, turnCtx } from "../plugin/samples.ts";

/** Fails to compile unless both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <T extends true>(): T => true as T;

// A hook is run by the runner of its kind.
export function wrongRunners(runner: HookRunner): void {
  void runner.collect("turn.before", turnCtx());
  // @ts-expect-error turn.before is collected, it has no first answer
  void runner.first("turn.before", turnCtx());
  // @ts-expect-error turn.before is collected, handlers are not only told
  void runner.notify("turn.before", turnCtx());
  // @ts-expect-error session.on_event is told, nothing is collected
  void runner.collect("session.on_event", restored());
  // @ts-expect-error session.mutate_config is a waterfall, nothing is collected
  void runner.collect("session.mutate_config", configCtx());
  // @ts-expect-error the context is that of another hook
  void runner.collect("turn.after", turnCtx());
  // @ts-expect-error there is no such hook
  void runner.collect("turn.during", turnCtx());
}

// A hook's host has the methods of its view.
export const views: PluginParts = {
  prompt: async ({ host }) => {
    await host.toolCatalog("s");
    // @ts-expect-error prompt contributors cannot create sessions
    await host.createSession({});
  },
  turn: {
    before: async ({ host }) => {
      await host.emitTrace({ name: "x" });
      // @ts-expect-error hooks before a turn do not read the catalog
      await host.toolCatalog("s");
    },
    after: async ({ host }) => {
      await host.closeSession("s");
      // @ts-expect-error hooks after a turn take no snapshots
      await host.snapshotCurrent();
    },
    checkpoint: async ({ host }) => {
      // @ts-expect-error checkpoints do not append to the graph
      await host.appendSessionNodes("s", { nodes: [] });
    },
  },
  toolCalls: { before: ({ host }) => void host.appendSessionNodes("s", { nodes: [] }) },
  session: {
    mutateConfig: ({ host }) => {
      // @ts-expect-error config mutators have no services
      void host.emitTrace;
    },
  },
  operations: {
    queries: {
      q: {
        handler: async ({ sessions }) => {
          await sessions.snapshotCurrent();
          // @ts-expect-error queries only read
          await sessions.setToolMembership("s", [], true);
        },
      },
    },
  },
};

// Handlers return what their hook takes.
export const answers: PluginParts = {
  turn: { before: () => [directive.abortTurn({ code: "c", message: "m" })] },
  // @ts-expect-error a contribution has content
  prompt: () => [{ slot: "intro" }],
  // @ts-expect-error a stream hook returns a transform, not a text
  output: { stream: ({ chunk }) => chunk.toUpperCase() },
  context: {
    // @ts-expect-error a transform is an object with a priority
    prepareTurn: () => undefined,
  },
};

// A union is closed by `unreachable`: a case left out does not compile.
export function describeDirective(value: Directive): string {
  switch (value.kind) {
    case "abort_turn":
    case "enqueue_messages":
    case "create_session":
    case "replace_tool_args":
    case "short_circuit_tool":
    case "emit_events":
      return value.kind;
    default:
      // @ts-expect-error emit_trace is not answered
      return unreachable(value);
  }
}

export function describeEvent(event: LifecycleEvent): string {
  switch (event.kind) {
    case "turn_finalized":
      return event.turn.turnId;
    default:
      // @ts-expect-error all other events are not answered
      return unreachable(event);
  }
}

// Ids of different things cannot be swapped.
export function swappedIds(session: SessionId, turn: TurnId): void {
  const takesTurn = (_id: TurnId): void => {};
  takesTurn(turn);
  // @ts-expect-error a session id is no turn id
  takesTurn(session);
  // @ts-expect-error a plain string is no call id
  const call: CallId = "c1";
  void call;
}

// Options and state are typed by their schemas.
const guard = definePlugin({
  id: "guard",
  options: z.object({ root: z.string() }),
  build(ctx) {
    is<Same<typeof ctx.options, { root: string }>>();
    const denied = ctx.durable({ version: 1, initial: () => ({ count: 0 }) });
    is<Same<ReturnType<typeof denied.get>, { count: number }>>();
    // @ts-expect-error the state is an object
    denied.set(3);
    return {
      tools: [
        defineTool({
          name: "add",
          description: "Adds.",
          input: z.object({ a: z.number() }),
          execute: ({ a }) => a,
        }),
      ],
      turn: { before: (turn) => (turn.sessionId === "" ? [] : undefined) },
      operations: { queries: { "guard.count": { handler: () => denied.get() } } },
    };
  },
});
void guard({ root: "." });
// @ts-expect-error the option is a string
void guard({ root: 3 });

// Inside `build`, handlers are typed by their place: contexts and literals need no annotations.
void definePlugin({
  id: "typed",
  build: () => ({
    prompt: (ctx) => [{ slot: "guidance", title: "T", priority: 0, content: ctx.sessionId }],
    toolCatalog: ({ tools }) => ({ remove: tools.map(({ name }) => name) }),
    output: { stream: ({ chunk }) => ({ chunk, events: [{ kind: "status", key: "k", label: "l" }] }) },
    context: { prepareTurn: { priority: 1, transform: (_ctx, prepared) => ({ ...prepared, messages: [] }) } },
    approval: { request: ({ toolName }) => ({ decision: toolName === "rm" ? "deny" : "allow" }) },
  }),
});
void definePlugin({
  id: "wrong",
  // @ts-expect-error there is no slot of this name
  build: () => ({ prompt: () => [{ slot: "footer", content: "x" }] }),
});

const bare = definePlugin({ id: "bare", build: () => ({}) });
void bare();
// @ts-expect-error the plugin takes no options
void bare({ root: "." });

const byJsonSchema = definePlugin({
  id: "json",
  options: { type: "object" },
  build(ctx) {
    is<Same<typeof ctx.options, Json>>();
    return {};
  },
});
void byJsonSchema({ anything: true });
