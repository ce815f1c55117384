// Damage that a store is not told of: flipped bits in its file. Whatever is read is what was written, or an error.

import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import {
  answersOf,
  flipBit,
  furnishedFile,
  isServed,
  PROGRAM_FILES,
  programFile,
  type Question,
  questionsAbout,
} from "./sqlite-damage.ts";
import { query, temporaryFolder } from "./sqlite-support.ts";

vi.setConfig({ testTimeout: 600_000 });

const SEED = Number(process.env.MARLING_DAMAGE_SEED ?? 1 + Math.floor(Math.random() * 1e9));
const BITS = Number(process.env.MARLING_DAMAGE_BITS ?? 15);

/** Numbers from 0 to 1 that a seed determines. */
function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The answers that differ from the original ones and say nothing of damage. */
async function wrongAnswers(
  path: string,
  questions: readonly Question[],
  original: readonly string[],
): Promise<readonly string[]> {
  const answers = await answersOf(path, questions);
  return questions.flatMap(([name], index) =>
    isServed(answers[index], original[index]) ? [] : [`${name}: ${answers[index]} for ${original[index]}`],
  );
}

describe(`flipped bits, seed ${SEED}`, () => {
  test.each([...PROGRAM_FILES, "furnished"])(
    "[RS1] [CF1] any flipped bit in the file of `%s` serves no wrong value",
    async (name) => {
      const folder = temporaryFolder();
      const path = name === "furnished" ? await furnishedFile(folder) : await programFile(name, folder);
      const questions = await questionsAbout(path);
      const copy = join(folder, "copy.db");
      flipBit(path, copy, 0);
      flipBit(copy, copy, 0);
      const original = await answersOf(copy, questions);
      const next = numbers(SEED);
      const bits = 8 * statSync(path).size;
      for (let trial = 0; trial < BITS; trial += 1) {
        for (const file of readdirSync(folder).filter((other) => other.startsWith("copy.db")))
          rmSync(join(folder, file));
        const bit = Math.floor(next() * bits);
        flipBit(path, copy, bit);
        expect({ bit, wrong: await wrongAnswers(copy, questions, original) }).toEqual({ bit, wrong: [] });
      }
    },
  );

  test("the furnished file has rows in every table", async () => {
    const path = await furnishedFile(temporaryFolder());
    const tables = await query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'");
    for (const { name } of tables) {
      const [row] = await query(path, `SELECT count(*) AS n FROM ${String(name)}`);
      expect({ name, isEmpty: row?.n === 0 }).toEqual({ name, isEmpty: false });
    }
  });
});
