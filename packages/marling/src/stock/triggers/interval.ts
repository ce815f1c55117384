import type { CronOptions, TickSource } from "./cron.ts";

export interface IntervalOptions extends Pick<CronOptions, "missed"> {
  /** What ticks are counted from, in milliseconds since 1970; by default from when the subscription is made. */
  readonly startAt?: number;
}

/** A subscription to a tick every so many milliseconds, a second at least: `triggers.subscribe({ sessionId, ...interval(60_000) })`. */
export function interval(everyMs: number, options: IntervalOptions = {}): TickSource {
  return { source: "interval.tick", config: { everyMs, ...options } };
}
