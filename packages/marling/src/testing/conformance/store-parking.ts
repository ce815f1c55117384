// Cases about turns that sleep, and about sessions that somebody should go on with.

import assert from "node:assert/strict";
import type { SessionId } from "../../model/ids.ts";
import type { Store } from "../../store/contract.ts";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  FIRST,
  hashOf,
  id,
  inputId,
  inputOf,
  leaseFor,
  observe,
  parking,
  report,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

const INPUT = inputId("a:input:1");

/** The first turn of `A` runs, with waits of these names; returns the generation of its lease. */
async function running(store: Store, ...names: readonly string[]): Promise<number> {
  await store.admit(inputOf(A, "one"));
  const lease = await claimed(store, "one");
  for (const name of names) await store.waits.create(waitOf(name, { lease }));
  return lease;
}

async function bring(store: Store, name: string): Promise<void> {
  const { status } = await store.waits.resolve(hashOf(name), "completion", { ok: name });
  assert.equal(status, "resolved");
}

async function isWorkable(store: Store, now = 1000, sessionId: SessionId = A): Promise<boolean> {
  return (await store.workable(now)).includes(sessionId);
}

/** What there may be to do already, so that a turn does not go to sleep. */
const REASONS: readonly (readonly [what: string, make: (store: Store) => Promise<unknown>])[] = [
  ["a wait has a value", (store) => bring(store, "w2")],
  ["a wait is over", (store) => store.waits.end(waitOf("w2"))],
  ["it was asked to end", (store) => store.cancel({ sessionId: A, turnId: FIRST, reason: "enough" })],
];

