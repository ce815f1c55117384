// Cases about stores whose data outlives them.

import assert from "node:assert/strict";
import type { Store } from "../../store/contract.ts";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  deliveryTo,
  FIRST,
  hashOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  leaseFor,
  loaded,
  node,
  nodeIds,
  observe,
  parking,
  record,
  refused,
  report,
  type StoreCase,
  turn,
  waitOf,
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
  await store.admit(inputOf(A, "two", { plan: { begins: "here" } }));
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
  reopenCase("ST26", "a generation that was given is never given again", async ({ store, reopen }) => {
    const first = await claimed(store, "one");
    await store.release({ sessionId: A, generation: first });
    const again = await reopen();
    const second = await claimed(again, "two");
    assert.ok(second > first);
    await refused(again.commit(commitOf(A, 0, { lease: first })), "lease_lost");
    assert.equal((await again.commit(commitOf(A, 0, { lease: second }))).revision, 1);
  }),
  reopenCase("ST26", "a lease that was held ends by the claim of another run", async ({ store, reopen }) => {
    const first = await claimed(store, "one");
    const again = await reopen();
    const claim = await again.claim(A, leaseFor("two", { now: 2500, expiresAt: 3500 }));
    assert.ok(claim.kind === "claimed" && claim.generation > first);
    await refused(again.commit(commitOf(A, 0, { lease: first })), "lease_lost");
  }),
  reopenCase("ST26", "waits are there, with values, ends and keys", async ({ store, reopen }) => {
    for (const name of ["open", "done", "over"]) await store.waits.create(waitOf(name));
    await store.waits.create(waitOf("open", { keyHash: hashOf("another key") }));
    await store.waits.resolve(hashOf("done"), "completion", { ok: { value: 1 } });
    await store.waits.end(waitOf("over"));
    const before = await store.waits.read(A, FIRST);
    const { waits } = await reopen();
    assert.deepEqual(await waits.read(A, FIRST), before);
    const statuses = [];
    for (const key of ["done", "over", "another key", "open", "unknown"])
      statuses.push((await waits.resolve(hashOf(key), "completion", { ok: 2 })).status);
    assert.deepEqual(statuses, [
      "already_resolved",
      "already_resolved",
      "resolved",
      "already_resolved",
      "unknown",
    ]);
  }),
  reopenCase("ST26", "parked turns sleep on, and are woken", async ({ store, reopen }) => {
    await store.admit(inputOf(A, "one"));
    await store.waits.create(waitOf("w"));
    await store.park(parking(await claimed(store, "one"), { names: ["w"], due: 5000 }));
    const again = await reopen();
    assert.deepEqual((await again.pending(A))[0]?.parked, { names: ["w"], due: 5000 });
    assert.deepEqual([await again.workable(4999), await again.workable(5000)], [[], ["a"]]);
    await again.waits.resolve(hashOf("w"), "completion", { ok: 1 });
    assert.deepEqual(await again.workable(1000), ["a"]);
  }),
  reopenCase("ST26", "requests to end turns are kept, and hold", async ({ store, reopen }) => {
    await store.admit(inputOf(A, "one"));
    await store.cancel({ sessionId: A, turnId: FIRST, reason: "enough" });
    const again = await reopen();
    assert.deepEqual((await again.pending(A))[0]?.cancel, { reason: "enough" });
    await refused(again.commit(commitOf(A, 0, { settles })), "turn_cancelled");
    assert.equal(await again.cancel({ sessionId: A, turnId: FIRST, reason: "more" }), "already_requested");
  }),
  reopenCase("ST26", "withdrawn inputs stay withdrawn", async ({ store, reopen }) => {
    const input = inputOf(A, "one", { key: "k" });
    const { row } = await store.admit(input);
    const withdrawal = { inputId: row.inputId, report: cancelledReport("gone") };
    await store.withdraw(A, [withdrawal]);
    const again = await reopen();
    assert.deepEqual([await again.pending(A), await again.unsettled()], [[], []]);
    assert.deepEqual((await again.find(input))?.report, cancelledReport("gone"));
    const outcomes = await again.withdraw(A, [withdrawal]);
    assert.deepEqual(outcomes, [{ inputId: row.inputId, status: "already_cancelled" }]);
    assert.equal((await again.admit(inputOf(A, "two"))).row.sequence, 2);
  }),
  reopenCase(
    "ST26",
    "checkpoints get again what they took, and joined inputs stay settled",
    async (bench) => {
      const { store } = bench;
      const joining = inputOf(A, "two", { key: "k", deliver: "active_turn" });
      await store.admit(inputOf(A, "one"));
      await store.admit(joining);
      const taken = await store.deliver(deliveryTo("k1", await claimed(store, "one")));
      const again = await bench.reopen();
      const lease = await claimed(again, "two", { now: 2500, expiresAt: 3500 });
      assert.deepEqual(await again.deliver(deliveryTo("k1", lease, { isReplay: true })), taken);
      await again.commit(commitOf(A, 0, { lease, settles, joins: [inputId("a:input:2")] }));
      const last = await bench.reopen();
      assert.deepEqual((await last.find(joining))?.report, report("done"));
      assert.deepEqual(await last.pending(A), []);
    },
  ),
  reopenCase("ST26", "what was not announced is still to be", async ({ store, reopen }) => {
    for (const revision of [0, 1, 2]) await store.commit(commitOf(A, revision, { announces: turn("t") }));
    await store.announced(A, 2);
    const again = await reopen();
    assert.deepEqual((await loaded(again, A)).unannounced, [
      { revision: 1, turnId: "t" },
      { revision: 3, turnId: "t" },
    ]);
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
