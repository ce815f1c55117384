// Time that moves when a test says so.

import type { Clock } from "../../src/base/clock.ts";

export class ManualClock implements Pick<Clock, "after"> {
  #now = 0;
  #timers: { readonly due: number; readonly fire: () => void }[] = [];

  after(ms: number, fire: () => void): () => void {
    const timer = { due: this.#now + ms, fire };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  get pending(): number {
    return this.#timers.length;
  }

  advance(ms: number): void {
    this.#now += ms;
    const due = this.#timers.filter((timer) => timer.due <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.due > this.#now);
    for (const timer of due) timer.fire();
  }
}

/** Lets everything run that waits for nothing but its turn. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}
