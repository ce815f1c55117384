// Calls that wait, and those beside, before and behind them.

import { defineTool, type ToolDefinition } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import {
  asking,
  claimAsStranger,
  database,
  desk,
  parked,
  transcript,
  until,
  worker,
} from "./parked-support.ts";
import { plugin, successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };

/** A tool that answers at once and says how often it ran. */
function counting(name: string): { readonly tool: ToolDefinition; readonly ran: string[] } {
  const ran: string[] = [];
  const tool = defineTool({
    name,
    description: "Answers at once.",
    input: { type: "object" },
    execute: (_input, { callId }) => {
      ran.push(callId);
      return `${name} ${ran.length}`;
    },
  });
  return { ran, tool: tool as ToolDefinition };
}

test("[E10] calls beside one that waits are finished first and are not run again when it is over", async () => {
  const path = database();
  const { tool, keys } = asking();
  const beside = counting("beside");
  const slow = deferred<string>();
  const late = defineTool({
    name: "late",
    description: "Takes its time.",
    input: { type: "object" },
    execute: () => slow.promise,
  });
  const answers = {
    go: [
      callTools([
        ["beside", {}],
        ["ask", {}],
        ["late", {}],
        ["beside", {}],
      ]),
      say("Done."),
    ],
  };
  const tools = [tool, beside.tool, late];
  const first = await desk(path, { tools, answers });
  first.session.turn("go", { key: "k" });
  await until(() => keys.length === 1 && beside.ran.length === 2);
  expect((await first.session.pending())[0]?.status).toBe("running");
  expect(await claimAsStranger(first.store)).toMatchObject({ kind: "held" });
  slow.resolve("late at last");
  await parked(first.session);
  await first.runtime.close();
  const second = worker(path, { tools, answers });
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const session = await second.runtime.session("s");
  const { toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual([
    "beside 1",
    "yes",
    "late at last",
    "beside 2",
  ]);
  expect(beside.ran).toEqual(["call_1", "call_4"]);
  expect(keys).toHaveLength(1);
});

test("[E10] several calls that wait are completed one by one, in any order; the turn sleeps again in between", async () => {
  const path = database();
  const { tool, keys } = asking();
  const answers = {
    go: [
      callTools([
        ["ask", {}],
        ["ask", {}],
        ["ask", {}],
      ]),
      say("Done."),
    ],
  };
  const first = await desk(path, { tools: [tool], answers });
  const turn = first.session.turn("go");
  await parked(first.session);
  expect(keys).toHaveLength(3);
  for (const [index, value] of [
    [1, "second"],
    [2, "third"],
  ] as const) {
    const callId = `call_${index + 1}`;
    await first.runtime.resolve(keys[index] ?? "", { ok: value });
    const isTaken = async (): Promise<boolean> => {
      const [row] = await first.store.pending("s" as never);
      return row?.parked !== undefined && !row.parked.names.includes(callId);
    };
    await until(isTaken);
    await parked(first.session);
    expect(await claimAsStranger(first.store)).toMatchObject({ kind: "claimed" });
  }
  await first.runtime.resolve(keys[0] ?? "", { ok: "first" });
  const { toolCalls, text } = await turn.result;
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual(["first", "second", "third"]);
  expect(text).toBe("Done.");
  expect(first.model.requests).toHaveLength(2);
});

test("[E10] all values at once wake the turn once", async () => {
  const path = database();
  const { tool, keys } = asking();
  const answers = {
    go: [
      callTools([
        ["ask", {}],
        ["ask", {}],
      ]),
      say("Done."),
    ],
  };
  const first = await desk(path, { tools: [tool], answers });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  const second = await desk(path, { tools: [tool], answers });
  await Promise.all(keys.map((key, index) => second.runtime.resolve(key, { ok: index })));
  const { toolCalls } = await second.session.turn("go", { key: "k" }).result;
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual([0, 1]);
});

test("[E10] a turn sleeps in each of its rounds, and every round goes on in another runtime", async () => {
  const path = database();
  const { tool, keys } = asking();
  const beside = counting("beside");
  const answers = {
    go: [
      callTools([
        ["ask", {}],
        ["beside", {}],
      ]),
      callTools([
        ["beside", {}],
        ["ask", {}],
      ]),
      callTool("ask", {}),
      say("Done."),
    ],
  };
  const tools = [tool, beside.tool];
  let calls = 0;
  for (const round of [0, 1, 2, 3]) {
    const { runtime, session, model } = await desk(path, { tools, answers });
    const turn = session.turn("go", { key: "k" });
    if (round > 0) await runtime.resolve(keys[round - 1] ?? "", { ok: `value ${round}` });
    if (round === 3) expect((await turn.result).text).toBe("Done.");
    else await until(() => keys.length === round + 1).then(() => parked(session));
    calls += model.requests.length;
    if (round === 3) {
      expect(await transcript(session)).toEqual([
        "user: go",
        "assistant calls ask call_1",
        "assistant calls beside call_2",
        "tool call_1: value 1",
        "tool call_2: beside 1",
        "assistant calls beside call_3",
        "assistant calls ask call_4",
        "tool call_3: beside 2",
        "tool call_4: value 2",
        "assistant calls ask call_5",
        "tool call_5: value 3",
        "assistant: Done.",
      ]);
    }
    await runtime.close();
  }
  expect(calls).toBe(4);
  expect(beside.ran).toEqual(["call_2", "call_3"]);
});

test("[CO4] a call inside a batch puts the turn to sleep, and the batch goes on with what it has", async () => {
  const path = database();
  const { tool, keys } = asking();
  const beside = counting("beside");
  const calls = [
    { tool: "beside", args: {} },
    { tool: "ask", args: {} },
    { tool: "beside", args: {} },
  ];
  const answers = {
    go: [
      callTools([
        ["batch", { calls }],
        ["beside", {}],
      ]),
      say("Done."),
    ],
  };
  const tools = [tool, beside.tool];
  const first = await desk(path, { tools, answers });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  expect(await claimAsStranger(first.store)).toMatchObject({ kind: "claimed" });
  await first.runtime.close();
  const second = worker(path, { tools, answers });
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const session = await second.runtime.session("s");
  const { toolCalls, text } = await session.turn("go", { key: "k" }).result;
  expect(text).toBe("Done.");
  expect(beside.ran).toHaveLength(3);
  expect(keys).toHaveLength(1);
  const value = successOf(toolCalls[0]?.output) as { readonly results: readonly unknown[] };
  expect(JSON.stringify(value)).toContain('"yes"');
  expect(toolCalls.map(({ name }) => name)).toEqual(["batch", "beside"]);
});

/** A tool that calls `ask` itself, and has to be in memory when that is over. */
function calling(replay: "safe" | "unsafe" = "unsafe"): ToolDefinition {
  const tool = defineTool({
    name: "outer",
    description: "Calls another tool.",
    input: { type: "object" },
    replay,
    execute: async (_input, context) => {
      const [reply] = await context.callTools([{ name: "ask", args: {} }]);
      return { got: successOf(reply?.output) as string };
    },
  });
  return tool as ToolDefinition;
}

test("[CO4] a tool that waits for a call of its own keeps the lease, and anybody can complete the call", async () => {
  const path = database();
  const { tool, keys } = asking();
  const answers = { go: [callTool("outer", {}), say("Done.")] };
  const first = await desk(path, { tools: [tool, calling()], answers });
  const turn = first.session.turn("go");
  const events: string[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event.kind);
  })();
  await until(() => events.includes("waiting"));
  expect((await first.session.pending())[0]?.status).toBe("running");
  expect(await claimAsStranger(first.store)).toMatchObject({ kind: "held" });
  const second = worker(path, { tools: [tool, calling()], answers });
  expect(await second.runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  const report = await turn.result;
  await watching;
  expect(successOf(report.toolCalls[0]?.output)).toEqual({ got: "yes" });
  expect(second.model.requests).toEqual([]);
});

