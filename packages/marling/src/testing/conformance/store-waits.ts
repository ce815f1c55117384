// Cases about values that arrive from outside: once, by keys, from anywhere.

import assert from "node:assert/strict";
import type { Resolution, Store, WaitRow } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  FIRST,
  hashOf,
  id,
  inputOf,
  observe,
  refused,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

async function only(store: Store): Promise<WaitRow> {
  const rows = await store.waits.read(A, FIRST);
  assert.equal(rows.length, 1);
  return rows[0] as WaitRow; // counted
}

async function bring(store: Store, key: string, value: Resolution = { ok: "value" }): Promise<string> {
  return (await store.waits.resolve(hashOf(key), "completion", value)).status;
}

export const waitCases: readonly StoreCase[] = [
  {
    rule: "ST34",
    title: "a wait is known by session, turn and name, and has no value at first",
    run: async ({ store }) => {
      assert.deepEqual(await store.waits.read(A, FIRST), []);
      await store.waits.create(waitOf("w"));
      const row = await only(store);
      assert.deepEqual(
        [row.sessionId, row.turnId, row.name, row.kind, row.isOver, row.resolution],
        ["a", FIRST, "w", "completion", false, undefined],
      );
      assert.deepEqual([await store.exists(A), await store.unsettled()], [false, []]);
    },
  },
  {
    rule: "ST34",
    title: "the first value is kept, and says whose wait it was",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      const { status, sessionId, turnId, name } = await store.waits.resolve(hashOf("w"), "completion", {
        ok: { b: 1, a: [null] },
      });
      assert.deepEqual([status, sessionId, turnId, name], ["resolved", "a", FIRST, "w"]);
      assert.equal(await bring(store, "w", { ok: "second" }), "already_resolved");
      assert.equal(await bring(store, "w", { error: { code: "c", message: "m" } }), "already_resolved");
      const row = await only(store);
      assert.deepEqual([row.resolution, row.isOver], [{ ok: { b: 1, a: [null] } }, false]);
    },
  },
  {
    rule: "ST34",
    title: "a failure is a value, too",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      const failure = { error: { code: "denied", message: "no, \u{1f645}" } };
      assert.equal(await bring(store, "w", failure), "resolved");
      assert.equal(await bring(store, "w"), "already_resolved");
      assert.deepEqual((await only(store)).resolution, failure);
    },
  },
  {
    rule: "ST34",
    title: "nothing, false and a large value are values",
    run: async ({ store }) => {
      const values = [null, false, "", [], { large: "x".repeat(1 << 20) }, "it's \0 \ud83d"];
      for (const [index, ok] of values.entries()) {
        await store.waits.create(waitOf(`w${index}`));
        assert.equal(await bring(store, `w${index}`, { ok }), "resolved");
        assert.equal(await bring(store, `w${index}`, { ok: "late" }), "already_resolved");
      }
      const rows = (await store.waits.read(A, FIRST)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
      assert.deepEqual(
        rows.map(({ resolution }) => resolution),
        values.map((ok) => ({ ok })),
      );
    },
  },
  {
    rule: "ST34",
    title: "a hash that is not known is unknown, and a key opens only what it was made for",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await store.waits.create(waitOf("x", { kind: "approval" }));
      assert.equal(await bring(store, "other"), "unknown");
      assert.equal(await bring(store, "x"), "unknown");
      const wrong = await store.waits.resolve(hashOf("w"), "approval", { ok: true });
      assert.deepEqual(wrong, { status: "unknown" });
      for (const row of await store.waits.read(A, FIRST)) assert.equal(row.resolution, undefined);
      const right = await store.waits.resolve(hashOf("x"), "approval", { ok: true });
      assert.equal(right.status, "resolved");
    },
  },
  {
    rule: "ST34",
    title: "every key of a wait brings its value, and the first of them wins",
    run: async ({ store }) => {
      for (const key of ["k1", "k2", "k3"]) await store.waits.create(waitOf("w", { keyHash: hashOf(key) }));
      assert.equal(await bring(store, "k2", { ok: 2 }), "resolved");
      assert.equal(await bring(store, "k1", { ok: 1 }), "already_resolved");
      assert.equal(await bring(store, "k3", { ok: 3 }), "already_resolved");
      assert.deepEqual((await only(store)).resolution, { ok: 2 });
    },
  },
  {
    rule: "ST34",
    title: "creating a wait again keeps what it is, with its value",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await store.waits.create(waitOf("w"));
      assert.equal(await bring(store, "w", { ok: 1 }), "resolved");
      await store.waits.create(waitOf("w"));
      await store.waits.create(waitOf("w", { keyHash: hashOf("new") }));
      assert.deepEqual((await only(store)).resolution, { ok: 1 });
      assert.equal(await bring(store, "new", { ok: 2 }), "already_resolved");
    },
  },
  {
    rule: "ST34",
    title: "a wait that ended takes no value, and ending it again changes nothing",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      const ended = await store.waits.end(waitOf("w"));
      assert.deepEqual([ended?.name, ended?.isOver, ended?.resolution], ["w", true, undefined]);
      assert.equal(await bring(store, "w"), "already_resolved");
      const again = await store.waits.end(waitOf("w"));
      assert.deepEqual([again?.isOver, again?.resolution], [true, undefined]);
      assert.deepEqual((await only(store)).resolution, undefined);
    },
  },
  {
    rule: "ST34",
    title: "ending a wait whose value came first returns the value",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await bring(store, "w", { ok: 1 });
      const ended = await store.waits.end(waitOf("w"));
      assert.deepEqual([ended?.resolution, ended?.isOver], [{ ok: 1 }, false]);
      assert.deepEqual((await only(store)).resolution, { ok: 1 });
      assert.equal(await bring(store, "w", { ok: 2 }), "already_resolved");
    },
  },
  {
    rule: "ST34",
    title: "ending a wait that is not known returns nothing",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      assert.equal(await store.waits.end(waitOf("x")), undefined);
      assert.equal(await store.waits.end(waitOf("w", { turnId: turn("other") })), undefined);
      assert.equal(await store.waits.end(waitOf("w", { sessionId: B })), undefined);
      assert.equal((await only(store)).isOver, false);
    },
  },
  {
    rule: "ST34",
    title: "the same name in another turn or session is another wait",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      const second = { turnId: turn("a:turn:2"), keyHash: hashOf("second") };
      await store.waits.create(waitOf("w", second));
      await store.waits.create(waitOf("w", { sessionId: B, keyHash: hashOf("there") }));
      assert.equal(await bring(store, "second", { ok: 2 }), "resolved");
      const values = [
        await store.waits.read(A, FIRST),
        await store.waits.read(A, second.turnId),
        await store.waits.read(B, FIRST),
      ].map((rows) => rows.map(({ resolution }) => resolution));
      assert.deepEqual(values, [[undefined], [{ ok: 2 }], [undefined]]);
    },
  },
  {
    rule: "ST34",
    title: "odd names are names",
    run: async ({ store }) => {
      const names = ["", "__proto__", "it's/\u{1f469}", "a\0b", "W", "w"];
      for (const name of names) await store.waits.create(waitOf(name));
      for (const name of names) assert.equal(await bring(store, name, { ok: name }), "resolved");
      const rows = await store.waits.read(A, FIRST);
      for (const { name, resolution } of rows) assert.deepEqual(resolution, { ok: name });
      assert.deepEqual(rows.map(({ name }) => name).toSorted(), names.toSorted());
    },
  },
  {
    rule: "ST34",
    title: "a commit that forgets a turn ends its waits, and no others",
    run: async ({ store }) => {
      await store.waits.create(waitOf("open"));
      await store.waits.create(waitOf("done"));
      await store.waits.create(waitOf("kept", { turnId: turn("a:turn:2") }));
      await store.waits.create(waitOf("there", { sessionId: B }));
      await bring(store, "done", { ok: 1 });
      await store.commit(commitOf(A, 0, { forgets: [FIRST, turn("unknown")] }));
      assert.equal(await bring(store, "open"), "already_resolved");
      assert.equal(await bring(store, "done"), "already_resolved");
      assert.equal(await bring(store, "kept"), "resolved");
      assert.equal(await bring(store, "there"), "resolved");
      const rows = await store.waits.read(A, FIRST);
      assert.deepEqual(rows.find(({ name }) => name === "open")?.resolution, undefined);
    },
  },
  {
    rule: "ST34",
    title: "a commit that is refused ends no wait",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await refused(store.commit(commitOf(A, 3, { forgets: [FIRST] })), "revision_conflict");
      assert.equal((await only(store)).isOver, false);
      assert.equal(await bring(store, "w"), "resolved");
    },
  },
  {
    rule: "ST34",
    title: "deleting a session makes its keys unknown, and those of no other",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await store.waits.create(waitOf("done"));
      await bring(store, "done");
      await store.waits.create(waitOf("there", { sessionId: B }));
      await store.delete(A);
      assert.equal(await bring(store, "w"), "unknown");
      assert.equal(await bring(store, "done"), "unknown");
      assert.equal(await bring(store, "there"), "resolved");
    },
  },
  {
    rule: "ST34",
    title: "a fork has no waits",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { ids: ["n1"] }));
      await store.waits.create(waitOf("w"));
      await store.fork({ from: A, as: id("fork") });
      assert.deepEqual(await store.waits.read(id("fork"), FIRST), []);
      assert.equal(await bring(store, "w"), "resolved");
    },
  },
  {
    rule: "ST34",
    title: "a value needs no lease",
    run: async ({ store }) => {
      const lease = await claimed(store, "one");
      await store.waits.create(waitOf("w", { lease }));
      assert.equal(await bring(store, "w", { ok: 1 }), "resolved");
      assert.deepEqual((await store.waits.end({ ...waitOf("w"), lease }))?.resolution, { ok: 1 });
    },
  },
  {
    rule: "ST34",
    title: "of several values at once exactly one is kept",
    run: async ({ store }) => {
      for (const key of ["k1", "k2"]) await store.waits.create(waitOf("w", { keyHash: hashOf(key) }));
      const keys = ["k1", "k2", "k1", "k2"];
      const statuses = await Promise.all(keys.map((key, index) => bring(store, key, { ok: index })));
      assert.equal(statuses.filter((status) => status === "resolved").length, 1);
      assert.deepEqual((await only(store)).resolution, { ok: statuses.indexOf("resolved") });
    },
  },
  {
    rule: "ST34",
    title: "of a value and an end at once the first wins, and both are told",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      const [status, ended] = await Promise.all([bring(store, "w", { ok: 1 }), store.waits.end(waitOf("w"))]);
      const expected = status === "resolved" ? { ok: 1 } : undefined;
      assert.deepEqual(ended?.resolution, expected);
      assert.deepEqual((await only(store)).resolution, expected);
    },
  },
  {
    rule: "ST34",
    title: "a value that another store brings is there",
    needs: "second",
    run: async ({ store, second }) => {
      const other = await second();
      await store.waits.create(waitOf("w"));
      assert.deepEqual((await other.waits.read(A, FIRST)).length, 1);
      assert.equal(await bring(other, "w", { ok: 1 }), "resolved");
      assert.equal(await bring(store, "w", { ok: 2 }), "already_resolved");
      assert.deepEqual((await only(store)).resolution, { ok: 1 });
    },
  },
  {
    rule: "ST34",
    title: "reading, and bringing what is not wanted, changes nothing",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.waits.create(waitOf("w"));
      await bring(store, "w", { ok: 1 });
      const before = await observe(store, A);
      await store.waits.read(A, FIRST);
      await bring(store, "w", { ok: 2 });
      await bring(store, "unknown");
      assert.deepEqual(await observe(store, A), before);
    },
  },
];
