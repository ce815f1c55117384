// What hooks and tools started outlives a crash: it is found again, finished once and paid for once.

import { directive, type Plugin, type ToolDefinition } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptedModel, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  database,
  type Gate,
  gate,
  gatedStep,
  live,
  mortal,
  quickTool,
  userTexts,
} from "./durable-support.ts";
import { protocol } from "./protocol-support.ts";
import { type Answers, answering, hostTool, ledger, lines } from "./services-support.ts";
import { plugin } from "./tools-support.ts";

const tokens = (input: number) => ({ usage: { input, output: 1 } });

/** What was asked of a model, as the last text of the user and how many messages there were. */
function asked({ requests }: ScriptedModel): readonly string[] {
  return requests.map((request) => `${userTexts(request).at(-1)} ${request.messages.length}`);
}

function delegate(): ToolDefinition {
  return hostTool("delegate", async (host) => {
    const { sessionId } = await host.createSession({ usageSource: "helper" });
    const { text } = await host.startTurn(sessionId, "Task");
    return { sessionId, text } as never;
  });
}

const ANSWERS: Answers = {
  Go: [callTool("delegate", {}, tokens(1)), say("Done.", tokens(2))],
  Task: [callTool("quick", {}, tokens(10)), say("Report.", tokens(20))],
};

/** As the others, with a model call of the child that nobody answers. */
function stuckAt(at: Gate, round: 0 | 1): Answers {
  const task = [...(ANSWERS.Task ?? [])];
  task[round] = gatedStep(at, say("Never."));
  return { ...ANSWERS, Task: task };
}

describe("a tool in the middle of a child's turn", () => {
  test.each([
    ["first", 0, ["Task 1", "Task 3", "Go 3"]],
    ["second", 1, ["Task 3", "Go 3"]],
  ] as const)(
    "[K109] finds the child again after a crash in its %s model call, and buys nothing twice",
    async (_which, round, bought) => {
      const path = database();
      const at = gate();
      const tools = [delegate(), quickTool("quick")];
      const first = await mortal({
        store: sqliteStore({ path }),
        tools,
        script: answering(stuckAt(at, round)),
      });
      first.session.turn("Go", { id: "t" });
      await at.begun;
      await first.die();
      const { session, runtime, model } = await live({
        store: sqliteStore({ path }),
        tools,
        script: answering(ANSWERS),
      });
      const report = await session.turn("Go", { id: "t" }).result;
      expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
      expect(asked(model)).toEqual(bought);
      const { items } = await runtime.sessions.list();
      expect(items.map(({ parentSessionId, turnIndex }) => [parentSessionId, turnIndex])).toEqual([
        [undefined, 1],
        ["s", 1],
      ]);
      const child = await runtime.session(items[1]?.id ?? "");
      expect(report.toolCalls.map(({ output }) => output.outcome)).toEqual([
        { kind: "success", value: { sessionId: child.id, text: "Report." } },
      ]);
      expect(lines(report.childUsage)).toEqual(["helper default 30+2"]);
      expect(ledger(session)).toEqual(["helper default 30+2", "turn default 3+2"]);
      expect(ledger(child)).toEqual(["helper default 30+2"]);
      expect(child.read().messages.map(({ role }) => role)).toEqual([
        "user",
        "assistant",
        "tool",
        "assistant",
      ]);
    },
  );

  test("[K109] gets the report of a child that finished before the crash", async () => {
    const path = database();
    const at = gate();
    const late = hostTool("delegate", async (host, _args, ctx) => {
      const { sessionId } = await host.createSession({ usageSource: "helper" });
      const { text } = await host.startTurn(sessionId, "Task");
      if (ctx.turnId !== "" && at.visits === 0) await at.pass();
      return text;
    });
    const tools = [late, quickTool("quick")];
    const first = await mortal({ store: sqliteStore({ path }), tools, script: answering(ANSWERS) });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const { session, model } = await live({
      store: sqliteStore({ path }),
      tools,
      script: answering(ANSWERS),
    });
    const report = await session.turn("Go", { id: "t" }).result;
    expect(asked(model)).toEqual(["Go 3"]);
    expect(report.toolCalls[0]?.output.outcome).toEqual({ kind: "success", value: "Report." });
    expect(ledger(session)).toEqual(["helper default 30+2", "turn default 3+2"]);
  });

  test("[K108] has the first input of the child again, and commits in between change nothing about which child it is", async () => {
    const path = database();
    const at = gate();
    const seen: unknown[] = [];
    const begin = hostTool("delegate", async (host) => {
      const { sessionId } = await host.createSession({ firstTurnInput: { role: "user", content: "Task" } });
      await host.appendSessionNodes("s", { nodes: [{ kind: "plugin", type: "note", body: {} }] });
      seen.push(await host.takeFirstTurnInput(sessionId), await host.takeFirstTurnInput(sessionId));
      if (at.visits === 0) await at.pass();
      return (await host.snapshotSession(sessionId)).sessionId;
    });
    const first = await mortal({ store: sqliteStore({ path }), tools: [begin], script: answering(ANSWERS) });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const { session, runtime } = await live({
      store: sqliteStore({ path }),
      tools: [begin],
      script: answering(ANSWERS),
    });
    await session.turn("Go", { id: "t" }).result;
    const input = expect.objectContaining({ role: "user" });
    expect(seen).toEqual([input, undefined, input, undefined]);
    expect((await runtime.sessions.list()).items).toHaveLength(2);
  });

  test("[K109] leaves nothing running when its turn was asked to end while no process was there", async () => {
    const path = database();
    const at = gate();
    const tools = [delegate(), quickTool("quick")];
    const first = await mortal({ store: sqliteStore({ path }), tools, script: answering(stuckAt(at, 1)) });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const between = sqliteStore({ path });
    await between.cancel({ sessionId: "s" as SessionId, turnId: "t" as TurnId, reason: "enough" });
    await between.close();
    const { session, runtime } = await live({
      store: sqliteStore({ path }),
      tools,
      script: answering(stuckAt(gate(), 1)),
    });
    const report = await session.turn("Go", { id: "t" }).result;
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "cancelled", message: "enough" });
    const childId = (await runtime.sessions.list()).items[1]?.id ?? "";
    const child = await runtime.session(childId);
    await expect.poll(() => child.pending(), { timeout: 10_000 }).toEqual([]);
    expect(child.read().turnIndex).toBe(1);
    expect(child.read().messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
  });
});

