// Cases about turns that are asked to end: a request and the commit that settles the turn exclude each other.

import assert from "node:assert/strict";
import type { TurnReport } from "../../model/turn.ts";
import type { CancelStatus, Store } from "../../store/contract.ts";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  deliveryTo,
  FIRST,
  id,
  inputId,
  inputOf,
  observe,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

const KEYED = inputOf(A, "one", { key: "k" });
const INPUT = inputId("a:input:1");

function cancel(store: Store, turnId = FIRST, reason = "enough"): Promise<CancelStatus> {
  return store.cancel({ sessionId: A, turnId, reason });
}

function stopped(reason: "max_turns" | "plugin_abort"): TurnReport {
  return { ...report("stopped"), outcome: { kind: "stopped", reason } };
}

export const cancelCases: readonly StoreCase[] = [
  {
    rule: "ST32",
    title: "a request is kept with the pending input, by derived and by given turn id",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await store.admit(inputOf(A, "two", { turnId: turn("my-turn") }));
      await store.admit(inputOf(A, "three"));
      assert.equal(await cancel(store, FIRST, "it's enough: \u{1f6d1}"), "requested");
      assert.equal(await cancel(store, turn("my-turn"), ""), "requested");
      assert.deepEqual(
        (await store.pending(A)).map((row) => row.cancel),
        [{ reason: "it's enough: \u{1f6d1}" }, { reason: "" }, undefined],
      );
      assert.deepEqual((await store.find(KEYED))?.cancel, { reason: "it's enough: \u{1f6d1}" });
    },
  },
  {
    rule: "ST32",
    title: "asked again, the first reason is kept",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await cancel(store, FIRST, "first");
      assert.equal(await cancel(store, FIRST, "second"), "already_requested");
      assert.deepEqual((await store.pending(A))[0]?.cancel, { reason: "first" });
    },
  },
  {
    rule: "ST32",
    title: "of several who ask at once one makes the request, and its reason is kept",
    run: async ({ store }) => {
      await store.admit(KEYED);
      const reasons = ["one", "two", "three"];
      const statuses = await Promise.all(reasons.map((reason) => cancel(store, FIRST, reason)));
      assert.deepEqual(statuses.toSorted(), ["already_requested", "already_requested", "requested"]);
      const { cancel: kept } = (await store.pending(A))[0] ?? {};
      assert.deepEqual(kept, { reason: reasons[statuses.indexOf("requested")] });
    },
  },
  {
    rule: "ST32",
    title: "the turn of a settled or withdrawn input is completed, and stays what it was",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await store.admit(inputOf(A, "two"));
      await store.commit(commitOf(A, 0, { settles: { inputId: INPUT, report: report("done") } }));
      await store.withdraw(A, [{ inputId: inputId("a:input:2"), report: cancelledReport("gone") }]);
      assert.equal(await cancel(store), "completed");
      assert.equal(await cancel(store, turn("a:turn:2")), "completed");
      const row = await store.find(KEYED);
      assert.deepEqual([row?.report, row?.cancel], [report("done"), undefined]);
    },
  },
  {
    rule: "ST32",
    title: "any other turn is unknown: of another session, of an operation, of nobody",
    run: async ({ store }) => {
      await store.admit(inputOf(B, "there"));
      await store.commit(commitOf(A, 0, { once: true, operation: "operation" }));
      for (const name of ["b:turn:1", "operation", "a:turn:1", "a:input:1"])
        assert.equal(await cancel(store, turn(name)), "unknown");
      const elsewhere = { sessionId: id("nobody"), turnId: FIRST, reason: "enough" };
      assert.equal(await store.cancel(elsewhere), "unknown");
      assert.deepEqual((await store.pending(B))[0]?.cancel, undefined);
    },
  },
  ...[report("done"), stopped("max_turns"), stopped("plugin_abort")].map(
    (kept): StoreCase => ({
      rule: "ST32",
      title: `a turn that was asked to end is not settled as ${kept.outcome.kind === "stopped" ? kept.outcome.reason : "finished"}, and nothing changes`,
      run: async ({ store }) => {
        await store.admit(KEYED);
        await store.admit(inputOf(A, "two"));
        const lease = await claimed(store, "one");
        await cancel(store, FIRST, "the user left");
        const before = await observe(store, A, B);
        const commit = commitOf(A, 0, {
          lease,
          once: true,
          operation: FIRST,
          ids: ["n1"],
          settles: { inputId: INPUT, report: kept },
          forgets: [FIRST],
          enqueues: [inputOf(B, "there")],
          announces: FIRST,
          releases: true,
        });
        const details = await refused(store.commit(commit), "turn_cancelled");
        assert.equal(details.reason, "the user left");
        assert.deepEqual(await observe(store, A, B), before);
        const settles = { inputId: INPUT, report: cancelledReport("cancelled") };
        assert.equal((await store.commit({ ...commit, settles })).revision, 1);
      },
    }),
  ),
  {
    rule: "ST32",
    title: "a report that the turn was cancelled settles it, whether it was asked for or not",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await store.admit(inputOf(A, "two", { key: "l" }));
      await cancel(store);
      const settles = { inputId: INPUT, report: cancelledReport("first") };
      await store.commit(commitOf(A, 0, { settles }));
      const unasked = { inputId: inputId("a:input:2"), report: cancelledReport("second") };
      await store.commit(commitOf(A, 1, { settles: unasked }));
      assert.deepEqual(await store.pending(A), []);
      assert.deepEqual((await store.find(KEYED))?.report, cancelledReport("first"));
      assert.equal(await cancel(store), "completed");
    },
  },
  {
    rule: "ST32",
    title: "commits that do not settle the turn go on, and the request stays",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await cancel(store);
      await store.commit(commitOf(A, 0, { ids: ["n1"] }));
      await store.commit(commitOf(A, 1, { advances: { inputId: INPUT, progress: 1 } }));
      const [row] = await store.pending(A);
      assert.deepEqual([row?.cancel, row?.progress], [{ reason: "enough" }, 1]);
    },
  },
  {
    rule: "ST32",
    title: "a request needs no lease, and is seen by its holder",
    run: async ({ store }) => {
      await store.admit(KEYED);
      const lease = await claimed(store, "one");
      assert.equal(await cancel(store), "requested");
      const settles = { inputId: INPUT, report: report("done") };
      await refused(store.commit(commitOf(A, 0, { lease, settles })), "turn_cancelled");
    },
  },
  {
    rule: "ST32",
    title: "a request from another store is seen",
    needs: "second",
    run: async ({ store, second }) => {
      await store.admit(KEYED);
      const other = await second();
      assert.equal(await cancel(other), "requested");
      const settles = { inputId: INPUT, report: report("done") };
      await refused(store.commit(commitOf(A, 0, { settles })), "turn_cancelled");
    },
  },
  {
    rule: "ST32",
    title: "of a request and a commit at once the first wins, and the other is told",
    run: async ({ store }) => {
      for (let number = 0; number < 10; number += 1) {
        const sessionId = id(`s${number}`);
        const { row } = await store.admit(inputOf(sessionId, "one"));
        const commit = commitOf(sessionId, 0, { settles: { inputId: row.inputId, report: report("done") } });
        const [status, committed] = await Promise.allSettled([
          store.cancel({ sessionId, turnId: row.turnId, reason: "enough" }),
          store.commit(commit),
        ]);
        assert.ok(status.status === "fulfilled");
        const hasWon = status.value === "requested";
        assert.deepEqual(
          [status.value, committed.status],
          hasWon ? ["requested", "rejected"] : ["completed", "fulfilled"],
        );
        assert.equal((await store.pending(sessionId)).length, hasWon ? 1 : 0);
      }
    },
  },
  {
    rule: "ST32",
    title: "the turn id of an input that joined another turn is that input's own",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await store.admit(inputOf(A, "joins", { deliver: "active_turn" }));
      const lease = await claimed(store, "one");
      await store.deliver(deliveryTo("k", lease));
      const settles = { inputId: INPUT, report: report("done") };
      await store.commit(commitOf(A, 0, { lease, settles, joins: [inputId("a:input:2")] }));
      assert.equal(await cancel(store, turn("a:turn:2")), "completed");
      assert.equal((await store.find(KEYED))?.cancel, undefined);
    },
  },
  {
    rule: "ST32",
    title: "a request to end the turn that took an input leaves that input alone",
    run: async ({ store }) => {
      await store.admit(KEYED);
      await store.admit(inputOf(A, "joins", { deliver: "active_turn" }));
      const lease = await claimed(store, "one");
      await store.deliver(deliveryTo("k", lease));
      await cancel(store);
      const settles = { inputId: INPUT, report: cancelledReport("cancelled") };
      await store.commit(commitOf(A, 0, { lease, settles }));
      const [row] = await store.pending(A);
      assert.deepEqual([row?.sequence, row?.cancel, row?.claimed], [2, undefined, undefined]);
    },
  },
];
