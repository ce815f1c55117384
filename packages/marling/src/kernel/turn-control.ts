// Who may end a turn from outside: one cancellation, which the store has written first, or the loss of the lease.

import { setMaxListeners } from "node:events";
import type { MarlingError } from "../base/errors.ts";
import type { TurnOutcome } from "../model/turn.ts";

export class TurnControl {
  readonly #controller = new AbortController();
  #requested: string | undefined;
  #reason: string | undefined;
  #lost: MarlingError | undefined;

  constructor() {
    setMaxListeners(0, this.#controller.signal); // Every call that runs listens; that many of them are no leak.
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  /** Asks the turn to end when it has come to where earlier runs of it have been: see `apply`. */
  request(reason: string): void {
    this.#requested ??= reason;
  }

  get isRequested(): boolean {
    return this.#requested !== undefined;
  }

  /** From here on everything is new: what was asked for takes effect. */
  apply(): void {
    if (this.#requested !== undefined) this.cancel(this.#requested);
  }

  /** Ends what runs. Whether the turn ends as cancelled is decided by the store: see ST32. */
  cancel(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller.abort(new DOMException(reason, "AbortError"));
  }

  /** The turn is not this runtime's any more: what runs is stopped, and nothing of it is told as cancelled. */
  lose(error: MarlingError): void {
    this.#lost ??= error;
    this.#controller.abort(error);
  }

  /** Throws when the turn is not this runtime's any more. */
  refuseLost(): void {
    if (this.#lost !== undefined) throw this.#lost;
  }

  outcome(): TurnOutcome {
    return { kind: "stopped", reason: "cancelled", code: "cancelled", message: this.#reason ?? "cancelled" };
  }
}
