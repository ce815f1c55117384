// The native tool loop: SPEC.md T24 to T33.

import { describe, expect, test } from "vitest";
import {
  failTurn,
  finishTurn,
  switchFrame,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../../src/model/tool-output.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import { completed, message, reasoning, text, toolCall, user } from "./fixtures.ts";
import { type Scenario, scenario } from "./scenario.ts";

const png = { kind: "stored", mediaType: "image/png", ref: "r1", bytes: 4 } as const;
const pdf = { kind: "stored", mediaType: "application/pdf", ref: "r2", bytes: 5 } as const;

describe("assistant messages", () => {
  test("[T24] prose, reasoning and calls stand in the order of the response, with their replay data", () => {
    const turn = scenario().says([
      reasoning("first", { sig: "a" }),
      text("Let me look.", { id: "m1" }),
      toolCall("c1", "read", '{"path":"a"}', { id: "fc1" }),
      reasoning("then"),
      toolCall("c2", "read", '{"path":"b"}'),
    ]);
    expect(turn.lastMessage).toEqual({
      id: "t1.0.assistant.0",
      role: "assistant",
      parts: [
        { kind: "reasoning", text: "first", replay: { sig: "a" } },
        { kind: "prose", text: "Let me look.", replay: { id: "m1" } },
        { kind: "tool_call", callId: "c1", name: "read", args: { path: "a" }, replay: { id: "fc1" } },
        { kind: "reasoning", text: "then" },
        { kind: "tool_call", callId: "c2", name: "read", args: { path: "b" } },
      ],
    });
    expect(turn.effect).toMatchObject({
      kind: "tool_calls",
      calls: [
        { callId: "c1", name: "read", args: { path: "a" } },
        { callId: "c2", name: "read", args: { path: "b" } },
      ],
    });
  });

  test("[T24] blank parts are left out unless they carry replay data", () => {
    const turn = scenario().says([text("  "), reasoning(""), text("", { sig: "a" }), text("hi")]);
    expect(turn.lastMessage?.parts).toEqual([
      { kind: "prose", text: "", replay: { sig: "a" } },
      { kind: "prose", text: "hi" },
    ]);
  });

  test("[T24] several texts are one answer with blank lines between", () => {
    const turn = scenario()
      .says([text("one"), text("two")])
      .delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "one\n\ntwo" });
  });

  test("[T25] commentary is left out beside a final answer, and its reasoning loses the replay data", () => {
    const turn = scenario()
      .says([
        reasoning("for the comment", { sig: "a" }),
        { kind: "text", text: "Hm, let me see.", phase: "commentary" },
        reasoning("for the answer", { sig: "b" }),
        { kind: "text", text: "42", phase: "final_answer" },
      ])
      .delivers();
    expect(turn.outcome).toMatchObject({ text: "42" });
    expect(turn.lastMessage?.parts).toEqual([
      { kind: "reasoning", text: "for the comment" },
      { kind: "reasoning", text: "for the answer", replay: { sig: "b" } },
      { kind: "prose", text: "42" },
    ]);
  });

  test("[T25] commentary without a final answer is kept", () => {
    const turn = scenario().says([
      { kind: "text", text: "Looking.", phase: "commentary" },
      toolCall("c1", "read"),
    ]);
    expect(turn.lastMessage?.parts[0]).toEqual({ kind: "prose", text: "Looking." });
  });
});

describe("arguments", () => {
  test.each(["", "  \n"])("[T26] blank arguments %j are an empty object", (args) => {
    const turn = scenario().says([toolCall("c1", "add", args)]);
    expect(turn.effect).toMatchObject({ calls: [{ callId: "c1", name: "add", args: {} }] });
    expect(turn.lastMessage?.parts).toEqual([{ kind: "tool_call", callId: "c1", name: "add", args: {} }]);
  });

  test.each(['{"a":', "{a:1}", "undefined", '{"__proto__":1}', '{"a":1e999}'])(
    "[T26] malformed arguments %j go out as malformed and stay in the message",
    (args) => {
      const turn = scenario().says([toolCall("c1", "add", args)]);
      if (turn.effect.kind !== "tool_calls") throw new Error("expected calls");
      const [call] = turn.effect.calls;
      expect(call).toEqual({ callId: "c1", name: "add", args: null, malformed: expect.any(String) });
      expect(call?.malformed).not.toBe("");
      expect(turn.lastMessage?.parts).toEqual([
        { kind: "tool_call", callId: "c1", name: "add", args: null, rawArgs: args },
      ]);
    },
  );

  test.each([
    ["null", null],
    ["[1]", [1]],
    ['"x"', "x"],
    ['{"a":-0}', { a: 0 }],
  ])("[T26] arguments %s that are JSON are passed on for validation", (args, parsed) => {
    const turn = scenario().says([toolCall("c1", "add", args)]);
    expect(turn.effect).toMatchObject({ calls: [{ callId: "c1", name: "add", args: parsed }] });
    expect(turn.effect.kind === "tool_calls" && turn.effect.calls[0]).not.toHaveProperty("malformed");
  });
});

