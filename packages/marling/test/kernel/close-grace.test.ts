// Within the grace of a polite close an accepted turn does everything that it could before, on every store and for tenants.

import {
  createRuntime,
  directive,
  type Plugin,
  type Runtime,
  type Session,
  type ToolContext,
  type ToolDefinition,
} from "marling";
import { subagents } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { gate } from "./durable-support.ts";
import { answering, database } from "./parked-support.ts";
import { hostTool } from "./services-support.ts";
import { plugin, rejectionOf } from "./tools-support.ts";

type Act = (host: HostServices, ctx: ToolContext) => Promise<unknown>;

const ANSWERS = {
  go: [callTool("work", {}), say("Done.")],
  delegate: [callTool("below", {}), say("Delegated.")],
  spawn: [callTool("spawn", { task: "look" }), say("Done.")],
  look: [callTool("below", {}), say("Looked.")],
};

const below = hostTool("below", async (host, _args, ctx) => {
  const { sessionId } = await host.createSession({ sessionId: `${ctx.sessionId}:below`, plugins: "fresh" });
  const { text } = await host.startTurn(sessionId, "hello");
  await host.injectTurnInput(ctx.sessionId, { message: { role: "user", content: "noted" } });
  return text;
});

/** What a turn may ask for through its host. */
const ACTS: readonly [string, Act][] = [
  ["createSession", (host) => host.createSession({ sessionId: "new" })],
  [
    "startTurn in a new session",
    async (host) => {
      const { sessionId } = await host.createSession({ sessionId: "new" });
      return (await host.startTurn(sessionId, "hello")).text;
    },
  ],
  ["startTurn in an open session", async (host) => (await host.startTurn("s:kept", "hello")).text],
  [
    "startTurnStream and awaitTurn",
    async (host) => {
      const { turnId } = await host.startTurnStream("s:kept", "hello");
      return (await host.awaitTurn(turnId)).text;
    },
  ],
  ["turns below turns", async (host) => (await host.startTurn("s:kept", "delegate")).text],
  [
    "injectTurnInput into its own session",
    (host) => host.injectTurnInput("s", { message: { role: "user", content: "more" } }),
  ],
  [
    "injectTurnInput into a session below",
    (host) => host.injectTurnInput("s:kept", { message: { role: "user", content: "more" } }),
  ],
  [
    "directCompletion",
    (host) => host.directCompletion({ messages: [{ role: "user", content: "hello" }] }, "x"),
  ],
  ["nested calls", (_host, ctx) => ctx.callTools([{ name: "below", args: {} }])],
  [
    "a task that it awaits",
    async (host) => {
      let made: unknown;
      await host.spawnHiddenTask("s", "making", async () => {
        made = await host.createSession({ sessionId: "new" });
      });
      await host.awaitHiddenTasks("s");
      return made;
    },
  ],
  [
    "a managed task",
    (host) => host.spawnManagedTask("s", { id: "job", kind: "other", producer: "test" }, async () => "ran"),
  ],
  ["snapshotSession", async (host) => (await host.snapshotSession("s:kept")).sessionId],
  ["closeSession", (host) => host.closeSession("s:kept")],
  ["appendSessionNodes", (host) => host.appendSessionNodes("s:kept", { nodes: [] })],
];

const STORES: readonly {
  readonly name: string;
  open(): { store?: ReturnType<typeof sqliteStore>; tenant?: string };
}[] = [
  { name: "memory", open: () => ({}) },
  { name: "sqlite", open: () => ({ store: sqliteStore({ path: database() }) }) },
  { name: "a tenant of sqlite", open: () => ({ store: sqliteStore({ path: database() }), tenant: "acme" }) },
  { name: "a tenant in memory", open: () => ({ tenant: "acme" }) },
];

interface Begun {
  readonly runtime: Runtime;
  readonly session: Session;
  readonly turn: ReturnType<Session["turn"]>;
}

interface Program {
  readonly tools: readonly ToolDefinition[];
  readonly plugins?: readonly Plugin[];
  readonly input?: string;
}

