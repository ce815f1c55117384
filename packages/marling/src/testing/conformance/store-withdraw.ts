// Cases about inputs that are taken out of the inbox before a turn has them.

import assert from "node:assert/strict";
import type { Store, Withdrawal, WithdrawOutcome } from "../../store/contract.ts";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  deliveryTo,
  id,
  inputId,
  inputOf,
  observe,
  parking,
  refused,
  report,
  type StoreCase,
} from "./store-case.ts";

const GONE = cancelledReport("withdrawn");

function withdrawalOf(sequence: number): Withdrawal {
  return { inputId: inputId(`a:input:${sequence}`), report: GONE };
}

async function withdraw(
  store: Store,
  ...numbers: readonly number[]
): Promise<readonly WithdrawOutcome["status"][]> {
  const outcomes = await store.withdraw(A, numbers.map(withdrawalOf));
  assert.deepEqual(
    outcomes.map((outcome) => outcome.inputId),
    numbers.map((sequence) => `a:input:${sequence}`),
  );
  return outcomes.map(({ status }) => status);
}

async function pendingSequences(store: Store): Promise<readonly number[]> {
  return (await store.pending(A)).map(({ sequence }) => sequence);
}

export const withdrawCases: readonly StoreCase[] = [
  {
    rule: "ST35",
    title: "a withdrawn input is not pending, and is found with the report that it was given",
    run: async ({ store }) => {
      const input = inputOf(A, "two", { key: "k" });
      await store.admit(inputOf(A, "one"));
      await store.admit(input);
      assert.deepEqual(await withdraw(store, 2), ["cancelled"]);
      assert.deepEqual(await pendingSequences(store), [1]);
      assert.deepEqual((await store.find(input))?.report, GONE);
      const { status, row } = await store.admit(input);
      assert.deepEqual([status, row.sequence, row.report], ["duplicate", 2, GONE]);
      await refused(store.admit(inputOf(A, "other", { key: "k" })), "idempotency_conflict");
    },
  },
  {
    rule: "ST35",
    title: "a session whose inputs were withdrawn has nothing unsettled, and nothing to go on with",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await withdraw(store, 1);
      assert.deepEqual(
        [await store.unsettled(), await store.workable(1e12), await store.pending(A)],
        [[], [], []],
      );
      assert.equal(await store.load(A), undefined);
    },
  },
  {
    rule: "ST35",
    title: "outcomes are in the order of the request, each for itself",
    run: async ({ store }) => {
      for (const text of ["one", "two", "three", "four", "five"]) await store.admit(inputOf(A, text));
      const settles = { inputId: inputId("a:input:2"), report: report("done") };
      await store.commit(commitOf(A, 0, { settles }));
      const advances = { inputId: inputId("a:input:3"), progress: 1 };
      await store.commit(commitOf(A, 1, { advances }));
      await withdraw(store, 4);
      assert.deepEqual(await withdraw(store, 5, 2, 9, 4, 3, 1, 5), [
        "cancelled",
        "already_completed",
        "unknown",
        "already_cancelled",
        "already_claimed",
        "cancelled",
        "already_cancelled",
      ]);
      assert.deepEqual(await pendingSequences(store), [3]);
    },
  },
  {
    rule: "ST35",
    title: "inputs of other sessions, and of sessions of which nobody has heard, are unknown",
    run: async ({ store }) => {
      await store.admit(inputOf(B, "there"));
      const outcomes = [
        ...(await store.withdraw(A, [{ inputId: inputId("b:input:1"), report: GONE }])),
        ...(await store.withdraw(id("nobody"), [withdrawalOf(1)])),
      ];
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ["unknown", "unknown"],
      );
      assert.equal((await store.pending(B)).length, 1);
      assert.deepEqual(await store.withdraw(A, []), []);
    },
  },
  {
    rule: "ST35",
    title: "the first pending input belongs to whoever holds the lease; the others can be withdrawn",
    run: async ({ store }) => {
      for (const text of ["one", "two", "three"]) await store.admit(inputOf(A, text));
      const generation = await claimed(store, "one");
      assert.deepEqual(await withdraw(store, 1, 2), ["already_claimed", "cancelled"]);
      const settles = { inputId: inputId("a:input:1"), report: report("done") };
      await store.commit(commitOf(A, 0, { lease: generation, settles }));
      assert.deepEqual(await withdraw(store, 3), ["already_claimed"]);
      await store.release({ sessionId: A, generation });
      assert.deepEqual(await withdraw(store, 3), ["cancelled"]);
    },
  },
  {
    rule: "ST35",
    title: "what a checkpoint took cannot be withdrawn, until it is free again",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two", { deliver: "active_turn" }));
      const lease = await claimed(store, "one");
      await store.deliver(deliveryTo("k1", lease));
      assert.deepEqual(await withdraw(store, 2), ["already_claimed"]);
      const settles = { inputId: inputId("a:input:1"), report: report("done") };
      await store.commit(commitOf(A, 0, { lease, settles, releases: true }));
      assert.deepEqual(await withdraw(store, 2), ["cancelled"]);
    },
  },
  {
    rule: "ST35",
    title: "a turn that sleeps, or came part of its way, cannot be withdrawn, though nobody holds the lease",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.park(parking(await claimed(store, "one"), { due: 5000 }));
      assert.deepEqual(await withdraw(store, 1), ["already_claimed"]);
      const advances = { inputId: inputId("a:input:1"), progress: { part: 1 } };
      await store.commit(commitOf(A, 0, { advances }));
      assert.deepEqual(await withdraw(store, 1), ["already_claimed"]);
    },
  },
  {
    rule: "ST35",
    title: "an input that joined a turn is completed",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two", { deliver: "active_turn" }));
      const lease = await claimed(store, "one");
      await store.deliver(deliveryTo("k1", lease));
      const settles = { inputId: inputId("a:input:1"), report: report("done") };
      await store.commit(commitOf(A, 0, { lease, settles, joins: [inputId("a:input:2")] }));
      assert.deepEqual(await withdraw(store, 1, 2), ["already_completed", "already_completed"]);
    },
  },
  {
    rule: "ST35",
    title: "a turn that was asked to end and has not begun can be withdrawn",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one"));
      await store.cancel({ sessionId: A, turnId: row.turnId, reason: "enough" });
      assert.deepEqual(await withdraw(store, 1), ["cancelled"]);
    },
  },
  {
    rule: "ST35",
    title: "a withdrawn input stays withdrawn: nothing settles, advances, delivers or joins it",
    run: async ({ store }) => {
      const input = inputOf(A, "two", { key: "k", deliver: "active_turn" });
      await store.admit(inputOf(A, "one"));
      await store.admit(input);
      await withdraw(store, 2);
      const lease = await claimed(store, "one");
      assert.deepEqual(await store.deliver(deliveryTo("k1", lease)), []);
      const own = inputId("a:input:2");
      await store.commit(commitOf(A, 0, { lease, advances: { inputId: own, progress: 1 } }));
      await store.commit(commitOf(A, 1, { lease, settles: { inputId: own, report: report("late") } }));
      const settles = { inputId: inputId("a:input:1"), report: report("done") };
      await store.commit(commitOf(A, 2, { lease, settles, joins: [own] }));
      const row = await store.find(input);
      assert.deepEqual([row?.report, row?.progress], [GONE, undefined]);
      assert.deepEqual(await withdraw(store, 2), ["already_cancelled"]);
    },
  },
  {
    rule: "ST35",
    title: "sequences go on over withdrawn inputs",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await withdraw(store, 1);
      const { row } = await store.admit(inputOf(A, "two"));
      assert.deepEqual([row.sequence, row.turnId], [2, "a:turn:2"]);
      await store.commit(commitOf(A, 0));
      assert.equal((await store.load(A))?.inputs, 2);
    },
  },
  {
    rule: "ST35",
    title: "withdrawing again keeps the first report",
    run: async ({ store }) => {
      const input = inputOf(A, "one", { key: "k" });
      await store.admit(input);
      await withdraw(store, 1);
      await store.withdraw(A, [{ inputId: inputId("a:input:1"), report: cancelledReport("again") }]);
      assert.deepEqual((await store.find(input))?.report, GONE);
    },
  },
  {
    rule: "ST35",
    title: "a request of which nothing can be withdrawn changes nothing",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await claimed(store, "one");
      const before = await observe(store, A);
      assert.deepEqual(await withdraw(store, 1, 7), ["already_claimed", "unknown"]);
      assert.deepEqual(await observe(store, A), before);
    },
  },
  {
    rule: "ST35",
    title: "of a withdrawal and a checkpoint at once exactly one gets the input",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two", { deliver: "active_turn" }));
      const lease = await claimed(store, "one");
      const [rows, [status]] = await Promise.all([
        store.deliver(deliveryTo("k1", lease)),
        withdraw(store, 2),
      ]);
      assert.equal(status, rows.length === 1 ? "already_claimed" : "cancelled");
      assert.deepEqual(await pendingSequences(store), rows.length === 1 ? [1, 2] : [1]);
    },
  },
  {
    rule: "ST35",
    title: "of a withdrawal and a commit that settles at once the first wins",
    run: async ({ store }) => {
      const input = inputOf(A, "one", { key: "k" });
      await store.admit(input);
      const settles = { inputId: inputId("a:input:1"), report: report("done") };
      const [, [status]] = await Promise.all([store.commit(commitOf(A, 0, { settles })), withdraw(store, 1)]);
      const kept = status === "cancelled" ? GONE : report("done");
      assert.ok(status === "cancelled" || status === "already_completed");
      assert.deepEqual((await store.find(input))?.report, kept);
    },
  },
];
