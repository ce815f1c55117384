// Notices what others did to the store: one cheap poll for a whole runtime, and only while somebody listens.
//   SW1  listeners are told of what this runtime did at once, and of what others did with the next poll.
//   SW2  without listeners there is no timer; in the background a sweep comes now and then, which keeps no process alive.
//   SW3  what this runtime did in one session is told to those who listen for that one, and what it did in any to none of
//        those who listen to others: however many turns run or sleep and sessions are observed, it costs them nothing.

import type { Clock } from "../base/clock.ts";
import type { SessionId } from "../model/ids.ts";
import type { Store } from "../store/contract.ts";

const POLL_MS = 100;
const SWEEP_MS = 5000;

type Listener = () => void;

interface UntilOptions {
  /** The session that `check` looks at. */
  readonly of: SessionId;
  readonly everyMs?: number;
  /** Wall time. What is far away is left to the sweep, which needs no timer of its own for it. */
  readonly due?: number | undefined;
  readonly signal?: AbortSignal;
}

export class StoreWatch {
  readonly #store: Store;
  readonly #clock: Clock;
  /** By the session that they listen for. */
  readonly #listeners = new Map<SessionId, Set<Listener>>();
  readonly #listenersToOthers = new Set<Listener>();
  #mark: number | undefined;
  #stopPoll: (() => void) | undefined;
  #stopSweep: (() => void) | undefined;
  #sweep: (() => void) | undefined;
  #isClosed = false;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Calls the listener whenever something may have changed in a session, until the function it returns is called. */
  listen(of: SessionId, listener: Listener): () => void {
    const listeners = this.#listeners.get(of) ?? new Set();
    this.#listeners.set(of, listeners);
    return this.#listenIn(listeners, listener, () => {
      if (listeners.size === 0 && this.#listeners.get(of) === listeners) this.#listeners.delete(of);
    });
  }

  /** As `listen`, for what others may have changed in any. */
  listenToOthers(listener: Listener): () => void {
    return this.#listenIn(this.#listenersToOthers, listener);
  }

  /**
   * Resolves when `check` is true, which is asked now and after every change; after `everyMs` too, and when `due` has
   * come. An aborted signal ends it as well.
   */
  async until(check: () => Promise<boolean>, options: UntilOptions): Promise<void> {
    const { of, signal } = options;
    let wake = (): void => undefined;
    const onMove = (): void => wake();
    const unlisten = this.listen(of, onMove);
    signal?.addEventListener("abort", onMove, { once: true });
    try {
      for (;;) {
        const moved = new Promise<void>((resolve) => {
          wake = resolve;
        });
        if (isAborted(signal) || (await check())) return;
        const stopTimer = this.#wakeAt(options, onMove);
        if (!isAborted(signal)) await moved;
        stopTimer?.();
      }
    } finally {
      unlisten();
      signal?.removeEventListener("abort", onMove);
    }
  }

  /** Something changed here, in a session or without one in any; there may be something to be gone on with now. */
  notify(of?: SessionId): void {
    this.wake(of);
    if (!this.#isClosed) this.#sweep?.();
  }

  /** As `notify`, where nothing is left that others could go on with. */
  wake(of?: SessionId): void {
    const told = of === undefined ? [...this.#listeners.values()] : [this.#listeners.get(of) ?? []];
    for (const listener of told.flatMap((listeners) => [...listeners])) listener();
  }

  /** Something may have changed anywhere. */
  #tellAll(): void {
    for (const listener of [...this.#listenersToOthers]) listener();
    this.notify();
  }

  #listenIn(listeners: Set<Listener>, listener: Listener, onLeft: () => void = () => undefined): () => void {
    listeners.add(listener);
    this.#schedule();
    return () => {
      listeners.delete(listener);
      onLeft();
      if (this.#isHeard) return;
      this.#stopPoll?.();
      this.#stopPoll = undefined;
    };
  }

  get #isHeard(): boolean {
    return this.#listeners.size + this.#listenersToOthers.size > 0;
  }

  /** Calls `sweep` after what happened here; timed, now and then for as long as the process lives for other reasons. */
  sweep(
    sweep: () => void,
    { isTimed, onTime }: { readonly isTimed: boolean; readonly onTime?: () => void },
  ): void {
    this.#sweep = sweep;
    if (this.#isClosed || !isTimed) return;
    const again = (): void => {
      onTime?.();
      this.#tellAll();
      this.sweep(sweep, { isTimed, ...(onTime === undefined ? {} : { onTime }) });
    };
    this.#stopSweep = this.#clock.after(SWEEP_MS, again, { isBackground: true });
  }

  close(): void {
    this.#isClosed = true;
    this.#stopPoll?.();
    this.#stopPoll = undefined;
    this.#stopSweep?.();
    this.notify();
  }

  #wakeAt({ everyMs, due }: UntilOptions, wake: Listener): (() => void) | undefined {
    const left = due === undefined ? Number.POSITIVE_INFINITY : Math.max(0, due - this.#clock.now());
    const ms = Math.min(
      everyMs ?? Number.POSITIVE_INFINITY,
      left <= SWEEP_MS ? left : Number.POSITIVE_INFINITY,
    );
    return ms === Number.POSITIVE_INFINITY ? undefined : this.#clock.after(ms, wake);
  }

  #schedule(): void {
    if (this.#isClosed || this.#stopPoll !== undefined || !this.#isHeard) return;
    this.#stopPoll = this.#clock.after(POLL_MS, () => void this.#poll());
  }

  async #poll(): Promise<void> {
    const mark = await this.#store.changes().catch(() => this.#mark);
    this.#stopPoll = undefined;
    const hasMoved = mark !== this.#mark;
    this.#mark = mark;
    if (hasMoved) this.#tellAll();
    this.#schedule();
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}
