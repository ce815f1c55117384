// Cases about triggers: who subscribed, what occurred once, and what is still to be delivered.

import assert from "node:assert/strict";
import { A, B, id, inputOf, refused, type StoreCase } from "./store-case.ts";
import {
  FIRST_PAGE,
  idsOf,
  MAIL,
  occurrenceOf,
  pendingOf,
  subscriptionOf,
  triggersOf,
} from "./trigger-samples.ts";

const subscriptionCases: readonly StoreCase[] = [
  {
    rule: "ST42",
    title: "a subscription comes back as it was made; the same again is the one that is there",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      const wanted = subscriptionOf("s1", { topic: "inbox", due: 5000, definition: { b: 1, a: ["\ud800"] } });
      const made = await triggers.subscribe(wanted);
      assert.deepEqual(made, { isNew: true, subscription: { ...wanted, isEnabled: true } });
      const again = await triggers.subscribe({ ...wanted, createdAt: 9999, due: 9999 });
      assert.deepEqual(again, { isNew: false, subscription: { ...wanted, isEnabled: true } });
      assert.deepEqual(await triggers.get("s1"), { ...wanted, isEnabled: true });
      assert.equal(await triggers.get("other"), undefined);
      assert.deepEqual([await store.exists(A), await store.unsettled()], [false, []]);
    },
  },
  {
    rule: "ST42",
    title: "another definition under an id is a conflict, and so is that of another session",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      await refused(triggers.subscribe(subscriptionOf("s1", { definition: 2 })), "idempotency_conflict");
      await refused(triggers.subscribe(subscriptionOf("s1", { sessionId: B })), "idempotency_conflict");
      assert.deepEqual((await triggers.get("s1"))?.definition, { of: "s1" });
    },
  },
  {
    rule: "ST42",
    title: "lists are in the order of ids, by session and source, and pages visit each once",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s3"));
      await triggers.subscribe(subscriptionOf("s1", { source: "other" }));
      await triggers.subscribe(subscriptionOf("s2", { sessionId: B }));
      assert.deepEqual(await idsOf(triggers, {}), ["s1", "s2", "s3"]);
      assert.deepEqual(await idsOf(triggers, { sessionId: A }), ["s1", "s3"]);
      assert.deepEqual(await idsOf(triggers, { source: MAIL }), ["s2", "s3"]);
      assert.deepEqual(await idsOf(triggers, { sessionId: id("nobody") }), []);
      const page = await triggers.list({ limit: 2 });
      assert.deepEqual([page.items.length, page.cursor], [2, "s2"]);
      assert.deepEqual(await idsOf(triggers, { limit: 2, cursor: "s2" }), ["s3"]);
      assert.equal((await triggers.list({ limit: 3 })).cursor, undefined);
    },
  },
  {
    rule: "ST42",
    title: "a subscription that is removed matches nothing any more, and its id is free",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      assert.equal(await triggers.unsubscribe("s1"), true);
      assert.equal(await triggers.unsubscribe("s1"), false);
      assert.equal(await triggers.enable("s1", { isEnabled: true }), undefined);
      assert.equal((await triggers.accept(occurrenceOf("o1"))).deliveries, 0);
      assert.equal((await triggers.subscribe(subscriptionOf("s1", { definition: 2 }))).isNew, true);
    },
  },
];

