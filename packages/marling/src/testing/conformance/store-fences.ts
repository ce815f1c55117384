// Cases about writes under a lease that is over, or without one that somebody holds: nothing of them happens.

import assert from "node:assert/strict";
import type { Store } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  deliveryTo,
  FIRST,
  inputId,
  inputOf,
  journalOf,
  leaseFor,
  observe,
  parking,
  record,
  refused,
  report,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

interface Writer {
  readonly what: string;
  readonly needs?: "journal";
  write(store: Store, generation: number): Promise<unknown>;
}

const WRITERS: readonly Writer[] = [
  {
    what: "a commit",
    write: (store, lease) =>
      store.commit(
        commitOf(A, 1, {
          lease,
          once: true,
          operation: FIRST,
          ids: ["n2"],
          components: { plugins: { p: 1 } },
          settles: { inputId: inputId("a:input:1"), report: report("done") },
          forgets: [FIRST, turn("t1")],
          enqueues: [inputOf(A, "next"), inputOf(B, "there")],
          announces: FIRST,
          releases: true,
        }),
      ),
  },
  {
    what: "a journal append",
    needs: "journal",
    write: (store, lease) => journalOf(store).append([record("k1", "done"), record("k2", "started")], lease),
  },
  { what: "a delivery", write: (store, generation) => store.deliver(deliveryTo("k", generation)) },
  {
    what: "a replayed delivery",
    write: (store, generation) => store.deliver(deliveryTo("k", generation, { isReplay: true })),
  },
  { what: "a new wait", write: (store, lease) => store.waits.create(waitOf("new", { lease })) },
  { what: "the end of a wait", write: (store, lease) => store.waits.end({ ...waitOf("w"), lease }) },
  {
    what: "a parking",
    write: (store, generation) => store.park(parking(generation, { names: ["w"], due: 9000 })),
  },
];

/** How a generation comes to be over; returns it. */
const ENDINGS: readonly (readonly [how: string, end: (store: Store) => Promise<number>])[] = [
  [
    "was taken over",
    async (store) => {
      const generation = await claimed(store, "one");
      await claimed(store, "two", { now: 2500, expiresAt: 3500 });
      return generation;
    },
  ],
  [
    "was released",
    async (store) => {
      const generation = await claimed(store, "one");
      await store.release({ sessionId: A, generation });
      return generation;
    },
  ],
  ["is still to come", async (store) => (await claimed(store, "one")) + 1],
  [
    "is that of another session",
    async (store) => {
      const generation = await claimed(store, "one", { sessionId: B });
      await claimed(store, "two");
      await claimed(store, "one", { now: 2500, expiresAt: 3500 });
      return generation;
    },
  ],
];

async function furnish(store: Store): Promise<void> {
  await store.admit(inputOf(A, "one"));
  await store.admit(inputOf(A, "joins", { deliver: "active_turn" }));
  await store.commit(commitOf(A, 0, { ids: ["n1"] }));
  await store.waits.create(waitOf("w"));
}

function lostCase({ what, needs, write }: Writer, [how, end]: (typeof ENDINGS)[number]): StoreCase {
  return {
    rule: "ST29",
    title: `${what} under a generation that ${how} is lost, and changes nothing`,
    ...(needs === undefined ? {} : { needs }),
    run: async ({ store }) => {
      await furnish(store);
      const generation = await end(store);
      const before = await observe(store, A, B);
      await refused(write(store, generation), "lease_lost");
      assert.deepEqual(await observe(store, A, B), before);
    },
  };
}

function heldCase({ what, needs, write }: Writer): StoreCase {
  return {
    rule: "ST29",
    title: `${what} under the lease's own generation happens, also when it has expired and nobody took it`,
    ...(needs === undefined ? {} : { needs }),
    run: async ({ store }) => {
      await furnish(store);
      const generation = await claimed(store, "one", { now: 10, expiresAt: 20 });
      await write(store, generation);
    },
  };
}

export const fenceCases: readonly StoreCase[] = [
  ...WRITERS.flatMap((writer) => ENDINGS.map((ending) => lostCase(writer, ending))),
  ...WRITERS.map(heldCase),
  {
    rule: "ST29",
    title: "a commit without a generation is refused while anybody has the lease, expired or not",
    run: async ({ store }) => {
      await furnish(store);
      const generation = await claimed(store, "one", { now: 10, expiresAt: 20 });
      const before = await observe(store, A);
      await refused(store.commit(commitOf(A, 1, { ids: ["n2"] })), "lease_held");
      assert.deepEqual(await observe(store, A), before);
      await store.release({ sessionId: A, generation });
      assert.equal((await store.commit(commitOf(A, 1, { ids: ["n2"] }))).revision, 2);
    },
  },
  {
    rule: "ST29",
    title: "a commit without a generation on a session that nobody holds is fine, whoever holds others",
    run: async ({ store }) => {
      await claimed(store, "one", { sessionId: B });
      assert.equal((await store.commit(commitOf(A, 0))).revision, 1);
      await refused(store.commit(commitOf(B, 0)), "lease_held");
    },
  },
  {
    rule: "ST29",
    title: "whoever lost a lease goes on under the generation that it claims anew",
    run: async ({ store }) => {
      const first = await claimed(store, "one");
      const second = await claimed(store, "two", { now: 2500, expiresAt: 3500 });
      await store.commit(commitOf(A, 0, { lease: second, releases: true }));
      const third = await claimed(store, "one", { now: 2600, expiresAt: 3600 });
      await refused(store.commit(commitOf(A, 1, { lease: first })), "lease_lost");
      assert.equal((await store.commit(commitOf(A, 1, { lease: third }))).revision, 2);
    },
  },
  {
    rule: "ST29",
    title: "a commit that happens once is known again under any generation, or none",
    run: async ({ store }) => {
      const lease = await claimed(store, "one");
      const commit = commitOf(A, 0, { once: true, operation: "t", ids: ["n1"], releases: true });
      const first = await store.commit({ ...commit, lease });
      assert.deepEqual(await store.commit({ ...commit, lease }), first);
      assert.deepEqual(await store.commit(commit), first);
      const next = await claimed(store, "two");
      assert.deepEqual(await store.commit({ ...commit, lease }), first);
      assert.deepEqual(await store.commit({ ...commit, lease: next }), first);
      assert.equal((await store.claim(A, leaseFor("three"))).kind, "held");
      assert.equal((await store.commit(commitOf(A, 1, { lease: next }))).revision, 2);
    },
  },
  {
    rule: "ST29",
    title: "of a holder and whoever takes over at once only one commits",
    run: async ({ store }) => {
      const lease = await claimed(store, "one");
      const [commit, claim] = await Promise.allSettled([
        store.commit(commitOf(A, 0, { lease, ids: ["n1"] })),
        store.claim(A, leaseFor("two", { now: 2500, expiresAt: 3500 })),
      ]);
      assert.ok(claim.status === "fulfilled" && claim.value.kind === "claimed");
      assert.equal(claim.value.revision, commit.status === "fulfilled" ? 1 : 0);
      await refused(store.commit(commitOf(A, claim.value.revision, { lease })), "lease_lost");
    },
  },
];
