// Whatever a store is asked for in whatever order, all stores say the same.
//   MARLING_SEED=<number> asks in the same orders again; MARLING_RUNS=<number> is how many there are.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Json } from "../../src/model/json.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { tenantStore, withoutTenants } from "../../src/store/tenant-store.ts";
import { answerTo, type Known, type Step, steps } from "./store-steps.ts";

const SEED = Number(process.env.MARLING_SEED ?? Math.floor(Math.random() * 1_000_000));
const RUNS = Number(process.env.MARLING_RUNS ?? 60);

/** What SQLite does is the same without a file, and asked for ten times as fast. */
const sql = () => sqliteStore({ path: ":memory:" });

/** Each store that is compared with the one in memory. */
const STORES = {
  memory: () => ofWhole(memoryStore()),
  sqlite: () => ofWhole(sql()),
  "a tenant in memory": () => ofTenant(memoryStore()),
  "a tenant on sqlite": () => ofTenant(sql()),
  "no tenant in memory": () => ofNone(memoryStore()),
} as const satisfies Record<string, () => Pick<Known, "store" | "whole">>;

type Data = Known["whole"];
const ofWhole = (whole: Data) => ({ whole, store: whole });
const ofTenant = (whole: Data) => ({ whole, store: tenantStore(whole, "acme") });
const ofNone = (whole: Data) => ({ whole, store: withoutTenants(whole) });

test(`every store gives the same answers to the same steps (seed ${SEED})`, async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (wanted) => {
      const expected = await answersOf("memory", wanted);
      for (const name of Object.keys(STORES) as (keyof typeof STORES)[]) {
        if (name === "memory") continue;
        const found = await answersOf(name, wanted);
        const at = found.findIndex((answer, index) => !isSame(answer, expected[index]));
        if (at === -1) continue;
        const told = wanted.slice(0, at + 1).map((step) => step.name);
        expect([name, told, found[at]]).toEqual([name, told, expected[at]]);
      }
    }),
    { seed: SEED, numRuns: RUNS },
  );
}, 600_000);

const isSame = (a: Json | undefined, b: Json | undefined): boolean => {
  try {
    expect(a).toEqual(b);
    return true;
  } catch {
    return false;
  }
};

async function answersOf(name: keyof typeof STORES, wanted: readonly Step[]): Promise<readonly Json[]> {
  const known: Known = { ...STORES[name](), nodes: new Map(), generations: new Map(), step: 0 };
  const answers: Json[] = [];
  try {
    for (const step of wanted) answers.push(await answerTo(known, step));
    return answers;
  } finally {
    await known.whole.close();
  }
}
