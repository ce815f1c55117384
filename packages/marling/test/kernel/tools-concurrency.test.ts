// Several calls of one response: at once, in order, one by one where a tool asks for it, and when a turn is cancelled.

import { defineTool } from "marling";
import { callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import {
  failureOf,
  outputsOf,
  play,
  plugin,
  shownResults,
  stage,
  successOf,
  TestClock,
  until,
} from "./tools-support.ts";

type Tool = ReturnType<typeof defineTool>;

/** A tool that begins, waits for the test, and says what it was told. */
function gated(
  name: string,
  log: string[],
  execution?: "serial",
): { readonly tool: Tool; readonly gate: Deferred<string> } {
  const gate = deferred<string>();
  const tool = defineTool({
    name,
    description: "Waits.",
    input: { type: "object" },
    ...(execution === undefined ? {} : { execution }),
    execute: async () => {
      log.push(`begin ${name}`);
      const said = await gate.promise;
      log.push(`end ${name}`);
      return said;
    },
  });
  return { tool, gate };
}

test("[K99] calls run at once and answer in call order, whichever ends first", async () => {
  const log: string[] = [];
  const [a, b, c] = [gated("a", log), gated("b", log), gated("c", log)];
  const { session, model } = await stage({
    tools: [a.tool, b.tool, c.tool],
    script: [
      callTools([
        ["a", {}],
        ["b", {}],
        ["c", {}],
      ]),
      say("Done."),
    ],
  });
  const turn = session.turn("Go");
  const played = play(turn);
  await until(() => log.length === 3, "all three to begin");
  expect(log).toEqual(["begin a", "begin b", "begin c"]);
  for (const [one, said] of [
    [c, "C"],
    [a, "A"],
    [b, "B"],
  ] as const) {
    one.gate.resolve(said);
    await until(() => log.includes(`end ${said.toLowerCase()}`), "one to end");
  }
  const { report, events } = await played;
  expect(report.toolCalls.map(({ name, output }) => [name, successOf(output)])).toEqual([
    ["a", "A"],
    ["b", "B"],
    ["c", "C"],
  ]);
  expect(shownResults(model)).toEqual(["A", "B", "C"]);
  const finished = events.flatMap((event) => (event.kind === "tool_finished" ? [event.record.name] : []));
  expect(finished).toEqual(["c", "a", "b"]);
});

test("[K99] serial tools follow the others, one by one in call order", async () => {
  const log: string[] = [];
  const [one, two, par] = [gated("one", log, "serial"), gated("two", log, "serial"), gated("par", log)];
  const { session } = await stage({
    tools: [one.tool, two.tool, par.tool],
    script: [
      callTools([
        ["one", {}],
        ["par", {}],
        ["two", {}],
      ]),
      say("Done."),
    ],
  });
  const played = play(session.turn("Go"));
  await until(() => log.length === 1, "the parallel one to begin");
  expect(log).toEqual(["begin par"]);
  par.gate.resolve("P");
  await until(() => log.includes("begin one"));
  two.gate.resolve("2");
  expect(log).toEqual(["begin par", "end par", "begin one"]);
  one.gate.resolve("1");
  const { report } = await played;
  expect(log).toEqual(["begin par", "end par", "begin one", "end one", "begin two", "end two"]);
  expect(report.toolCalls.map(({ output }) => successOf(output))).toEqual(["1", "P", "2"]);
});

test("[K99] no more calls run at once than the runtime allows", async () => {
  let running = 0;
  let most = 0;
  const tool = defineTool({
    name: "work",
    description: "Works.",
    input: { type: "object" },
    execute: async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return null;
    },
  });
  const { session } = await stage({
    tools: [tool],
    toolConcurrency: 2,
    script: [callTools(Array.from({ length: 6 }, () => ["work", {}] as const)), say("Done.")],
  });
  await play(session.turn("Go"));
  expect(most).toBe(2);
});

test("[K99] a call that is refused keeps its place among the others", async () => {
  const echo = defineTool({
    name: "echo",
    description: "Echoes.",
    input: { type: "object" },
    execute: ({ n }) => n,
  });
  const { session } = await stage({
    tools: [echo],
    script: [
      callTools([
        ["echo", { n: 1 }],
        ["missing", {}],
        ["echo", { n: 3 }],
      ]),
      say("Done."),
    ],
  });
  const { report } = await play(session.turn("Go"));
  expect(report.toolCalls.map(({ callId, output }) => [callId, output.outcome.kind])).toEqual([
    ["call_1", "success"],
    ["call_2", "failure"],
    ["call_3", "success"],
  ]);
});

test("[K99] what calls leave behind is in call order, whichever ends first", async () => {
  const log: string[] = [];
  const [a, b] = [gated("a", log), gated("b", log)];
  const { session } = await stage({
    tools: [a.tool, b.tool],
    plugins: [
      plugin("notes", {
        toolCalls: {
          after: ({ toolName }) => ({
            kind: "enqueue_messages",
            messages: [{ role: "system", content: `note ${toolName}` }],
          }),
        },
      }),
    ],
    script: [
      callTools([
        ["a", {}],
        ["b", {}],
      ]),
      say("Done."),
    ],
  });
  const played = play(session.turn("Go"));
  await until(() => log.length === 2);
  b.gate.resolve("B");
  await until(() => log.includes("end b"));
  a.gate.resolve("A");
  await played;
  const notes = session.read().messages.filter(({ role }) => role === "system");
  expect(notes.map(({ parts }) => parts)).toEqual([
    [{ kind: "text", text: "note a" }],
    [{ kind: "text", text: "note b" }],
  ]);
});

