// Work in flight: code that was started and has not ended. It can be asked to end, never forced.

import type { Clock } from "../base/clock.ts";
import { deferred } from "../base/deferred.ts";

export type WorkOutcome =
  | { readonly kind: "returned"; readonly value: unknown }
  | { readonly kind: "threw"; readonly thrown: unknown };

export class TaskWork {
  readonly #control = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  get signal(): AbortSignal {
    return this.#control.signal;
  }

  /** Resolves when the work has ended, however it did. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** Starts the work at once; `settle` is told its outcome, later than this returns. */
  begin(run: (signal: AbortSignal) => unknown, settle: (outcome: WorkOutcome) => void): void {
    this.#ended = outcomeOf(run, this.signal).then(settle);
  }

  abort(reason: string): void {
    this.#control.abort(new DOMException(reason, "AbortError"));
  }
}

/** Resolves when all of it is done, or when the time is over. What goes on is not waited for; nothing may reject. */
export async function waitAtMost(
  ms: number,
  { clock, work }: { readonly clock: Clock; readonly work: readonly Promise<void>[] },
): Promise<void> {
  if (work.length === 0) return;
  const over = deferred<void>();
  const cancelTimer = clock.after(ms, over.resolve); // Whoever waits is waited for: a process does not end meanwhile.
  await Promise.race([Promise.all(work), over.promise]);
  cancelTimer();
}

async function outcomeOf(run: (signal: AbortSignal) => unknown, signal: AbortSignal): Promise<WorkOutcome> {
  try {
    return { kind: "returned", value: await run(signal) };
  } catch (thrown) {
    return { kind: "threw", thrown };
  }
}
