import { setTimeout as delay } from "node:timers/promises";

/** The only source of time in the kernel. Tests replace it. */
export interface Clock {
  /** Wall time in milliseconds since 1970. May go backwards. */
  now(): number;
  /** Milliseconds from an arbitrary start. Never goes backwards. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. Does not keep the process alive on its own account. */
  sleep(ms: number, options: { readonly signal: AbortSignal }): Promise<void>;
  /** Calls `fn` once after `ms` and returns a function that cancels it. In the background it keeps no process alive. */
  after(ms: number, fn: () => void, options?: { readonly isBackground?: boolean }): () => void;
}

/** Timers of the system cannot be longer: what is due later is looked at again then. */
const LONGEST_MS = 2_147_483_647;

/** Taken once: `globalThis` looks for it anew each time. */
const { performance } = globalThis;

export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms: number, { signal }: { readonly signal: AbortSignal }) => {
    await delay(ms, undefined, { signal }).catch((error: unknown) => {
      throw signal.aborted ? signal.reason : error;
    });
  },
  after: (ms: number, fn: () => void, options: { readonly isBackground?: boolean } = {}) => {
    const timer = setTimeout(fn, Math.min(ms, LONGEST_MS));
    if (options.isBackground === true) timer.unref();
    return () => clearTimeout(timer);
  },
});