test("[K100] a cancelled call has 50 ms to answer for itself; then it is answered for", async () => {
  const clock = new TestClock();
  const begun = { polite: deferred<void>(), deaf: deferred<void>() };
  const polite = defineTool({
    name: "polite",
    description: "Stops when asked.",
    input: { type: "object" },
    execute: (_input, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve("stopped half way"));
        begun.polite.resolve();
      }),
  });
  const late = deferred<string>();
  const deaf = defineTool({
    name: "deaf",
    description: "Does not stop.",
    input: { type: "object" },
    execute: () => {
      begun.deaf.resolve();
      return late.promise;
    },
  });
  const after: string[] = [];
  const { session } = await stage({
    clock,
    tools: [polite, deaf],
    plugins: [
      plugin("watch", { toolCalls: { after: ({ toolName }) => void after.push(toolName) as undefined } }),
    ],
    script: [
      callTools([
        ["polite", {}],
        ["deaf", {}],
      ]),
    ],
  });
  const turn = session.turn("Go");
  let isOver = false;
  const played = play(turn).finally(() => {
    isOver = true;
  });
  await Promise.all([begun.polite.promise, begun.deaf.promise]);
  expect(await session.cancel(turn.id, "enough")).toBe("requested");
  await until(() => after.length === 1, "the polite one to answer");
  clock.advance(49);
  await new Promise((resolve) => setImmediate(resolve));
  expect(isOver).toBe(false);
  clock.advance(1);
  const { report, events } = await played;
  expect(report.outcome).toEqual({
    kind: "stopped",
    reason: "cancelled",
    code: "cancelled",
    message: "enough",
  });
  expect(successOf(report.toolCalls[0]?.output)).toBe("stopped half way");
  expect(report.toolCalls[1]?.output.outcome).toEqual({
    kind: "cancelled",
    source: "cancellation",
    message: "The call was cancelled; it may have taken effect.",
  });
  const historyBefore = await session.history();
  late.resolve("too late");
  await until(() => clock.pending === 0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(after).toEqual(["polite"]);
  expect(await session.history()).toEqual(historyBefore);
  expect(events.filter((event) => event.kind === "tool_finished")).toHaveLength(2);
});

test("[K100] calls that have not begun are cancelled without having taken effect; denied ones stay denied", async () => {
  const clock = new TestClock();
  const begun = deferred<void>();
  const ran: string[] = [];
  const first = defineTool({
    name: "first",
    description: "Waits for the end.",
    input: { type: "object" },
    execute: (_input, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        begun.resolve();
      }),
  });
  const second = defineTool({
    name: "second",
    description: "Never runs.",
    input: { type: "object" },
    execution: "serial",
    execute: () => ran.push("second"),
  });
  const { session } = await stage({
    clock,
    tools: [first, second],
    script: [
      callTools([
        ["first", {}],
        ["second", {}],
        ["unknown", {}],
      ]),
    ],
  });
  const turn = session.turn("Go");
  await begun.promise;
  await session.cancel(turn.id);
  const { report } = await play(turn);
  expect(report.toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    { kind: "cancelled", message: "The tool first was cancelled." },
    { kind: "cancelled", message: "The call was cancelled before it began." },
    { kind: "failure", code: "tool_unavailable" },
  ]);
  expect(ran).toEqual([]);
});

test("[K100] what a given-up call does to plugin state later does not count", async () => {
  const clock = new TestClock();
  const begun = deferred<void>();
  const late = deferred<string>();
  let isDone = false;
  const counting = plugin("counter", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    return {
      tools: [
        defineTool({
          name: "count",
          description: "Counts, late.",
          input: { type: "object" },
          execute: async () => {
            begun.resolve();
            await late.promise;
            count.update((n) => n + 1);
            isDone = true;
            return "counted";
          },
        }),
      ],
      operations: { queries: { "counter.get": { session: "required", handler: () => count.get() } } },
    };
  });
  const { session } = await stage({
    clock,
    plugins: [counting],
    script: [callTools([["count", {}]]), say("Next.")],
  });
  const turn = session.turn("Go");
  await begun.promise;
  await session.cancel(turn.id);
  await until(() => clock.pending > 0, "the grace to begin");
  clock.advance(50);
  await turn.result;
  late.resolve("go");
  await until(() => isDone);
  await play(session.turn("Again"));
  expect(await session.query("counter.get")).toBe(0);
});

test("[K100] a turn that is cancelled between two calls' hooks begins none of them", async () => {
  const ran: string[] = [];
  const tool = defineTool({
    name: "tool",
    description: "Runs.",
    input: { type: "object" },
    execute: () => ran.push("ran"),
  });
  let turnId = "";
  const { session } = await stage({
    tools: [tool],
    plugins: [
      plugin("stopper", {
        toolCalls: {
          before: async ({ callId }) => {
            if (callId === "call_1") await session.cancel(turnId);
            return undefined;
          },
        },
      }),
    ],
    script: [
      callTools([
        ["tool", {}],
        ["tool", {}],
      ]),
    ],
  });
  const turn = session.turn("Go");
  turnId = turn.id;
  const played = await play(turn);
  expect(ran).toEqual([]);
  expect(outputsOf(played, "tool").map(({ outcome }) => outcome.kind)).toEqual(["cancelled", "cancelled"]);
  expect(() => failureOf(played.report.toolCalls[0]?.output)).toThrow();
});
