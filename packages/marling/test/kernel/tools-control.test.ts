// What a tool may wish about the turn as a whole: end it, fail it, go on in another frame.

import { defineTool, failTurn, finishTurn, switchFrame, type ToolOutput, toolFailure } from "marling";
import { callTool, callTools, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { failureOf, play, plugin, type Stage, stage, successOf } from "./tools-support.ts";

function tool(name: string, output: () => unknown): ReturnType<typeof defineTool> {
  return defineTool({ name, description: "Wishes.", input: { type: "object" }, execute: output });
}

/** Tools whose names say what they wish. */
const WISHES = [
  tool("finish", () => finishTurn({ answer: 42 })),
  tool("finish_text", () => finishTurn("so be it")),
  tool("fail", () => failTurn({ code: "gave_up", message: "It cannot be done." })),
  tool("plain", () => "plain"),
  tool(
    "broken_wish",
    (): ToolOutput => ({ ...toolFailure("No."), control: { kind: "finish", value: "never" } }),
  ),
  tool("blank_switch", () => switchFrame({ key: " ", task: "go on" })),
];

function wishing(...names: readonly string[]): ScriptStep {
  return callTools(names.map((name) => [name, {}] as const));
}

async function staged(script: readonly ScriptStep[]): Promise<Stage> {
  return stage({ tools: WISHES, script });
}

test("[K104] a tool finishes the turn with its value, and no other model call is made", async () => {
  const { session, model } = await staged([wishing("finish")]);
  const { report } = await play(session.turn("Go"));
  expect(report.outcome).toEqual({
    kind: "finished",
    by: "tool",
    text: '{"answer":42}',
    value: { answer: 42 },
  });
  expect(model.requests).toHaveLength(1);
});

test("[K104] a tool fails the turn with its code and message", async () => {
  const { session } = await staged([wishing("fail")]);
  const { report } = await play(session.turn("Go"));
  expect(report.outcome).toEqual({
    kind: "stopped",
    reason: "tool_error",
    code: "gave_up",
    message: "It cannot be done.",
  });
});

test.each([
  [["finish_text", "fail"], { kind: "finished", by: "tool", text: "so be it", value: "so be it" }],
  [
    ["fail", "finish_text"],
    { kind: "stopped", reason: "tool_error", code: "gave_up", message: "It cannot be done." },
  ],
  [
    ["plain", "missing", "finish_text", "finish"],
    { kind: "finished", by: "tool", text: "so be it", value: "so be it" },
  ],
  [["blank_switch", "finish_text"], { kind: "finished", by: "tool", text: "so be it", value: "so be it" }],
] as const)(
  "[K104] of %j the first wish that can be granted decides, and every result is kept",
  async (names, outcome) => {
    const { session } = await staged([wishing(...names)]);
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toEqual(outcome);
    const results = (await session.history()).flatMap((node) =>
      node.kind === "message" && node.message.role === "tool" ? node.message.parts : [],
    );
    expect(results).toHaveLength(names.length);
  },
);

test.each([["broken_wish"], ["blank_switch"], ["plain"]])(
  "[K104] %s decides nothing, and the turn goes on",
  async (name) => {
    const { session } = await staged([wishing(name), say("Going on.")]);
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "Going on." });
  },
);

test("[K104] a call that a hook denied has no wish", async () => {
  const { session } = await stage({
    tools: WISHES,
    plugins: [
      plugin("guard", {
        toolCalls: { after: () => ({ kind: "short_circuit_tool", output: toolFailure("Denied.") }) },
      }),
    ],
    script: [wishing("finish"), say("Going on.")],
  });
  const { report } = await play(session.turn("Go"));
  expect(report.text).toBe("Going on.");
});

