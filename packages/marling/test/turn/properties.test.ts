// Random turns: whatever a model, tools, checkpoints and a confused host come up with, the rules hold.
// Watch checks the invariants after every step; the properties add what spans whole turns.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { callId, messageId } from "../../src/model/ids.ts";
import { canonicalJson, decodeJson } from "../../src/model/json.ts";
import type { Message, Role } from "../../src/model/message.ts";
import type { FinishReason, ModelFailureKind, ResponsePart } from "../../src/model/model-response.ts";
import type { CompletedCall, PendingCall } from "../../src/model/tool-call.ts";
import {
  failTurn,
  finishTurn,
  switchFrame,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../../src/model/tool-output.ts";
import { checkpointMachine, restoreMachine } from "../../src/turn/checkpoint.ts";
import type { EffectOutcome, ModelCallResult, TurnEffect } from "../../src/turn/effect.ts";
import { isPromptResumeSafe } from "../../src/turn/project-messages.ts";
import type { DriverAction, DriverView, ProtocolDriver } from "../../src/turn/protocol.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import type { MachineState, TurnPlan } from "../../src/turn/state.ts";
import { begin, pendingEffect, resume, type Step, stop } from "../../src/turn/step.ts";
import { completed, outcomeOf, plan, system } from "./fixtures.ts";
import { Watch } from "./invariants.ts";

interface Script {
  readonly maxRounds: number;
  readonly syncsEnvironment: boolean;
  readonly answers: readonly ModelCallResult[];
  readonly outputs: readonly ToolOutput[];
  readonly deliveries: readonly (readonly Role[])[];
  /** How a batch reaches the machine: as it should, reversed, or with holes. */
  readonly batches: readonly ("whole" | "reversed" | "holed" | "empty")[];
}

const replay = fc.option(fc.record({ sig: fc.string() }), { nil: undefined });
const withReplay = <T extends object>(
  part: fc.Arbitrary<T>,
): fc.Arbitrary<T & { replay?: { sig: string } }> =>
  fc.tuple(part, replay).map(([value, data]) => (data === undefined ? value : { ...value, replay: data }));

const words = fc.oneof(fc.constantFrom("", " ", "answer"), fc.string());
const part: fc.Arbitrary<ResponsePart> = fc.oneof(
  withReplay(fc.record({ kind: fc.constant("text" as const), text: words })),
  fc.record({
    kind: fc.constant("text" as const),
    text: words,
    phase: fc.constantFrom("commentary" as const, "final_answer" as const),
  }),
  withReplay(fc.record({ kind: fc.constant("reasoning" as const), text: words })),
  withReplay(
    fc.record({
      kind: fc.constant("tool_call" as const),
      callId: fc.constantFrom("", "c1", "c2", "call_t1_0_0", "\u0000"),
      name: fc.constantFrom("add", "rm"),
      args: fc.oneof(fc.constantFrom("", "{}", '{"a":-0}', "{", "[1e999]"), fc.json()),
    }),
  ),
);

const count = fc.nat(1000);
const finish: fc.Arbitrary<FinishReason> = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom<FinishReason>("stop", "tool_use", "unknown") },
  {
    weight: 1,
    arbitrary: fc.constantFrom<FinishReason>(
      "output_limit",
      "context_overflow",
      "content_filter",
      "provider_error",
      "cancelled",
    ),
  },
);
const usage = fc.record({
  input: count,
  output: count,
  cacheRead: count,
  cacheWrite: count,
  reasoning: count,
});
const answer: fc.Arbitrary<ModelCallResult> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("response" as const),
      response: fc.record({ parts: fc.array(part, { maxLength: 5 }), usage, finish }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("failure" as const),
      failure: fc.record({
        kind: fc.constantFrom<ModelFailureKind>("rate_limit", "network", "cancelled", "unknown"),
        message: fc.string(),
        retryable: fc.boolean(),
        usage,
      }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("switch_frame" as const), key: words, task: words }),
  },
);

const output: fc.Arbitrary<ToolOutput> = fc.oneof(
  { weight: 10, arbitrary: fc.constantFrom(toolSuccess("ok"), toolFailure("no"), toolCancelled("gone")) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      finishTurn({ done: true }),
      failTurn("stop"),
      switchFrame({ key: "k", task: "t" }),
      switchFrame({ key: "", task: "t" }),
    ),
  },
);

const rawScript: fc.Arbitrary<Script> = fc.record({
  maxRounds: fc.integer({ min: 1, max: 6 }),
  syncsEnvironment: fc.boolean(),
  answers: fc.array(answer, { minLength: 1, maxLength: 8 }),
  outputs: fc.array(output, { minLength: 1, maxLength: 6 }),
  deliveries: fc.array(
    fc.array(fc.constantFrom<Role>("user", "system", "event", "assistant", "tool"), { maxLength: 2 }),
    { minLength: 1, maxLength: 6 },
  ),
  batches: fc.array(fc.constantFrom("whole" as const, "whole", "whole", "reversed", "holed", "empty"), {
    minLength: 1,
    maxLength: 4,
  }),
});

