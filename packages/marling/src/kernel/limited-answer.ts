// One answer under its limits, whatever the port does.

import type { Clock } from "../base/clock.ts";
import { type Deferred, deferred } from "../base/deferred.ts";
import { LinkedSignal } from "../base/linked-signal.ts";
import type { ModelCallOptions, ModelSink, ModelStreamPart } from "../llm/contract.ts";
import { type AnswerLimits, AnswerMeter, answerLimit, limitReached } from "../model/answer-limits.ts";
import type { ModelFailure, ModelOutcome } from "../model/model-response.ts";
import { shownText } from "../model/shown-failure.ts";

export class LimitedAnswer {
  readonly #limits: AnswerLimits;
  readonly #meter: AnswerMeter;
  readonly #next: ModelSink;
  readonly #abort: LinkedSignal;
  readonly #signal: AbortSignal;
  readonly #stopTimer: (() => void) | undefined;
  readonly #ended: Deferred<ModelOutcome> = deferred<ModelOutcome>();
  #isLeft = false;

  constructor(
    { clock, limits }: { readonly clock: Clock; readonly limits: AnswerLimits },
    { sink, signal }: Pick<ModelCallOptions, "sink" | "signal">,
  ) {
    this.#limits = limits;
    this.#meter = new AnswerMeter(limits);
    this.#next = sink;
    this.#signal = signal;
    this.#abort = new LinkedSignal(signal);
    const { answerMs } = limits;
    if (answerMs === Number.POSITIVE_INFINITY) return;
    const late = (): void => this.#leave(answerLimit("answerMs", limits));
    this.#stopTimer = clock.after(answerMs, late, { isBackground: true });
    signal.addEventListener("abort", this.#stopTimer, { once: true }); // Nobody waits for the port from then on.
  }

  /** Told to the port: ends with the call, or with a limit. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  readonly sink: ModelSink = (part) => {
    if (!this.#isLeft && !this.#count(part)) this.#leave(this.#meter.failure);
    if (!this.#isLeft || part.kind === "usage") this.#next(shownPart(part));
  };

  /** The outcome of the call, or the limit that it reached first. */
  of(call: Promise<ModelOutcome>): Promise<ModelOutcome> {
    Promise.resolve(call).then(this.#ended.resolve, this.#ended.reject); // A port may answer at once, against its contract.
    return this.#ended.promise;
  }

  /** The outcome, or the limit that its response is over. Its usage counts. */
  check(outcome: ModelOutcome): ModelOutcome {
    if (outcome.kind === "failure") {
      if (outcome.failure.kind === "answer_limit") this.#leave(outcome.failure); // Whatever is still open ends.
      return outcome;
    }
    const failure = limitReached(outcome.response, this.#limits);
    const { usage } = outcome.response;
    return failure === undefined ? outcome : { kind: "failure", failure: { ...failure, usage } };
  }

  release(): void {
    if (this.#stopTimer !== undefined) {
      this.#stopTimer();
      this.#signal.removeEventListener("abort", this.#stopTimer);
    }
    this.#abort.release();
  }

  #count(part: ModelStreamPart): boolean {
    if (part.kind === "usage") return true;
    return part.kind === "attempt_reset" ? this.#meter.reset(part.reason) : this.#meter.text(part.text);
  }

  /** Usage that the port tells while it is aborted still counts. */
  #leave(failure: ModelFailure | undefined): void {
    if (this.#isLeft || failure === undefined) return;
    this.#isLeft = true;
    this.#abort.abort(new DOMException(failure.message, "AbortError"));
    this.#ended.resolve({ kind: "failure", failure });
  }
}

/** The reason of a reset is stored and shown as the message of a failure is. */
function shownPart(part: ModelStreamPart): ModelStreamPart {
  return part.kind === "attempt_reset" ? { ...part, reason: shownText(part.reason) } : part;
}
