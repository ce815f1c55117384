// Cron expressions and what they mean in a time zone: work/TRIGGERS.md, TR20 to TR22.

import { describe, expect, test } from "vitest";
import type { MarlingError } from "../../src/base/errors.ts";
import { parseCron } from "../../src/work/cron-expression.ts";
import { scheduleOf } from "../../src/work/schedule.ts";

/** The first ticks behind a time, as ISO texts without seconds. */
function ticks(expression: string, after: string, count: number, timeZone?: string): readonly string[] {
  const config = timeZone === undefined ? { expression } : { expression, timeZone };
  const found: string[] = [];
  for (const tick of scheduleOf("cron.tick", config, 0)?.ticks(Date.parse(after)) ?? []) {
    found.push(new Date(tick).toISOString().replace(":00.000Z", "Z"));
    if (found.length === count) break;
  }
  return found;
}

function refusal(expression: string): MarlingError {
  try {
    parseCron(expression);
  } catch (thrown) {
    return thrown as MarlingError;
  }
  throw new Error(`${expression} was not refused`);
}

describe("fields", () => {
  const values = (expression: string) => {
    const { minutes, hours, months } = parseCron(expression);
    return [minutes, hours, months].map((set) => [...set].sort((one, other) => one - other));
  };

  test("[TR20] values, ranges, steps, lists and names", () => {
    expect(values("5 0 * 1 *")).toEqual([[5], [0], [1]]);
    expect(values("1-3,58 8-10 * feb-mar,dec *")).toEqual([
      [1, 2, 3, 58],
      [8, 9, 10],
      [2, 3, 12],
    ]);
    expect(values("*/20 1-9/4 * 10/2 *")).toEqual([
      [0, 20, 40],
      [1, 5, 9],
      [10, 12],
    ]);
    expect(values("  59  23 31  JAN\tSUN ")).toEqual([[59], [23], [1]]);
  });

  test("[TR21] days of the month and of the week: either, when both are limited", () => {
    const days = (expression: string) => {
      const { isDay } = parseCron(expression);
      return [isDay(1, 1), isDay(1, 0), isDay(2, 0), isDay(2, 1)];
    };
    expect(days("0 0 1 * *")).toEqual([true, true, false, false]);
    expect(days("0 0 * * sun")).toEqual([false, true, true, false]);
    expect(days("0 0 * * 7")).toEqual([false, true, true, false]);
    expect(days("0 0 1 * 0")).toEqual([true, true, true, false]);
    expect(days("0 0 */2 * 0")).toEqual([false, true, false, false]);
    expect(days("0 0 * * 5-7")).toEqual([false, true, true, false]);
    expect(days("0 0 * * mon-fri")).toEqual([true, false, false, true]);
  });

  test.each([
    ["@hourly", "2026-03-05T10:00Z", "2026-03-05T11:00Z"],
    ["@daily", "2026-03-05T10:00Z", "2026-03-06T00:00Z"],
    ["@midnight", "2026-03-05T10:00Z", "2026-03-06T00:00Z"],
    ["@weekly", "2026-03-05T10:00Z", "2026-03-08T00:00Z"],
    ["@monthly", "2026-03-05T10:00Z", "2026-04-01T00:00Z"],
    ["@yearly", "2026-03-05T10:00Z", "2027-01-01T00:00Z"],
    ["@Annually", "2026-03-05T10:00Z", "2027-01-01T00:00Z"],
  ])("[TR20] %s is short for an expression", (expression, after, next) => {
    expect(ticks(expression, after, 1)).toEqual([next]);
  });

  test.each([
    ["", "five fields"],
    ["* * * *", "five fields"],
    ["* * * * * *", "five fields"],
    ["60 * * * *", "0 to 59 as minute, found 60"],
    ["* 24 * * *", "0 to 23 as hour, found 24"],
    ["* * 0 * *", "1 to 31 as day of month, found 0"],
    ["* * * 13 *", "1 to 12 or jan to dec as month, found 13"],
    ["* * * * 8", "0 to 7 or sun to sat as day of week, found 8"],
    ["* * * mon *", "as month, found mon"],
    ["5-1 * * * *", "a range that goes up in the minute, found 5-1"],
    ["1-2-3 * * * *", "a range of two values"],
    ["*/0 * * * *", "a step from 1 to 59 in the minute, found 0"],
    ["*/60 * * * *", "a step from 1 to 59"],
    ["*/5/5 * * * *", "one step in the minute"],
    [", * * * *", "as minute, found nothing"],
    ["1, * * * *", "as minute, found nothing"],
    ["-1 * * * *", "as minute, found nothing"],
    ["1.5 * * * *", "as minute, found 1.5"],
    ["1e1 * * * *", "as minute, found 1e1"],
    ["0 0 30 2 *", "a day that one of its months has, found day 30"],
    ["0 0 31 4,6 *", "a day that one of its months has, found day 31"],
    ["@reboot", "one of @yearly"],
    ["@toString", "one of @yearly"],
  ])("[TR20] %j is refused", (expression, expected) => {
    const error = refusal(expression);
    expect(error.code).toBe("invalid_schedule");
    expect(error.message).toContain(expected);
  });
});