const occurrenceCases: readonly StoreCase[] = [
  {
    rule: "ST43",
    title: "an occurrence is reserved for every enabled subscription of its source and topic, once",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("all"));
      await triggers.subscribe(subscriptionOf("inbox", { sessionId: B, topic: "inbox" }));
      await triggers.subscribe(subscriptionOf("spam", { topic: "spam" }));
      await triggers.subscribe(subscriptionOf("other", { source: "other" }));
      await triggers.subscribe(subscriptionOf("off"));
      await triggers.enable("off", { isEnabled: false });
      const occurrence = occurrenceOf("o1", { topic: "inbox" });
      assert.deepEqual(await triggers.accept(occurrence), { status: "accepted", deliveries: 2 });
      const again = { ...occurrence, at: 9, acceptedAt: 9 };
      assert.deepEqual(await triggers.accept(again), { status: "duplicate", deliveries: 0 });
      const [first, second, ...others] = await triggers.pending(FIRST_PAGE);
      assert.deepEqual(others, []);
      const { sequence, ...delivery } = first ?? { sequence: 0 };
      assert.deepEqual(delivery, {
        occurrenceId: "o1",
        subscriptionId: "all",
        sessionId: A,
        source: MAIL,
        topic: "inbox",
        definition: { of: "all" },
        payload: { subject: "o1" },
        at: 2000,
      });
      assert.deepEqual([second?.subscriptionId, second?.sessionId], ["inbox", B]);
      assert.ok((second?.sequence ?? 0) > sequence);
    },
  },
  {
    rule: "ST43",
    title: "another payload under an id is a conflict, also when everything was delivered",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      await triggers.accept(occurrenceOf("o1", { payload: { b: 1, a: 2 } }));
      await triggers.settle({ occurrenceId: "o1", subscriptionId: "s1" });
      assert.deepEqual(await pendingOf(triggers), []);
      const same = await triggers.accept(occurrenceOf("o1", { payload: { a: 2, b: 1 } }));
      assert.equal(same.status, "duplicate");
      await refused(triggers.accept(occurrenceOf("o1", { payload: null })), "idempotency_conflict");
      assert.deepEqual(await pendingOf(triggers), []);
    },
  },
  {
    rule: "ST43",
    title: "what was reserved stays, with its definition, when its subscription is off or gone",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      for (const name of ["s1", "s2"]) await triggers.subscribe(subscriptionOf(name));
      await triggers.accept(occurrenceOf("o1"));
      await triggers.enable("s1", { isEnabled: false });
      await triggers.unsubscribe("s2");
      assert.deepEqual(await pendingOf(triggers), ["o1 for s1", "o1 for s2"]);
      const [, second] = await triggers.pending(FIRST_PAGE);
      assert.deepEqual(second?.definition, { of: "s2" });
    },
  },
  {
    rule: "ST43",
    title: "pages of deliveries go on behind a sequence",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      for (const name of ["o3", "o1", "o2"]) await triggers.accept(occurrenceOf(name));
      const page = await triggers.pending({ after: 0, limit: 2 });
      assert.deepEqual(
        page.map(({ occurrenceId }) => occurrenceId),
        ["o3", "o1"],
      );
      const rest = await triggers.pending({ after: page.at(-1)?.sequence ?? 0, limit: 2 });
      assert.deepEqual(
        rest.map(({ occurrenceId }) => occurrenceId),
        ["o2"],
      );
    },
  },
  {
    rule: "ST44",
    title: "an input that is a delivery takes it with it, accepted or known already, and no other",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      for (const name of ["s1", "s2"]) await triggers.subscribe(subscriptionOf(name));
      await triggers.accept(occurrenceOf("o1"));
      const delivery = { occurrenceId: "o1", subscriptionId: "s1" };
      const input = inputOf(A, "o1", { key: "o1" });
      const { row } = await store.admit(input, undefined, delivery);
      assert.deepEqual(row, { ...input, turnId: "a:turn:1", inputId: "a:input:1", sequence: 1 });
      assert.deepEqual(await pendingOf(triggers), ["o1 for s2"]);
      const other = { occurrenceId: "o1", subscriptionId: "s2" };
      assert.equal((await store.admit(input, undefined, other)).status, "duplicate");
      assert.deepEqual(await pendingOf(triggers), []);
    },
  },
  {
    rule: "ST44",
    title: "an input that is refused leaves its delivery",
    needs: "triggers",
    run: async ({ store }) => {
      const triggers = triggersOf(store);
      await triggers.subscribe(subscriptionOf("s1"));
      await triggers.accept(occurrenceOf("o1"));
      await store.admit(inputOf(A, "one", { key: "k" }));
      const delivery = { occurrenceId: "o1", subscriptionId: "s1" };
      const rival = inputOf(A, "two", { key: "k" });
      await refused(store.admit(rival, undefined, delivery), "idempotency_conflict");
      assert.deepEqual(await pendingOf(triggers), ["o1 for s1"]);
    },
  },
];

export const triggerCases: readonly StoreCase[] = [...subscriptionCases, ...occurrenceCases];
