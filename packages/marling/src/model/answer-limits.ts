// How much one answer of a model may have: counted while it comes, by adapters and by the kernel.
//   AL1  bytes are those of text, reasoning, tool calls and the provider's data with them, in UTF-8, all together.
//   AL2  parts without content are counted too: a stream of empty ones cannot be endless.
//   AL3  the first limit that is reached is the failure. It is not retried: the next answer would cost as much.

import { utf8Length } from "../base/utf8-length.ts";
import type { ModelFailure, ModelResponse } from "./model-response.ts";

/** The limits of one answer; `Infinity` for none. */
export interface AnswerLimits {
  /** Text, reasoning, tool calls and the provider's data with them, in bytes of UTF-8. */
  readonly answerBytes: number;
  readonly answerCalls: number;
  /** From the request to the end of the answer, in milliseconds. */
  readonly answerMs: number;
}

export const DEFAULT_ANSWER_LIMITS: AnswerLimits = Object.freeze({
  answerBytes: 16 * 1024 * 1024,
  answerCalls: 256,
  answerMs: 30 * 60_000,
});

/** Parts of an answer that are no calls. */
const MOST_PARTS = 16_384;
/** How often a port may begin one answer again. */
const MOST_RESETS = 1_000;

const LIMITS: { readonly [K in keyof AnswerLimits]: (most: number) => string } = {
  answerBytes: (most) => `more than ${most} bytes of text, reasoning and tool calls`,
  answerCalls: (most) => `more than ${most} tool calls`,
  answerMs: (most) => `no end within ${most} ms`,
};

/** The failure of an answer that reached a limit. */
export function answerLimit(limit: keyof AnswerLimits, limits: AnswerLimits): ModelFailure {
  return limitFailure(limit, LIMITS[limit](limits[limit]));
}

function limitFailure(limit: keyof AnswerLimits, found: string): ModelFailure {
  const message = `the answer was left: expected one within limits.${limit}, found ${found}; raise that limit where such answers are wanted`;
  return { kind: "answer_limit", message, retryable: false, raw: { limit } };
}

/** Counts one answer. Every method says whether the answer is still within its limits. */
export class AnswerMeter {
  readonly #limits: AnswerLimits;
  #bytes = 0;
  #calls = 0;
  #parts = 0;
  #resets = 0;
  /** Reasons of attempts that were given up: they are kept. */
  #reasonBytes = 0;
  #failure: ModelFailure | undefined;

  constructor(limits: AnswerLimits = DEFAULT_ANSWER_LIMITS) {
    this.#limits = limits;
  }

  /** There when a limit was reached. */
  get failure(): ModelFailure | undefined {
    return this.#failure;
  }

  text(piece: string): boolean {
    return this.bytes(utf8Length(piece));
  }

  bytes(count: number): boolean {
    this.#bytes += count;
    if (this.#bytes > this.#limits.answerBytes) this.#failure ??= answerLimit("answerBytes", this.#limits);
    return this.#failure === undefined;
  }

  call(): boolean {
    this.#calls += 1;
    if (this.#calls > this.#limits.answerCalls) this.#failure ??= answerLimit("answerCalls", this.#limits);
    return this.#failure === undefined;
  }

  part(): boolean {
    this.#parts += 1;
    if (this.#parts > MOST_PARTS && this.#limits.answerBytes !== Number.POSITIVE_INFINITY)
      this.#failure ??= limitFailure("answerBytes", `more than ${MOST_PARTS} parts`);
    return this.#failure === undefined;
  }

  /** Strings of a JSON value count, those in lists and members included. */
  json(value: unknown): boolean {
    if (typeof value === "string") return this.text(value);
    if (typeof value !== "object" || value === null) return this.#failure === undefined;
    for (const [name, member] of Object.entries(value)) {
      if (!this.text(Array.isArray(value) ? "" : name) || !this.json(member)) return false;
    }
    return this.#failure === undefined;
  }

  /** The port begins again: what came before is void, but not free. */
  reset(reason: string): boolean {
    this.#resets += 1;
    this.#reasonBytes += utf8Length(reason);
    this.#bytes = this.#reasonBytes;
    this.#calls = 0;
    this.#parts = 0;
    if (this.#resets > MOST_RESETS)
      this.#failure ??= limitFailure("answerBytes", `more than ${MOST_RESETS} attempts`);
    return this.bytes(0);
  }
}

/** Why a whole response is over its limits; `undefined` when it is not. */
export function limitReached(response: ModelResponse, limits: AnswerLimits): ModelFailure | undefined {
  const meter = new AnswerMeter(limits);
  for (const part of response.parts) {
    if (part.kind === "tool_call") meter.call();
    else meter.part();
    if (part.kind === "tool_call")
      meter.bytes(utf8Length(part.callId) + utf8Length(part.name) + utf8Length(part.args));
    else meter.text(part.text);
    if (part.replay !== undefined) meter.json(part.replay);
    if (meter.failure !== undefined) return meter.failure;
  }
  if (response.evidence !== undefined) meter.json(response.evidence);
  return meter.failure;
}
