// What the process that is killed says to the one that is not. Every question is answered, so that whoever asked knows
// that it was counted: what is not counted yet has not happened.

import { createHash } from "node:crypto";
import { deferred } from "../../base/deferred.ts";
import type { ModelRequest } from "../../llm/contract.ts";
import type { Json } from "../../model/json.ts";
import type { ReplayPolicy } from "../../tool/contract.ts";
import type { ScriptStep } from "../scripted-model.ts";
import type { Passed } from "./boundaries.ts";

/** One attempt of a tool call. */
export interface WatchedAttempt {
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly attempt: number;
  readonly name: string;
  readonly replay: ReplayPolicy;
  readonly idempotencyKey: string;
}

/** An input that a store has accepted. */
export interface AcceptedInput {
  readonly sessionId: string;
  readonly turnId: string;
  readonly submitted: Json;
}

/** An effect as a journal knows it. */
export interface RecordedEffect {
  readonly sessionId: string;
  readonly turnId: string;
  readonly key: string;
}

/** What a store has acknowledged: outcomes of effects, whole turns, inputs. */
export interface Acknowledged {
  readonly effects?: readonly RecordedEffect[];
  readonly turns?: readonly { readonly sessionId: string; readonly turnId: string }[];
  readonly inputs?: readonly AcceptedInput[];
}

/** Each question with what is answered to it. */
export interface Questions {
  readonly model_began: { readonly ask: { readonly request: ModelRequest }; readonly answer: ScriptStep };
  readonly model_finished: { readonly ask: { readonly request: ModelRequest }; readonly answer: null };
  readonly tool_began: { readonly ask: { readonly attempt: WatchedAttempt }; readonly answer: null };
  readonly tool_finished: { readonly ask: { readonly attempt: WatchedAttempt }; readonly answer: null };
  /** Marks that effects begin are about to be written. */
  readonly marking: { readonly ask: { readonly effects: readonly RecordedEffect[] }; readonly answer: null };
  readonly acknowledged: { readonly ask: Acknowledged; readonly answer: null };
  readonly accepted: { readonly ask: object; readonly answer: readonly AcceptedInput[] };
  /** The runtime was closed politely, before the end. */
  readonly closed: { readonly ask: object; readonly answer: null };
  readonly ended: {
    readonly ask: { readonly end: Json; readonly boundaries: readonly Passed[] };
    readonly answer: null;
  };
}

export type Question = {
  [K in keyof Questions]: { readonly kind: K } & Questions[K]["ask"];
}[keyof Questions];

/** A question on its way to the other process, and what comes back. */
export interface Asked {
  readonly id: number;
  readonly question: Question;
}
export interface Answered {
  readonly id: number;
  readonly answer: unknown;
}

export interface Line {
  ask<K extends keyof Questions>(kind: K, question: Questions[K]["ask"]): Promise<Questions[K]["answer"]>;
  hangUp(): void;
}

/** The line of this process to the one that started it. */
export function openLine(): Line {
  const waiting = new Map<number, (answer: unknown) => void>();
  process.on("message", ({ id, answer }: Answered) => {
    waiting.get(id)?.(answer);
    waiting.delete(id);
  });
  let asked = 0;
  return {
    ask: (kind, question) => {
      asked += 1;
      const { promise, resolve } = deferred<never>();
      waiting.set(asked, resolve as (answer: unknown) => void); // the other side answers by the table above
      process.send?.({ id: asked, question: { kind, ...question } });
      return promise;
    },
    hangUp: () => process.disconnect(),
  };
}

/** Names a model call by what is sent, so that the same request has the same name in every life. */
export function modelCallName({ scope, messages }: ModelRequest): string {
  const digest = createHash("sha256").update(JSON.stringify(messages)).digest("hex").slice(0, 12);
  return `${scope.requestId}:${digest}`;
}