/** A runtime whose session "s" has an open session "s:kept" below it, and a turn that has begun. */
async function begin(
  { open }: (typeof STORES)[number],
  { tools, plugins = [], input = "go" }: Program,
): Promise<Begun> {
  const { tenant, ...store } = open();
  const making = plugin("making", {
    operations: {
      commands: {
        "making.create": {
          session: "required",
          handler: (command, id) =>
            command.sessionLifecycle.createSession({ sessionId: String(id), plugins: "fresh" }),
        },
      },
    },
  });
  const whole = createRuntime({
    model: scriptedModel(answering(ANSWERS)),
    tools: [...tools, below],
    plugins: [making, ...plugins],
    ...store,
  });
  onTestFinished(() => whole.close());
  const runtime = tenant === undefined ? whole : whole.scope(tenant);
  const session = await runtime.session("s");
  await session.command("making.create", "s:kept");
  return { runtime: whole, session, turn: session.turn(input) };
}

describe.each(STORES)("over $name", (store) => {
  test.each(ACTS)("[RT1] within the grace a tool may use %s", async (_name, act) => {
    const at = gate();
    const work = hostTool("work", async (host, _args, ctx) => {
      await at.pass();
      return (await act(host, ctx)) ?? null;
    });
    const { runtime, session, turn } = await begin(store, { tools: [work] });
    await at.begun;
    const closed = runtime.close({ graceMs: 20_000 });
    expect((await rejectionOf(session.turn("from outside").result)).code).toBe("runtime_closed");
    expect((await rejectionOf(session.enqueue("from outside"))).code).toBe("runtime_closed");
    expect((await rejectionOf(runtime.session("other"))).code).toBe("runtime_closed");
    at.open();
    await closed;
    const { toolCalls, text, issues } = await turn.result;
    expect(toolCalls.map(({ output }) => output.outcome)).toEqual([
      expect.objectContaining({ kind: "success" }),
    ]);
    expect([text, issues]).toEqual(["Done.", []]);
  });

  test("[RT1] within the grace stock subagents work, with what their children do", async () => {
    const at = gate();
    const first = plugin("first", {
      toolCalls: {
        before: async ({ toolName }) => {
          if (toolName === "spawn") await at.pass();
          return undefined;
        },
      },
    });
    const { runtime, turn } = await begin(store, {
      tools: [],
      plugins: [first, subagents()],
      input: "spawn",
    });
    await at.begun;
    const closed = runtime.close({ graceMs: 20_000 });
    at.open();
    await closed;
    const { toolCalls, text } = await turn.result;
    expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: { text: "Looked." } });
    expect(text).toBe("Done.");
  });

  test.each(["before", "checkpoint", "after"] as const)(
    "[RT1] within the grace a session that the hook turn.%s asks for is made",
    async (phase) => {
      const at = gate();
      let asked = 0;
      const hook = async (): Promise<ReturnType<typeof directive.createSession>[] | undefined> => {
        asked += 1;
        if (asked > 1) return undefined;
        await at.pass();
        return [directive.createSession({ sessionId: "new" })];
      };
      const asking = plugin("asking", (ctx) => (ctx.isRoot ? { turn: { [phase]: hook } } : {}));
      const work = hostTool("work", async () => "worked");
      const { runtime, turn } = await begin(store, { tools: [work], plugins: [asking] });
      await at.begun;
      const closed = runtime.close({ graceMs: 20_000 });
      at.open();
      await closed;
      const { text, issues, outcome } = await turn.result;
      expect([text, issues, outcome.kind]).toEqual(["Done.", [], "finished"]);
    },
  );

  test.each(["before", "after"] as const)(
    "[RT1] within the grace a session that the hook toolCalls.%s asks for is made",
    async (phase) => {
      const at = gate();
      const hook = async (): Promise<ReturnType<typeof directive.createSession>[]> => {
        await at.pass();
        return [directive.createSession({ sessionId: "new" })];
      };
      const asking = plugin("asking", { toolCalls: { [phase]: hook } });
      const work = hostTool("work", async () => "worked");
      const { runtime, turn } = await begin(store, { tools: [work], plugins: [asking] });
      await at.begun;
      const closed = runtime.close({ graceMs: 20_000 });
      at.open();
      await closed;
      const { toolCalls, issues } = await turn.result;
      expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: "worked" });
      expect(issues).toEqual([]);
    },
  );
});
