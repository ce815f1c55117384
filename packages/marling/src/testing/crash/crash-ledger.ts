// What happened over all lives of one process, kept where nothing is killed.
//   CL1  an effect is finished when it said so; it is known to be finished when a store acknowledged its outcome, or the
//        commit of its turn. Known to be finished, it never begins again.
//   CL2  an attempt of a tool that must not run twice begins once, known or not; one that may run again with the same
//        key always has the same key.
//   CL3  what a killed process had finished and no store acknowledged may or may not be known. Nor is it known whether
//        a call began that was marked in the journal and not counted yet.

import type { ModelRequest } from "../../llm/contract.ts";
import type { Json } from "../../model/json.ts";
import type { ScriptStep } from "../scripted-model.ts";
import type { Passed } from "./boundaries.ts";
import {
  type AcceptedInput,
  type Acknowledged,
  modelCallName,
  type Question,
  type RecordedEffect,
  type WatchedAttempt,
} from "./line.ts";
import type { CrashScenario } from "./scenario.ts";

interface Effect {
  readonly name: string;
  readonly sessionId: string;
  /** Whether a record under this turn and key is of this effect. */
  isRecordedBy(turnId: string, key: string): boolean;
  isOfTurn(turnId: string): boolean;
  readonly attempt?: WatchedAttempt;
  begins: number;
  /** The life in which it finished last; 0 while it has not. */
  finishedIn: number;
  isKnown: boolean;
}

/** A call of a tool that must not run twice, which a crash cut. */
export interface CutCall {
  readonly callId: string;
  /** It was not under way: it had done its work, or was only about to begin. So its outcome may be known, or not. */
  readonly mayBeKnown: boolean;
}

export interface LifeEnd {
  readonly end: Json;
  readonly boundaries: readonly Passed[];
}

export class CrashLedger {
  readonly #scenario: CrashScenario;
  readonly #effects = new Map<string, Effect>();
  /** Calls that are marked in the journal as begun, by the effect that they will be. */
  readonly #marks: RecordedEffect[] = [];
  readonly #inputs = new Map<string, AcceptedInput>();
  readonly #violations: string[] = [];
  #cut: readonly CutCall[] = [];
  #life = 0;
  #ended: LifeEnd | undefined;
  #wasClosed = false;

  constructor(scenario: CrashScenario) {
    this.#scenario = scenario;
  }

  /** Something that ran although it must not have. */
  get violations(): readonly string[] {
    return this.#violations;
  }

  get cut(): readonly CutCall[] {
    return this.#cut;
  }

  /** What the life that runs came to, once it has. */
  get ended(): LifeEnd | undefined {
    return this.#ended;
  }

  /** Whether the life that runs was closed politely before its end. */
  get wasClosed(): boolean {
    return this.#wasClosed;
  }

  beginLife(): number {
    this.#life += 1;
    this.#wasClosed = false;
    this.#ended = undefined;
    this.#cut = [...this.#cutAttempts(), ...this.#cutMarks()];
    return this.#life;
  }

  async answer(question: Question): Promise<unknown> {
    switch (question.kind) {
      case "model_began":
        return this.#beginModel(question.request);
      case "model_finished":
        return this.#finish(modelEffect(question.request));
      case "tool_began":
        return this.#begin(toolEffect(question.attempt), question.attempt);
      case "tool_finished":
        return this.#finish(toolEffect(question.attempt));
      case "marking":
        this.#marks.push(...question.effects);
        return null;
      case "acknowledged":
        return this.#acknowledge(question);
      case "accepted":
        return [...this.#inputs.values()];
      case "closed":
        this.#wasClosed = true;
        return null;
      case "ended":
        this.#ended = { end: question.end, boundaries: question.boundaries };
        return null;
    }
  }

  #cutAttempts(): readonly CutCall[] {
    return [...this.#effects.values()].flatMap(({ attempt, isKnown, finishedIn }) =>
      attempt?.replay === "unsafe" && !isKnown
        ? [{ callId: attempt.callId, mayBeKnown: finishedIn > 0 }]
        : [],
    );
  }

  #cutMarks(): readonly CutCall[] {
    const begun = [...this.#effects.values()];
    return this.#marks
      .filter(({ turnId, key }) => !begun.some((effect) => effect.isRecordedBy(turnId, key)))
      .flatMap(({ key }) => {
        const callId = /\.tool\.(.+)\.\d+$/.exec(key)?.[1];
        return callId === undefined ? [] : [{ callId, mayBeKnown: true }];
      });
  }

  async #beginModel(request: ModelRequest): Promise<ScriptStep> {
    const effect = modelEffect(request);
    const asked = this.#effects.get(effect.name)?.begins ?? 0;
    this.#begin(effect);
    return this.#scenario.answer(request, { asked });
  }

  #begin(fresh: Effect, attempt?: WatchedAttempt): null {
    const effect = this.#known(fresh);
    const { name } = effect;
    if (effect.isKnown) this.#violations.push(`${name} ran again although it was finished and written`);
    if (attempt?.replay === "unsafe" && effect.begins > 0)
      this.#violations.push(`${name} must not run twice, and did`);
    if (attempt?.replay === "idempotent" && effect.attempt?.idempotencyKey !== attempt.idempotencyKey)
      this.#violations.push(`${name} ran again with another idempotency key`);
    effect.begins += 1;
    return null;
  }

  #finish(fresh: Effect): null {
    this.#known(fresh).finishedIn = this.#life;
    return null;
  }

  #known(fresh: Effect): Effect {
    const effect = this.#effects.get(fresh.name) ?? fresh;
    this.#effects.set(effect.name, effect);
    return effect;
  }

  #acknowledge({ effects = [], turns = [], inputs = [] }: Acknowledged): null {
    for (const input of inputs) this.#inputs.set(JSON.stringify([input.sessionId, input.turnId]), input);
    for (const effect of this.#effects.values()) {
      if (effect.finishedIn !== this.#life) continue;
      const isRecorded = effects.some(
        ({ sessionId, turnId, key }) => sessionId === effect.sessionId && effect.isRecordedBy(turnId, key),
      );
      const isCommitted = turns.some(
        ({ sessionId, turnId }) => sessionId === effect.sessionId && effect.isOfTurn(turnId),
      );
      if (isRecorded || isCommitted) effect.isKnown = true;
    }
    return null;
  }
}

function toolEffect(attempt: WatchedAttempt): Effect {
  const { sessionId, turnId, callId, attempt: number, name } = attempt;
  return {
    name: `attempt ${number} of ${name} (${callId}) in turn ${turnId} of session ${sessionId}`,
    sessionId,
    isRecordedBy: (turn, key) => turn === turnId && key.endsWith(`.tool.${callId}.${number}`),
    isOfTurn: (turn) => turn === turnId,
    attempt,
    begins: 0,
    finishedIn: 0,
    isKnown: false,
  };
}

function modelEffect(request: ModelRequest): Effect {
  const { sessionId, requestId } = request.scope;
  return {
    name: `model call ${modelCallName(request)}`,
    sessionId,
    isRecordedBy: (turn, key) => {
      const [round, kind] = key.split(".");
      return kind === "model_call" && requestId === `${sessionId}:${turn}:${round}`;
    },
    isOfTurn: (turn) => requestId.startsWith(`${sessionId}:${turn}:`),
    begins: 0,
    finishedIn: 0,
    isKnown: false,
  };
}
