// The rows of the journal: store/sqlite/journal-rows.ts.

import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { A, journalOf, record, turn } from "../../src/testing/conformance/store-case.ts";
import { query, queryAsOlder, temporaryFolder } from "./sqlite-support.ts";

const T = turn("t");
const COUNT = "SELECT count(*) AS n FROM journal";

function opened(path: string): Store {
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  return store;
}

test("[JR4] records that are appended together are one row, and are read one by one", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  const [model, mark, planned] = [
    record("model", "done", { turnId: T, outcome: { text: "words" } }),
    record("one", "started", { turnId: T }),
    record("two", "started", { turnId: T, outcome: null }),
  ];
  await journalOf(store).append([model, mark, planned]);
  expect(await query(path, COUNT)).toEqual([{ n: 1 }]);
  await journalOf(store).append([record("one", "done", { turnId: T, outcome: 1 })]);
  expect(await query(path, COUNT)).toEqual([{ n: 2 }]);
  const read = await journalOf(opened(path)).read(A, T);
  expect(read.map(({ key, status }) => `${status} ${key}`)).toEqual([
    "done model",
    "started one",
    "started two",
    "done one",
  ]);
  expect(read.map((row) => ("outcome" in row ? row.outcome : "none"))).toEqual([
    { text: "words" },
    "none",
    null,
    1,
  ]);
});

test("[JR1] of records that are there already nothing is written again", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  const [mark, done] = [
    record("k", "started", { turnId: T }),
    record("k", "done", { turnId: T, outcome: 1 }),
  ];
  await journalOf(store).append([mark, done]);
  await journalOf(opened(path)).append([mark, record("k", "done", { turnId: T, outcome: 2 })]);
  expect(await query(path, COUNT)).toEqual([{ n: 1 }]);
  expect((await journalOf(store).read(A, T)).map(({ outcome }) => outcome)).toEqual([undefined, 1]);
});

test("[JR4] rows of turns that were appended together go one by one", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  const other = turn("other");
  const records = [T, other].map((turnId) => record("k", "done", { turnId, outcome: 1 }));
  await journalOf(store).append(records);
  expect(await query(path, COUNT)).toEqual([{ n: 2 }]);
  for (const turnId of [T, other]) expect(await journalOf(store).read(A, turnId)).toHaveLength(1);
});

test("[JR4] rows of an earlier version, with one record and its outcome beside it, are read with those of this one", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  await journalOf(store).append([record("model", "started", { turnId: T })]);
  const { no } = (await query(path, "SELECT no FROM sessions"))[0] as { no: number };
  const insert = `INSERT INTO journal (at, entry, outcome) VALUES (${no} << 32 | 2, '["t","model","done"]', '{"n":1}')`;
  await store.close();
  await queryAsOlder(path, insert);
  const read = await journalOf(opened(path)).read(A, T);
  expect(read.map(({ status, outcome }) => [status, outcome])).toEqual([
    ["started", undefined],
    ["done", { n: 1 }],
  ]);
});

test("[JR5] records of every length come back as they were", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  const outcomes = Array.from({ length: 60 }, (_, index) => "ä".repeat(index).padEnd(index * 29, "x"));
  for (const [index, outcome] of outcomes.entries())
    await journalOf(store).append([record(`k${index}`, "done", { turnId: T, outcome })]);
  const read = await journalOf(opened(path)).read(A, T);
  expect(read.map(({ outcome }) => outcome)).toEqual(outcomes);
});

test("[JR5] a record needs no page for the rest of the one before", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = opened(path);
  const logPages = (): number => statSync(`${path}-wal`).size / (512 + 24);
  const costs: number[] = [];
  for (let length = 0; length < 508; length += 20) {
    const turnId = turn(`t${length}`);
    const outcome = "x".repeat(600 + length);
    await journalOf(store).append([record("first", "done", { turnId, outcome })]);
    const before = logPages();
    await journalOf(store).append([record("second", "done", { turnId, outcome })]);
    costs.push(logPages() - before);
  }
  // The header, what rows share with its two new halves at the most, and what is the record's own.
  expect(Math.max(...costs)).toBeLessThanOrEqual(6);
  expect(costs.filter((pages) => pages <= 4).length).toBeGreaterThan(costs.length / 2);
});
