// Steps, keys and what ends a turn: SPEC.md T1 to T16.

import { describe, expect, test } from "vitest";
import type { FinishReason } from "../../src/model/model-response.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import type { MachineOutcome } from "../../src/turn/effect.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import { begin, pendingEffect, resume } from "../../src/turn/step.ts";
import { answered, completed, key, plan, reasoning, record, text, toolCall, user } from "./fixtures.ts";
import { scenario } from "./scenario.ts";

const CANCELLED: MachineOutcome = { kind: "stopped", reason: "cancelled", message: "by the user" };

describe("steps and keys", () => {
  test("[T2] a turn with tools and late input asks for effects under readable, unique keys", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers()
      .says([text("done")])
      .delivers(user("u2", "one more thing"))
      .says([text("done again")])
      .delivers();
    expect(turn.keys).toEqual([
      "0.environment",
      "0.model_call",
      "0.tool_calls",
      "1.checkpoint.after_work",
      "1.environment",
      "1.model_call",
      "1.checkpoint.before_completion",
      "2.environment",
      "2.model_call",
      "2.checkpoint.before_completion",
    ]);
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "done again" });
  });

  test("[T3] a repeated outcome of an effect that was answered changes nothing", () => {
    const turn = scenario().environment();
    const { state } = turn;
    turn.answer({ kind: "environment", key: key("0.environment") });
    expect(turn.state).toBe(state);
    expect(turn.effect).toEqual({ kind: "model_call", key: "0.model_call", round: 0 });
  });

  test("[T4] a turn that is done keeps its outcome, whatever arrives and whoever stops it", () => {
    const turn = scenario()
      .says([text("hi")])
      .delivers();
    const { state } = turn;
    turn.answer({
      kind: "checkpoint",
      key: key("0.checkpoint.before_completion"),
      delivery: { messages: [] },
    });
    turn.stops(CANCELLED);
    expect(turn.state).toBe(state);
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "hi" });
  });

  test("[T7] of what was before the turn, the state holds the last message and nothing else", () => {
    const before = user("earlier", "what came before");
    expect(begin(plan({ before }), standardDriver()).state).toStrictEqual({
      version: 1,
      turnId: "t1",
      phase: { kind: "awaiting_environment", key: "0.environment" },
      round: 0,
      maxRounds: 5,
      syncsEnvironment: true,
      effects: 1,
      asked: { environment: 1 },
      mintedIds: 0,
      usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
      records: [record(user("in", "hello"))],
      before,
    });
  });

  test("[T8] without syncsEnvironment no round asks for its environment", () => {
    const turn = scenario({ syncsEnvironment: false })
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers();
    expect(turn.keys).toEqual(["0.model_call", "0.tool_calls", "1.checkpoint.after_work", "1.model_call"]);
  });

  test("[T9] messages that the turn adds have ids by turn, round, role and order", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers()
      .says([text("three")])
      .delivers();
    expect(turn.messages.map(({ id }) => id)).toEqual([
      "in",
      "t1.0.assistant.0",
      "t1.0.tool.1",
      "t1.1.assistant.2",
    ]);
  });
});

describe("ending from outside", () => {
  test("[T10] stop keeps what the turn recorded", () => {
    const turn = scenario().says([text("hi")]);
    const { records } = turn.state;
    turn.stops(CANCELLED);
    expect(turn.outcome).toEqual(CANCELLED);
    expect(turn.state.records).toEqual(records);
    expect(pendingEffect(turn.state)).toBeUndefined();
  });

  test("[T11] stop while calls run answers each of them with an error result", () => {
    const turn = scenario()
      .says([toolCall("c1", "add"), toolCall("c2", "rm")])
      .stops(CANCELLED);
    const note = "The turn ended before this call had a result. It may have taken effect.";
    expect(turn.lastMessage).toEqual({
      id: "t1.0.tool.1",
      role: "tool",
      parts: [
        { kind: "tool_result", callId: "c1", name: "add", text: note, isError: true },
        { kind: "tool_result", callId: "c2", name: "rm", text: note, isError: true },
      ],
    });
  });
});

