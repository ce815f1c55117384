// One observation of a log: an iterator over what is told from a place on.
//   OB8  aborting or leaving it, even while it waits, ends it at once; closing the log ends it when everything kept has been
//        told. Neither is an error.

import type { GapReason, SessionObservation } from "./observation.ts";

/** How far an observer is. */
export interface Place {
  next: number;
  /** The newest revision it knows. */
  revision: number;
  /** Set when it has to be told of a gap before anything else. */
  gap: GapReason | undefined;
}

/** Called when iterating begins; what it returns, when it is over. */
export type Listen = () => () => void;

/** A log as observers reach it. */
export interface Reading {
  /** What is told next to an observer at this place, which moves; nothing when there is nothing yet. */
  take(place: Place): SessionObservation | undefined;
  /** Whether nothing will be added any more. */
  isClosed(): boolean;
  /** Calls this once, not at once, when there may be something to take or to end for. */
  onGrowth(look: () => void): void;
  /** Lets all who wait look again. */
  wake(): void;
}

type Observed = IteratorResult<SessionObservation, undefined>;

const OVER: Observed = Object.freeze({ done: true, value: undefined });

/** One observation of a log. Leaving it, even while it waits, ends it at once. */
export class Observer implements AsyncIterableIterator<SessionObservation, undefined> {
  readonly #log: Reading;
  readonly #start: () => Place;
  readonly #listen: Listen | undefined;
  readonly #forgetSignal: () => void;
  #place: Place | undefined;
  #unlisten: (() => void) | undefined;
  #isOver: boolean;

  constructor(
    log: Reading,
    start: () => Place,
    { signal, listen }: { readonly signal: AbortSignal | undefined; readonly listen: Listen | undefined },
  ) {
    const end = (): void => this.#end();
    this.#log = log;
    this.#start = start;
    this.#listen = listen;
    this.#isOver = signal?.aborted === true;
    this.#forgetSignal = () => signal?.removeEventListener("abort", end);
    signal?.addEventListener("abort", end, { once: true });
  }

  next(): Promise<Observed> {
    try {
      const value = this.#isOver ? undefined : this.#log.take(this.#begin());
      return value === undefined ? this.#later() : Promise.resolve({ done: false, value });
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  async return(): Promise<Observed> {
    this.#end();
    return OVER;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next observation when there is none yet. */
  #later(): Promise<Observed> {
    return new Promise((resolve, reject) => {
      const wait = (): void => {
        if (this.#log.isClosed()) this.#end();
        if (this.#isOver) resolve(OVER);
        else this.#log.onGrowth(look);
      };
      const look = (): void => {
        try {
          const value = this.#isOver ? undefined : this.#log.take(this.#begin());
          if (value === undefined) wait();
          else resolve({ done: false, value });
        } catch (thrown) {
          reject(thrown);
        }
      };
      wait();
    });
  }

  #begin(): Place {
    if (this.#place !== undefined) return this.#place;
    try {
      this.#place = this.#start();
      this.#unlisten = this.#listen?.();
      return this.#place;
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#unlisten?.();
    this.#forgetSignal();
    this.#log.wake();
  }
}
