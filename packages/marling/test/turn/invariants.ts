// What must hold after every step of every turn, whatever the test is about.

import { expect } from "vitest";
import type { MessagePart } from "../../src/model/message.ts";
import { checkpointMachine, restoreMachine } from "../../src/turn/checkpoint.ts";
import type { TurnRecord } from "../../src/turn/effect.ts";
import type { MachineState } from "../../src/turn/state.ts";
import { pendingEffect, type Step } from "../../src/turn/step.ts";

/** Watches one turn from its first step on; throws at the step that breaks a rule. */
export class Watch {
  readonly keys: string[] = [];
  #previous: MachineState | undefined;

  see(step: Step): Step {
    const { state } = step;
    const previous = this.#previous;
    if (state === previous) {
      expect(step.events).toEqual([]);
      return step;
    }
    expect(previous?.phase.kind, "done is final").not.toBe("done");
    this.#seeEffect(step);
    this.#seeGrowth(state, previous);
    seeJson(state);
    seeCalls(state);
    this.#previous = state;
    return step;
  }

  /** The next step begins from this state instead, which is a copy of the one before. */
  replaces(state: MachineState): void {
    expect(state).toStrictEqual(this.#previous);
    this.#previous = state;
  }

  #seeEffect(step: Step): void {
    const { state } = step;
    if (step.kind === "done") {
      expect(state.phase).toEqual({ kind: "done", outcome: step.outcome });
      expect(pendingEffect(state)).toBeUndefined();
      return;
    }
    expect(this.keys, "keys are unique").not.toContain(step.effect.key);
    this.keys.push(step.effect.key);
    expect(step.effect.key).toMatch(keyShape(state.round));
    expect(step.effect.round).toBe(state.round);
    expect(state.effects).toBe(this.keys.length);
    expect(pendingEffect(state)).toStrictEqual(step.effect);
    const modelCalls = this.keys.filter((key) => key.includes(".model_call")).length;
    if (state.maxRounds !== "unbounded") expect(modelCalls).toBeLessThanOrEqual(state.maxRounds + 1);
    expect(modelCalls).toBeLessThanOrEqual(state.round + 1);
  }

  #seeGrowth(state: MachineState, previous: MachineState | undefined): void {
    if (previous === undefined) return;
    expect(state.round).toBeGreaterThanOrEqual(previous.round);
    expect(state.mintedIds).toBeGreaterThanOrEqual(previous.mintedIds);
    expect(state.records.length).toBeGreaterThanOrEqual(previous.records.length);
    for (const [index, record] of previous.records.entries()) expect(state.records[index]).toBe(record);
  }
}

const keyShape = (round: number): RegExp =>
  new RegExp(
    `^${round}\\.(environment|model_call|tool_calls|code_cell|checkpoint\\.(after_work|before_completion))(\\.\\d+)?$`,
  );

function seeJson(state: MachineState): void {
  const wire = JSON.stringify(checkpointMachine(state));
  expect(JSON.parse(JSON.stringify(state))).toStrictEqual(state);
  expect(restoreMachine(JSON.parse(wire))).toStrictEqual(state);
}

/** Calls are open only while they run; a call never has two results. */
function seeCalls(state: MachineState): void {
  const parts = partsOf(state.records);
  const called = parts.flatMap((part) => (part.kind === "tool_call" ? [part.callId] : []));
  const answered = parts.flatMap((part) => (part.kind === "tool_result" ? [part.callId] : []));
  const running = state.phase.kind === "awaiting_tools" ? state.phase.calls.map((call) => call.callId) : [];
  expect([...answered, ...running].sort()).toEqual([...called].sort());
  expect(new Set(called).size).toBe(called.length);
  const ids = state.records.flatMap((record) => (record.kind === "message" ? [record.message.id] : []));
  expect(new Set(ids).size, "message ids are unique").toBe(ids.length);
}

export function partsOf(records: readonly TurnRecord[]): readonly MessagePart[] {
  return records.flatMap((record) => (record.kind === "message" ? record.message.parts : []));
}
