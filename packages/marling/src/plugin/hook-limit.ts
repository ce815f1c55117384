// How long a hook may take. Time in which a hook waits for an effect is not counted.
//   HL1  the time of a handler runs only while nothing paused it; pauses are a set, so one resume cannot undo another's pause.
//   HL2  a handler that settles in time leaves no timer behind; one that settles too late is ignored.

import type { Clock } from "../base/clock.ts";

interface Countdown {
  remainingMs: number;
  startedAt: number;
  cancel: () => void;
  readonly expire: () => void;
}

/** The time limit of a session's hooks: each handler has the whole of it, and a pause holds for all of them. */
export class HookLimit {
  readonly limitMs: number;
  readonly #clock: Clock;
  readonly #pauses = new Set<symbol>();
  readonly #running = new Set<Countdown>();

  constructor(limitMs: number, clock: Clock) {
    this.limitMs = limitMs;
    this.#clock = clock;
  }

  /** Settles like `work`, or rejects with `late()` when the limit is over first. */
  race<T>(work: PromiseLike<T>, late: () => Error): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const countdown = this.#begin(() => reject(late()));
      const stop = (): void => this.#end(countdown);
      work.then(
        (value) => {
          stop();
          resolve(value);
        },
        (reason: unknown) => {
          stop();
          reject(reason as Error);
        },
      );
    });
  }

  /** Stops the time until the returned function is called; calling it again does nothing. */
  pause(reason = "effect"): () => void {
    const pause = Symbol(reason);
    if (this.#pauses.size === 0) for (const countdown of this.#running) this.#hold(countdown);
    this.#pauses.add(pause);
    return () => {
      if (!this.#pauses.delete(pause) || this.#pauses.size > 0) return;
      for (const countdown of this.#running) this.#arm(countdown);
    };
  }

  /** Runs an effect with the time stopped. */
  async during<T>(effect: () => Promise<T>): Promise<T> {
    const resume = this.pause();
    try {
      return await effect();
    } finally {
      resume();
    }
  }

  #begin(expire: () => void): Countdown {
    const countdown: Countdown = { remainingMs: this.limitMs, startedAt: 0, cancel: () => {}, expire };
    this.#running.add(countdown);
    if (this.#pauses.size === 0) this.#arm(countdown);
    return countdown;
  }

  #end(countdown: Countdown): void {
    countdown.cancel();
    this.#running.delete(countdown);
  }

  #arm(countdown: Countdown): void {
    if (countdown.remainingMs === Number.POSITIVE_INFINITY) return;
    countdown.startedAt = this.#clock.monotonic();
    countdown.cancel = this.#clock.after(countdown.remainingMs, () => {
      this.#running.delete(countdown);
      countdown.expire();
    });
  }

  #hold(countdown: Countdown): void {
    countdown.cancel();
    const elapsedMs = this.#clock.monotonic() - countdown.startedAt;
    countdown.remainingMs = Math.max(0, countdown.remainingMs - elapsedMs);
  }
}
