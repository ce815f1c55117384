// Cases about commits that are refused: whatever the cause, nothing changes.

import assert from "node:assert/strict";
import type { ErrorCode } from "../../base/errors.ts";
import type { SessionCommit, Store } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  deliveryTo,
  hashOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  leaseFor,
  node,
  observe,
  record,
  refused,
  report,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

/** Two sessions with everything in them: commits, components, inputs, a journal, waits, a deleted neighbour. Returns the generation of a lease. */
async function furnish(store: Store): Promise<number> {
  await store.admit(inputOf(A, "first", { key: "k1" }));
  await store.admit(inputOf(A, "second", { turnId: turn("t1") }));
  await store.admit(inputOf(A, "third", { deliver: "active_turn" }));
  await store.commit(
    commitOf(A, 0, { ids: ["n1"], components: { plugins: { p: 1 } }, announces: turn("t0") }),
  );
  await store.waits.create(waitOf("w", { turnId: turn("t1") }));
  const generation = await claimed(store, "one");
  await store.deliver(deliveryTo("checkpoint", generation));
  await store.admit(inputOf(B, "other", { key: "kb" }));
  await store.commit(commitOf(B, 0, { ids: ["m1"] }));
  await store.journal?.append([record("k", "done", { outcome: { kept: true } })]);
  await store.delete(id("gone"));
  return generation;
}

/** A commit that changes everything it can. */
function everything(changes: Partial<SessionCommit>): SessionCommit {
  return commitOf(A, 1, {
    operation: "everything",
    once: true,
    nodes: [{ id: "n2", kind: "message" }],
    head: head({ turnIndex: 9, leaf: node("n2"), frames: [], operations: 9, parentSessionId: "b" }),
    components: { plugins: { p: 2 }, tools: { t: 1 } },
    settles: { inputId: inputId("a:input:1"), report: report("done") },
    joins: [inputId("a:input:3")],
    forgets: [turn("t1")],
    releases: true,
    announces: turn("t2"),
    announced: [1],
    enqueues: [
      inputOf(A, "enqueued here"),
      inputOf(B, "enqueued there"),
      inputOf(id("new"), "enqueued elsewhere"),
    ],
    ...changes,
  });
}

const CAUSES: readonly (readonly [title: string, code: ErrorCode, changes: Partial<SessionCommit>])[] = [
  ["another revision", "revision_conflict", { expectedRevision: 0 }],
  ["a revision to come", "revision_conflict", { expectedRevision: 2 }],
  ["a generation that its lease does not have", "lease_lost", { lease: 7 }],
  [
    "an enqueued input whose key has other content",
    "idempotency_conflict",
    { enqueues: [inputOf(B, "fine"), inputOf(B, "not the other", { key: "kb" })] },
  ],
  [
    "an enqueued input whose turn id has other content",
    "idempotency_conflict",
    { enqueues: [inputOf(A, "not the second", { turnId: turn("t1") })] },
  ],
  [
    "two enqueued inputs of one key with different content",
    "idempotency_conflict",
    { enqueues: [inputOf(B, "one", { key: "new" }), inputOf(B, "two", { key: "new" })] },
  ],
  [
    "an enqueued input of a deleted session",
    "session_deleted",
    { enqueues: [inputOf(B, "fine"), inputOf(id("gone"), "too late")] },
  ],
];

export const refusalCases: readonly StoreCase[] = [
  ...CAUSES.map(
    ([title, code, changes]): StoreCase => ({
      rule: "ST14",
      title: `nothing changes when a commit is refused for ${title}, and its operation can be committed after it`,
      run: async ({ store }) => {
        const lease = await furnish(store);
        const before = await observe(store, A, B, id("new"));
        await refused(store.commit(everything({ lease, ...changes })), code);
        assert.deepEqual(await observe(store, A, B, id("new")), before);
        assert.equal((await store.commit(everything({ lease }))).revision, 2);
      },
    }),
  ),
  {
    rule: "ST14",
    title: "a refused first commit leaves no session behind",
    run: async ({ store }) => {
      await store.delete(id("gone"));
      const commit = commitOf(A, 0, { ids: ["n1"], enqueues: [inputOf(id("gone"), "too late")] });
      await refused(store.commit(commit), "session_deleted");
      assert.deepEqual(
        [await store.load(A), await store.exists(A), (await store.list({})).items],
        [undefined, false, []],
      );
      assert.equal((await store.commit(commitOf(A, 0))).revision, 1);
    },
  },
  {
    rule: "ST14",
    title: "a commit that succeeds changes all of it",
    run: async ({ store }) => {
      const lease = await furnish(store);
      const { enqueued } = await store.commit(everything({ lease }));
      assert.deepEqual(
        enqueued.map(({ inputId }) => inputId),
        ["a:input:4", "b:input:2", "new:input:1"],
      );
      const session = await store.load(A);
      assert.deepEqual(session?.components, { plugins: { p: 2 }, tools: { t: 1 } });
      assert.equal(session?.head.turnIndex, 9);
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence }) => sequence),
        [2, 4],
      );
      assert.deepEqual(session?.unannounced, [{ revision: 2, turnId: "t2" }]);
      assert.equal(
        (await store.waits.resolve(hashOf("w"), "completion", { ok: 1 })).status,
        "already_resolved",
      );
      assert.equal((await store.claim(A, leaseFor("two"))).kind, "claimed");
      assert.deepEqual([...(await store.unsettled())].sort(), ["a", "b", "new"]);
    },
  },
  {
    rule: "ST14",
    title: "a journal stays when the commit that forgets it is refused",
    needs: "journal",
    run: async ({ store }) => {
      const journal = journalOf(store);
      await journal.append([record("k", "done", { outcome: 1 })]);
      await refused(store.commit(commitOf(A, 7, { forgets: [turn("t1")] })), "revision_conflict");
      assert.deepEqual(await journal.read(A, turn("t1")), [record("k", "done", { outcome: 1 })]);
    },
  },
  {
    rule: "ST25",
    title: "a commit that is refused does not fail those of the same moment",
    run: async ({ store }) => {
      const settled = await Promise.allSettled([
        store.commit(commitOf(A, 0)),
        store.commit(commitOf(id("c"), 3)),
        store.admit(inputOf(A, "input")),
        store.commit(commitOf(B, 0)),
        store.fork({ from: id("nobody"), as: id("d") }),
        store.blobs.put(Uint8Array.of(1)),
      ]);
      const statuses = settled.map(({ status }) => status);
      assert.deepEqual(statuses, [
        "fulfilled",
        "rejected",
        "fulfilled",
        "fulfilled",
        "rejected",
        "fulfilled",
      ]);
      assert.deepEqual(
        (await store.list({})).items.map((item) => item.id),
        ["a", "b"],
      );
    },
  },
  {
    rule: "ST25",
    title: "200 sessions are committed at once",
    run: async ({ store }) => {
      const ids = Array.from({ length: 200 }, (_, index) => id(`s${String(index).padStart(3, "0")}`));
      await Promise.all(ids.map((sessionId) => store.admit(inputOf(sessionId, `input of ${sessionId}`))));
      await Promise.all(
        ids.map((sessionId) => store.commit(commitOf(sessionId, 0, { ids: [`${sessionId}/n`] }))),
      );
      const pages = await store.list({ limit: 500 });
      assert.equal(pages.items.length, 200);
      assert.deepEqual(
        (await store.load(id("s123")))?.nodes.map((item) => item.id),
        ["s123/n"],
      );
      assert.deepEqual(
        (await store.pending(id("s077"))).map(({ submitted }) => submitted),
        [{ text: "input of s077" }],
      );
    },
  },
];
