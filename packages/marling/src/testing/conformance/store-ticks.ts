// Cases about ticks, and about what becomes of triggers with their sessions and over time.

import assert from "node:assert/strict";
import { A, B, commitOf, refused, type StoreCase } from "./store-case.ts";
import { FIRST_PAGE, idsOf, occurrenceOf, pendingOf, subscriptionOf, triggersOf } from "./trigger-samples.ts";

const DAY = 24 * 60 * 60 * 1000;

const tickCases: readonly StoreCase[] = [
  {
    rule: "ST45",
    title: "a tick moves its due time once; whoever planned it for another one does nothing",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1", { topic: "s1", due: 100 }));
      const tick = { subscriptionId: "s1", due: 100, next: 200 };
      const occurrence = occurrenceOf("o1", { topic: "s1" });
      assert.deepEqual(await triggers.accept(occurrence, tick), { status: "accepted", deliveries: 1 });
      const late = { ...occurrence, payload: "another" };
      assert.deepEqual(await triggers.accept(late, tick), { status: "moved", deliveries: 0 });
      assert.equal(await triggers.advance(tick), false);
      assert.equal((await triggers.get("s1"))?.due, 200);
      assert.deepEqual(await pendingOf(triggers), ["o1 for s1"]);
    },
  },
  {
    rule: "ST45",
    title: "a tick that occurred before goes on without occurring again",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      const wanted = subscriptionOf("s1", { topic: "s1", due: 100 });
      await triggers.subscribe(wanted);
      const tick = { subscriptionId: "s1", due: 100, next: 200 };
      await triggers.accept(occurrenceOf("o1", { topic: "s1" }), tick);
      await triggers.unsubscribe("s1");
      await triggers.subscribe(wanted);
      const again = await triggers.accept(occurrenceOf("o1", { topic: "s1", payload: 2 }), tick);
      assert.deepEqual(again, { status: "duplicate", deliveries: 0 });
      assert.equal((await triggers.get("s1"))?.due, 200);
    },
  },
  {
    rule: "ST45",
    title: "what is passed over is remembered until the next step, and a schedule may end",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1", { due: 100 }));
      const carried = { count: 2, since: 50 };
      assert.equal(await triggers.advance({ subscriptionId: "s1", due: 100, next: 200, carried }), true);
      const moved = await triggers.get("s1");
      assert.deepEqual([moved?.due, moved?.carried], [200, carried]);
      assert.equal(await triggers.advance({ subscriptionId: "s1", due: 200, next: undefined }), true);
      const ended = await triggers.get("s1");
      assert.deepEqual([ended?.due, ended?.carried], [undefined, undefined]);
      assert.equal(await triggers.nextDue(), undefined);
      assert.equal(await triggers.advance({ subscriptionId: "nobody", due: 1, next: 2 }), false);
    },
  },
  {
    rule: "ST45",
    title: "what is due is asked for by time, the longest due first; what is off is not",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("late", { due: 300 }));
      await triggers.subscribe(subscriptionOf("soon", { due: 100 }));
      await triggers.subscribe(subscriptionOf("off", { due: 50 }));
      await triggers.subscribe(subscriptionOf("never"));
      await triggers.enable("off", { isEnabled: false });
      const due = async (now: number, limit = 10): Promise<readonly string[]> =>
        (await triggers.due(now, limit)).map(({ subscriptionId }) => subscriptionId);
      assert.deepEqual([await due(99), await due(100), await due(300)], [[], ["soon"], ["soon", "late"]]);
      assert.deepEqual(await due(300, 1), ["soon"]);
      assert.equal(await triggers.nextDue(), 100);
      const off = { subscriptionId: "off", due: 50, next: 60 };
      assert.deepEqual([await triggers.advance(off), await triggers.nextDue()], [false, 100]);
      await triggers.enable("off", { isEnabled: true, due: 70 });
      assert.deepEqual([await due(70), await triggers.nextDue()], [["off"], 70]);
    },
  },
];

