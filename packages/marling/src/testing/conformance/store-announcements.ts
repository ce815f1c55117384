// Cases about what is told after a commit: announcements, the newest revision, and that somebody else has written.

import assert from "node:assert/strict";
import type { Announcement, Store } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  FIRST,
  hashOf,
  id,
  inputOf,
  journalOf,
  leaseFor,
  loaded,
  node,
  parking,
  record,
  refused,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

async function unannounced(store: Store): Promise<readonly Announcement[]> {
  return (await loaded(store, A)).unannounced;
}

interface Write {
  readonly what: string;
  write(store: Store): Promise<unknown>;
}

const WRITES: readonly Write[] = [
  { what: "a commit", write: (store) => store.commit(commitOf(B, 0)) },
  { what: "an input", write: (store) => store.admit(inputOf(B, "there")) },
  { what: "a claim", write: (store) => store.claim(B, leaseFor("two")) },
  {
    what: "a release",
    write: async (store) => store.release({ sessionId: A, generation: await claimed(store, "one") }),
  },
  {
    what: "a request to end a turn",
    write: (store) => store.cancel({ sessionId: A, turnId: FIRST, reason: "r" }),
  },
  { what: "a wait", write: (store) => store.waits.create(waitOf("new")) },
  { what: "a value", write: (store) => store.waits.resolve(hashOf("w"), "completion", { ok: 1 }) },
  {
    what: "a parking",
    write: async (store) => store.park(parking(await claimed(store, "one"), { due: 5000 })),
  },
  { what: "an announcement that was made", write: (store) => store.announced(A, 1) },
  { what: "a fork", write: (store) => store.fork({ from: A, as: id("fork") }) },
  { what: "a deletion", write: (store) => store.delete(A) },
];

export const announcementCases: readonly StoreCase[] = [
  {
    rule: "ST38",
    title: "a commit that announces nothing leaves nothing to announce",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0));
      assert.deepEqual(await unannounced(store), []);
    },
  },
  {
    rule: "ST38",
    title: "commits to be announced are kept with their turns, oldest first",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { announces: turn("t1") }));
      await store.commit(commitOf(A, 1));
      await store.commit(commitOf(A, 2, { announces: turn("a:turn:3") }));
      await store.commit(commitOf(A, 3, { announces: turn("a:turn:3") }));
      assert.deepEqual(await unannounced(store), [
        { revision: 1, turnId: "t1" },
        { revision: 3, turnId: "a:turn:3" },
        { revision: 4, turnId: "a:turn:3" },
      ]);
    },
  },
  {
    rule: "ST38",
    title: "what was announced is gone; saying it again, or of what never was, changes nothing",
    run: async ({ store }) => {
      for (const revision of [0, 1, 2]) await store.commit(commitOf(A, revision, { announces: turn("t") }));
      await store.announced(A, 2);
      await store.announced(A, 2);
      for (const revision of [0, 4, 99]) await store.announced(A, revision);
      assert.deepEqual(
        (await unannounced(store)).map(({ revision }) => revision),
        [1, 3],
      );
      assert.equal((await loaded(store, A)).revision, 3);
    },
  },
  {
    rule: "ST38",
    title: "a later commit says what was announced, and may be announced itself",
    run: async ({ store }) => {
      for (const revision of [0, 1, 2]) await store.commit(commitOf(A, revision, { announces: turn("t") }));
      await store.commit(commitOf(A, 3, { announced: [1, 3, 77], announces: turn("u") }));
      assert.deepEqual(await unannounced(store), [
        { revision: 2, turnId: "t" },
        { revision: 4, turnId: "u" },
      ]);
    },
  },
  {
    rule: "ST38",
    title: "a commit that is refused neither is to be announced nor says what was",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { announces: turn("t") }));
      const commit = commitOf(A, 7, { announces: turn("u"), announced: [1] });
      await refused(store.commit(commit), "revision_conflict");
      assert.deepEqual(await unannounced(store), [{ revision: 1, turnId: "t" }]);
    },
  },
  {
    rule: "ST38",
    title: "a commit that happens once, asked for again, is not announced again",
    run: async ({ store }) => {
      const commit = commitOf(A, 0, { once: true, announces: turn("t") });
      await store.commit(commit);
      await store.announced(A, 1);
      await store.commit(commit);
      assert.deepEqual(await unannounced(store), []);
    },
  },
  {
    rule: "ST38",
    title: "forks and other sessions have nothing of it to announce",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { ids: ["n1"], announces: turn("t") }));
      await store.commit(commitOf(A, 1, { ids: ["n2"] }));
      await store.commit(commitOf(B, 0));
      assert.deepEqual((await store.fork({ from: A, as: id("f1"), at: node("n1") })).unannounced, []);
      assert.deepEqual((await store.fork({ from: A, as: id("f2") })).unannounced, []);
      await store.announced(B, 1);
      await store.announced(id("f1"), 1);
      assert.deepEqual((await loaded(store, id("f2"))).unannounced, []);
      assert.deepEqual(await unannounced(store), [{ revision: 1, turnId: "t" }]);
    },
  },
  {
    rule: "ST38",
    title: "announcing needs no lease",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { announces: turn("t") }));
      await claimed(store, "one");
      await store.announced(A, 1);
      assert.deepEqual(await unannounced(store), []);
    },
  },
  {
    rule: "ST6",
    title: "the revision is that of the newest commit, and 0 before the first",
    run: async ({ store }) => {
      assert.equal(await store.revision(A), 0);
      await store.admit(inputOf(A, "one"));
      assert.equal(await store.revision(A), 0);
      await store.commit(commitOf(A, 0, { ids: ["n1"] }));
      await store.commit(commitOf(A, 1));
      assert.equal(await store.revision(A), 2);
      await store.fork({ from: A, as: B });
      assert.deepEqual([await store.revision(B), await store.revision(A)], [1, 2]);
    },
  },
  ...WRITES.map(
    ({ what, write }): StoreCase => ({
      rule: "ST39",
      title: `changes moves after ${what} of another store`,
      needs: "second",
      run: async ({ store, second }) => {
        const other = await second();
        await store.admit(inputOf(A, "one"));
        await store.commit(commitOf(A, 0, { announces: turn("t") }));
        await store.waits.create(waitOf("w"));
        const before = await store.changes();
        await write(other);
        assert.notEqual(await store.changes(), before);
      },
    }),
  ),
  {
    rule: "ST39",
    title: "changes moves after a journal append of another store",
    needs: "second",
    run: async ({ store, second }) => {
      const other = await second();
      await store.commit(commitOf(A, 0));
      const before = await store.changes();
      await journalOf(other).append([record("k", "done")]);
      assert.notEqual(await store.changes(), before);
    },
  },
  {
    rule: "ST39",
    title: "reading moves nothing, in this store or another",
    needs: "second",
    run: async ({ store, second }) => {
      const other = await second();
      await store.admit(inputOf(A, "one"));
      await store.commit(commitOf(A, 0));
      await claimed(store, "one");
      const before = await store.changes();
      for (const reader of [store, other]) {
        await reader.changes();
        await reader.load(A);
        await reader.pending(A);
        await reader.workable(1000);
        await reader.find(inputOf(A, "one", { key: "k" }));
        assert.equal((await reader.claim(A, leaseFor("two"))).kind, "held");
      }
      assert.equal(await store.changes(), before);
    },
  },
];
