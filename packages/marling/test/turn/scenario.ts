// A turn told as a sequence: each line answers the outstanding effect, and the invariants are checked after it.

import { expect } from "vitest";
import type { Message } from "../../src/model/message.ts";
import type { ResponsePart } from "../../src/model/model-response.ts";
import type { CompletedCall } from "../../src/model/tool-call.ts";
import type { TurnEvent } from "../../src/model/turn.ts";
import type {
  CodeResult,
  EffectOutcome,
  MachineOutcome,
  ModelCallResult,
  TurnEffect,
} from "../../src/turn/effect.ts";
import type { ProtocolDriver } from "../../src/turn/protocol.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import type { MachineState, TurnPlan } from "../../src/turn/state.ts";
import { begin, resume, type Step, stop } from "../../src/turn/step.ts";
import { answered, plan, type ResponseOptions } from "./fixtures.ts";
import { Watch } from "./invariants.ts";

export function scenario(overrides: Partial<TurnPlan> = {}, driver?: ProtocolDriver): Scenario {
  return new Scenario(plan(overrides), driver ?? standardDriver());
}

export class Scenario {
  readonly events: TurnEvent[] = [];
  readonly #driver: ProtocolDriver;
  readonly #watch = new Watch();
  #step: Step;

  constructor(from: TurnPlan, driver: ProtocolDriver) {
    this.#driver = driver;
    this.#step = this.#watch.see(begin(from, driver));
    this.events.push(...this.#step.events);
  }

  get step(): Step {
    return this.#step;
  }

  get state(): MachineState {
    return this.#step.state;
  }

  get keys(): readonly string[] {
    return this.#watch.keys;
  }

  get effect(): TurnEffect {
    if (this.#step.kind !== "effect")
      throw new Error(`expected an effect, found ${JSON.stringify(this.#step.outcome)}`);
    return this.#step.effect;
  }

  get outcome(): MachineOutcome {
    if (this.#step.kind !== "done") throw new Error(`expected the end, found ${this.#step.effect.key}`);
    return this.#step.outcome;
  }

  /** The messages that the turn added or began with, oldest first. */
  get messages(): readonly Message[] {
    return this.state.records.flatMap((record) => (record.kind === "message" ? [record.message] : []));
  }

  get lastMessage(): Message | undefined {
    return this.messages.at(-1);
  }

  /** Answers with an outcome as it is, whether it fits or not. */
  answer(outcome: EffectOutcome): this {
    return this.#go(resume(this.state, outcome, this.#driver));
  }

  environment(): this {
    return this.answer({ kind: "environment", key: this.effect.key });
  }

  model(result: ModelCallResult): this {
    if (this.effect.kind === "environment") this.environment();
    expect(this.effect.kind).toBe("model_call");
    return this.answer({ kind: "model_call", key: this.effect.key, result });
  }

  says(parts: readonly ResponsePart[], options?: ResponseOptions): this {
    return this.model(answered(parts, options));
  }

  tools(...calls: readonly CompletedCall[]): this {
    expect(this.effect.kind).toBe("tool_calls");
    return this.answer({ kind: "tool_calls", key: this.effect.key, calls });
  }

  code(result: CodeResult): this {
    expect(this.effect.kind).toBe("code_cell");
    return this.answer({ kind: "code_cell", key: this.effect.key, result });
  }

  /** Answers a checkpoint; without messages it is an empty one. */
  delivers(...messages: readonly Message[]): this {
    expect(this.effect.kind).toBe("checkpoint");
    return this.answer({ kind: "checkpoint", key: this.effect.key, delivery: { messages } });
  }

  stops(outcome: MachineOutcome): this {
    return this.#go(stop(this.state, outcome));
  }

  expectKey(expected: string): this {
    expect(this.effect.key).toBe(expected);
    return this;
  }

  #go(step: Step): this {
    this.#step = this.#watch.see(step);
    this.events.push(...step.events);
    return this;
  }
}