const sessionCases: readonly StoreCase[] = [
  {
    rule: "ST46",
    title: "deleting a session removes its subscriptions and what was to be delivered, and nobody else's",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await store.commit(commitOf(A, 0));
      await triggers.subscribe(subscriptionOf("s1", { due: 10 }));
      await triggers.subscribe(subscriptionOf("s2", { sessionId: B }));
      await triggers.accept(occurrenceOf("o1"));
      await store.delete(A);
      assert.deepEqual(await idsOf(triggers, {}), ["s2"]);
      assert.deepEqual(await pendingOf(triggers), ["o1 for s2"]);
      assert.equal(await triggers.nextDue(), undefined);
      await refused(triggers.subscribe(subscriptionOf("s1")), "session_deleted");
      assert.equal((await triggers.accept(occurrenceOf("o1"))).status, "duplicate");
    },
  },
  {
    rule: "ST46",
    title: "a fork subscribes to nothing",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await store.commit(commitOf(A, 0));
      await triggers.subscribe(subscriptionOf("s1"));
      await triggers.accept(occurrenceOf("o1"));
      await store.fork({ from: A, as: B });
      assert.deepEqual(await idsOf(triggers, { sessionId: B }), []);
      assert.deepEqual(await pendingOf(triggers), ["o1 for s1"]);
    },
  },
  {
    rule: "ST40",
    title: "vacuum removes occurrences that are delivered after their time, and their ids can be used again",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      for (const name of ["o1", "o2"]) await triggers.accept(occurrenceOf(name));
      await triggers.settle({ occurrenceId: "o1", subscriptionId: "s1" });
      assert.equal((await store.vacuum({ now: 3000 + DAY - 1, keepMs: DAY })).occurrences, 0);
      assert.equal((await triggers.accept(occurrenceOf("o1"))).status, "duplicate");
      assert.equal((await store.vacuum({ now: 3000 + DAY, keepMs: DAY })).occurrences, 1);
      assert.deepEqual(await pendingOf(triggers), ["o2 for s1"]);
      assert.equal((await triggers.accept(occurrenceOf("o1", { payload: 1 }))).status, "accepted");
    },
  },
  {
    rule: "ST40",
    title: "a blob stays that is named by a subscription or by what is to be delivered",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      const put = (text: string): Promise<string> => store.blobs.put(new TextEncoder().encode(text));
      const [named, delivered, stray] = [await put("one"), await put("two"), await put("three")];
      await triggers.subscribe(subscriptionOf("s1", { definition: { named: named ?? "" } }));
      await triggers.accept(occurrenceOf("o1", { payload: [delivered ?? ""] }));
      assert.equal((await store.vacuum({ now: Date.now() + 2 * DAY, keepMs: DAY })).blobs, 1);
      assert.notEqual(await store.blobs.get(named ?? ""), undefined);
      assert.notEqual(await store.blobs.get(delivered ?? ""), undefined);
      assert.equal(await store.blobs.get(stray ?? ""), undefined);
    },
  },
  {
    rule: "ST26",
    title: "subscriptions, due times, occurrences and deliveries are there after opening again",
    needs: "reopen",
    run: async ({ store, reopen }) => {
      await triggersOf(store).subscribe(subscriptionOf("s1", { due: 10 }));
      await triggersOf(store).accept(occurrenceOf("o1"));
      const before = [await triggersOf(store).list({}), await triggersOf(store).pending(FIRST_PAGE)];
      const triggers = triggersOf(await reopen());
      assert.deepEqual([await triggers.list({}), await triggers.pending(FIRST_PAGE)], before);
      assert.equal((await triggers.accept(occurrenceOf("o1"))).status, "duplicate");
    },
  },
  {
    rule: "ST43",
    title: "two stores that accept one occurrence reserve it once",
    needs: "second",
    run: async ({ store, second }) => {
      const other = triggersOf(await second());
      await triggersOf(store).subscribe(subscriptionOf("s1"));
      const both = await Promise.all([
        triggersOf(store).accept(occurrenceOf("o1")),
        other.accept(occurrenceOf("o1")),
      ]);
      assert.deepEqual(both.map(({ status }) => status).sort(), ["accepted", "duplicate"]);
      assert.deepEqual(await pendingOf(other), ["o1 for s1"]);
    },
  },
];

export const tickAndAgeCases: readonly StoreCase[] = [...tickCases, ...sessionCases];
