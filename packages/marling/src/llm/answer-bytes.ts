// How many bytes of an answer are read before anything can be made of them.
//   LA24  what is held of one event, or of a refusal, is bounded, whoever reads the bytes.

import { type AnswerLimits, DEFAULT_ANSWER_LIMITS } from "../model/answer-limits.ts";
import type { ModelFailure } from "../model/model-response.ts";

/** How much of a refusal is read. */
export const LONGEST_REFUSAL: number = 64 * 1024;
/** What an event has beside the answer: names, ids, counts. */
const AROUND_ANSWER = 64 * 1024;

/** The longest event that is taken: a whole answer, with as much again for escapes. */
export function longestEvent({ answerBytes }: AnswerLimits = DEFAULT_ANSWER_LIMITS): number {
  return 2 * answerBytes + AROUND_ANSWER;
}

export function eventTooLong(limits: AnswerLimits): ModelFailure {
  const message = `the answer was left: expected one within limits.answerBytes, found an event of more than ${longestEvent(limits)} bytes; raise that limit where such answers are wanted`;
  return { kind: "answer_limit", message, retryable: false, raw: { limit: "answerBytes" } };
}

/** Thrown to whoever reads a body with an event that is too long; known by its name. */
export class AnswerLimitReached extends Error {
  override readonly name = "AnswerLimitReached";
}

/** Blank lines, which end an event. */
const BLANK_LINES: readonly string[] = ["\n\n", "\n\r\n", "\r\r"];
const LONGEST_BLANK = 3;

/** Counts the bytes since the last blank line. */
export class EventBytes {
  readonly #most: number;
  #held = 0;
  /** The last bytes of the chunk before: a blank line may be cut. */
  #tail = "";

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts the next bytes; false when the event they are of is too long. */
  take(bytes: Uint8Array): boolean {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = lastBlankLine(chunk);
    if (end >= 0) this.#held = chunk.length - end;
    else if (this.#isCutBefore(chunk)) this.#held = chunk.length;
    else this.#held += chunk.length;
    this.#tail = (this.#tail + chunk.toString("latin1", Math.max(0, chunk.length - LONGEST_BLANK))).slice(
      -LONGEST_BLANK,
    );
    return this.#held <= this.#most;
  }

  #isCutBefore(chunk: Buffer): boolean {
    const around = this.#tail + chunk.toString("latin1", 0, LONGEST_BLANK);
    return BLANK_LINES.some((blank) => around.includes(blank));
  }
}

/** Where the text behind the last blank line begins; -1 when there is none. */
function lastBlankLine(chunk: Buffer): number {
  for (const blank of BLANK_LINES) {
    const at = chunk.lastIndexOf(blank, undefined, "latin1");
    if (at >= 0) return at + blank.length;
  }
  return -1;
}