export const parkingCases: readonly StoreCase[] = [
  {
    rule: "ST36",
    title: "a turn that parks frees its lease, and shows what it sleeps on",
    run: async ({ store }) => {
      const generation = await running(store, "w1", "w2");
      assert.equal(await store.park(parking(generation, { names: ["w1", "w2"], due: 5000 })), "parked");
      const [row] = await store.pending(A);
      assert.deepEqual(row?.parked, { names: ["w1", "w2"], due: 5000 });
      const claim = await store.claim(A, leaseFor("two"));
      assert.ok(claim.kind === "claimed" && claim.generation > generation);
      assert.equal(claim.isTakeover, false);
    },
  },
  ...REASONS.map(
    ([what, make]): StoreCase => ({
      rule: "ST36",
      title: `a turn does not park when ${what}: it keeps its lease, and nothing changes`,
      run: async ({ store }) => {
        const generation = await running(store, "w1", "w2");
        await make(store);
        const before = await observe(store, A);
        assert.equal(await store.park(parking(generation, { names: ["w1", "w2"] })), "ready");
        assert.deepEqual(await observe(store, A), before);
        assert.equal((await store.claim(A, leaseFor("two"))).kind, "held");
      },
    }),
  ),
  {
    rule: "ST36",
    title: "waits that it does not name, of other turns or of other sessions keep no turn awake",
    run: async ({ store }) => {
      const generation = await running(store, "w1", "other");
      await bring(store, "other");
      const elsewhere = [
        waitOf("w1", { turnId: turn("a:turn:2"), keyHash: hashOf("second") }),
        waitOf("w1", { sessionId: B, keyHash: hashOf("there") }),
      ];
      for (const wait of elsewhere) await store.waits.create(wait);
      for (const name of ["second", "there"]) await bring(store, name);
      assert.equal(await store.park(parking(generation, { names: ["w1"] })), "parked");
      assert.equal(await isWorkable(store, 1e12), false);
    },
  },
  {
    rule: "ST36",
    title: "a turn may sleep until a time only, or on waits only",
    run: async ({ store }) => {
      const generation = await running(store, "w1");
      assert.equal(await store.park(parking(generation, { due: 5000 })), "parked");
      assert.deepEqual((await store.pending(A))[0]?.parked, { names: [], due: 5000 });
      const next = await claimed(store, "one");
      assert.equal(await store.park(parking(next, { names: ["w1"] })), "parked");
      assert.deepEqual((await store.pending(A))[0]?.parked, { names: ["w1"], due: null });
    },
  },
  {
    rule: "ST36",
    title: "a claim leaves a turn parked; its next commit wakes it",
    run: async ({ store }) => {
      await store.park(parking(await running(store), { due: 5000 }));
      const lease = await claimed(store, "two");
      assert.deepEqual((await store.pending(A))[0]?.parked, { names: [], due: 5000 });
      await store.commit(commitOf(A, 0, { lease, advances: { inputId: INPUT, progress: 1 } }));
      const [row] = await store.pending(A);
      assert.deepEqual([row?.parked, row?.progress], [undefined, 1]);
    },
  },
  {
    rule: "ST36",
    title: "a commit beside the turn leaves it parked",
    run: async ({ store }) => {
      await store.park(parking(await running(store), { due: 5000 }));
      await store.commit(commitOf(A, 0, { ids: ["n1"] }));
      assert.deepEqual((await store.pending(A))[0]?.parked, { names: [], due: 5000 });
    },
  },
  {
    rule: "ST36",
    title: "a commit that settles a parked turn ends its sleep",
    run: async ({ store }) => {
      const input = inputOf(A, "one", { key: "k" });
      await store.admit(input);
      await store.park(parking(await claimed(store, "one"), { due: 5000 }));
      const lease = await claimed(store, "one");
      await store.commit(commitOf(A, 0, { lease, settles: { inputId: INPUT, report: report("done") } }));
      assert.deepEqual(await store.pending(A), []);
      assert.deepEqual((await store.find(input))?.report, report("done"));
    },
  },
  {
    rule: "ST36",
    title: "a value that comes while a turn parks is never lost",
    run: async ({ store }) => {
      for (let number = 0; number < 10; number += 1) {
        const sessionId = id(`s${number}`);
        const { row } = await store.admit(inputOf(sessionId, "one"));
        const generation = await claimed(store, "one", { sessionId });
        const wait = waitOf("w", { sessionId, turnId: row.turnId, keyHash: hashOf(sessionId) });
        await store.waits.create(wait);
        const [answer] = await Promise.all([
          store.park({ sessionId, turnId: row.turnId, names: ["w"], due: null, generation }),
          store.waits.resolve(wait.keyHash, "completion", { ok: 1 }),
        ]);
        assert.equal(await isWorkable(store, 1000, sessionId), answer === "parked");
        assert.equal(await isWorkable(store, 2500, sessionId), true);
      }
    },
  },
  {
    rule: "ST37",
    title: "sessions with pending inputs that nobody holds are workable, in the order of their ids",
    run: async ({ store }) => {
      assert.deepEqual(await store.workable(1000), []);
      for (const name of ["m", "a", "z", "B"]) await store.admit(inputOf(id(name), "one"));
      await store.commit(commitOf(id("idle"), 0));
      assert.deepEqual(await store.workable(1000), ["B", "a", "m", "z"]);
    },
  },
  {
    rule: "ST37",
    title: "a session that somebody holds is not workable until the lease is released or has expired",
    run: async ({ store }) => {
      const generation = await running(store);
      assert.deepEqual(
        [await isWorkable(store, 1000), await isWorkable(store, 1999), await isWorkable(store, 2000)],
        [false, false, true],
      );
      await store.renew([{ sessionId: A, generation }], leaseFor("one", { expiresAt: 4000 }));
      assert.equal(await isWorkable(store, 3000), false);
      await store.release({ sessionId: A, generation });
      assert.equal(await isWorkable(store, 1000), true);
    },
  },
  {
    rule: "ST37",
    title: "a session whose inputs are settled is not workable",
    run: async ({ store }) => {
      const lease = await running(store);
      const settles = { inputId: INPUT, report: report("done") };
      await store.commit(commitOf(A, 0, { lease, settles, releases: true }));
      assert.equal(await isWorkable(store, 1e12), false);
      await store.commit(commitOf(A, 1, { enqueues: [inputOf(A, "two")] }));
      assert.equal(await isWorkable(store), true);
    },
  },
  {
    rule: "ST37",
    title: "a parked turn is not workable before its time has come",
    run: async ({ store }) => {
      await store.park(parking(await running(store), { due: 5000 }));
      assert.deepEqual(
        [await isWorkable(store, 1000), await isWorkable(store, 4999), await isWorkable(store, 5000)],
        [false, false, true],
      );
    },
  },
  ...REASONS.map(
    ([what, make]): StoreCase => ({
      rule: "ST37",
      title: `a parked turn is workable when ${what}`,
      run: async ({ store }) => {
        const generation = await running(store, "w1", "w2");
        await store.park(parking(generation, { names: ["w1", "w2"] }));
        assert.equal(await isWorkable(store, 1e12), false);
        await make(store);
        assert.equal(await isWorkable(store), true);
        await claimed(store, "two");
        assert.equal(await isWorkable(store), false);
      },
    }),
  ),
  {
    rule: "ST37",
    title: "earlier waits of a parked turn do not count, nor what an earlier park named",
    run: async ({ store }) => {
      const first = await running(store, "w1", "w2");
      await store.park(parking(first, { names: ["w1"] }));
      await bring(store, "w1");
      const next = await claimed(store, "one");
      await store.park(parking(next, { names: ["w2"] }));
      assert.equal(await isWorkable(store, 1e12), false);
      await bring(store, "w2");
      assert.equal(await isWorkable(store), true);
    },
  },
  {
    rule: "ST37",
    title: "a commit that forgets a turn ends the waits that another may sleep on, and of no other",
    run: async ({ store }) => {
      await store.park(parking(await running(store, "w1"), { names: ["w1"] }));
      await store.commit(commitOf(A, 0, { forgets: [turn("a:turn:2")] }));
      assert.equal(await isWorkable(store, 1e12), false);
      await store.commit(commitOf(A, 1, { forgets: [FIRST] }));
      assert.equal(await isWorkable(store), true);
    },
  },
  {
    rule: "ST37",
    title: "only the first pending input counts",
    run: async ({ store }) => {
      await store.park(parking(await running(store), { due: 5000 }));
      await store.admit(inputOf(A, "two"));
      await store.cancel({ sessionId: A, turnId: turn("a:turn:2"), reason: "enough" });
      assert.equal(await isWorkable(store), false);
      const lease = await claimed(store, "one");
      const settles = { inputId: INPUT, report: cancelledReport("cancelled") };
      await store.commit(commitOf(A, 0, { lease, settles, releases: true }));
      assert.equal(await isWorkable(store), true);
    },
  },
  {
    rule: "ST37",
    title: "asking writes nothing",
    run: async ({ store }) => {
      await store.park(parking(await running(store), { due: 5000 }));
      const before = await observe(store, A);
      const changes = await store.changes();
      await store.workable(1e12);
      assert.deepEqual(await observe(store, A), before);
      assert.equal(await store.changes(), changes);
    },
  },
];