test("[CO4] a wait beside a tool that waits for its own call: the turn sleeps when the tool has answered", async () => {
  const path = database();
  const inner = asking();
  const other = asking({ name: "other" });
  const answers = {
    go: [
      callTools([
        ["outer", {}],
        ["other", {}],
      ]),
      say("Done."),
    ],
  };
  const { runtime, session } = await desk(path, { tools: [inner.tool, other.tool, calling()], answers });
  const turn = session.turn("go");
  await until(() => inner.keys.length === 1 && other.keys.length === 1);
  expect((await session.pending())[0]?.status).toBe("running");
  await runtime.resolve(inner.keys[0] ?? "", { ok: "inner" });
  await parked(session);
  await runtime.resolve(other.keys[0] ?? "", { ok: "other" });
  const { toolCalls } = await turn.result;
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual([{ got: "inner" }, "other"]);
});

test("[CO2] the hooks after a call see what arrived, once, though the turn slept in between", async () => {
  const path = database();
  const { tool, keys } = asking();
  const seen: unknown[] = [];
  const before: string[] = [];
  const watch = plugin("watch", {
    toolCalls: {
      before: ({ callId }) => void before.push(callId) as undefined,
      after: ({ result }) => void seen.push(result.outcome) as undefined,
    },
  });
  const options = { tools: [tool], answers: ASK, plugins: [watch] };
  const first = await desk(path, options);
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  expect(seen).toEqual([]);
  const second = await desk(path, options);
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await second.session.turn("go", { key: "k" }).result;
  expect(seen).toEqual([{ kind: "success", value: "yes" }]);
  expect(before).toEqual(["call_1"]);
});

test("[E5] what plugins remembered before the turn slept is committed once, with the turn", async () => {
  const path = database();
  const { tool, keys } = asking();
  const counter = plugin("counter", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    const add = (): undefined => void count.update((n) => n + 1) as undefined;
    return {
      turn: { before: add },
      toolCalls: { before: add, after: add },
      operations: { queries: { "counter.count": { handler: () => count.get() } } },
    };
  });
  const options = { tools: [tool], answers: ASK, plugins: [counter] };
  const first = await desk(path, options);
  const turn = first.session.turn("go");
  await parked(first.session);
  expect(await first.session.query("counter.count", {})).toBe(0);
  await first.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await turn.result;
  expect(await first.session.query("counter.count", {})).toBe(3);
  await first.runtime.close();
  const second = await desk(path, options);
  expect(await second.session.query("counter.count", {})).toBe(3);
});
