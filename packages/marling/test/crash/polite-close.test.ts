// A polite close at the boundaries of every scenario: the end after recovery is that of the run that nobody interrupted,
// as it is after kill -9. Without a grace, calls are cut as a kill cuts them. With enough of it, none is.
// Which boundaries are tried is in sample.ts.

import { crashAtEveryEffect } from "marling/testing";
import { expect, test } from "vitest";
import { boundaries, TRIED } from "./sample.ts";

/** One boundary of so many is in a sample. */
const OF = 20;
const ENOUGH_MS = 30_000;

const SCENARIOS = [
  "text",
  "tools",
  "mixed",
  "hooks",
  "frames",
  "retries",
  "compaction",
  "fork",
  "command",
  "completion",
  "timer",
  "sleeping",
  "injected",
  "cancelled",
  "child",
  "family",
  "sleeping-child",
  "task",
  "approval",
  "authorize",
  "monitor",
  "trigger",
  "tenants",
];

test.each(SCENARIOS.flatMap((name) => [0, ENOUGH_MS].map((graceMs) => ({ name, graceMs }))))(
  `[CE6] $name, closed with a grace of $graceMs ms, is recovered to the same end (${TRIED})`,
  async ({ name, graceMs }) => {
    const report = await crashAtEveryEffect(new URL(`./scenarios/${name}.mjs`, import.meta.url), {
      ...boundaries(OF),
      close: { graceMs },
      timeoutMs: 2 * ENOUGH_MS,
    });
    expect(report.failures).toEqual([]);
    expect(report.missed.length).toBeLessThanOrEqual(Math.max(2, report.kills / 20));
  },
  900_000,
);
