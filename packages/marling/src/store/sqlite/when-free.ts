// Waits while somebody else has the file, without blocking the process.

import { setTimeout as delay } from "node:timers/promises";
import { isBusy } from "./sqlite-fault.ts";

const SHORTEST_MS = 5;
const LONGEST_MS = 20;

/**
 * Returns what `attempt` returns, as soon as it does not find the file locked. Tries at once, then again and again, and
 * throws what the last attempt threw when `limitMs` are over. Other failures are thrown at once.
 */
export async function whenFree<T>(attempt: () => T, limitMs: number): Promise<T> {
  let deadline: number | undefined;
  for (;;) {
    try {
      return attempt();
    } catch (thrown) {
      deadline ??= performance.now() + limitMs;
      if (!isBusy(thrown) || performance.now() >= deadline) throw thrown;
    }
    // Of different length, so that those who wait do not meet again at every attempt.
    await delay(SHORTEST_MS + Math.random() * (LONGEST_MS - SHORTEST_MS));
  }
}