describe("usage", () => {
  test("[T12] usage is added up and each addition is told", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")], { usage: { input: 10, output: 2, cacheRead: 5 } })
      .tools(completed("c1", "add"))
      .delivers()
      .says([text("3")], { usage: { input: 20, output: 4, reasoning: 1 } })
      .delivers();
    const first = { input: 10, output: 2, cacheRead: 5, cacheWrite: 0, reasoning: 0 };
    const second = { input: 20, output: 4, cacheRead: 0, cacheWrite: 0, reasoning: 1 };
    const total = { input: 30, output: 6, cacheRead: 5, cacheWrite: 0, reasoning: 1 };
    expect(turn.state.usage).toEqual(total);
    expect(turn.events).toEqual([
      { kind: "usage", round: 0, usage: first, total: first },
      { kind: "usage", round: 1, usage: second, total },
    ]);
  });

  test("[T12] what a failed call spent counts", () => {
    const usage = { ...NO_USAGE, input: 7 };
    const turn = scenario().model({
      kind: "failure",
      failure: { kind: "overloaded", message: "busy", retryable: true, usage },
    });
    expect(turn.state.usage).toEqual(usage);
    expect(turn.events[0]).toEqual({ kind: "usage", round: 0, usage, total: usage });
  });
});

describe("how a model call ends", () => {
  const FINISHES: { readonly [F in FinishReason]: unknown } = {
    stop: "0.checkpoint.before_completion",
    tool_use: "0.checkpoint.before_completion",
    unknown: "0.checkpoint.before_completion",
    output_limit: ["incomplete", "output_limit"],
    context_overflow: ["provider_error", "context_overflow"],
    content_filter: ["provider_error", "content_filter"],
    provider_error: ["provider_error", "provider_error"],
    cancelled: ["cancelled", undefined],
  };

  test.each(Object.entries(FINISHES) as [FinishReason, unknown][])(
    "[T13] %s leads to %j",
    (finish, expected) => {
      const { step } = scenario().says([text("half")], { finish });
      const found =
        step.kind === "effect"
          ? step.effect.key
          : step.outcome.kind === "stopped" && [step.outcome.reason, step.outcome.code];
      expect(found).toEqual(expected);
    },
  );

  test("[T13] a terminal finish is told as an error that no retry helps, except cancelled", () => {
    const filtered = scenario().says([], { finish: "content_filter" });
    expect(filtered.events.at(-1)).toEqual({
      kind: "error",
      issue: {
        kind: "model",
        code: "content_filter",
        message: "the provider withheld the answer by its content filter",
        retryable: false,
      },
    });
    const cancelled = scenario().says([], { finish: "cancelled" });
    expect(cancelled.events.map(({ kind }) => kind)).toEqual(["usage"]);
  });

  const WINDOWS: readonly (readonly [string, number, number | undefined, string])[] = [
    ["95 % of the window and no output", 0, 1000, "context_overflow"],
    ["95 % of the window and one token of output", 1, 1000, "output_limit"],
    ["less than 95 % of the window", 0, 1001, "output_limit"],
    ["a window that nobody knows", 0, undefined, "output_limit"],
  ];

  test.each(WINDOWS)("[T13] output_limit with %s", (_name, output, contextWindow, code) => {
    const usage = { input: 900, cacheRead: 40, cacheWrite: 10, output };
    const turn = scenario(contextWindow === undefined ? {} : { contextWindow });
    turn.says([], { finish: "output_limit", usage });
    expect(turn.outcome).toMatchObject({ kind: "stopped", code });
  });

  test("[T14] what was said before a terminal finish is kept, its tool calls are not", () => {
    const turn = scenario().says(
      [
        reasoning("thinking", { sig: "a" }),
        text("Half an answer", { id: "m1" }),
        reasoning("more", { sig: "b" }),
        toolCall("c1", "rm", '{"path":'),
      ],
      { finish: "output_limit" },
    );
    expect(turn.lastMessage).toEqual({
      id: "t1.0.assistant.0",
      role: "assistant",
      parts: [
        { kind: "reasoning", text: "thinking", replay: { sig: "a" } },
        { kind: "prose", text: "Half an answer", replay: { id: "m1" } },
        { kind: "reasoning", text: "more" },
      ],
    });
    expect(turn.keys).toEqual(["0.environment", "0.model_call"]);
  });

  test("[T14] reasoning that was cut off before its answer keeps its text and loses its replay data", () => {
    const turn = scenario().says([reasoning("so", { sig: "a" })], { finish: "output_limit" });
    expect(turn.lastMessage?.parts).toEqual([{ kind: "reasoning", text: "so" }]);
  });

  test("[T14] a terminal finish with nothing said adds no message", () => {
    const turn = scenario().says([toolCall("c1", "rm")], { finish: "provider_error" });
    expect(turn.messages.map(({ id }) => id)).toEqual(["in"]);
  });

  test("[T15] a failed call stops the turn with the failure's code and message, and is told", () => {
    const failure = { kind: "auth", code: "bad_key", message: "no such key", retryable: false } as const;
    const turn = scenario().model({ kind: "failure", failure });
    expect(turn.outcome).toEqual({
      kind: "stopped",
      reason: "provider_error",
      code: "bad_key",
      message: "no such key",
    });
    expect(turn.events).toEqual([
      {
        kind: "error",
        issue: { kind: "model", code: "bad_key", message: "no such key", retryable: false },
      },
    ]);
  });

  test("[T15] a failure without a code is named by its kind, and a cancelled call is no error", () => {
    const busy = { kind: "overloaded", message: "busy", retryable: true } as const;
    expect(scenario().model({ kind: "failure", failure: busy }).outcome).toMatchObject({
      code: "overloaded",
    });
    const gone = { kind: "cancelled", message: "the call was cancelled", retryable: false } as const;
    const turn = scenario().model({ kind: "failure", failure: gone });
    expect(turn.outcome).toEqual({
      kind: "stopped",
      reason: "cancelled",
      message: "the call was cancelled",
    });
    expect(turn.events).toEqual([]);
  });

  test("[T15] a failure after tools keeps the calls and their results", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers()
      .model({ kind: "failure", failure: { kind: "network", message: "cut", retryable: true } });
    expect(turn.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
  });

  test("[T16] going on in another frame ends the turn without a model call", () => {
    const turn = scenario().model({ kind: "switch_frame", key: "plan", task: "go on" });
    expect(turn.outcome).toEqual({ kind: "switch_frame", key: "plan", task: "go on", nodes: [] });
    expect(turn.messages).toHaveLength(1);
    expect(turn.events).toEqual([]);
  });

  test("[T16] a blank frame key is a fault of the protocol", () => {
    const turn = scenario().model({ kind: "switch_frame", key: " ", task: "go on" });
    expect(turn.outcome).toMatchObject({ reason: "runtime_error", code: "protocol_failed" });
  });
});

test("[T1] equal arguments give equal steps, and the arguments stay as they were", () => {
  const from = Object.freeze(plan({ records: Object.freeze([record(user("in", "hello"))]) }));
  const driver = standardDriver();
  const first = begin(from, driver);
  expect(begin(from, driver)).toStrictEqual(first);
  const frozen = deepFreeze(first.state);
  const outcome = { kind: "environment", key: key("0.environment") } as const;
  const second = resume(frozen, outcome, driver);
  expect(resume(frozen, outcome, driver)).toStrictEqual(second);
  const answer = { kind: "model_call", key: key("0.model_call"), result: answered([text("hi")]) } as const;
  const third = resume(deepFreeze(second.state), answer, driver);
  expect(third.state.records).toHaveLength(2);
  expect(second.state.records).toHaveLength(1);
});

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const member of Object.values(value)) deepFreeze(member);
    Object.freeze(value);
  }
  return value;
}
