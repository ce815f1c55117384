// Waits while somebody else has the file, without blocking the process.

import { setTimeout as delay } from "node:timers/promises";
import { isBusy } from "./sqlite-fault.ts";

const SHORTEST_MS = 5;
const LONGEST_MS = 20;

/**
 * Returns what `attempt` returns: at once where the file is free, else a promise of it. A file that is locked is tried again
 * and again, and what the last attempt threw is thrown when `limitMs` are over. Other failures are thrown at once.
 */
export function whenFree<T>(attempt: () => T, limitMs: number): T | Promise<T> {
  try {
    return attempt();
  } catch (thrown) {
    if (!isBusy(thrown)) throw thrown;
    return again(attempt, { limitMs, thrown });
  }
}

async function again<T>(
  attempt: () => T,
  { limitMs, thrown: first }: { readonly limitMs: number; readonly thrown: unknown },
): Promise<T> {
  const deadline = performance.now() + limitMs;
  for (let last = first; ; ) {
    if (performance.now() >= deadline) throw last;
    // Of different length, so that those who wait do not meet again at every attempt.
    await delay(SHORTEST_MS + Math.random() * (LONGEST_MS - SHORTEST_MS));
    try {
      return attempt();
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
      last = thrown;
    }
  }
}
