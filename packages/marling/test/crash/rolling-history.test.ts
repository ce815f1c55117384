// Kill -9 at every boundary of a session with a rolling history: the view after recovery is that of the run that nobody
// interrupted, and no summary that was written down is bought again.

import { crashAtEveryEffect } from "marling/testing";
import { expect, test } from "vitest";
import { boundaries, shareOf, TRIED } from "./sample.ts";

const OF = 5;

test(`[RH5] a compacted view survives a kill at any boundary (${TRIED})`, async () => {
  const scenario = new URL("./scenarios/rolling-history.mjs", import.meta.url);
  const report = await crashAtEveryEffect(scenario, boundaries(OF));
  expect(report.failures).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(shareOf(40, OF));
}, 900_000);