/** As a journal gives it back: plain JSON. */
const script: fc.Arbitrary<Script> = rawScript.map((raw) => JSON.parse(JSON.stringify(raw)));

/** The answer to an effect is decided by the script and the effect alone. */
function answerTo(effect: TurnEffect, from: Script): EffectOutcome {
  const { key, round } = effect;
  switch (effect.kind) {
    case "environment":
      return { kind: "environment", key };
    case "model_call":
      return { kind: "model_call", key, result: pick(from.answers, round) };
    case "tool_calls":
      return { kind: "tool_calls", key, calls: batch(effect.calls, round, from) };
    case "code_cell":
      return { kind: "code_cell", key, result: { output: "1", calls: [] } };
    case "checkpoint":
      return { kind: "checkpoint", key, delivery: { messages: delivered(effect, from) } };
  }
}

function batch(calls: readonly PendingCall[], round: number, from: Script): readonly CompletedCall[] {
  const results = calls.map(({ callId: id, name }, index) =>
    completed(id, name, {
      output: pick(from.outputs, round + index),
      shown: index % 2 === 0 ? [] : [{ kind: "text", text: "x" }],
    }),
  );
  switch (pick(from.batches, round)) {
    case "whole":
      return results;
    case "reversed":
      return results.toReversed();
    case "holed":
      return results.filter((_, index) => index % 2 === 1);
    case "empty":
      return [];
  }
}

function delivered({ key, round }: TurnEffect, from: Script): readonly Message[] {
  const offset = key.includes("before_completion") ? 1 : 0;
  return pick(from.deliveries, 2 * round + offset).map((role, index) => ({
    ...system(`${key}/${index}`, "injected"),
    id: messageId(`${key}/${index}`),
    role,
  }));
}

function pick<T>(items: readonly T[], index: number): T {
  const item = items[index % items.length];
  if (item === undefined) throw new Error("expected a non-empty list");
  return item;
}

const planOf = ({ maxRounds, syncsEnvironment }: Script): TurnPlan =>
  plan({ maxRounds, syncsEnvironment, contextWindow: 1000 });

interface Drive {
  readonly driver?: ProtocolDriver;
  /** Something done to the state between two steps. */
  readonly between?: (state: MachineState) => MachineState;
  readonly most?: number;
}

/** Drives a turn to its end, or for `most` steps, with the invariants checked at each of them. */
function drive(from: Script, options: Drive = {}): { readonly step: Step; readonly watch: Watch } {
  const { driver = standardDriver(), between = (state) => state, most = 200 } = options;
  const watch = new Watch();
  let step = watch.see(begin(planOf(from), driver));
  for (let steps = 0; step.kind === "effect" && steps < most; steps += 1) {
    const state = between(step.state);
    const effect = pendingEffect(state);
    if (effect === undefined) throw new Error("expected an outstanding effect");
    watch.replaces(state);
    step = watch.see(resume(state, answerTo(effect, from), driver));
  }
  return { step, watch };
}

const textOfRecords = ({ state }: Step): string => canonicalJson(decodeJson(state.records));
const messagesOf = ({ state }: Step): readonly Message[] =>
  state.records.flatMap((record) => (record.kind === "message" ? [record.message] : []));

describe("random turns of the standard protocol", () => {
  test("[T2] [T9] [T20] every turn ends, within its budget, under unique keys, with a prompt that can be resumed", () => {
    fc.assert(
      fc.property(script, (from) => {
        const { step, watch } = drive(from);
        expect(step.kind).toBe("done");
        expect(isPromptResumeSafe(messagesOf(step))).toBe(true);
        expect(watch.keys.length).toBeLessThanOrEqual(5 * (from.maxRounds + 1));
      }),
      { numRuns: 400 },
    );
  });

  test("[T3] late, repeated and unknown outcomes never change a turn", () => {
    fc.assert(
      fc.property(script, fc.array(fc.nat(), { minLength: 1, maxLength: 8 }), (from, noise) => {
        const driver = standardDriver();
        const past: EffectOutcome[] = [];
        const between = (state: MachineState): MachineState => {
          for (const outcome of disturbances(state, past, noise)) {
            const step = resume(state, outcome, driver);
            expect(step.state).toBe(state);
            expect(step.events).toEqual([]);
            expect(step.kind === "effect" && step.effect).toStrictEqual(pendingEffect(state));
          }
          const effect = pendingEffect(state);
          if (effect !== undefined) past.push(answerTo(effect, from));
          return state;
        };
        const disturbed = drive(from, { between });
        const quiet = drive(from);
        expect(disturbed.step).toStrictEqual(quiet.step);
        for (const outcome of past)
          expect(resume(quiet.step.state, outcome, driver).state).toBe(quiet.step.state);
      }),
      { numRuns: 200 },
    );
  });

  test("[T1] [T2] the same outcomes give byte-identical records and the same keys", () => {
    fc.assert(
      fc.property(script, (from) => {
        const live = drive(from);
        const replayed = drive(JSON.parse(JSON.stringify(from)));
        expect(textOfRecords(replayed.step)).toBe(textOfRecords(live.step));
        expect(replayed.watch.keys).toEqual(live.watch.keys);
        expect(replayed.step.state).toStrictEqual(live.step.state);
      }),
      { numRuns: 200 },
    );
  });

  test("[T5] a turn that is stored and restored before every step ends as one that was not", () => {
    fc.assert(
      fc.property(script, (from) => {
        const between = (state: MachineState): MachineState =>
          restoreMachine(JSON.parse(JSON.stringify(checkpointMachine(state))));
        const restored = drive(from, { between }).step;
        expect(restored.state).toStrictEqual(drive(from).step.state);
      }),
      { numRuns: 200 },
    );
  });

  test("[T10] [T11] a turn stopped after any step keeps its records and leaves no call open", () => {
    fc.assert(
      fc.property(script, fc.nat(12), (from, most) => {
        const { step, watch } = drive(from, { most });
        const { records } = step.state;
        const stopped = watch.see(stop(step.state, { kind: "stopped", reason: "cancelled" }));
        expect(stopped.kind).toBe("done");
        expect(stopped.state.records.slice(0, records.length)).toEqual(records);
        expect(isPromptResumeSafe(messagesOf(stopped))).toBe(true);
      }),
      { numRuns: 200 },
    );
  });
});

