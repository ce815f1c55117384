// When ticks are due: every so often, or by a cron expression in a time zone.
//   TR18 an interval counts from its start, so that late ticks make no later ones late.
//   TR22 a time that a zone skips fires once, with the first minute behind the gap; one that comes twice fires the first
//        time. An expression for every hour goes by the hours that there are: it skips nothing and fires both times.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { type CronExpression, parseCron } from "./cron-expression.ts";
import { TimeZone } from "./time-zone.ts";

/** What becomes of ticks that nobody was there for. */
export type MissedTicks = "skip" | "latest" | "all";

export interface Schedule {
  readonly missed: MissedTicks;
  /** The ticks behind a time, in order, without end. */
  ticks(after: number): Iterable<number>;
}

/** The sources that the runtime drives by itself. */
export const CRON_SOURCE = "cron.tick";
export const INTERVAL_SOURCE = "interval.tick";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const SHORTEST_INTERVAL_MS = 1000;
const LONGEST_INTERVAL_MS = 3660 * DAY;
/** What a date can be. */
const LAST_TIME = 8.64e15;
const POLICIES: readonly string[] = ["skip", "latest", "all"] satisfies readonly MissedTicks[];
const ALL_HOURS = 24;

/** The schedule of a subscription to a source with ticks; none for other sources. Throws `invalid_schedule`. */
export function scheduleOf(
  source: string,
  config: Json | undefined,
  createdAt: number,
): Schedule | undefined {
  if (source === CRON_SOURCE) return cronSchedule(membersOf(source, config, ["expression", "timeZone"]));
  if (source === INTERVAL_SOURCE)
    return intervalSchedule(membersOf(source, config, ["everyMs", "startAt"]), createdAt);
  return undefined;
}

/** Whether a value is a time in whole milliseconds that a date can have. */
export function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && Math.abs(value) <= LAST_TIME;
}

/** The first tick behind a time. */
export function firstTick(schedule: Schedule, after: number): number | undefined {
  for (const tick of schedule.ticks(after)) return tick;
  return undefined;
}

function cronSchedule({ expression, timeZone = "UTC", missed }: JsonObject): Schedule {
  if (typeof expression !== "string")
    throw refuse(CRON_SOURCE, "expression", "a cron expression", expression);
  if (typeof timeZone !== "string") throw refuse(CRON_SOURCE, "timeZone", "the name of a zone", timeZone);
  const cron = parseCron(expression);
  const zone = new TimeZone(timeZone);
  return { missed: policyOf(CRON_SOURCE, missed), ticks: (after) => cronTicks(cron, zone, after) };
}

function intervalSchedule({ everyMs, startAt, missed }: JsonObject, createdAt: number): Schedule {
  if (!isTime(everyMs) || everyMs < SHORTEST_INTERVAL_MS || everyMs > LONGEST_INTERVAL_MS) {
    const expected = `a whole number of milliseconds from ${SHORTEST_INTERVAL_MS} to ${LONGEST_INTERVAL_MS}`;
    throw refuse(INTERVAL_SOURCE, "everyMs", expected, everyMs);
  }
  const start = startAt ?? createdAt;
  if (!isTime(start)) throw refuse(INTERVAL_SOURCE, "startAt", "milliseconds since 1970", start);
  return {
    missed: policyOf(INTERVAL_SOURCE, missed),
    ticks: function* (after) {
      // A start that lies ahead is the first tick; one that was given by nobody is none.
      const least = startAt === undefined ? 1 : 0;
      for (let n = Math.max(least, Math.floor((after - start) / everyMs) + 1); ; n += 1)
        yield start + n * everyMs;
    },
  };
}

/** Goes day by day; the days of a leap year on which an expression may depend come back within nine years. */
function* cronTicks(cron: CronExpression, zone: TimeZone, after: number): Iterable<number> {
  // Where the wall clock goes back over midnight, the day before comes once more.
  const first = Math.floor(zone.wallTime(after) / DAY) - 1;
  let newest = after;
  for (let day = first; ; day += 1) {
    const date = new Date(day * DAY);
    if (!cron.months.has(date.getUTCMonth() + 1)) continue;
    if (!cron.isDay(date.getUTCDate(), date.getUTCDay())) continue;
    for (const tick of ticksOfDay(cron, zone, day * DAY)) {
      if (tick <= newest) continue;
      newest = tick;
      yield tick;
    }
  }
}

function ticksOfDay({ hours, minutes }: CronExpression, zone: TimeZone, midnight: number): readonly number[] {
  const isEveryHour = hours.size === ALL_HOURS;
  const ticks: number[] = [];
  for (const hour of hours) {
    for (const minute of minutes) {
      const wall = midnight + (hour * 60 + minute) * MINUTE;
      const instants = zone.instants(wall);
      if (isEveryHour) ticks.push(...instants);
      else ticks.push(instants[0] ?? zone.afterSkipped(wall));
    }
  }
  return ticks.sort((one, other) => one - other);
}

function policyOf(source: string, missed: Json | undefined): MissedTicks {
  if (missed === undefined) return "latest";
  if (typeof missed === "string" && POLICIES.includes(missed)) return missed as MissedTicks; // one of them
  throw refuse(source, "missed", `one of ${POLICIES.join(", ")}`, missed);
}

function membersOf(source: string, config: Json | undefined, names: readonly string[]): JsonObject {
  const known = [...names, "missed"];
  if (config === undefined || !isJsonObject(config))
    throw refuse(source, "config", `an object with ${known.join(", ")}`, config);
  const unknown = Object.keys(config).find((name) => !known.includes(name));
  if (unknown === undefined) return config;
  throw refuse(source, "config", `only ${known.join(", ")}`, unknown);
}

function refuse(source: string, member: string, expected: string, found: Json | undefined): MarlingError {
  const shown = found === undefined ? "nothing" : JSON.stringify(found);
  const message = `subscription to ${source}: ${member}: expected ${expected}, found ${shown}`;
  return new MarlingError("invalid_schedule", message, { details: { source, member } });
}
