// What is done about ticks that are due: work/TRIGGERS.md, TR23 and TR24.

import { describe, expect, test } from "vitest";
import { type DueTicks, decodeMissed, planTicks } from "../../src/work/plan-ticks.ts";
import { type MissedTicks, type Schedule, scheduleOf } from "../../src/work/schedule.ts";

const MINUTE = 60_000;

/** A tick every minute from 0 on. */
function everyMinute(missed: MissedTicks): Schedule {
  return scheduleOf("interval.tick", { everyMs: MINUTE, startAt: 0, missed }, 0) as Schedule;
}

function plan(missed: MissedTicks, ticks: Partial<DueTicks> & Pick<DueTicks, "due" | "now">) {
  return planTicks({ schedule: everyMinute(missed), carried: undefined, ...ticks });
}

describe.each(["skip", "latest", "all"] as const)("with %s", (missed) => {
  test("[TR23] a tick that is seen when it is due fires, and nothing was missed", () => {
    for (const late of [0, 1, MINUTE - 1]) {
      expect(plan(missed, { due: 5 * MINUTE, now: 5 * MINUTE + late })).toEqual([
        {
          due: 5 * MINUTE,
          fires: 5 * MINUTE,
          missed: undefined,
          newlyMissed: undefined,
          next: 6 * MINUTE,
        },
      ]);
    }
  });
});

test("[TR23] latest: the newest fires and tells of the others", () => {
  const others = { count: 3, since: 2 * MINUTE };
  expect(plan("latest", { due: 2 * MINUTE, now: 5 * MINUTE + 1000 })).toEqual([
    { due: 2 * MINUTE, fires: 5 * MINUTE, missed: others, newlyMissed: others, next: 6 * MINUTE },
  ]);
});

test("[TR23] all: each fires, from one due time to the next", () => {
  const steps = plan("all", { due: 2 * MINUTE, now: 4 * MINUTE });
  expect(steps.map(({ due, fires, next, missed }) => [due, fires, next, missed])).toEqual([
    [2 * MINUTE, 2 * MINUTE, 3 * MINUTE, undefined],
    [3 * MINUTE, 3 * MINUTE, 4 * MINUTE, undefined],
    [4 * MINUTE, 4 * MINUTE, 5 * MINUTE, undefined],
  ]);
});

test("[TR23] all: of more than a thousand the newest thousand fire, and the first tells of the others", () => {
  const steps = plan("all", { due: MINUTE, now: 1500 * MINUTE });
  expect(steps).toHaveLength(1000);
  const others = { count: 500, since: MINUTE };
  expect(steps[0]).toEqual({
    due: MINUTE,
    fires: 501 * MINUTE,
    missed: others,
    newlyMissed: others,
    next: 502 * MINUTE,
  });
  expect(steps.slice(1).every((step) => step.missed === undefined && step.due === step.fires)).toBe(true);
  expect(steps.at(-1)).toMatchObject({ fires: 1500 * MINUTE, next: 1501 * MINUTE });
});

test("[TR23] skip: what is late is passed over and counted", () => {
  const schedule = scheduleOf(
    "interval.tick",
    { everyMs: 60 * MINUTE, startAt: 0, missed: "skip" },
    0,
  ) as Schedule;
  const due = 60 * MINUTE;
  const isLate = planTicks({ schedule, due, now: due + MINUTE + 1, carried: undefined });
  const one = { count: 1, since: due };
  expect(isLate).toEqual([{ due, fires: undefined, missed: one, newlyMissed: one, next: 2 * due }]);
  const isOnTime = planTicks({ schedule, due, now: 3 * due + MINUTE, carried: undefined });
  expect(isOnTime).toMatchObject([{ fires: 3 * due, missed: { count: 2, since: due }, next: 4 * due }]);
});

test("[TR24] what was missed before is told with the next tick that fires, together with what is new", () => {
  const carried = { count: 4, since: 10 };
  expect(plan("skip", { due: 7 * MINUTE, now: 7 * MINUTE, carried })).toMatchObject([
    { fires: 7 * MINUTE, missed: carried, newlyMissed: undefined },
  ]);
  expect(plan("latest", { due: 7 * MINUTE, now: 9 * MINUTE, carried })).toMatchObject([
    { fires: 9 * MINUTE, missed: { count: 6, since: 10 }, newlyMissed: { count: 2, since: 7 * MINUTE } },
  ]);
  const [first, second] = plan("all", { due: 7 * MINUTE, now: 8 * MINUTE, carried });
  expect([first?.missed, second?.missed]).toEqual([carried, undefined]);
});

test("[TR24] what is remembered is read as it was written, and anything else is nothing", () => {
  expect(decodeMissed({ count: 2, since: 5 })).toEqual({ count: 2, since: 5 });
  expect([decodeMissed(undefined), decodeMissed(null), decodeMissed({ count: "2" })]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