/** Outcomes that do not answer the outstanding effect: of the past, of another kind, of no effect at all. */
function disturbances(
  { phase }: MachineState,
  past: readonly EffectOutcome[],
  noise: readonly number[],
): readonly EffectOutcome[] {
  const kinds = ["environment", "model_call", "tool_calls", "code_cell", "checkpoint"] as const;
  const awaited = {
    awaiting_environment: 0,
    awaiting_model: 1,
    awaiting_tools: 2,
    awaiting_code: 3,
    awaiting_checkpoint: 4,
  };
  return noise.flatMap((seed) => {
    const late = past.length === 0 ? [] : [pick(past, seed)];
    const unknown = outcomeOf(pick(kinds, seed), `${seed % 3}.rumour`);
    if (phase.kind === "done") return [...late, unknown];
    const wrong = kinds.filter((_, index) => index !== awaited[phase.kind]);
    return [...late, unknown, outcomeOf(pick(wrong, seed), phase.key)];
  });
}

describe("random drivers", () => {
  const checkpointAction: fc.Arbitrary<DriverAction> = fc.record({
    kind: fc.constant("start_checkpoint" as const),
    checkpoint: fc.constantFrom("after_work" as const, "before_completion" as const),
    onEmpty: fc.constantFrom(
      { kind: "next_round" as const },
      { kind: "finish" as const, outcome: { kind: "stopped" as const, reason: "incomplete" as const } },
    ),
  });
  const action: fc.Arbitrary<DriverAction | "say" | "call" | "throw"> = fc.oneof(
    fc.constantFrom("say" as const, "call" as const),
    { weight: 1, arbitrary: fc.constant("throw" as const) },
    { weight: 8, arbitrary: fc.constant<DriverAction>({ kind: "start_model" }) },
    { weight: 4, arbitrary: fc.constant<DriverAction>({ kind: "advance_round" }) },
    { weight: 3, arbitrary: checkpointAction },
    fc.constantFrom<DriverAction>(
      { kind: "start_code", language: "js", code: "1" },
      { kind: "schedule_final_round", text: "last" },
      { kind: "set_state", state: { a: [1] } },
      { kind: "finish", outcome: { kind: "finished", by: "value", text: "" } },
    ),
  );
  const lists = fc.array(fc.array(action, { maxLength: 4 }), { minLength: 1, maxLength: 7 });

  test("[T1] [T20] [T21] no driver makes the machine throw, break an invariant or exceed the budget", () => {
    fc.assert(
      fc.property(script, lists, fc.boolean(), (from, answers, knowsCode) => {
        drive(from, { driver: fuzzedDriver(answers, knowsCode), most: 40 });
      }),
      { numRuns: 400 },
    );
  });
});

function fuzzedDriver(
  lists: readonly (readonly (DriverAction | "say" | "call" | "throw")[])[],
  knowsCode: boolean,
): ProtocolDriver {
  let asked = 0;
  const next = (view: DriverView): readonly DriverAction[] => {
    asked += 1;
    return pick(lists, asked).flatMap((wanted) =>
      typeof wanted === "string" ? spoken(view, wanted, asked) : [wanted],
    );
  };
  return {
    prepareRound: next,
    onModelResponse: next,
    onToolResults: (view, calls) => standardDriver().onToolResults(view, calls),
    ...(knowsCode ? { onCodeResult: next } : {}),
  };
}

function spoken(view: DriverView, wanted: "say" | "call" | "throw", asked: number): readonly DriverAction[] {
  if (wanted === "throw") throw new Error("by chance");
  const id = view.messageId("x");
  if (wanted === "say")
    return [{ kind: "append", records: [{ kind: "message", message: system(id, "words") }] }];
  const call = { callId: callId(`${id}/${asked}`), name: "add", args: null };
  const message: Message = { id, role: "assistant", parts: [{ kind: "tool_call", ...call }] };
  return [
    { kind: "append", records: [{ kind: "message", message }] },
    { kind: "start_tools", calls: [call] },
  ];
}