describe("ticks", () => {
  test("[TR20] they are behind the time that is asked for, over the ends of days, months and years", () => {
    expect(ticks("*/15 * * * *", "2026-12-31T23:30:00Z", 3)).toEqual([
      "2026-12-31T23:45Z",
      "2027-01-01T00:00Z",
      "2027-01-01T00:15Z",
    ]);
    expect(ticks("0 12 31 * *", "2026-01-31T12:00:00Z", 2)).toEqual([
      "2026-03-31T12:00Z",
      "2026-05-31T12:00Z",
    ]);
    expect(ticks("0 0 29 2 *", "2096-02-29T00:00:00Z", 1)).toEqual(["2104-02-29T00:00Z"]);
    expect(ticks("0 9 * * mon-fri", "2026-03-06T09:00:01Z", 1)).toEqual(["2026-03-09T09:00Z"]);
  });

  test("[TR22] they go by the wall clock of the zone", () => {
    expect(ticks("0 9 * * *", "2026-01-10T00:00:00Z", 1, "America/New_York")).toEqual(["2026-01-10T14:00Z"]);
    expect(ticks("0 9 * * *", "2026-07-10T00:00:00Z", 1, "America/New_York")).toEqual(["2026-07-10T13:00Z"]);
    expect(ticks("30 5 * * *", "2026-01-10T00:00:00Z", 2, "Asia/Kolkata")).toEqual([
      "2026-01-11T00:00Z",
      "2026-01-12T00:00Z",
    ]);
    expect(ticks("0 0 1 * *", "2026-01-15T00:00:00Z", 1, "Pacific/Auckland")).toEqual(["2026-01-31T11:00Z"]);
  });

  test("[TR22] a time that is skipped fires once, with the first minute behind the gap", () => {
    // In New York, 2026-03-08 02:00 is followed by 03:00, at 07:00 UTC.
    expect(ticks("30 2 * * *", "2026-03-07T12:00:00Z", 2, "America/New_York")).toEqual([
      "2026-03-08T07:00Z",
      "2026-03-09T06:30Z",
    ]);
    expect(ticks("*/20 2-3 * * *", "2026-03-08T05:00:00Z", 4, "America/New_York")).toEqual([
      "2026-03-08T07:00Z",
      "2026-03-08T07:20Z",
      "2026-03-08T07:40Z",
      "2026-03-09T06:00Z",
    ]);
    // On Lord Howe Island half an hour is skipped: 2026-10-04 02:00 is followed by 02:30, at 15:30 UTC of the 3rd.
    expect(ticks("15 2 * * *", "2026-10-03T00:00:00Z", 1, "Australia/Lord_Howe")).toEqual([
      "2026-10-03T15:30Z",
    ]);
  });

  test("[TR22] a time that comes twice fires the first time", () => {
    // In New York, 2026-11-01 02:00 is followed by 01:00, at 06:00 UTC.
    expect(ticks("30 1 * * *", "2026-10-31T12:00:00Z", 2, "America/New_York")).toEqual([
      "2026-11-01T05:30Z",
      "2026-11-02T06:30Z",
    ]);
    expect(ticks("30 1 * * *", "2026-11-01T05:30:00Z", 1, "America/New_York")).toEqual(["2026-11-02T06:30Z"]);
  });

  test("[TR22] an expression for every hour goes by the hours that there are", () => {
    expect(ticks("30 * * * *", "2026-11-01T04:00:00Z", 4, "America/New_York")).toEqual([
      "2026-11-01T04:30Z",
      "2026-11-01T05:30Z",
      "2026-11-01T06:30Z",
      "2026-11-01T07:30Z",
    ]);
    expect(ticks("30 * * * *", "2026-03-08T05:00:00Z", 3, "America/New_York")).toEqual([
      "2026-03-08T05:30Z",
      "2026-03-08T06:30Z",
      "2026-03-08T07:30Z",
    ]);
  });

  test("[TR22] where the clock goes back over midnight no tick is lost or repeated", () => {
    // In Havana, 2026-11-01 01:00 is followed by 00:00, at 05:00 UTC.
    expect(ticks("*/30 * * * *", "2026-11-01T03:50:00Z", 4, "America/Havana")).toEqual([
      "2026-11-01T04:00Z",
      "2026-11-01T04:30Z",
      "2026-11-01T05:00Z",
      "2026-11-01T05:30Z",
    ]);
    expect(ticks("0 0 * * *", "2026-10-31T12:00:00Z", 2, "America/Havana")).toEqual([
      "2026-11-01T04:00Z",
      "2026-11-02T05:00Z",
    ]);
  });
});

