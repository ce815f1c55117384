// Time that moves when a test says so: give it to a runtime as `clock`.

import type { Clock } from "../base/clock.ts";

interface Timer {
  readonly due: number;
  readonly fire: () => void;
}

export class ManualClock implements Clock {
  readonly #startsAt: number;
  #elapsed = 0;
  #timers: Timer[] = [];

  constructor({ startsAt = 0 }: { readonly startsAt?: number } = {}) {
    this.#startsAt = startsAt;
  }

  now(): number {
    return this.#startsAt + this.#elapsed;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  sleep(ms: number, { signal }: { readonly signal: AbortSignal }): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        cancel();
        reject(signal.reason as Error);
      };
      const cancel = this.after(ms, () => {
        signal.removeEventListener("abort", abort);
        resolve();
      });
      if (signal.aborted) abort();
      else signal.addEventListener("abort", abort, { once: true });
    });
  }

  after(ms: number, fire: () => void): () => void {
    const timer: Timer = { due: this.#elapsed + ms, fire };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Timers that have not fired. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Lets time pass; what falls due fires in the order it is due. */
  advance(ms: number): void {
    this.#elapsed += ms;
    const due = this.#timers.filter((timer) => timer.due <= this.#elapsed).sort((a, b) => a.due - b.due);
    this.#timers = this.#timers.filter((timer) => timer.due > this.#elapsed);
    for (const timer of due) timer.fire();
  }
}
