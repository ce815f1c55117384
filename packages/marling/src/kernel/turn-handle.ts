// A turn as its caller holds it: watch it, or only await its result.

import type { TurnEvent, TurnReport } from "../model/turn.ts";
import type { QueuedTurn } from "./turn-queue.ts";

export interface Turn extends AsyncIterable<TurnEvent> {
  /** Final once the input is accepted; before that, the id it will have unless another input comes between. */
  readonly id: string;
  /** Settles when the input is accepted. */
  readonly accepted: Promise<{ readonly inputId: string; readonly status: "accepted" | "duplicate" }>;
  /** Settles when the turn is committed and its handlers have run. Rejects only when the input was not accepted. */
  readonly result: Promise<TurnReport>;
}

export interface Submitted {
  readonly status: "accepted" | "duplicate";
  readonly turn: QueuedTurn;
}

/** The handle of a turn that is being submitted. Leaving a loop over it does not cancel it. */
export class TurnHandle implements Turn {
  readonly accepted: Turn["accepted"];
  readonly result: Promise<TurnReport>;
  readonly #submitted: Promise<Submitted>;
  #id: string;

  constructor(submitted: Promise<Submitted>, expectedId: string) {
    this.#submitted = submitted;
    this.#id = expectedId;
    this.accepted = submitted.then(({ status, turn }) => {
      this.#id = turn.row.turnId;
      return { inputId: turn.row.inputId, status };
    });
    this.result = submitted.then(({ turn }) => turn.done.promise);
    this.accepted.catch(() => undefined);
    this.result.catch(() => undefined);
  }

  get id(): string {
    return this.#id;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<TurnEvent> {
    const { turn } = await this.#submitted;
    yield* turn.events.watch();
  }
}
