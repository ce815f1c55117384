// Cases about journals, for stores that have one.

import assert from "node:assert/strict";
import type { JournalRecord } from "../../model/journal.ts";
import { A, B, commitOf, journalOf, record, refused, type StoreCase, turn } from "./store-case.ts";

const T1 = turn("t1");
const T2 = turn("t2");

function journalCase(rule: string, title: string, run: StoreCase["run"]): StoreCase {
  return { rule, title, needs: "journal", run };
}

export const journalCases: readonly StoreCase[] = [
  journalCase("ST21", "a turn without records has none", async ({ store }) => {
    assert.deepEqual(await journalOf(store).read(A, T1), []);
    assert.equal(await store.load(A), undefined);
  }),
  journalCase("ST21", "records come back in order, with their outcomes", async ({ store }) => {
    const journal = journalOf(store);
    const records: readonly JournalRecord[] = [
      record("0.model", "started"),
      record("0.model", "done", { outcome: { kind: "response", parts: [] } }),
      record("z", "done", { outcome: null }),
      record("a", "done"),
      record("1.tool", "started", { outcome: [1] }),
    ];
    await journal.append(records.slice(0, 2));
    await journal.append(records.slice(2));
    assert.deepEqual(await journal.read(A, T1), records);
  }),
  journalCase("ST21", "appends of one moment are all there, each whole", async ({ store }) => {
    const journal = journalOf(store);
    const keys = Array.from({ length: 30 }, (_, index) => `k${String(index).padStart(2, "0")}`);
    await Promise.all(
      keys.map((key) => journal.append([record(key, "started"), record(key, "done", { outcome: key })])),
    );
    const found = await journal.read(A, T1);
    assert.deepEqual(found.map(({ key, status }) => `${key} ${status}`).toSorted(), [
      ...keys.flatMap((key) => [`${key} done`, `${key} started`]),
    ]);
    for (const [index, { key, status }] of found.entries())
      if (status === "started") assert.deepEqual(found[index + 1], record(key, "done", { outcome: key }));
  }),
  journalCase("ST21", "one append may have records of several turns", async ({ store }) => {
    const journal = journalOf(store);
    const records = [record("k", "done", { outcome: 1 }), record("k", "done", { turnId: "t2", outcome: 2 })];
    await journal.append(records);
    await journal.append([record("k", "done", { sessionId: B, outcome: 3 })]);
    const found = [
      await journal.read(A, T1),
      await journal.read(A, T2),
      await journal.read(B, T1),
      await journal.read(B, T2),
    ];
    assert.deepEqual(found, [
      [records[0]],
      [records[1]],
      [record("k", "done", { sessionId: B, outcome: 3 })],
      [],
    ]);
  }),
  journalCase("ST21", "an append that is refused leaves nothing behind", async ({ store }) => {
    const journal = journalOf(store);
    await refused(journal.append([record("k1", "done"), record("k2", "done")], 7), "lease_lost");
    assert.deepEqual(await journal.read(A, T1), []);
    await journal.append([record("k1", "done", { outcome: "first" })]);
    assert.deepEqual(await journal.read(A, T1), [record("k1", "done", { outcome: "first" })]);
  }),
  journalCase("ST21", "appending nothing is fine", async ({ store }) => {
    await journalOf(store).append([]);
    assert.deepEqual(await journalOf(store).read(A, T1), []);
  }),
  journalCase("ST21", "large outcomes and odd keys come back", async ({ store }) => {
    const records = [
      record("it's/👩‍👧", "done", { outcome: { large: "x".repeat(1 << 20) } }),
      record("\ud83d", "done"),
      record("__proto__", "done"),
    ];
    await journalOf(store).append(records);
    assert.deepEqual(await journalOf(store).read(A, T1), records);
  }),
  journalCase("ST22", "the first outcome of a key is kept", async ({ store }) => {
    const journal = journalOf(store);
    await journal.append([record("k", "done", { outcome: "first" })]);
    await journal.append([record("k", "done", { outcome: "second" })]);
    assert.deepEqual(await journal.read(A, T1), [record("k", "done", { outcome: "first" })]);
  }),
  journalCase("ST22", "the first outcome of a key in one append is kept", async ({ store }) => {
    const journal = journalOf(store);
    await journal.append([record("k", "done", { outcome: 1 }), record("k", "done", { outcome: 2 })]);
    assert.deepEqual(await journal.read(A, T1), [record("k", "done", { outcome: 1 })]);
  }),
  journalCase("ST22", "one of several outcomes of one moment is kept, and stays", async ({ store }) => {
    const journal = journalOf(store);
    await Promise.all([3, 4].map((outcome) => journal.append([record("l", "done", { outcome })])));
    const found = await journal.read(A, T1);
    assert.equal(found.length, 1);
    await journal.append([record("l", "done", { outcome: 5 })]);
    assert.deepEqual(await journal.read(A, T1), found);
  }),
  journalCase("ST22", "a key starts once, and not after it is done", async ({ store }) => {
    const journal = journalOf(store);
    await journal.append([
      record("k", "started"),
      record("k", "started"),
      record("k", "done", { outcome: 1 }),
      record("k", "started"),
    ]);
    assert.deepEqual(await journal.read(A, T1), [
      record("k", "started"),
      record("k", "done", { outcome: 1 }),
    ]);
  }),
  journalCase("ST22", "the same key of another turn or session is another key", async ({ store }) => {
    const journal = journalOf(store);
    await journal.append([record("k", "done", { outcome: 1 })]);
    await journal.append([record("k", "done", { turnId: "t2", outcome: 2 })]);
    assert.deepEqual(
      (await journal.read(A, T2)).map(({ outcome }) => outcome),
      [2],
    );
  }),
  journalCase(
    "ST23",
    "a commit removes the journals of the turns that it forgets, and of no others",
    async ({ store }) => {
      const journal = journalOf(store);
      await journal.append(["t1", "t2", "t3"].map((turnId) => record("k", "done", { turnId })));
      await journal.append([record("k", "done", { sessionId: B })]);
      await store.commit(commitOf(A, 0, { forgets: [T1, turn("t3"), turn("unknown")] }));
      assert.deepEqual(await journal.read(A, T1), []);
      assert.equal((await journal.read(A, T2)).length, 1);
      assert.deepEqual(await journal.read(A, turn("t3")), []);
      assert.equal((await journal.read(B, T1)).length, 1);
    },
  ),
  journalCase("ST23", "a commit that forgets nothing removes nothing", async ({ store }) => {
    await journalOf(store).append([record("k", "done")]);
    await store.commit(commitOf(A, 0));
    await store.commit(commitOf(A, 1, { forgets: [] }));
    assert.equal((await journalOf(store).read(A, T1)).length, 1);
  }),
  journalCase("ST23", "a turn that was forgotten may write again", async ({ store }) => {
    const journal = journalOf(store);
    await journal.append([record("k", "done", { outcome: 1 })]);
    await store.commit(commitOf(A, 0, { forgets: [T1] }));
    await journal.append([record("k", "done", { outcome: 2 })]);
    assert.deepEqual(await journal.read(A, T1), [record("k", "done", { outcome: 2 })]);
  }),
  journalCase("ST23", "a commit that happens once, asked for again, forgets nothing", async ({ store }) => {
    const journal = journalOf(store);
    await store.commit(commitOf(A, 0, { once: true, forgets: [T1] }));
    await journal.append([record("k", "done")]);
    await store.commit(commitOf(A, 0, { once: true, forgets: [T1] }));
    assert.equal((await journal.read(A, T1)).length, 1);
  }),
];
