// Cases about what goes on beside turns, and who goes on with it.

import assert from "node:assert/strict";
import { workLeaseId } from "../../model/ids.ts";
import type { SessionCommit } from "../../store/contract.ts";
import { A, B, claimed, commitOf, id, inputOf, leaseFor, refused, type StoreCase } from "./store-case.ts";

const WORK = workLeaseId(A);

/** A commit that says that there is work. */
const working = (revision: number, changes: Partial<SessionCommit> = {}): SessionCommit =>
  commitOf(A, revision, { hasWork: true, ids: [`n${revision}`], ...changes });

export const workCases: readonly StoreCase[] = [
  {
    rule: "ST51",
    title:
      "sessions with work are resumable, in the order of their ids, from the commit that says so to the one that denies it",
    run: async ({ store }) => {
      for (const name of ["m", "a", "B"]) await store.commit(commitOf(id(name), 0, { hasWork: true }));
      await store.commit(commitOf(id("idle"), 0));
      await store.commit(commitOf(id("done"), 0, { hasWork: false }));
      await store.admit(inputOf(id("waiting"), "one"));
      assert.deepEqual(await store.resumable(1000), ["B", "a", "m"]);
      await store.commit(commitOf(A, 1));
      await store.commit(commitOf(id("m"), 1, { hasWork: true }));
      assert.deepEqual(await store.resumable(1000), ["B", "a", "m"]);
      await store.commit(commitOf(id("m"), 2, { hasWork: false }));
      assert.deepEqual(await store.resumable(1000), ["B", "a"]);
    },
  },
  {
    rule: "ST51",
    title: "work that somebody has is not resumable until the lease is released or has expired",
    run: async ({ store }) => {
      await store.commit(working(0));
      const generation = await claimed(store, "one", { sessionId: WORK });
      const at = [1000, 1999, 2000].map((now) => store.resumable(now));
      assert.deepEqual(await Promise.all(at), [[], [], ["a"]]);
      await store.renew([{ sessionId: WORK, generation }], leaseFor("one", { expiresAt: 4000 }));
      assert.deepEqual(await store.resumable(3000), []);
      await store.release({ sessionId: WORK, generation });
      assert.deepEqual(await store.resumable(1000), ["a"]);
    },
  },
  {
    rule: "ST51",
    title: "who writes to a session does not matter for its work, nor the other way round",
    run: async ({ store }) => {
      await store.commit(working(0));
      await store.admit(inputOf(A, "one"));
      await claimed(store, "one");
      assert.deepEqual([await store.workable(1000), await store.resumable(1000)], [[], ["a"]]);
      await claimed(store, "two", { sessionId: WORK });
      await claimed(store, "two", { sessionId: workLeaseId(B) });
      assert.deepEqual([await store.workable(2000), await store.resumable(1500)], [["a"], []]);
    },
  },
  {
    rule: "ST51",
    title: "a commit that is refused says nothing about work",
    run: async ({ store }) => {
      await store.commit(working(0));
      await refused(store.commit(commitOf(A, 0, { hasWork: false, operation: "late" })), "revision_conflict");
      await refused(store.commit(commitOf(B, 3, { hasWork: true })), "revision_conflict");
      assert.deepEqual(await store.resumable(1000), ["a"]);
    },
  },
  {
    rule: "ST51",
    title: "a fork and a deleted session have no work",
    run: async ({ store }) => {
      await store.commit(working(0));
      await store.fork({ from: A, as: B });
      assert.deepEqual(await store.resumable(1000), ["a"]);
      await store.delete(A);
      assert.deepEqual(await store.resumable(1000), []);
    },
  },
  {
    rule: "ST51",
    title: "deleting a session ends the lease of whoever goes on with its work, and only that one",
    run: async ({ store }) => {
      await store.commit(working(0));
      const leases = [WORK, workLeaseId(B)];
      for (const sessionId of leases) await claimed(store, "one", { sessionId });
      await store.delete(A);
      const answers = leases.map((sessionId) => store.claim(sessionId, leaseFor("two")));
      assert.deepEqual(
        (await Promise.all(answers)).map(({ kind }) => kind),
        ["claimed", "held"],
      );
    },
  },
  {
    rule: "ST51",
    title: "a store that is opened again knows of work",
    needs: "reopen",
    run: async ({ store, reopen }) => {
      await store.commit(working(0));
      await store.commit(commitOf(B, 0, { hasWork: false }));
      assert.deepEqual(await (await reopen()).resumable(1000), ["a"]);
    },
  },
];