describe("a model call that was finished before the crash", () => {
  const once = (at: Gate): Promise<void> => (at.visits === 0 ? at.pass() : Promise.resolve());
  const hooks: Readonly<Record<string, (at: Gate) => Plugin>> = {
    "a hook before a tool call": (at) =>
      plugin("asking", {
        toolCalls: {
          before: async ({ host }) => {
            await host.directCompletion({ messages: "Summarize" }, "hook");
            await once(at);
          },
        },
      }),
    "a hook after a tool call": (at) =>
      plugin("asking", {
        toolCalls: {
          after: async ({ host }) => {
            await host.directCompletion({ messages: "Summarize" }, "hook");
            await once(at);
          },
        },
      }),
    "a prompt contributor": (at) =>
      plugin("asking", {
        prompt: async ({ host, state }) => {
          if (state.messageCount > 1) return undefined;
          await host.directCompletion({ messages: "Summarize" }, "hook");
          await once(at);
          return undefined;
        },
      }),
    "a context transform": (at) =>
      plugin("asking", {
        context: {
          prepareTurn: {
            transform: async ({ host }, prepared) => {
              await host.directCompletion({ messages: "Summarize" }, "hook");
              await once(at);
              return prepared;
            },
          },
        },
      }),
    "a protocol before a model call": (at) =>
      protocol({
        beforeLlmCall: async ({ directCompletions, state }) => {
          if (state.messageCount > 1) return undefined;
          await directCompletions.directCompletion({ messages: "Summarize" }, "hook");
          await once(at);
          return undefined;
        },
      }),
  };
  const answers: Answers = {
    Go: [callTool("quick", {}, tokens(1)), say("Done.", tokens(2))],
    Summarize: [say("Short.", tokens(7))],
  };

  test.each(Object.entries(hooks))("[K123] by %s is not bought again", async (_who, build) => {
    const path = database();
    const at = gate();
    const options = { tools: [quickTool("quick")], plugins: [build(at)], script: answering(answers) };
    const first = await mortal({ store: sqliteStore({ path }), ...options });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const { session, model } = await live({ store: sqliteStore({ path }), ...options });
    const report = await session.turn("Go", { id: "t" }).result;
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(asked(first.model).filter((text) => text.startsWith("Summarize"))).toEqual(["Summarize 1"]);
    expect(asked(model).filter((text) => text.startsWith("Summarize"))).toEqual([]);
    expect(ledger(session)).toEqual(["hook default 7+1", "turn default 3+2"]);
  });
});

