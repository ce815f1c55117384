// What a driver may ask for, and what becomes of one that asks for the impossible: SPEC.md T8, T20 to T23.

import { describe, expect, test } from "vitest";
import type { Message } from "../../src/model/message.ts";
import type { DriverAction, DriverView, ProtocolDriver } from "../../src/turn/protocol.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import { resume } from "../../src/turn/step.ts";
import { completed, system, text, toolCall, user } from "./fixtures.ts";
import { scenario } from "./scenario.ts";

const CALL: DriverAction = { kind: "start_model" };
const FINISH: DriverAction = { kind: "finish", outcome: { kind: "finished", by: "value", text: "end" } };
const CELL: DriverAction = { kind: "start_code", language: "js", code: "1 + 1" };

function driver(overrides: Partial<ProtocolDriver> = {}): ProtocolDriver {
  return {
    prepareRound: () => [CALL],
    onModelResponse: () => [FINISH],
    onToolResults: () => [FINISH],
    ...overrides,
  };
}

const note = (view: DriverView, words: string): DriverAction => ({
  kind: "append",
  records: [{ kind: "message", message: system(view.messageId("system"), words) }],
});

describe("actions", () => {
  test("[T21] the start takes effect after the rest of the list", () => {
    const turn = scenario(
      {},
      driver({
        onModelResponse: (view) => [CELL, note(view, "a"), { kind: "advance_round" }],
        onCodeResult: () => [FINISH],
      }),
    ).says([text("x")]);
    turn.expectKey("1.code_cell");
    expect(turn.lastMessage?.id).toBe("t1.0.system.0");
  });

  test("[T21] a finish ends the turn where it stands in the list", () => {
    const turn = scenario(
      {},
      driver({ onModelResponse: (view) => [note(view, "a"), FINISH, note(view, "b")] }),
    );
    turn.says([text("x")]);
    expect(turn.messages.map(({ id }) => id)).toEqual(["in", "t1.0.system.0"]);
  });

  test("a driver finds its own state again, and events and protocol records pass through", () => {
    const seen: unknown[] = [];
    const counting = driver({
      prepareRound: (view) => {
        seen.push(view.state);
        return [{ kind: "set_state", state: { rounds: view.round + 1 } }, CALL];
      },
      onModelResponse: ({ round }) => [
        {
          kind: "emit",
          event: {
            kind: "plugin_event",
            pluginId: "p",
            event: { kind: "custom", name: "n", payload: round },
          },
        },
        { kind: "append", records: [{ kind: "protocol_event", pluginId: "p", payload: { round } }] },
        { kind: "advance_round" },
        { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
      ],
    });
    const turn = scenario({}, counting)
      .says([text("x")])
      .delivers()
      .environment();
    expect(seen).toEqual([undefined, { rounds: 1 }]);
    expect(turn.state.driverState).toEqual({ rounds: 2 });
    expect(turn.state.records.at(-1)).toEqual({
      kind: "protocol_event",
      pluginId: "p",
      payload: { round: 0 },
    });
    expect(turn.events.map(({ kind }) => kind)).toEqual(["usage", "plugin_event"]);
  });

  test("a driver sees the last message of the turn, and what stood before it when the turn has none", () => {
    const seen: (Message | undefined)[] = [];
    const looking = driver({
      prepareRound: ({ lastMessage }) => {
        seen.push(lastMessage);
        return [CALL];
      },
    });
    const before = user("b", "before");
    scenario({ before }, looking).environment();
    scenario({ before, records: [] }, looking).environment();
    scenario({ records: [] }, looking).environment();
    expect(seen.map((message) => message?.id)).toEqual(["in", "b", undefined]);
  });
});

describe("faults", () => {
  const FAULTS: readonly (readonly [string, readonly DriverAction[], string])[] = [
    ["no start and no finish", [{ kind: "advance_round" }], "expected a start or a finish, found neither"],
    ["nothing at all", [], "expected a start or a finish, found neither"],
    [
      "two starts",
      [{ kind: "start_tools", calls: [] }, CELL],
      "expected one start, found start_tools and start_code",
    ],
    [
      "a second model call in a round",
      [CALL],
      "expected one model call in round 0, found a second start_model without advance_round",
    ],
    [
      "code without onCodeResult",
      [CELL],
      "expected a driver with onCodeResult behind start_code, found none",
    ],
  ];

  test.each(FAULTS)(
    "[T21] %s ends the turn as protocol_failed and applies nothing",
    (_name, actions, message) => {
      const turn = scenario({}, driver({ onModelResponse: (view) => [note(view, "a"), ...actions] }));
      turn.says([text("x")]);
      expect(turn.outcome).toEqual({
        kind: "stopped",
        reason: "runtime_error",
        code: "protocol_failed",
        message,
      });
      expect(turn.messages.map(({ id }) => id)).toEqual(["in"]);
      expect(turn.events.at(-1)).toEqual({
        kind: "error",
        issue: { kind: "protocol", code: "protocol_failed", message, retryable: false },
      });
    },
  );

  test("[T21] a driver that throws ends the turn, and its open calls are answered", () => {
    const throwing: ProtocolDriver = {
      ...standardDriver(),
      onToolResults: () => {
        throw new Error("no idea");
      },
    };
    const turn = scenario({}, throwing)
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"));
    expect(turn.outcome).toMatchObject({
      code: "protocol_failed",
      message: "the protocol driver threw: no idea",
    });
    expect(turn.lastMessage?.parts).toMatchObject([{ kind: "tool_result", callId: "c1", isError: true }]);
  });
});

describe("rounds", () => {
  const restless = driver({
    onModelResponse: () => [{ kind: "advance_round" }, CALL],
  });

  test("[T8] a model call in a round without an environment waits for one", () => {
    const turn = scenario({}, restless).says([text("x")]);
    turn.expectKey("1.environment").environment().expectKey("1.model_call");
  });

  test("[T20] a driver that ignores the budget is stopped by the machine", () => {
    const turn = scenario({ maxRounds: 2 }, restless)
      .says([text("x")])
      .says([text("y")]);
    expect(turn.outcome).toEqual({
      kind: "stopped",
      reason: "max_turns",
      message: "the turn made the 2 model calls that it was allowed",
    });
    expect(turn.keys.filter((key) => key.endsWith("model_call"))).toHaveLength(2);
  });

  test("[T8] a round that is opened after its model call is the next one", () => {
    const lazy = driver({
      onModelResponse: () => [
        { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
      ],
    });
    const turn = scenario({}, lazy)
      .says([text("x")])
      .expectKey("0.checkpoint.after_work")
      .delivers();
    turn.expectKey("1.environment");
  });

  test("[T20] a scheduled final round is the last, once, and the driver knows it", () => {
    const seen: (readonly [number, boolean, boolean])[] = [];
    const scheduling = driver({
      onModelResponse: ({ round, isOverBudget, isFinalRound }) => {
        seen.push([round, isOverBudget, isFinalRound]);
        const final: readonly DriverAction[] = isOverBudget
          ? [{ kind: "schedule_final_round", text: "last" }]
          : [];
        return [{ kind: "advance_round" }, ...final, CALL];
      },
    });
    const turn = scenario({ maxRounds: 2, syncsEnvironment: false }, scheduling);
    turn
      .says([text("a")])
      .says([text("b")])
      .says([text("c")]);
    expect(seen).toEqual([
      [0, false, false],
      [1, true, false],
      [2, true, true],
    ]);
    expect(turn.outcome).toMatchObject({ kind: "stopped", reason: "max_turns" });
    expect(turn.messages.map(({ id }) => id)).toEqual(["in", "t1.2.system.0"]);
  });

  test("[T20] a final round scheduled before the round advances is the next round all the same", () => {
    const early = driver({
      onModelResponse: () => [
        { kind: "schedule_final_round", text: "last" },
        { kind: "advance_round" },
        CALL,
      ],
    });
    const turn = scenario({ maxRounds: 1, syncsEnvironment: false }, early).says([text("a")]);
    turn.expectKey("1.model_call").says([text("b")]);
    expect(turn.outcome).toMatchObject({ reason: "max_turns" });
  });
});

describe("tool results", () => {
  const received: string[][] = [];
  const listening: ProtocolDriver = {
    ...standardDriver(),
    onToolResults: (view, calls) => {
      received.push(calls.map(({ callId, output }) => `${callId} ${output.outcome.kind}`));
      return standardDriver().onToolResults(view, calls);
    },
  };

  test("[T22] results out of order, doubled, unknown or missing become one result for each call, in order", () => {
    received.length = 0;
    const turn = scenario({}, listening)
      .says([toolCall("c1", "a"), toolCall("c2", "b"), toolCall("c3", "c")])
      .tools(completed("c3", "c"), completed("zz", "z"), completed("c1", "a"), completed("c1", "a"));
    expect(received).toEqual([["c1 success", "c2 failure", "c3 success"]]);
    expect(turn.lastMessage?.parts).toEqual([
      { kind: "tool_result", callId: "c1", name: "a", text: "ok" },
      {
        kind: "tool_result",
        callId: "c2",
        name: "b",
        text: "The call has no result. It may have taken effect.",
        isError: true,
      },
      { kind: "tool_result", callId: "c3", name: "c", text: "ok" },
    ]);
  });

  test("[T22] of two results for one call the first counts", () => {
    const turn = scenario({}, listening)
      .says([toolCall("c1", "a")])
      .tools(
        completed("c1", "a", { shown: [{ kind: "text", text: "first" }] }),
        completed("c1", "a", { shown: [{ kind: "text", text: "second" }] }),
      );
    expect(turn.lastMessage?.parts).toEqual([
      { kind: "tool_result", callId: "c1", name: "a", text: "first" },
    ]);
  });
});

describe("code cells", () => {
  const cells = driver({
    onModelResponse: () => [CELL],
    onCodeResult: (view, { output, error }) => {
      if (output === "again") return [CELL];
      if (error !== undefined)
        return [
          note(view, error),
          { kind: "advance_round" },
          { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
        ];
      return [{ kind: "finish", outcome: { kind: "finished", by: "value", text: output, value: output } }];
    },
  });

  test("[T23] a cell is an effect with its code, and its result goes to the driver", () => {
    const turn = scenario({}, cells).says([text("x")]);
    expect(turn.effect).toEqual({
      kind: "code_cell",
      key: "0.code_cell",
      round: 0,
      language: "js",
      code: "1 + 1",
    });
    expect(turn.code({ output: "2", calls: [] }).outcome).toEqual({
      kind: "finished",
      by: "value",
      text: "2",
      value: "2",
    });
  });

  test("[T23] several cells in a round have keys of their own, and an error goes on to the next round", () => {
    const turn = scenario({}, cells)
      .says([text("x")])
      .code({ output: "again", calls: [] })
      .code({ output: "again", calls: [] })
      .code({ output: "", error: "boom", calls: [] })
      .delivers();
    expect(turn.keys).toEqual([
      "0.environment",
      "0.model_call",
      "0.code_cell",
      "0.code_cell.2",
      "0.code_cell.3",
      "1.checkpoint.after_work",
      "1.environment",
    ]);
  });

  test("[T23] a code result for a driver that knows no code is a fault of the protocol", () => {
    const { state, effect } = scenario({}, cells).says([text("x")]);
    const outcome = { kind: "code_cell", key: effect.key, result: { output: "", calls: [] } } as const;
    expect(resume(state, outcome, driver())).toMatchObject({
      kind: "done",
      outcome: { reason: "runtime_error", code: "protocol_failed" },
    });
  });
});
