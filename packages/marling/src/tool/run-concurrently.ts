// Calls that run at once.
//   TP3  calls run at once and answer in their order; serial ones follow, one by one.
//   TP4  after a cancellation a running call has its grace to answer; then it is answered for it. What has not begun
//        never begins.

import type { Clock } from "../base/clock.ts";
import { deferred } from "../base/deferred.ts";

export interface ConcurrentOptions<T, R> {
  /** How many run at once. */
  readonly cap: number;
  readonly signal: AbortSignal;
  /** How long a running call may take to answer after a cancellation. */
  readonly graceMs?: number;
  readonly clock: Pick<Clock, "after">;
  isSerial?(item: T): boolean;
  /** The answer for a call that gave none: it was running, or it had not begun. */
  cancelled(item: T, phase: "running" | "waiting"): R;
}

export const CANCEL_GRACE_MS = 50;

/**
 * Runs calls at once, up to the cap, then the serial ones one by one; the results are in the order of the items.
 * A rejection of `run` is a fault: nothing more begins, and it is passed on when what runs has settled.
 */
export function runConcurrently<T, R>(
  items: readonly T[],
  run: (item: T, index: number) => Promise<R>,
  options: ConcurrentOptions<T, R>,
): Promise<readonly R[]> {
  return new Lanes(items, run, options).settled;
}

/** Two lanes: what runs at once, and behind it what runs alone. Costs a call one promise beside its own. */
class Lanes<T, R> {
  readonly #items: readonly T[];
  readonly #run: (item: T, index: number) => Promise<R>;
  readonly #options: ConcurrentOptions<T, R>;
  readonly #results: R[];
  readonly #settled = deferred<readonly R[]>();
  /** Places of items in the order in which they begin. */
  readonly #order: readonly number[];
  /** How many of them may run beside others. */
  readonly #shared: number;
  #begun = 0;
  /** The places of those that run. */
  readonly #running = new Set<number>();
  #fault: { readonly thrown: unknown } | undefined;
  #stopTimer: (() => void) | undefined;

  constructor(
    items: readonly T[],
    run: (item: T, index: number) => Promise<R>,
    options: ConcurrentOptions<T, R>,
  ) {
    this.#items = items;
    this.#run = run;
    this.#options = options;
    this.#results = new Array(items.length);
    const [shared, serial]: [number[], number[]] = [[], []];
    items.forEach((item, place) => {
      (options.isSerial?.(item) === true ? serial : shared).push(place);
    });
    this.#order = serial.length === 0 ? shared : [...shared, ...serial];
    this.#shared = shared.length;
    options.signal.addEventListener("abort", this.#giveGrace, { once: true });
    this.#goOn();
  }

  get settled(): Promise<readonly R[]> {
    return this.#settled.promise;
  }

  /** Begins what may begin, and ends when nothing runs and nothing will. */
  #goOn(): void {
    while (this.#mayBegin()) {
      const place = this.#order[this.#begun] as number;
      this.#begun += 1;
      this.#begin(place);
    }
    if (this.#running.size > 0) return;
    this.#release();
    if (this.#fault === undefined) this.#settled.resolve(this.#results);
    else this.#settled.reject(this.#fault.thrown);
  }

  /** Leaves nothing behind, no timer and nothing at the signal. */
  #release(): void {
    this.#options.signal.removeEventListener("abort", this.#giveGrace);
    this.#stopTimer?.();
  }

  #mayBegin(): boolean {
    if (this.#fault !== undefined || this.#begun === this.#order.length) return false;
    const cap = this.#begun < this.#shared ? Math.max(1, this.#options.cap) : 1;
    return this.#running.size < cap;
  }

  #begin(place: number): void {
    const item = this.#items[place] as T;
    if (this.#options.signal.aborted) {
      this.#results[place] = this.#options.cancelled(item, "waiting");
      return;
    }
    this.#running.add(place);
    this.#run(item, place).then(
      (answer) => this.#end(place, answer),
      (thrown: unknown) => this.#fail(place, thrown),
    );
  }

  /** Takes an answer, unless the call was answered for. */
  #end(place: number, answer: R): void {
    if (!this.#running.delete(place)) return;
    this.#results[place] = answer;
    this.#goOn();
  }

  #fail(place: number, thrown: unknown): void {
    if (!this.#running.delete(place)) return;
    this.#fault ??= { thrown };
    this.#goOn();
  }

  readonly #giveGrace = (): void => {
    const { clock, graceMs = CANCEL_GRACE_MS } = this.#options;
    this.#stopTimer = clock.after(graceMs, () => {
      for (const place of this.#running)
        this.#end(place, this.#options.cancelled(this.#items[place] as T, "running"));
    });
  };
}
