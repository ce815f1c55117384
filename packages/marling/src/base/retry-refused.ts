// Writes that a store refuses are tried again.
//   RR1  a refusal is `io_failed`, `store_busy`, or a thrown value that is no error of marling. Other errors are passed on.
//   RR2  pauses grow from 50 ms to 5 s. The last try is made when the time is over; its refusal is passed on.
//   RR3  an aborted signal ends the pause. A signal whose reason is an error of marling ends the retrying with that error;
//        any other reason leaves at most 2 s.

import type { Clock } from "./clock.ts";
import { MarlingError } from "./errors.ts";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
const LAST_MS = 2_000;

const NEVER: AbortSignal = new AbortController().signal;

/** How long refused writes of a runtime are tried again. */
export interface RetryTerms {
  readonly clock: Clock;
  /** From the first refusal on. */
  readonly limitMs: number;
}

export interface RetryOptions extends RetryTerms {
  readonly signal?: AbortSignal | undefined;
  /** When the first refusal was, by the monotonic clock; by default now. */
  readonly since?: number;
  /** Awaited after each refusal. What it throws ends the retrying. */
  onRefused?(): Promise<void> | void;
}

export function isRefused(thrown: unknown): boolean {
  return !MarlingError.is(thrown) || thrown.code === "io_failed" || thrown.code === "store_busy";
}

/** Makes a write again that was refused with `refusal`, until it succeeds or the time is over. */
export async function retryRefused<T>(
  write: () => Promise<T>,
  refusal: unknown,
  options: RetryOptions,
): Promise<T> {
  const { clock, signal, onRefused, limitMs, since = clock.monotonic() } = options;
  let thrown = refusal;
  let until = since + (signal?.aborted === true ? Math.min(limitMs, LAST_MS) : limitMs);
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    if (!isRefused(thrown)) throw thrown;
    await onRefused?.();
    const leftMs = until - clock.monotonic();
    if (leftMs <= 0) throw thrown;
    if (await isWoken(Math.min(pauseMs, leftMs), options))
      until = Math.min(until, clock.monotonic() + LAST_MS);
    if (signal?.aborted === true && MarlingError.is(signal.reason)) throw signal.reason;
    try {
      return await write();
    } catch (next) {
      thrown = next;
    }
  }
}

/** Pauses. True when the signal ended the pause; one that is aborted already ends none. */
async function isWoken(ms: number, { clock, signal }: RetryOptions): Promise<boolean> {
  const isAborted = signal === undefined || signal.aborted;
  try {
    await clock.sleep(ms, { signal: isAborted ? NEVER : signal });
    return false;
  } catch (thrown) {
    if (signal?.aborted !== true) throw thrown;
    return true;
  }
}