describe("call ids", () => {
  const idsOf = (turn: Scenario): readonly string[] =>
    turn.effect.kind === "tool_calls" ? turn.effect.calls.map(({ callId }) => callId) : [];

  test("[T27] a blank, unusable or repeated id is replaced by one that derives from the turn", () => {
    const turn = scenario({ turnId: "chat:7" }).says([
      toolCall("c1", "a"),
      toolCall("", "b"),
      toolCall("c1", "c"),
      toolCall("bad\nid", "d"),
    ]);
    expect(idsOf(turn)).toEqual(["c1", "call_chat_7_0_1", "call_chat_7_0_2", "call_chat_7_0_3"]);
    const parts = turn.lastMessage?.parts.map((part) => part.kind === "tool_call" && part.callId);
    expect(parts).toEqual(["c1", "call_chat_7_0_1", "call_chat_7_0_2", "call_chat_7_0_3"]);
  });

  test("[T27] an id of an earlier round of the turn is taken", () => {
    const turn = scenario()
      .says([toolCall("c1", "a")])
      .tools(completed("c1", "a"))
      .delivers();
    turn.says([toolCall("c1", "a")]);
    expect(idsOf(turn)).toEqual(["call_t1_1_0"]);
  });

  test("[T27] an id that the provider gave away already is not derived", () => {
    const turn = scenario().says([toolCall("call_t1_0_1", "a"), toolCall(" ", "b")]);
    expect(idsOf(turn)).toEqual(["call_t1_0_1", "call_t1_0_1x"]);
  });

  test("[T27] derived ids fit the strictest provider, however long the turn's id is", () => {
    const turn = scenario({ turnId: "x".repeat(500) }).says([toolCall("", "a"), toolCall("", "b")]);
    const ids = idsOf(turn);
    expect(ids.map(({ length }) => length)).toEqual([40, 40]);
    expect(ids.map((id) => id.slice(-4))).toEqual(["_0_0", "_0_1"]);
  });
});

describe("results", () => {
  test("[T28] the results of a batch are one tool message in call order, failures and cancellations marked", () => {
    const turn = scenario()
      .says([toolCall("c1", "a"), toolCall("c2", "b"), toolCall("c3", "c")])
      .tools(
        completed("c1", "a", { shown: [{ kind: "text", text: "1" }] }),
        completed("c2", "b", { output: toolFailure("no"), shown: [{ kind: "text", text: "failed: no" }] }),
        completed("c3", "c", { output: toolCancelled("gone"), shown: [{ kind: "text", text: "gone" }] }),
      );
    expect(turn.lastMessage).toEqual({
      id: "t1.0.tool.1",
      role: "tool",
      parts: [
        { kind: "tool_result", callId: "c1", name: "a", text: "1" },
        { kind: "tool_result", callId: "c2", name: "b", text: "failed: no", isError: true },
        { kind: "tool_result", callId: "c3", name: "c", text: "gone", isError: true },
      ],
    });
    turn.expectKey("1.checkpoint.after_work");
  });

  test("[T28] attachments follow their result, which says where they stood", () => {
    const turn = scenario()
      .says([toolCall("c1", "shot"), toolCall("c2", "none")])
      .tools(
        completed("c1", "shot", {
          shown: [
            { kind: "text", text: '{"a":' },
            { kind: "attachment", source: png },
            { kind: "text", text: ',"b":' },
            { kind: "attachment", source: pdf },
            { kind: "text", text: "}" },
            { kind: "text", text: "a second line" },
          ],
        }),
        completed("c2", "none", { shown: [] }),
      );
    expect(turn.lastMessage?.parts).toEqual([
      {
        kind: "tool_result",
        callId: "c1",
        name: "shot",
        text: '{"a":[attachment 1],"b":[attachment 2]}\na second line',
      },
      { kind: "attachment", source: png, callId: "c1", name: "shot" },
      { kind: "attachment", source: pdf, callId: "c1", name: "shot" },
      { kind: "tool_result", callId: "c2", name: "none", text: "" },
    ]);
  });
});

