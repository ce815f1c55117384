// Which boundaries of a scenario are tried, by the variable CRASH:
//   sample      the default, for `npm test`: a share of the states of the world that a kill can leave behind. A seed draws
//               it, which the names of the tests show; CRASH_SEED=<seed> repeats it.
//   distinct    for `npm run verify`: each of these states.
//   everywhere  every boundary, also those between which nothing was written and nobody was asked.

import type { CrashOptions } from "marling/testing";

const MODES = ["sample", "distinct", "everywhere"] as const;

const found = process.env.CRASH ?? "sample";
const mode = MODES.find((known) => known === found);
if (mode === undefined) throw new Error(`CRASH: expected ${MODES.join(", ")}, found ${found}`);

const isSample: boolean = mode === "sample";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 100_000);

/** What the name of a test says about the boundaries it tries. */
export const TRIED: string = isSample ? `a sample, CRASH_SEED=${seed}` : mode;

/** The boundaries to try, one of `of` in a sample. */
export function boundaries(of: number): Pick<CrashOptions, "distinct" | "shard"> {
  const distinct = mode !== "everywhere";
  return isSample ? { distinct, shard: { index: seed % of, of } } : { distinct };
}

/** How many of a number of boundaries are in a sample of one of `of`, at least. */
export function shareOf(count: number, of: number): number {
  return isSample ? Math.floor(count / of) : count;
}
