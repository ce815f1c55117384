// What is to be done about the ticks of a subscription that are due: pure, so that every case can be tested.
//   TR23 a tick is on time when it is seen within a minute. Of ticks that nobody was there for, `latest` fires the newest,
//        `all` fires each, the newest thousand at most, and `skip` fires none of them.
//   TR24 whatever does not fire is counted, and told by the next tick that does: how many, and since when.

import { unreachable } from "../base/unreachable.ts";
import { isJsonObject, type Json } from "../model/json.ts";
import type { Schedule } from "./schedule.ts";

/** Ticks that did not fire. */
export interface MissedCount {
  readonly count: number;
  /** When the first of them was due. */
  readonly since: number;
}

/** One step: a tick that fires, or ticks that are passed over. */
export interface TickStep {
  /** The due time that the step is taken from. */
  readonly due: number;
  /** When the tick that fires was due; missing when none does. */
  readonly fires: number | undefined;
  /** What was not fired up to here: told with the tick that fires, else remembered. */
  readonly missed: MissedCount | undefined;
  /** Those of them that are counted by this step for the first time. */
  readonly newlyMissed: MissedCount | undefined;
  readonly next: number | undefined;
}

export interface DueTicks {
  readonly schedule: Schedule;
  readonly due: number;
  readonly now: number;
  /** What was missed before and has not been told. */
  readonly carried: MissedCount | undefined;
}

const GRACE_MS = 60_000;
const MOST_CAUGHT_UP = 1000;

/** The steps for all ticks that are due, in order. */
export function planTicks(ticks: DueTicks): readonly TickStep[] {
  const { schedule, now } = ticks;
  const { first, newest, count, next } = dueUntil(ticks, schedule.missed === "all" ? MOST_CAUGHT_UP : 1);
  const [last = first] = newest.slice(-1);
  switch (schedule.missed) {
    case "latest":
      return [step(ticks, { fires: last, passed: count - 1, next })];
    case "skip": {
      const isOnTime = now - last <= GRACE_MS;
      const passed = isOnTime ? count - 1 : count;
      return [step(ticks, { fires: isOnTime ? last : undefined, passed, next })];
    }
    case "all":
      return newest.map((fires, index) => {
        const from = index === 0 ? ticks : { ...ticks, due: fires, carried: undefined };
        const passed = index === 0 ? count - newest.length : 0;
        return step(from, { fires, passed, next: newest[index + 1] ?? next });
      });
    default:
      return unreachable(schedule.missed);
  }
}

/** What was remembered between two ticks; anything else is nothing. */
export function decodeMissed(carried: Json | undefined): MissedCount | undefined {
  if (carried === undefined || !isJsonObject(carried)) return undefined;
  const { count, since } = carried;
  return typeof count === "number" && typeof since === "number" ? { count, since } : undefined;
}

function dueUntil(
  { schedule, due, now }: DueTicks,
  keep: number,
): {
  readonly first: number;
  readonly newest: readonly number[];
  readonly count: number;
  readonly next: number | undefined;
} {
  let newest: number[] = [due];
  let count = 1;
  for (const tick of schedule.ticks(due)) {
    if (tick > now) return { first: due, newest: newest.slice(-keep), count, next: tick };
    count += 1;
    newest.push(tick);
    if (newest.length > 2 * keep) newest = newest.slice(-keep);
  }
  return { first: due, newest: newest.slice(-keep), count, next: undefined };
}

function step(
  { due, carried }: DueTicks,
  {
    fires,
    passed,
    next,
  }: { readonly fires: number | undefined; readonly passed: number; readonly next: number | undefined },
): TickStep {
  const newlyMissed = passed === 0 ? undefined : { count: passed, since: due };
  const missed =
    carried === undefined
      ? newlyMissed
      : { count: carried.count + passed, since: Math.min(carried.since, due) };
  return { due, fires, missed, newlyMissed, next };
}
