// How long to wait before the next attempt: twice as long each time, up to a limit, and never all at once.

import type { McpReconnect } from "./options.ts";

export interface Backoff {
  readonly minMs: number;
  readonly maxMs: number;
  readonly attempts: number;
}

export function backoffOf({ minMs = 500, maxMs = 30_000, attempts = 8 }: McpReconnect = {}): Backoff {
  return { minMs, maxMs: Math.max(minMs, maxMs), attempts };
}

/** Before the attempt after `failures` failed ones; between half of the delay and all of it. */
export function backoffDelay({ minMs, maxMs }: Backoff, failures: number, random: () => number): number {
  const whole = Math.min(maxMs, minMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(whole / 2 + (whole / 2) * random());
}
