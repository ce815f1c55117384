// The batch tool: several calls in one, each of them a call of its own.

import { defineTool, finishTurn, type Json, toolFailure } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import {
  failureOf,
  type Played,
  play,
  plugin,
  type Stage,
  stage,
  successOf,
  TestClock,
} from "./tools-support.ts";

const clock = new TestClock();
const TOOLS = [
  defineTool({
    name: "double",
    description: "Doubles.",
    execution: "serial",
    input: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    execute: ({ n }) => {
      clock.advance(3);
      return (n as number) * 2;
    },
  }),
  defineTool({
    name: "refuse",
    description: "Refuses.",
    input: { type: "object" },
    execute: () => toolFailure("No."),
  }),
];

async function batching(
  calls: Json,
  plugins: Parameters<typeof stage>[0] = {},
): Promise<Stage & { readonly played: Played }> {
  const staged = await stage({
    tools: TOOLS,
    clock,
    script: [callTool("batch", { calls }), say("Done.")],
    ...plugins,
  });
  return { ...staged, played: await play(staged.session.turn("Go")) };
}

function results({ played }: { readonly played: Played }): unknown {
  return (successOf(played.report.toolCalls[0]?.output) as { readonly results: unknown }).results;
}

test("[K99] results are in call order, with what went wrong in their place; the batch itself succeeds", async () => {
  const staged = await batching([
    { tool: "double", args: { n: 4 } },
    { tool: "refuse" },
    { tool: "missing", args: {} },
    { tool: "double", args: { n: "four" } },
    { tool: "batch", args: { calls: [{ tool: "double", args: { n: 1 } }] } },
    { tool: "double", args: { n: 5 } },
  ]);
  expect(results(staged)).toEqual([
    { index: 0, tool: "double", success: true, durationMs: 3, result: 8 },
    { index: 1, tool: "refuse", success: false, durationMs: 0, error: "No." },
    {
      index: 2,
      tool: "missing",
      success: false,
      durationMs: 0,
      error: "The tool missing is not available in this session.",
    },
    {
      index: 3,
      tool: "double",
      success: false,
      durationMs: 0,
      error: "/n: expected a number, found a string",
    },
    {
      index: 4,
      tool: "batch",
      success: false,
      durationMs: 0,
      error: "A batch cannot be called inside a batch.",
    },
    { index: 5, tool: "double", success: true, durationMs: 3, result: 10 },
  ]);
  expect(staged.played.report.outcome.kind).toBe("finished");
});

test("[K99] each call in a batch is a call with an id of its own and events that name the batch", async () => {
  const { played } = await batching([
    { tool: "double", args: { n: 1 } },
    { tool: "batch" },
    { tool: "refuse" },
  ]);
  const seen = played.events.flatMap((event) => {
    if (event.kind === "tool_started") return [["started", event.callId, event.parentCallId ?? null]];
    return event.kind === "tool_finished"
      ? [["finished", event.record.callId, event.parentCallId ?? null]]
      : [];
  });
  expect(seen).toEqual([
    ["started", "call_1", null],
    ["started", "call_1:00", "call_1"],
    ["started", "call_1:02", "call_1"],
    ["finished", "call_1:02", "call_1"],
    ["finished", "call_1:00", "call_1"],
    ["finished", "call_1", null],
  ]);
  expect(played.report.toolCalls.map(({ callId }) => callId)).toEqual(["call_1"]);
});

test("[K99] a batch takes as long as the longest of its calls", async () => {
  const { played } = await batching([{ tool: "double", args: { n: 1 } }, { tool: "refuse" }]);
  expect(played.report.toolCalls[0]?.durationMs).toBe(3);
});

test.each([
  ["none", []],
  ["26", Array.from({ length: 26 }, () => ({ tool: "double", args: { n: 1 } }))],
])("[K99] a batch of %s calls is refused as a whole", async (_count, calls) => {
  const { played } = await batching(calls);
  expect(failureOf(played.report.toolCalls[0]?.output).code).toBe("invalid_tool_args");
  expect(played.events.filter((event) => event.kind === "tool_started" && event.name === "double")).toEqual(
    [],
  );
});

test("[K99] a batch of 25 calls runs all of them", async () => {
  const staged = await batching(Array.from({ length: 25 }, (_, n) => ({ tool: "double", args: { n } })));
  expect(results(staged)).toMatchObject(
    Array.from({ length: 25 }, (_, n) => ({ index: n, success: true, result: 2 * n })),
  );
});

test("[K99] the hooks around calls see the batch and every call in it", async () => {
  const log: string[] = [];
  await batching([{ tool: "double", args: { n: 1 } }, { tool: "refuse" }], {
    plugins: [
      plugin("watch", {
        toolCalls: {
          before: ({ toolName }) => void log.push(`before ${toolName}`) as undefined,
          after: ({ toolName }) => void log.push(`after ${toolName}`) as undefined,
        },
      }),
    ],
  });
  expect(log.slice(0, 3)).toEqual(["before batch", "before double", "before refuse"]);
  expect(log.slice(3).sort()).toEqual(["after batch", "after double", "after refuse"]);
  expect(log.at(-1)).toBe("after batch");
});

test("[K104] what a call in a batch wishes about the turn is not granted", async () => {
  const finish = defineTool({
    name: "finish",
    description: "Would end the turn.",
    input: { type: "object" },
    execute: () => finishTurn("over"),
  });
  const staged = await batching([{ tool: "finish" }], { tools: [finish] });
  expect(results(staged)).toEqual([
    { index: 0, tool: "finish", success: true, durationMs: 0, result: "over" },
  ]);
  expect(staged.played.report.text).toBe("Done.");
});
