// Who may end a turn from outside: one cancellation, first writer wins against completion.

import { setMaxListeners } from "node:events";
import type { TurnOutcome } from "../model/turn.ts";

export type CancelStatus = "requested" | "already_requested" | "completed";

export class TurnControl {
  readonly #controller = new AbortController();
  #reason: string | undefined;
  #isSealed = false;

  constructor() {
    setMaxListeners(0, this.#controller.signal); // Every call that runs listens; that many of them are no leak.
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  cancel(reason: string): CancelStatus {
    if (this.#isSealed) return "completed";
    if (this.#reason !== undefined) return "already_requested";
    this.#reason = reason;
    this.#controller.abort(new DOMException(reason, "AbortError"));
    return "requested";
  }

  /** From here on the turn counts as completed: a later cancel comes too late. */
  seal(): void {
    this.#isSealed = true;
  }

  /** The turn goes on after all, in another frame. */
  unseal(): void {
    this.#isSealed = false;
  }

  outcome(): TurnOutcome {
    return { kind: "stopped", reason: "cancelled", code: "cancelled", message: this.#reason ?? "cancelled" };
  }
}
