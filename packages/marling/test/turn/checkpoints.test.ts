// What reaches a running turn, and how many model calls it may make: SPEC.md T17 to T20, T30 to T32.

import { describe, expect, test } from "vitest";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import { completed, message, reasoning, system, text, toolCall, user } from "./fixtures.ts";
import { type Scenario, scenario } from "./scenario.ts";

const ids = (turn: Scenario): readonly string[] => turn.messages.map(({ id }) => id);

describe("delivery", () => {
  test("[T17] messages are appended in the order they were delivered", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers(
        user("u2", "wait"),
        system("s1", "note"),
        message("e1", "event", { kind: "text", text: "rang" }),
      );
    expect(ids(turn)).toEqual(["in", "t1.0.assistant.0", "t1.0.tool.1", "u2", "s1", "e1"]);
    turn.expectKey("1.environment");
  });

  test("[T17] messages of other roles are dropped, and a checkpoint with nothing else is empty", () => {
    const foreign = message("a1", "assistant", { kind: "text", text: "I never said that" });
    const result = message("r1", "tool", { kind: "text", text: "nor that" });
    const turn = scenario()
      .says([text("hi")])
      .delivers(foreign, result);
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "hi" });
    expect(ids(turn)).toEqual(["in", "t1.0.assistant.0"]);
  });

  test("[T17] a message is delivered once", () => {
    const turn = scenario()
      .says([text("hi")])
      .delivers(system("s1", "note"), system("s1", "note"));
    expect(ids(turn)).toEqual(["in", "t1.0.assistant.0", "s1"]);
    turn.says([text("ho")]).delivers(system("s1", "note"));
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "ho" });
  });

  test("[T18] an empty after_work checkpoint goes to the next round, an empty before_completion ends the turn", () => {
    const turn = scenario()
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .expectKey("1.checkpoint.after_work")
      .delivers()
      .expectKey("1.environment")
      .says([text("3")])
      .expectKey("1.checkpoint.before_completion")
      .delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "3" });
  });
});

describe("late input", () => {
  test("[K44] machine level: a message injected at before_completion makes the turn call the model again", () => {
    const turn = scenario()
      .says([text("first")])
      .delivers(system("s1", "check again"));
    turn.says([text("second")]).delivers();
    expect(turn.keys.filter((key) => key.endsWith("model_call"))).toEqual(["0.model_call", "1.model_call"]);
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "second" });
  });

  test("[T32] the answer that was about to end the turn stands before the input, with its reasoning and replay data", () => {
    const turn = scenario()
      .says([reasoning("hm", { sig: "x" }), text("first", { id: "m1" })])
      .delivers(user("u2", "and?"));
    expect(turn.messages.slice(1)).toEqual([
      {
        id: "t1.0.assistant.0",
        role: "assistant",
        parts: [
          { kind: "reasoning", text: "hm", replay: { sig: "x" } },
          { kind: "prose", text: "first", replay: { id: "m1" } },
        ],
      },
      { id: "u2", role: "user", parts: [{ kind: "text", text: "and?" }] },
    ]);
  });

  test("[T32] finishing appends nothing to the answer", () => {
    const turn = scenario().says([text("hi")]);
    const { records } = turn.state;
    turn.delivers();
    expect(turn.state.records).toBe(records);
  });
});

describe("budget", () => {
  test("[T30] tool calls in the last allowed round are recorded with a note, and the turn stops", () => {
    const turn = scenario({ maxRounds: 2 })
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"))
      .delivers()
      .says([toolCall("c2", "add")])
      .tools(completed("c2", "add"));
    expect(turn.outcome).toMatchObject({ kind: "stopped", reason: "max_turns" });
    expect(turn.messages.slice(-2)).toEqual([
      {
        id: "t1.1.tool.3",
        role: "tool",
        parts: [{ kind: "tool_result", callId: "c2", name: "add", text: "ok" }],
      },
      {
        id: "t1.1.system.4",
        role: "system",
        parts: [
          {
            kind: "text",
            text: "Turn limit reached: the turn ended before the model could answer these results.",
          },
        ],
      },
    ]);
    expect(turn.keys.filter((key) => key.endsWith("model_call"))).toHaveLength(2);
  });

  test("[T20] an answer in the last allowed round ends the turn as any other", () => {
    const turn = scenario({ maxRounds: 1 })
      .says([text("hi")])
      .delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "hi" });
  });

  test("[T19] late input after the last allowed round gets a final round, announced to the model", () => {
    const turn = scenario({ maxRounds: 1 }, standardDriver({ finalRoundText: "last one" }))
      .says([text("hi")])
      .delivers(user("u2", "and?"));
    expect(turn.lastMessage).toEqual({
      id: "t1.1.system.1",
      role: "system",
      parts: [{ kind: "text", text: "last one" }],
    });
    turn.says([text("bye")]).delivers();
    expect(turn.outcome).toEqual({ kind: "finished", by: "message", text: "bye" });
  });

  test("[T19] late input at the end of the final round stops the turn and is kept", () => {
    const turn = scenario({ maxRounds: 1 })
      .says([text("hi")])
      .delivers(user("u2", "and?"))
      .says([text("bye")])
      .delivers(user("u3", "but"));
    expect(turn.outcome).toMatchObject({ kind: "stopped", reason: "max_turns" });
    expect(ids(turn)).toEqual(["in", "t1.0.assistant.0", "u2", "t1.1.system.1", "t1.1.assistant.2", "u3"]);
    expect(turn.keys.at(-1)).toBe("1.checkpoint.before_completion");
  });

  test("[T19] tool calls in the final round stop the turn after their results", () => {
    const turn = scenario({ maxRounds: 1 })
      .says([text("hi")])
      .delivers(user("u2", "and?"))
      .says([toolCall("c1", "add")])
      .tools(completed("c1", "add"));
    expect(turn.outcome).toMatchObject({ kind: "stopped", reason: "max_turns" });
  });

  test("[T20] an unbounded turn goes on as long as the model asks for tools", () => {
    const turn = scenario({ maxRounds: "unbounded", syncsEnvironment: false });
    for (let round = 0; round < 60; round += 1) {
      turn
        .says([toolCall(`c${round}`, "add")])
        .tools(completed(`c${round}`, "add"))
        .delivers();
    }
    turn.expectKey("60.model_call");
  });
});

test("[T31] a batch of calls has exactly one checkpoint after it", () => {
  const turn = scenario()
    .says([toolCall("c1", "add"), toolCall("c2", "add"), toolCall("c3", "add")])
    .tools(completed("c1", "add"), completed("c2", "add"), completed("c3", "add"))
    .delivers();
  expect(turn.keys.filter((key) => key.includes("checkpoint"))).toEqual(["1.checkpoint.after_work"]);
});