describe("schedules", () => {
  test.each([
    ["cron.tick", undefined, "an object with expression, timeZone, missed"],
    ["cron.tick", { expression: 5 }, "expression: expected a cron expression, found 5"],
    ["cron.tick", { expression: "@daily", timeZone: "Nowhere/Else" }, 'found "Nowhere/Else"'],
    ["cron.tick", { expression: "@daily", missed: "some" }, "missed: expected one of skip, latest, all"],
    ["cron.tick", { expression: "@daily", zone: "UTC" }, 'only expression, timeZone, missed, found "zone"'],
    [
      "interval.tick",
      { everyMs: 999 },
      "a whole number of milliseconds from 1000 to 316224000000, found 999",
    ],
    ["interval.tick", { everyMs: 1500.5 }, "a whole number of milliseconds"],
    ["interval.tick", { everyMs: 316_224_000_001 }, "a whole number of milliseconds"],
    ["interval.tick", { everyMs: 5000, startAt: 8.65e15 }, "startAt: expected milliseconds since 1970"],
    ["interval.tick", { everyMs: 5000, startAt: "now" }, "startAt: expected milliseconds since 1970"],
  ])("[TR19] %s with %j is refused", (source, config, expected) => {
    expect(() => scheduleOf(source, config, 0)).toThrow(
      expect.objectContaining({ code: "invalid_schedule" }),
    );
    expect(() => scheduleOf(source, config, 0)).toThrow(expected);
  });

  test("[TR18] an interval counts from its start", () => {
    const first = (config: object, after: number, createdAt = 1000) => {
      const found: number[] = [];
      for (const tick of scheduleOf("interval.tick", config as never, createdAt)?.ticks(after) ?? []) {
        found.push(tick);
        if (found.length === 3) return found;
      }
      return found;
    };
    expect(first({ everyMs: 5000 }, 1000)).toEqual([6000, 11_000, 16_000]);
    expect(first({ everyMs: 5000 }, 13_700)).toEqual([16_000, 21_000, 26_000]);
    expect(first({ everyMs: 5000, startAt: 50_000 }, 1000)).toEqual([50_000, 55_000, 60_000]);
    expect(first({ everyMs: 5000, startAt: 0 }, 12_000)).toEqual([15_000, 20_000, 25_000]);
  });

  test("[TR19] another source has no schedule", () => {
    expect(scheduleOf("mail.received", { expression: "@daily" }, 0)).toBeUndefined();
  });
});
