// Cases about admission: ids, keys and what counts as the same input.

import assert from "node:assert/strict";
import { A, commitOf, inputOf, refused, report, type StoreCase, turn } from "./store-case.ts";

export const admissionCases: readonly StoreCase[] = [
  {
    rule: "ST8",
    title: "an accepted input has a sequence and derived ids",
    run: async ({ store }) => {
      const { status, row } = await store.admit(inputOf(A, "hello", { key: "k" }));
      assert.equal(status, "accepted");
      assert.deepEqual(row, {
        sessionId: "a",
        key: "k",
        submitted: { text: "hello" },
        input: { text: "hello" },
        inputId: "a:input:1",
        turnId: "a:turn:1",
        sequence: 1,
      });
    },
  },
  {
    rule: "ST8",
    title: "sequences count on over settled inputs",
    run: async ({ store }) => {
      for (const revision of [0, 1, 2]) {
        const { row } = await store.admit(inputOf(A, `input ${revision}`));
        assert.equal(row.sequence, revision + 1);
        await store.commit(
          commitOf(A, revision, { settles: { inputId: row.inputId, report: report("done") } }),
        );
      }
    },
  },
  {
    rule: "ST8",
    title: "a turn id that is given is kept",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "hello", { turnId: turn("my-turn") }));
      assert.equal(row.turnId, "my-turn");
      assert.equal((await store.pending(A))[0]?.turnId, "my-turn");
    },
  },
  {
    rule: "ST8",
    title: "a derived turn id is never one that was given before",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one", { turnId: turn("a:turn:2") }));
      const { status, row } = await store.admit(inputOf(A, "two"));
      assert.equal(status, "accepted");
      assert.notEqual(row.turnId, "a:turn:2");
      assert.equal((await store.pending(A))[1]?.turnId, row.turnId);
    },
  },
  {
    rule: "ST8",
    title: "inputs that are admitted at once get different sequences, without holes",
    run: async ({ store }) => {
      const texts = ["one", "two", "three", "four"];
      const admissions = await Promise.all(texts.map((text) => store.admit(inputOf(A, text))));
      assert.deepEqual(admissions.map(({ row }) => row.sequence).toSorted(), [1, 2, 3, 4]);
      const rows = admissions.map(({ row }) => row).toSorted((a, b) => a.sequence - b.sequence);
      assert.deepEqual(await store.pending(A), rows);
    },
  },
  {
    rule: "ST3",
    title: "the same key with the same content is the same row",
    run: async ({ store }) => {
      const first = await store.admit(inputOf(A, "hello", { key: "k" }));
      const again = await store.admit(inputOf(A, "hello", { key: "k" }));
      assert.equal(again.status, "duplicate");
      assert.deepEqual(again.row, first.row);
      assert.equal((await store.pending(A)).length, 1);
    },
  },
  {
    rule: "ST3",
    title: "what was submitted is compared, not what was accepted, and not the order of members",
    run: async ({ store }) => {
      const submitted = { a: 1, b: { c: 2, d: 3 } };
      await store.admit({ sessionId: A, key: "k", submitted, input: { first: true } });
      const again = {
        sessionId: A,
        key: "k",
        submitted: { b: { d: 3, c: 2 }, a: 1 },
        input: { second: true },
      };
      const { status, row } = await store.admit(again);
      assert.equal(status, "duplicate");
      assert.deepEqual(row.input, { first: true });
    },
  },
  {
    rule: "ST3",
    title: "the same key with other content is a conflict that names the row",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "hello", { key: "k" }));
      const details = await refused(store.admit(inputOf(A, "other", { key: "k" })), "idempotency_conflict");
      assert.deepEqual([details.inputId, details.turnId], ["a:input:1", "a:turn:1"]);
      assert.equal((await store.pending(A)).length, 1);
    },
  },
  {
    rule: "ST3",
    title: "a turn id, given or derived, is the same row with the same content and a conflict with other",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one", { turnId: turn("t") }));
      await store.admit(inputOf(A, "two"));
      assert.equal((await store.admit(inputOf(A, "one", { turnId: turn("t") }))).row.sequence, 1);
      assert.equal((await store.admit(inputOf(A, "two", { turnId: turn("a:turn:2") }))).row.sequence, 2);
      await refused(store.admit(inputOf(A, "three", { turnId: turn("t") })), "idempotency_conflict");
      await refused(store.admit(inputOf(A, "three", { turnId: turn("a:turn:2") })), "idempotency_conflict");
    },
  },
  {
    rule: "ST3",
    title: "a key and a turn id of different rows are a conflict",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "same", { key: "k" }));
      await store.admit(inputOf(A, "same", { turnId: turn("t") }));
      await refused(store.admit(inputOf(A, "same", { key: "k", turnId: turn("t") })), "idempotency_conflict");
    },
  },
  {
    rule: "ST3",
    title: "an empty key is a key, and inputs without one are never duplicates",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "same", { key: "" }));
      assert.equal((await store.admit(inputOf(A, "same"))).status, "accepted");
      assert.equal((await store.admit(inputOf(A, "same"))).status, "accepted");
      assert.equal((await store.admit(inputOf(A, "same", { key: "" }))).row.sequence, 1);
    },
  },
  {
    rule: "ST3",
    title: "a key, a turn id and an operation of one name are different things",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { once: true, operation: "name" }));
      await store.admit(inputOf(A, "one", { key: "name" }));
      assert.equal((await store.admit(inputOf(A, "two", { turnId: turn("name") }))).status, "accepted");
      assert.equal((await store.commit(commitOf(A, 1, { once: true, operation: "other" }))).revision, 2);
    },
  },
  {
    rule: "ST3",
    title: "one key that is admitted twice at once is one row",
    run: async ({ store }) => {
      const both = await Promise.all([
        store.admit(inputOf(A, "x", { key: "k" })),
        store.admit(inputOf(A, "x", { key: "k" })),
      ]);
      assert.deepEqual(both.map(({ status }) => status).toSorted(), ["accepted", "duplicate"]);
      assert.deepEqual(both[0].row, both[1].row);
      assert.equal((await store.pending(A)).length, 1);
    },
  },
];
