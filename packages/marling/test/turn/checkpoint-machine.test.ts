// The state as stored JSON and back: SPEC.md T5, T6.

import { describe, expect, test } from "vitest";
import { MarlingError } from "../../src/base/errors.ts";
import { toolFailure } from "../../src/model/tool-output.ts";
import { checkpointMachine, restoreMachine } from "../../src/turn/checkpoint.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import type { MachineState } from "../../src/turn/state.ts";
import { pendingEffect, resume } from "../../src/turn/step.ts";
import { answered, completed, reasoning, text, toolCall, user } from "./fixtures.ts";
import { scenario } from "./scenario.ts";

const stored = (state: MachineState): unknown => JSON.parse(JSON.stringify(checkpointMachine(state)));

describe("restore", () => {
  test("[T5] before a model call it asks for the same call again", () => {
    const { state, effect } = scenario().environment();
    expect(pendingEffect(restoreMachine(stored(state)))).toStrictEqual(effect);
  });

  test("[T5] after a response it does not ask the model again", () => {
    const turn = scenario().says([text("hi")]);
    const restored = restoreMachine(stored(turn.state));
    expect(pendingEffect(restored)).toEqual({
      kind: "checkpoint",
      key: "0.checkpoint.before_completion",
      round: 0,
      checkpoint: "before_completion",
    });
    const step = resume(
      restored,
      { kind: "checkpoint", key: turn.effect.key, delivery: { messages: [] } },
      standardDriver(),
    );
    expect(step).toMatchObject({ kind: "done", outcome: { kind: "finished", text: "hi" } });
  });

  test("[T5] a batch in flight loses no call and no argument", () => {
    const turn = scenario().says([toolCall("c1", "add", '{"a":[1,2]}'), toolCall("c2", "rm", "{oops")]);
    const effect = pendingEffect(restoreMachine(stored(turn.state)));
    expect(effect).toMatchObject({
      key: "0.tool_calls",
      calls: [
        { callId: "c1", name: "add", args: { a: [1, 2] } },
        { callId: "c2", name: "rm", args: null },
      ],
    });
    expect(effect).toStrictEqual(turn.effect);
  });

  test("[T5] records, usage, replay data, budget and driver state survive", () => {
    const turn = scenario({ maxRounds: 1, contextWindow: 1000, before: user("b", "before") })
      .says([reasoning("hm", { sig: "x" }), text("hi")], { usage: { input: 3, output: 1 } })
      .delivers(user("u2", "and?"))
      .says([toolCall("c1", "add")], { usage: { input: 5 } });
    const restored = restoreMachine(stored(turn.state));
    expect(restored).toStrictEqual(turn.state);
    expect(restored).toMatchObject({
      finalRound: 1,
      usage: { input: 8, output: 1 },
      before: { id: "b" },
      contextWindow: 1000,
    });
  });

  test("[T5] an outcome that was recorded before the restore is answered as before it", () => {
    const turn = scenario().says([toolCall("c1", "add")]);
    const outcome = {
      kind: "tool_calls",
      key: turn.effect.key,
      calls: [completed("c1", "add", { output: toolFailure("no"), shown: [{ kind: "text", text: "no" }] })],
    } as const;
    const live = resume(turn.state, outcome, standardDriver());
    const restored = resume(restoreMachine(stored(turn.state)), outcome, standardDriver());
    expect(restored).toStrictEqual(live);
  });

  test("[T4] a turn that is done is restored as done", () => {
    const turn = scenario().model(answered([text("")], { finish: "content_filter" }));
    const restored = restoreMachine(stored(turn.state));
    expect(restored.phase).toEqual(turn.state.phase);
    expect(pendingEffect(restored)).toBeUndefined();
  });
});

describe("refusal", () => {
  const good = stored(scenario().says([toolCall("c1", "add")]).state) as Record<string, unknown>;

  test.each([2, 0, "1", null, undefined])("[T6] version %j is unsupported", (version) => {
    expect(codeOf(() => restoreMachine({ ...good, version }))).toBe("unsupported_version");
  });

  const BROKEN: readonly (readonly [string, unknown, string])[] = [
    ["no object", 7, "turn checkpoint: expected an object, found 7"],
    ["no phase", { ...good, phase: undefined }, "turn checkpoint.phase: expected an object, found nothing"],
    [
      "an unknown phase",
      { ...good, phase: { kind: "resting", key: "0.rest" } },
      'turn checkpoint.phase.kind: expected the kind of a phase, found "resting"',
    ],
    [
      "a phase of another round",
      { ...good, round: 3 },
      'turn checkpoint.phase.key: expected a key of round 3, found "0.tool_calls"',
    ],
    [
      "a negative round",
      { ...good, round: -1 },
      "turn checkpoint.round: expected a number that is not negative, found -1",
    ],
    [
      "a budget of zero",
      { ...good, maxRounds: 0 },
      'turn checkpoint.maxRounds: expected a positive whole number or "unbounded", found 0',
    ],
    [
      "records that are no list",
      { ...good, records: {} },
      "turn checkpoint.records: expected an array, found {}",
    ],
    [
      "a record of an unknown kind",
      { ...good, records: [{ kind: "gossip" }] },
      'turn checkpoint.records[0].kind: expected message or protocol_event, found "gossip"',
    ],
    [
      "usage without a bucket",
      { ...good, usage: { input: 1 } },
      "turn checkpoint.usage.output: expected a number that is not negative, found nothing",
    ],
    [
      "an outcome of an unknown reason",
      { ...good, phase: { kind: "done", outcome: { kind: "stopped", reason: "bored" } } },
      'turn checkpoint.phase.outcome.reason: expected one of cancelled, plugin_abort, max_turns, provider_error, incomplete, tool_error, runtime_error, found "bored"',
    ],
  ];

  test.each(BROKEN)("[T6] %s is refused with its place", (_name, raw, message) => {
    expect(() => restoreMachine(raw)).toThrow(message);
    expect(codeOf(() => restoreMachine(raw))).toBe("invalid_snapshot");
  });

  test("[T6] what the codecs of messages and ids refuse is an invalid snapshot too", () => {
    const message = { id: "m", role: "ghost", parts: [] };
    const refused = [
      { ...good, records: [{ kind: "message", message }] },
      { ...good, phase: { kind: "awaiting_model", key: "" } },
    ];
    for (const raw of refused) expect(codeOf(() => restoreMachine(raw))).toBe("invalid_snapshot");
  });
});

function codeOf(act: () => unknown): string | undefined {
  try {
    act();
  } catch (thrown) {
    return MarlingError.is(thrown) ? thrown.code : String(thrown);
  }
  return undefined;
}