describe("switching frames", () => {
  const seed = { kind: "message", message: { role: "user", content: "What matters: blue." } } as const;

  test("[K104] the turn goes on in a new frame with the task and the seed nodes, and reports as one", async () => {
    const go = tool("go", () => switchFrame({ key: "second", task: "Carry on.", nodes: [seed] }));
    const { session, model } = await stage({
      tools: [go],
      script: [
        callTool("go", {}, { usage: { input: 10, output: 1 } }),
        say("Blue it is.", { usage: { input: 5, output: 2 } }),
      ],
    });
    const { report, events } = await play(session.turn("Start", { id: "t" }));
    expect(report).toMatchObject({
      turnId: "t",
      text: "Blue it is.",
      outcome: { kind: "finished", by: "message" },
    });
    expect(report.usage).toMatchObject({ input: 15, output: 3 });
    expect(report.toolCalls.map(({ name }) => name)).toEqual(["go"]);
    expect(report.modelCalls).toHaveLength(2);
    expect(texts(model.requests[1]?.messages)).toEqual(["user: What matters: blue.", "user: Carry on."]);
    const { messages, turnIndex, revision } = session.read();
    expect(texts(messages)).toEqual([
      "user: What matters: blue.",
      "user: Carry on.",
      "assistant: Blue it is.",
    ]);
    expect([turnIndex, revision]).toEqual([1, 3]);
    expect(events.filter(({ kind }) => kind === "frame_switched")).toEqual([
      {
        kind: "frame_switched",
        frameId: "s:frame:second",
        previousFrameId: "s:frame:initial",
        reason: "switch",
      },
    ]);
    expect(events.filter(({ kind }) => kind === "committed")).toHaveLength(2);
    const kinds = (await session.history()).map((node) => node.kind);
    expect(kinds).toEqual([
      "frame_open",
      "message",
      "message",
      "message",
      "frame_open",
      "message",
      "message",
      "message",
    ]);
    expect(session.usage().entries).toMatchObject([
      { source: "turn", model: "default", usage: { input: 15, output: 3 } },
    ]);
  });

  test("[K104] the key of an earlier frame opens another one; that of the current frame opens none", async () => {
    const go = defineTool({
      name: "go",
      description: "Goes on.",
      input: { type: "object" },
      execute: ({ key }) => switchFrame({ key: key as string, task: "On." }),
    });
    const { session } = await stage({
      tools: [go],
      script: [
        callTool("go", { key: "a" }),
        callTool("go", { key: "a" }),
        callTool("go", { key: "a:2" }),
        callTool("go", { key: "a" }),
        say("There."),
      ],
    });
    const { events } = await play(session.turn("Go"));
    const frames = events.flatMap((event) => (event.kind === "frame_switched" ? [event.frameId] : []));
    expect(frames).toEqual(["s:frame:a", "s:frame:a:2", "s:frame:a:3"]);
  });

  test.each([
    [16, { kind: "finished", by: "message", text: "There." }],
    [
      17,
      {
        kind: "stopped",
        reason: "runtime_error",
        code: "frame_switch_limit",
        message: "expected at most 16 frame switches in one turn, found one more",
      },
    ],
  ])("[K104] %i switches in one turn end as they must", async (count, outcome) => {
    let frame = 0;
    const go = tool("go", () => {
      frame += 1;
      return switchFrame({ key: `f${frame}`, task: `Task ${frame}` });
    });
    const script = [...Array.from({ length: count }, () => callTool("go")), say("There.")];
    const { session, model } = await stage({ tools: [go], script });
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toEqual(outcome);
    expect(report.toolCalls).toHaveLength(count);
    expect(model.requests).toHaveLength(count === 16 ? 17 : 17);
    expect(session.read()).toMatchObject({ turnIndex: 1 });
    const next = await play(session.turn("Again"));
    expect(next.report.turnId).toBe("s:turn:2");
  });

  test("[K104] seed nodes that are none fail the call, not the turn", async () => {
    const go = tool("go", () => switchFrame({ key: "x", task: "On.", nodes: [{ kind: "nonsense" }] }));
    const { session } = await stage({ tools: [go], script: [callTool("go"), say("Staying here.")] });
    const { report } = await play(session.turn("Go"));
    expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({ code: "invalid_tool_output" });
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "Staying here." });
  });

  test("[K104] what hooks enqueue and plugins remember in one part is there in the next", async () => {
    const go = tool("go", () => switchFrame({ key: "x", task: "On." }));
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: () => {
            count.update((n) => n + 1);
            return undefined;
          },
        },
        operations: { queries: { "counter.get": { session: "required", handler: () => count.get() } } },
      };
    });
    const { session } = await stage({
      tools: [go],
      plugins: [counting],
      script: [callTool("go"), say("There.")],
    });
    const { report } = await play(session.turn("Go"));
    expect(report.text).toBe("There.");
    expect(await session.query("counter.get")).toBe(2);
    expect(successOf(report.toolCalls[0]?.output)).toBe(null);
  });
});

function texts(
  messages: readonly { readonly role: string; readonly parts: readonly { readonly kind: string }[] }[] = [],
): readonly string[] {
  return messages.map(
    ({ role, parts }) =>
      `${role}: ${parts.map((part) => ("text" in part ? String(part.text) : part.kind)).join("")}`,
  );
}
