// Cases about inputs that join the turn that runs: delivered to its checkpoints, settled with it.

import assert from "node:assert/strict";
import { effectKey } from "../../model/ids.ts";
import type { InboxRow, Store } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  deliveryTo,
  FIRST,
  inputId,
  inputOf,
  observe,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

const JOINS = { deliver: "active_turn" } as const;
const settles = { inputId: inputId("a:input:1"), report: report("done") };

/** The input of a turn, and a lease for it; `texts` are to join it. */
async function running(store: Store, ...texts: readonly string[]): Promise<number> {
  await store.admit(inputOf(A, "one"));
  for (const text of texts) await store.admit(inputOf(A, text, JOINS));
  return claimed(store, "one");
}

function sequences(rows: readonly InboxRow[]): readonly number[] {
  return rows.map(({ sequence }) => sequence);
}

export const queueCases: readonly StoreCase[] = [
  {
    rule: "ST33",
    title: "how an input is to be delivered is kept with it",
    run: async ({ store }) => {
      const input = inputOf(A, "joins", { ...JOINS, key: "k" });
      assert.equal((await store.admit(input)).row.deliver, "active_turn");
      assert.equal((await store.admit(inputOf(A, "plain"))).row.deliver, undefined);
      const { enqueued } = await store.commit(commitOf(A, 0, { enqueues: [inputOf(A, "sent", JOINS)] }));
      assert.equal(enqueued[0]?.deliver, "active_turn");
      assert.deepEqual(
        (await store.pending(A)).map(({ deliver }) => deliver),
        ["active_turn", undefined, "active_turn"],
      );
      assert.deepEqual(
        (await store.pending(A, "active_turn")).map(({ sequence, deliver }) => [sequence, deliver]),
        [
          [1, "active_turn"],
          [3, "active_turn"],
        ],
      );
      assert.equal((await store.find(input))?.deliver, "active_turn");
    },
  },
  {
    rule: "ST33",
    title: "a checkpoint gets what is to join the turn, in order and whole, and nothing else",
    run: async ({ store }) => {
      const generation = await running(store, "two", "three");
      await store.admit(inputOf(A, "four"));
      await store.commit(commitOf(B, 0, { enqueues: [inputOf(A, "five", JOINS)] }));
      const rows = await store.deliver(deliveryTo("k1", generation));
      assert.deepEqual(
        rows.map(({ sequence, input }) => [sequence, input]),
        [
          [2, { text: "two" }],
          [3, { text: "three" }],
          [5, { text: "five" }],
        ],
      );
      for (const row of rows) assert.deepEqual(row.claimed, { turnId: FIRST, key: "k1" });
    },
  },
  {
    rule: "ST33",
    title: "what was taken stays pending, and shows who took it",
    run: async ({ store }) => {
      const generation = await running(store, "two");
      await store.admit(inputOf(A, "three"));
      await store.deliver(deliveryTo("k1", generation));
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence, claimed: by }) => [sequence, by]),
        [
          [1, undefined],
          [2, { turnId: FIRST, key: "k1" }],
          [3, undefined],
        ],
      );
    },
  },
  {
    rule: "ST33",
    title: "the same checkpoint gets the same again, whatever came meanwhile",
    run: async ({ store }) => {
      const generation = await running(store, "two", "three");
      const first = await store.deliver(deliveryTo("k1", generation));
      await store.admit(inputOf(A, "four", JOINS));
      assert.deepEqual(await store.deliver(deliveryTo("k1", generation)), first);
      assert.deepEqual(await store.deliver(deliveryTo("k1", generation, { isReplay: true })), first);
      assert.deepEqual(sequences(await store.deliver(deliveryTo("k2", generation))), [4]);
      assert.deepEqual(await store.deliver(deliveryTo("k1", generation)), first);
      assert.deepEqual(sequences(await store.deliver(deliveryTo("k2", generation))), [4]);
      assert.deepEqual(await store.deliver(deliveryTo("k3", generation)), []);
    },
  },
  {
    rule: "ST33",
    title: "where turns run without leases, checkpoints get what is to join them all the same",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two", JOINS));
      const request = { sessionId: A, turnId: FIRST, key: effectKey("k1"), generation: undefined };
      const rows = await store.deliver({ ...request, isReplay: false });
      assert.deepEqual(sequences(rows), [2]);
      assert.deepEqual(await store.deliver({ ...request, isReplay: true }), rows);
      await store.commit(commitOf(A, 0, { settles, joins: [inputId("a:input:2")] }));
      assert.deepEqual(await store.pending(A), []);
    },
  },
  {
    rule: "ST33",
    title: "a replay takes nothing new",
    run: async ({ store }) => {
      const generation = await running(store, "two");
      const before = await observe(store, A);
      assert.deepEqual(await store.deliver(deliveryTo("k1", generation, { isReplay: true })), []);
      assert.deepEqual(await observe(store, A), before);
      assert.deepEqual(sequences(await store.deliver(deliveryTo("k1", generation))), [2]);
    },
  },
  {
    rule: "ST33",
    title: "whoever takes the turn over gets what its checkpoints took",
    run: async ({ store }) => {
      const generation = await running(store, "two");
      await store.deliver(deliveryTo("k1", generation));
      const next = await claimed(store, "two", { now: 2500, expiresAt: 3500 });
      const request = deliveryTo("k1", next, { isReplay: true });
      assert.deepEqual(sequences(await store.deliver(request)), [2]);
    },
  },
  {
    rule: "ST33",
    title: "the input that the turn is of does not join it",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "came too late for another turn", JOINS));
      await store.admit(inputOf(A, "two", JOINS));
      const generation = await claimed(store, "one");
      assert.deepEqual(sequences(await store.deliver(deliveryTo("k1", generation))), [2]);
    },
  },
  {
    rule: "ST33",
    title: "a session without inputs has nothing to deliver, and others' stay where they are",
    run: async ({ store }) => {
      await store.admit(inputOf(B, "there", JOINS));
      const generation = await claimed(store, "one");
      assert.deepEqual(await store.deliver(deliveryTo("k1", generation)), []);
      assert.equal((await store.pending(B))[0]?.claimed, undefined);
    },
  },
  {
    rule: "ST33",
    title: "checkpoints that ask at once share nothing, and nothing is left out",
    run: async ({ store }) => {
      const generation = await running(store, "two", "three", "four");
      const taken = await Promise.all(
        ["k1", "k2", "k3"].map((key) => store.deliver(deliveryTo(key, generation))),
      );
      assert.deepEqual(taken.flatMap(sequences).toSorted(), [2, 3, 4]);
    },
  },
  {
    rule: "ST33",
    title: "inputs that a commit joins are settled with its report, and found with it",
    run: async ({ store }) => {
      const generation = await running(store);
      const joining = inputOf(A, "two", { ...JOINS, key: "k" });
      await store.admit(joining);
      await store.admit(inputOf(A, "three", JOINS));
      await store.deliver(deliveryTo("k1", generation));
      const joins = [inputId("a:input:2"), inputId("a:input:3")];
      await store.commit(commitOf(A, 0, { lease: generation, settles, joins }));
      assert.deepEqual([await store.pending(A), await store.unsettled()], [[], []]);
      const { status, row } = await store.admit(joining);
      assert.deepEqual(
        [status, row.report, row.turnId, row.sequence],
        ["duplicate", report("done"), "a:turn:2", 2],
      );
    },
  },
  {
    rule: "ST33",
    title: "only what this turn has taken is joined; others are left alone",
    run: async ({ store }) => {
      const generation = await running(store, "two");
      await store.deliver(deliveryTo("k1", generation, { turnId: turn("a:turn:9") }));
      await store.admit(inputOf(A, "three", JOINS));
      await store.admit(inputOf(A, "four"));
      await store.admit(inputOf(B, "there", JOINS));
      const joins = ["a:input:2", "a:input:3", "a:input:4", "b:input:1", "nonsense"].map(inputId);
      await store.commit(commitOf(A, 0, { lease: generation, settles, joins }));
      const pending = await store.pending(A);
      assert.deepEqual(sequences(pending), [2, 3, 4]);
      assert.deepEqual(
        pending.map(({ claimed: by }) => by),
        [{ turnId: "a:turn:9", key: "k1" }, undefined, undefined],
      );
      assert.equal((await store.pending(B)).length, 1);
    },
  },
  {
    rule: "ST33",
    title: "what a turn took and did not join is free when the turn is settled",
    run: async ({ store }) => {
      const generation = await running(store, "two", "three");
      await store.deliver(deliveryTo("k1", generation));
      const commit = commitOf(A, 0, { lease: generation, settles, joins: [inputId("a:input:3")] });
      await store.commit(commit);
      const pending = await store.pending(A);
      assert.deepEqual(
        pending.map(({ sequence, claimed: by, report: end }) => [sequence, by, end]),
        [[2, undefined, undefined]],
      );
      await store.admit(inputOf(A, "four", JOINS));
      const request = deliveryTo("k1", generation, { turnId: turn("a:turn:4") });
      assert.deepEqual(sequences(await store.deliver(request)), [2]);
    },
  },
  {
    rule: "ST33",
    title: "a commit that only brings the turn further, or is beside it, keeps what was taken",
    run: async ({ store }) => {
      const lease = await running(store, "two");
      const taken = await store.deliver(deliveryTo("k1", lease));
      await store.commit(commitOf(A, 0, { lease, advances: { inputId: settles.inputId, progress: 1 } }));
      await store.commit(commitOf(A, 1, { lease, ids: ["n1"] }));
      assert.deepEqual(await store.deliver(deliveryTo("k1", lease)), taken);
    },
  },
  {
    rule: "ST33",
    title: "a commit that is refused joins nothing",
    run: async ({ store }) => {
      const lease = await running(store, "two");
      await store.deliver(deliveryTo("k1", lease));
      const before = await observe(store, A);
      const joins = [inputId("a:input:2")];
      await refused(store.commit(commitOf(A, 5, { lease, settles, joins })), "revision_conflict");
      assert.deepEqual(await observe(store, A), before);
    },
  },
  {
    rule: "ST33",
    title: "an input that joined is settled for good",
    run: async ({ store }) => {
      const lease = await running(store);
      const joining = inputOf(A, "two", { ...JOINS, key: "k" });
      await store.admit(joining);
      await store.deliver(deliveryTo("k1", lease));
      const own = inputId("a:input:2");
      await store.commit(commitOf(A, 0, { lease, settles, joins: [own] }));
      await store.commit(commitOf(A, 1, { lease, settles: { inputId: own, report: report("other") } }));
      assert.deepEqual((await store.find(joining))?.report, report("done"));
    },
  },
  {
    rule: "ST33",
    title: "a commit that joins and happens once, asked for again, joins nothing more",
    run: async ({ store }) => {
      const lease = await running(store, "two");
      await store.deliver(deliveryTo("k1", lease));
      const joins = [inputId("a:input:2")];
      const commit = commitOf(A, 0, { once: true, operation: FIRST, lease, settles, joins });
      const first = await store.commit(commit);
      await store.admit(inputOf(A, "three", JOINS));
      await store.deliver(deliveryTo("k2", lease));
      assert.deepEqual(await store.commit(commit), first);
      assert.deepEqual(sequences(await store.pending(A)), [3]);
    },
  },
];
