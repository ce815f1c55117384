// Cases about who may write to a session: claiming, renewing, releasing, and admission that claims.

import assert from "node:assert/strict";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  id,
  inputOf,
  leaseFor,
  observe,
  refused,
  report,
  type StoreCase,
} from "./store-case.ts";

const LATER = { now: 2500, expiresAt: 3500 };

export const leaseCases: readonly StoreCase[] = [
  {
    rule: "ST28",
    title: "the lease of a session of which nobody has heard can be had, and makes no session",
    run: async ({ store }) => {
      const claim = await store.claim(A, leaseFor("one"));
      assert.ok(claim.kind === "claimed" && claim.generation > 0);
      assert.deepEqual([claim.isTakeover, claim.revision, claim.inputs], [false, 0, 0]);
      assert.deepEqual(
        [await store.exists(A), await store.load(A), await store.list({})],
        [false, undefined, { items: [] }],
      );
      assert.deepEqual(await store.unsettled(), []);
    },
  },
  {
    rule: "ST28",
    title: "a claim says the newest revision and the newest sequence",
    run: async ({ store }) => {
      for (const text of ["one", "two", "three"]) await store.admit(inputOf(A, text));
      await store.commit(commitOf(A, 0));
      await store.commit(commitOf(A, 1));
      const claim = await store.claim(A, leaseFor("one"));
      assert.ok(claim.kind === "claimed");
      assert.deepEqual([claim.revision, claim.inputs], [2, 3]);
    },
  },
  {
    rule: "ST28",
    title: "somebody else is told who holds a lease and until when, and changes nothing",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting"));
      await claimed(store, "one");
      const before = await observe(store, A);
      const claim = await store.claim(A, leaseFor("two", { now: 1999 }));
      assert.deepEqual(claim, { kind: "held", owner: "one", expiresAt: 2000 });
      assert.deepEqual(await observe(store, A), before);
    },
  },
  {
    rule: "ST28",
    title: "its holder gets a lease again, with the same generation and the new expiry",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      const again = await store.claim(A, leaseFor("one", { now: 1500, expiresAt: 3000 }));
      assert.ok(again.kind === "claimed");
      assert.deepEqual([again.generation, again.isTakeover], [generation, false]);
      const rival = await store.claim(A, leaseFor("two", LATER));
      assert.deepEqual(rival, { kind: "held", owner: "one", expiresAt: 3000 });
    },
  },
  {
    rule: "ST28",
    title: "its holder gets a lease again that has expired and that nobody else took",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      const again = await store.claim(A, leaseFor("one", LATER));
      assert.ok(again.kind === "claimed");
      assert.deepEqual([again.generation, again.isTakeover], [generation, false]);
    },
  },
  {
    rule: "ST28",
    title: "a lease that has expired is taken over, with a newer generation",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      const claim = await store.claim(A, leaseFor("two", LATER));
      assert.ok(claim.kind === "claimed" && claim.generation > generation);
      assert.equal(claim.isTakeover, true);
      const former = await store.claim(A, leaseFor("one", LATER));
      assert.deepEqual(former, { kind: "held", owner: "two", expiresAt: 3500 });
    },
  },
  {
    rule: "ST28",
    title: "a lease has expired as soon as its time has come",
    run: async ({ store }) => {
      await claimed(store, "one");
      assert.equal((await store.claim(A, leaseFor("two", { now: 1999, expiresAt: 3000 }))).kind, "held");
      assert.equal((await store.claim(A, leaseFor("two", { now: 2000, expiresAt: 3000 }))).kind, "claimed");
    },
  },
  {
    rule: "ST28",
    title: "another run of the same owner is somebody else",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      const next = leaseFor("one", { incarnation: "second run of one" });
      assert.equal((await store.claim(A, next)).kind, "held");
      const claim = await store.claim(A, { ...next, ...LATER });
      assert.ok(claim.kind === "claimed" && claim.generation > generation);
    },
  },
  {
    rule: "ST28",
    title: "generations only grow, over releases and takeovers",
    run: async ({ store }) => {
      const generations = [await claimed(store, "one")];
      generations.push(await claimed(store, "two", LATER));
      await store.release({ sessionId: A, generation: generations[1] ?? 0 });
      generations.push(await claimed(store, "two", LATER));
      await store.release({ sessionId: A, generation: generations[2] ?? 0 });
      generations.push(await claimed(store, "one", LATER));
      assert.equal(new Set(generations).size, 4);
      assert.deepEqual(
        generations,
        generations.toSorted((a, b) => a - b),
      );
    },
  },
  {
    rule: "ST28",
    title: "sessions have leases of their own, and so have forks",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { ids: ["n1"] }));
      await claimed(store, "one");
      await store.fork({ from: A, as: id("fork") });
      for (const sessionId of [B, id("fork")]) {
        const claim = await store.claim(sessionId, leaseFor("two"));
        assert.ok(claim.kind === "claimed");
        assert.equal(claim.isTakeover, false);
      }
      assert.equal((await store.claim(A, leaseFor("two"))).kind, "held");
    },
  },
  {
    rule: "ST28",
    title: "of several who claim a free lease at once exactly one gets it",
    run: async ({ store }) => {
      const names = ["one", "two", "three", "four", "five"];
      const claims = await Promise.all(names.map((name) => store.claim(A, leaseFor(name))));
      const winner = names[claims.findIndex(({ kind }) => kind === "claimed")];
      assert.equal(claims.filter(({ kind }) => kind === "claimed").length, 1);
      for (const claim of claims)
        if (claim.kind === "held") assert.deepEqual([claim.owner, claim.expiresAt], [winner, 2000]);
    },
  },
  {
    rule: "ST28",
    title: "of several who take over a lease at once exactly one gets it",
    run: async ({ store }) => {
      await claimed(store, "one");
      const claims = await Promise.all(
        ["two", "three", "four"].map((name) => store.claim(A, leaseFor(name, LATER))),
      );
      assert.deepEqual(claims.map(({ kind }) => kind).toSorted(), ["claimed", "held", "held"]);
    },
  },
  {
    rule: "ST28",
    title: "a lease that one store gave is held in another, until it is released in either",
    needs: "second",
    run: async ({ store, second }) => {
      const other = await second();
      const generation = await claimed(store, "one");
      assert.equal((await other.claim(A, leaseFor("two"))).kind, "held");
      await other.release({ sessionId: A, generation });
      const next = await claimed(other, "two");
      assert.ok(next > generation);
      assert.equal((await store.claim(A, leaseFor("one"))).kind, "held");
      await refused(store.commit(commitOf(A, 0, { lease: generation })), "lease_lost");
      await refused(store.commit(commitOf(A, 0)), "lease_held");
      assert.equal((await other.commit(commitOf(A, 0, { lease: next }))).revision, 1);
    },
  },
  {
    rule: "ST28",
    title: "two stores that claim at once get one lease",
    needs: "second",
    run: async ({ store, second }) => {
      const other = await second();
      for (let number = 0; number < 10; number += 1) {
        const sessionId = id(`s${number}`);
        const claims = await Promise.all([
          store.claim(sessionId, leaseFor("one")),
          other.claim(sessionId, leaseFor("two")),
        ]);
        assert.deepEqual(claims.map(({ kind }) => kind).toSorted(), ["claimed", "held"]);
      }
    },
  },
  {
    rule: "ST30",
    title: "renewing extends a lease, also one that has expired and that nobody took",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      const lease = { sessionId: A, generation };
      assert.deepEqual(await store.renew([lease], leaseFor("one", { now: 1900, expiresAt: 2900 })), []);
      const rival = await store.claim(A, leaseFor("two", LATER));
      assert.deepEqual(rival, { kind: "held", owner: "one", expiresAt: 2900 });
      assert.deepEqual(await store.renew([lease], leaseFor("one", { now: 5000, expiresAt: 6000 })), []);
      const late = await store.claim(A, leaseFor("two", { now: 5500, expiresAt: 6500 }));
      assert.deepEqual(late, { kind: "held", owner: "one", expiresAt: 6000 });
    },
  },
  {
    rule: "ST30",
    title: "renewing returns the sessions whose leases were lost, and extends the others",
    run: async ({ store }) => {
      const [kept, taken, freed] = [A, B, id("c")];
      const leases = [];
      for (const sessionId of [taken, kept, freed])
        leases.push({ sessionId, generation: await claimed(store, "one", { sessionId }) });
      await claimed(store, "two", { sessionId: taken, ...LATER });
      await store.release({ sessionId: freed, generation: leases[2]?.generation ?? 0 });
      leases.push({ sessionId: id("never"), generation: 1 });
      const lost = await store.renew(leases, leaseFor("one", LATER));
      assert.deepEqual([...lost].sort(), ["b", "c", "never"]);
      assert.equal((await store.claim(kept, leaseFor("two", { ...LATER, now: 3400 }))).kind, "held");
      assert.equal((await store.claim(freed, leaseFor("two", LATER))).kind, "claimed");
      const other = await store.claim(taken, leaseFor("three", LATER));
      assert.deepEqual(other, { kind: "held", owner: "two", expiresAt: 3500 });
    },
  },
  {
    rule: "ST30",
    title: "the lease of a deleted session is lost, and fails no other",
    run: async ({ store }) => {
      const leases = [];
      for (const sessionId of [A, B])
        leases.push({ sessionId, generation: await claimed(store, "one", { sessionId }) });
      await store.delete(A);
      assert.deepEqual(await store.renew(leases, leaseFor("one", { expiresAt: 4000 })), ["a"]);
      assert.equal((await store.claim(B, leaseFor("two", { now: 3000 }))).kind, "held");
    },
  },
  {
    rule: "ST30",
    title: "another run renews nothing, though it names the generation",
    run: async ({ store }) => {
      const lease = { sessionId: A, generation: await claimed(store, "one") };
      assert.deepEqual(await store.renew([lease], leaseFor("two", LATER)), ["a"]);
      assert.equal((await store.claim(A, leaseFor("three", LATER))).kind, "claimed");
    },
  },
  {
    rule: "ST30",
    title: "renewing nothing is fine",
    run: async ({ store }) => assert.deepEqual(await store.renew([], leaseFor("one")), []),
  },
  {
    rule: "ST30",
    title: "a lease that was released is free at once, and taking it is no takeover",
    run: async ({ store }) => {
      const generation = await claimed(store, "one");
      await store.release({ sessionId: A, generation });
      const claim = await store.claim(A, leaseFor("two"));
      assert.ok(claim.kind === "claimed" && claim.generation > generation);
      assert.equal(claim.isTakeover, false);
    },
  },
  {
    rule: "ST30",
    title: "releasing a lease of another generation, again, or that never was leaves all as it is",
    run: async ({ store }) => {
      await store.release({ sessionId: A, generation: 1 });
      const first = await claimed(store, "one");
      await store.release({ sessionId: A, generation: first });
      await store.release({ sessionId: A, generation: first });
      const second = await claimed(store, "two");
      for (const generation of [first, second + 1]) await store.release({ sessionId: A, generation });
      assert.equal((await store.claim(A, leaseFor("three"))).kind, "held");
      assert.equal((await store.commit(commitOf(A, 0, { lease: second }))).revision, 1);
    },
  },
  {
    rule: "ST30",
    title: "a commit that releases frees the lease with what it commits",
    run: async ({ store }) => {
      const lease = await claimed(store, "one");
      await store.commit(commitOf(A, 0, { lease }));
      assert.equal((await store.claim(A, leaseFor("two"))).kind, "held");
      await store.commit(commitOf(A, 1, { lease, releases: true }));
      await refused(store.commit(commitOf(A, 2, { lease })), "lease_lost");
      const claim = await store.claim(A, leaseFor("two"));
      assert.ok(claim.kind === "claimed" && claim.generation > lease);
      assert.deepEqual([claim.isTakeover, claim.revision], [false, 2]);
    },
  },
  {
    rule: "ST30",
    title: "a commit that is refused releases nothing",
    run: async ({ store }) => {
      const lease = await claimed(store, "one");
      await refused(store.commit(commitOf(A, 5, { lease, releases: true })), "revision_conflict");
      assert.equal((await store.claim(A, leaseFor("two"))).kind, "held");
      assert.equal((await store.commit(commitOf(A, 0, { lease }))).revision, 1);
    },
  },
  {
    rule: "ST31",
    title: "an input that is accepted with a request has the lease, and is among its inputs",
    run: async ({ store }) => {
      const { status, claim } = await store.admit(inputOf(A, "one"), leaseFor("one"));
      assert.equal(status, "accepted");
      assert.ok(claim?.kind === "claimed");
      assert.deepEqual([claim.isTakeover, claim.revision, claim.inputs], [false, 0, 1]);
      assert.equal((await store.commit(commitOf(A, 0, { lease: claim.generation }))).revision, 1);
      const next = await store.admit(inputOf(A, "two"), leaseFor("one"));
      assert.ok(next.claim?.kind === "claimed");
      assert.deepEqual(
        [next.claim.generation, next.claim.revision, next.claim.inputs],
        [claim.generation, 1, 2],
      );
    },
  },
  {
    rule: "ST31",
    title: "an input is admitted though somebody else holds the lease",
    run: async ({ store }) => {
      await claimed(store, "one");
      const { status, row, claim } = await store.admit(inputOf(A, "one"), leaseFor("two"));
      assert.deepEqual([status, row.sequence], ["accepted", 1]);
      assert.deepEqual(claim, { kind: "held", owner: "one", expiresAt: 2000 });
      assert.equal((await store.admit(inputOf(A, "two"))).status, "accepted");
      const { enqueued } = await store.commit(commitOf(B, 0, { enqueues: [inputOf(A, "three")] }));
      assert.equal(enqueued[0]?.sequence, 3);
    },
  },
  {
    rule: "ST31",
    title: "without a request there is no claim",
    run: async ({ store }) => {
      assert.equal("claim" in (await store.admit(inputOf(A, "one", { key: "k" }))), false);
      assert.equal("claim" in (await store.admit(inputOf(A, "one", { key: "k" }))), false);
      assert.equal((await store.commit(commitOf(A, 0))).revision, 1);
    },
  },
  {
    rule: "ST31",
    title: "a duplicate that is not settled claims, one that is settled or withdrawn does not",
    run: async ({ store }) => {
      const [one, two] = [inputOf(A, "one", { key: "k1" }), inputOf(A, "two", { key: "k2" })];
      const first = await store.admit(one);
      const second = await store.admit(two);
      const again = await store.admit(one, leaseFor("one"));
      assert.ok(again.status === "duplicate" && again.claim?.kind === "claimed");
      assert.equal(again.claim.inputs, 2);
      const settles = { inputId: first.row.inputId, report: report("done") };
      await store.commit(commitOf(A, 0, { settles, lease: again.claim.generation, releases: true }));
      await store.withdraw(A, [{ inputId: second.row.inputId, report: cancelledReport("withdrawn") }]);
      for (const input of [one, two]) {
        const { status, claim } = await store.admit(input, leaseFor("two"));
        assert.deepEqual([status, claim], ["duplicate", undefined]);
      }
      assert.equal((await store.commit(commitOf(A, 1))).revision, 2);
    },
  },
  {
    rule: "ST31",
    title: "an admission that is refused claims nothing",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one", { key: "k" }));
      await refused(store.admit(inputOf(A, "other", { key: "k" }), leaseFor("one")), "idempotency_conflict");
      const claim = await store.claim(A, leaseFor("two"));
      assert.ok(claim.kind === "claimed");
      assert.equal(claim.isTakeover, false);
    },
  },
  {
    rule: "ST31",
    title: "of several who admit and claim at once all are admitted and one gets the lease",
    run: async ({ store }) => {
      const names = ["one", "two", "three"];
      const admissions = await Promise.all(
        names.map((name) => store.admit(inputOf(A, name), leaseFor(name))),
      );
      assert.deepEqual(
        admissions.map(({ status }) => status),
        ["accepted", "accepted", "accepted"],
      );
      const kinds = admissions.map(({ claim }) => claim?.kind);
      assert.deepEqual(kinds.toSorted(), ["claimed", "held", "held"]);
    },
  },
];