describe("tool control", () => {
  const batch = (...outputs: readonly ToolOutput[]): Scenario =>
    scenario()
      .says(outputs.map((_, index) => toolCall(`c${index}`, "t")))
      .tools(...outputs.map((output, index) => completed(`c${index}`, "t", { output })));

  const failing = (output: ToolOutput): ToolOutput => ({ ...toolFailure("no"), ...pickControl(output) });

  test("[K104] the first successful call whose control yields an outcome ends the turn", () => {
    const turn = batch(
      toolSuccess("plain"),
      failing(finishTurn("of a failed call")),
      switchFrame({ key: " ", task: "blank key" }),
      switchFrame({ key: "k", task: "" }),
      finishTurn("first"),
      finishTurn("second"),
    );
    expect(turn.outcome).toEqual({ kind: "finished", by: "tool", text: "first", value: "first" });
  });

  test("[T29] all results are recorded before control ends the turn, and no checkpoint is asked for", () => {
    const turn = batch(finishTurn("a"), toolSuccess("b"));
    expect(turn.lastMessage?.parts.map((part) => part.kind === "tool_result" && part.callId)).toEqual([
      "c0",
      "c1",
    ]);
    expect(turn.keys).toEqual(["0.environment", "0.model_call", "0.tool_calls"]);
  });

  test("[T29] finish with a value that is no string has its JSON as text", () => {
    expect(batch(finishTurn({ ok: true, list: [1] })).outcome).toEqual({
      kind: "finished",
      by: "tool",
      text: '{"ok":true,"list":[1]}',
      value: { ok: true, list: [1] },
    });
  });

  test("[T29] fail stops the turn with the failure's code and message", () => {
    expect(batch(failTurn({ code: "broken", message: "it broke" })).outcome).toEqual({
      kind: "stopped",
      reason: "tool_error",
      code: "broken",
      message: "it broke",
    });
  });

  test("[T29] switch_frame carries its key, task and nodes", () => {
    const nodes = [{ kind: "plugin", type: "x", body: 1 }];
    expect(batch(switchFrame({ key: "k", task: "go on", nodes })).outcome).toEqual({
      kind: "switch_frame",
      key: "k",
      task: "go on",
      nodes,
    });
  });

  test("[T29] control that yields nothing lets the turn go on", () => {
    batch(switchFrame({ key: "", task: "" }), failing(failTurn("x"))).expectKey("1.checkpoint.after_work");
  });

  test("[T29] control in the last allowed round beats the budget", () => {
    const turn = scenario({ maxRounds: 1 })
      .says([toolCall("c1", "t")])
      .tools(completed("c1", "t", { output: finishTurn("done") }));
    expect(turn.outcome).toMatchObject({ kind: "finished", text: "done" });
  });
});

describe("blank answers", () => {
  const EMPTY = {
    kind: "stopped",
    reason: "provider_error",
    code: "empty_response",
    message: "the model answered with no text, no reasoning and no tool call",
  };

  test.each([[[]], [[text("")]], [[text(" \n ")]]])("[T33] %j to the user is an empty response", (parts) => {
    const turn = scenario().says(parts);
    expect(turn.outcome).toEqual(EMPTY);
    expect(turn.events.at(-1)).toMatchObject({ kind: "error", issue: { code: "empty_response" } });
    expect(turn.messages).toHaveLength(1);
  });

  test("[T33] right after a tool result it is an empty completion that adds no message", () => {
    const turn = scenario()
      .says([toolCall("c1", "a")])
      .tools(completed("c1", "a"))
      .delivers()
      .says([text(" ")])
      .delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "" });
    expect(turn.lastMessage?.role).toBe("tool");
  });

  test("[T33] after input that came behind the tool result it is an empty response", () => {
    const turn = scenario()
      .says([toolCall("c1", "a")])
      .tools(completed("c1", "a"))
      .delivers(user("u2", "well?"))
      .says([]);
    expect(turn.outcome).toEqual(EMPTY);
  });

  test("[T33] a tool result before the turn counts when the turn has no message of its own", () => {
    const before = message("b", "tool", { kind: "tool_result", callId: "c0" as never, name: "a", text: "" });
    const turn = scenario({ before, records: [] }).says([]).delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "" });
  });

  test("[T33] reasoning alone ends the turn with no text and is kept", () => {
    const turn = scenario()
      .says([reasoning("hm", { sig: "a" })])
      .delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "" });
    expect(turn.lastMessage?.parts).toEqual([{ kind: "reasoning", text: "hm", replay: { sig: "a" } }]);
  });
});

test("[T30] the note at the turn limit can be given", () => {
  const turn = scenario({ maxRounds: 1 }, standardDriver({ turnLimitText: "enough" }))
    .says([toolCall("c1", "a")])
    .tools(completed("c1", "a"));
  expect(turn.lastMessage?.parts).toEqual([{ kind: "text", text: "enough" }]);
});

function pickControl({ control }: ToolOutput): Pick<ToolOutput, "control"> {
  return control === undefined ? {} : { control };
}