describe("sessions that directives create", () => {
  const two = plugin("two", {
    turn: {
      before: ({ sessionId }) =>
        sessionId === "s" ? [directive.createSession({}), directive.createSession({})] : undefined,
    },
  });

  test.each([1, 2])("[K79] are made once when a crash cuts the effect after %i of two", async (made) => {
    const path = database();
    const at = gate();
    let commits = 0;
    const first = await mortal({
      store: sqliteStore({ path }),
      plugins: [two],
      script: answering({}),
      around: async (method, call) => {
        const answer = await call();
        // The first commit is that of the session itself.
        if (method === "commit" && ++commits === made + 1) await at.pass();
        return answer;
      },
    });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const { session, runtime } = await live({
      store: sqliteStore({ path }),
      plugins: [two],
      script: answering({}),
    });
    await session.turn("Go", { id: "t" }).result;
    const { items } = await runtime.sessions.list();
    expect(items.map(({ parentSessionId }) => parentSessionId)).toEqual([undefined, "s", "s"]);
  });
});

test("[K109] tools that only call others have children of their own, each the same after a crash", async () => {
  const path = database();
  const at = gate();
  const conductor = (name: string): ToolDefinition =>
    hostTool(
      name,
      async (host) => {
        const { sessionId } = await host.createSession({ usageSource: name });
        await host.startTurn(sessionId, "Task");
        if (name === "b" && at.visits === 0) await at.pass();
        return sessionId;
      },
      { isOrchestrating: true },
    );
  const options = {
    tools: [conductor("a"), conductor("b")],
    script: answering({
      Go: [
        {
          kind: "call_tools",
          calls: [
            ["a", {}],
            ["b", {}],
          ],
          options: {},
        },
      ],
      Task: [say("Report.", tokens(5))],
    }),
  };
  const first = await mortal({ store: sqliteStore({ path }), ...options });
  first.session.turn("Go", { id: "t" });
  await at.begun;
  await first.die();
  const { session, runtime } = await live({ store: sqliteStore({ path }), ...options });
  const report = await session.turn("Go", { id: "t" }).result;
  expect(report.toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["success", "success"]);
  expect((await runtime.sessions.list()).items).toHaveLength(3);
  expect(lines(report.childUsage)).toEqual(["a default 5+1", "b default 5+1"]);
});

test("[K109] a turn that was lost to another runtime does not cancel the child it waits for", async () => {
  const path = database();
  const [at, elsewhere, told] = [gate(), gate(), gate()];
  const tools = [delegate(), quickTool("quick")];
  let isCut = false;
  let cancels = 0;
  const first = await mortal({
    store: sqliteStore({ path }),
    tools,
    leaseMs: 200,
    script: answering(stuckAt(at, 1)),
    // It cannot renew its leases for a while, and learns late that it lost them.
    around: async (method, call) => {
      if (isCut && method === "renew") await told.pass();
      if (method === "cancel") cancels += 1;
      return call();
    },
  });
  const lost = first.session
    .turn("Go", { id: "t" })
    .result.catch((thrown: { readonly code: string }) => thrown.code);
  await at.begun;
  isCut = true;
  const task = [callTool("quick", {}, tokens(10)), gatedStep(elsewhere, say("Report.", tokens(20)))];
  const { session } = await live({
    store: sqliteStore({ path }),
    tools,
    script: answering({ ...ANSWERS, Task: task }),
  });
  const turn = session.turn("Go", { id: "t" });
  await elsewhere.begun;
  told.open();
  expect(await lost).toBe("lease_lost");
  for (let wait = 0; wait < 20; wait += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(cancels).toBe(0);
  elsewhere.open();
  const report = await turn.result;
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: { text: "Report." } });
  await first.die();
});
