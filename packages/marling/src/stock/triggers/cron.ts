import type { JsonObject } from "../../index.ts";

export interface CronOptions {
  /** The zone whose wall clock the expression is about, such as Europe/Berlin; UTC by default. */
  readonly timeZone?: string;
  /** What becomes of ticks that nobody was there for: the newest fires (`latest`, the default), each does, or none. */
  readonly missed?: "skip" | "latest" | "all";
}

/** A source and its schedule, as a subscription takes them. */
export interface TickSource {
  readonly source: string;
  readonly config: JsonObject;
}

/**
 * A subscription to the ticks of a cron expression: `triggers.subscribe({ sessionId, ...cron("0 9 * * mon-fri") })`.
 * Five fields with names, ranges, steps and lists, or `@daily` and the like; what cannot be read is refused by `subscribe`.
 */
export function cron(expression: string, options: CronOptions = {}): TickSource {
  return { source: "cron.tick", config: { expression, ...options } };
}
