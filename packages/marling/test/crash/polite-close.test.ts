// A polite close at the boundaries of every scenario: the end after recovery is that of the run that nobody interrupted,
// as it is after kill -9. Without a grace, calls are cut as a kill cuts them. With enough of it, none is.
//
// Every eighth state of the world is tried, beginning with one that the seed names; CLOSE_SEED=<seed> repeats a run.
// CRASH_EVERYWHERE=1 tries all of them.

import { crashAtEveryEffect } from "marling/testing";
import { expect, test } from "vitest";

const EVERYWHERE = process.env.CRASH_EVERYWHERE === "1";
const OF = EVERYWHERE ? 1 : 8;
const SEED = Number(process.env.CLOSE_SEED ?? Date.now() % 100_000);
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
  `[CE6] $name, closed with a grace of $graceMs ms, is recovered to the same end (seed ${SEED})`,
  async ({ name, graceMs }) => {
    const report = await crashAtEveryEffect(new URL(`./scenarios/${name}.mjs`, import.meta.url), {
      distinct: true,
      shard: { index: SEED % OF, of: OF },
      close: { graceMs },
      timeoutMs: 2 * ENOUGH_MS,
    });
    expect(report.failures).toEqual([]);
    expect(report.missed.length).toBeLessThanOrEqual(Math.max(2, report.kills / 20));
    expect(report.kills + report.missed.length).toBeGreaterThan(0);
  },
  900_000,
);
