// Cases about stores whose data outlives them.

import assert from "node:assert/strict";
import type { Store } from "../../store/contract.ts";
import {
  A,
  B,
  commitOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  loaded,
  node,
  nodeIds,
  observe,
  record,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

function reopenCase(rule: string, title: string, run: StoreCase["run"]): StoreCase {
  return { rule, title, needs: "reopen", run };
}

const settles = { inputId: inputId("a:input:1"), report: report("done") };
const advances = { inputId: inputId("a:input:2"), progress: { at: 1 } };
const components = { plugins: { p: 1 } };
const TURN = commitOf(A, 0, { once: true, operation: "a:turn:1", ids: ["n1", "n2"], components, settles });
const PART = commitOf(A, 1, { once: true, operation: "part", ids: ["n3"], advances });

async function furnish(store: Store): Promise<void> {
  await store.admit(inputOf(A, "one", { key: "k" }));
  await store.admit(inputOf(A, "two"));
  await store.commit(TURN);
  await store.commit(PART);
  await store.fork({ from: A, as: B, at: node("n2") });
  await store.commit(commitOf(id("gone"), 0));
  await store.delete(id("gone"));
}

export const reopenCases: readonly StoreCase[] = [
  reopenCase("ST26", "sessions, inputs and lists are as before", async ({ store, reopen }) => {
    await furnish(store);
    const before = await observe(store, A, B);
    const again = await reopen();
    assert.deepEqual(await observe(again, A, B), before);
    assert.equal(again.isDurable, true);
  }),
  reopenCase("ST26", "commits go on where they were", async ({ store, reopen }) => {
    const frames = [{ id: "f1" }, { id: "f2" }];
    await store.commit(commitOf(A, 0, { ids: ["n1"], head: head({ frames, leaf: node("n1") }) }));
    const again = await reopen();
    await refused(again.commit(commitOf(A, 0, { operation: "stale" })), "revision_conflict");
    const next = head({ frames: [...frames, { id: "f3" }], leaf: node("n2") });
    assert.equal((await again.commit(commitOf(A, 1, { ids: ["n2"], head: next }))).revision, 2);
    assert.deepEqual((await loaded(again, A)).head, next);
    assert.deepEqual(await nodeIds(again, A), ["n1", "n2"]);
  }),
  reopenCase("ST26", "operations, keys and turn ids are remembered", async ({ store, reopen }) => {
    await furnish(store);
    const again = await reopen();
    assert.equal((await again.commit(TURN)).revision, 1);
    assert.equal((await again.commit(PART)).revision, 2);
    await refused(again.commit({ ...PART, nodes: [] }), "revision_conflict");
    const { status, row } = await again.admit(inputOf(A, "one", { key: "k" }));
    assert.deepEqual([status, row.report], ["duplicate", report("done")]);
    assert.equal((await again.admit(inputOf(A, "three"))).row.sequence, 3);
  }),
  reopenCase("ST26", "retired ids stay retired", async ({ store, reopen }) => {
    await furnish(store);
    const again = await reopen();
    await refused(again.commit(commitOf(id("gone"), 0)), "session_deleted");
  }),
  reopenCase("ST26", "forks go on, and survive their source", async ({ store, reopen }) => {
    await furnish(store);
    const again = await reopen();
    await again.delete(A);
    await again.commit(commitOf(B, 1, { ids: ["b1"] }));
    assert.deepEqual(await nodeIds(again, B), ["n1", "n2", "b1"]);
    assert.deepEqual((await loaded(again, B)).components, { plugins: { p: 1 } });
  }),
  reopenCase("ST26", "blobs are there", async ({ store, reopen }) => {
    const ref = await store.blobs.put(Uint8Array.of(1, 2, 3));
    assert.deepEqual(Array.from((await (await reopen()).blobs.get(ref)) ?? []), [1, 2, 3]);
  }),
  reopenCase("ST26", "journals are there, and first outcomes still win", async ({ store, reopen }) => {
    const records = [record("k1", "started"), record("k1", "done", { outcome: 1 }), record("k2", "started")];
    await journalOf(store).append(records);
    const again = journalOf(await reopen());
    await again.append([record("k1", "done", { outcome: 2 }), record("k2", "done", { outcome: 3 })]);
    assert.deepEqual(await again.read(A, turn("t1")), [...records, record("k2", "done", { outcome: 3 })]);
  }),
  reopenCase("ST26", "what was asked for before closing is done", async ({ store, reopen }) => {
    const writes = Array.from({ length: 20 }, (_, index) => store.admit(inputOf(A, `input ${index}`)));
    const again = await reopen();
    await Promise.all(writes);
    assert.equal((await again.pending(A)).length, 20);
  }),
  {
    rule: "ST27",
    title: "closing twice is closing once",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0));
      await store.close();
      await store.close();
    },
  },
  {
    rule: "ST27",
    title: "a store that was never used can be closed",
    run: async ({ store }) => store.close(),
  },
];
