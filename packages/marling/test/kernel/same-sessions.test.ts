// Whatever is done to sessions in whatever order, it comes to the same on every store.
//   MARLING_SEED=<number> does the same again; MARLING_RUNS=<number> is how many sequences there are.

import fc from "fast-check";
import { memoryStore, type Store } from "marling";
import { sqliteStore } from "marling/sqlite";
import { expect, test } from "vitest";
import { type Json, jsonEqual } from "../../src/model/json.ts";
import { database } from "./durable-support.ts";
import { answersTo, type Step, steps, World } from "./session-steps.ts";

const SEED = Number(process.env.MARLING_SEED ?? Math.floor(Math.random() * 1_000_000));
const RUNS = Number(process.env.MARLING_RUNS ?? 15);

const memory = (): (() => Store) => {
  const store = memoryStore();
  return () => store;
};
const sqlite = (): (() => Store) => {
  const path = database();
  return () => sqliteStore({ path });
};

const WORLDS = {
  memory: () => new World(memory()),
  sqlite: () => new World(sqlite()),
  "a tenant in memory": () => new World(memory(), "acme"),
  "a tenant on sqlite": () => new World(sqlite(), "acme"),
} as const satisfies Record<string, () => World>;

type WorldName = keyof typeof WORLDS;

test(`sessions come to the same on every store (seed ${SEED})`, async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (wanted) => {
      const expected = await playedOn("memory", wanted);
      expect(expected.flatMap(repeatedIn)).toEqual([]);
      for (const name of (Object.keys(WORLDS) as WorldName[]).slice(1)) {
        const found = await playedOn(name, wanted);
        const at = found.findIndex((answer, index) => !jsonEqual(answer, expected[index] ?? null));
        if (at === -1) continue;
        const told = wanted.slice(0, at + 1).map((step) => step.name);
        expect([name, told, found[at]]).toEqual([name, told, expected[at]]);
      }
    }),
    { seed: SEED, numRuns: RUNS },
  );
}, 600_000);

async function playedOn(name: WorldName, wanted: readonly Step[]): Promise<readonly Json[]> {
  const world = WORLDS[name]();
  const answers: Json[] = [];
  try {
    for (const step of wanted) answers.push(await answersTo(world, step));
    return answers;
  } finally {
    await world.close();
  }
}

/** Message ids that are in a session more than once. */
function repeatedIn(answer: Json): readonly Json[] {
  const { seen } = answer as {
    readonly seen: { readonly sessions: readonly { readonly repeated?: Json[] }[] };
  };
  return seen.sessions.flatMap(({ repeated = [] }) => repeated);
}
