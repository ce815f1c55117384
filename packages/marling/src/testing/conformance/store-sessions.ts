// Cases about sessions as a whole: listing, existing, deleting, keeping apart.

import assert from "node:assert/strict";
import type { SessionId } from "../../model/ids.ts";
import type { SessionFilter, Store } from "../../store/contract.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  deliveryTo,
  FIRST,
  head,
  id,
  inputOf,
  journalOf,
  leaseFor,
  nodeIds,
  parking,
  record,
  refused,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

async function allPages(store: Store, filter: SessionFilter): Promise<readonly (readonly string[])[]> {
  const pages: (readonly string[])[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list(cursor === undefined ? filter : { ...filter, cursor });
    pages.push(page.items.map((item) => item.id));
    cursor = page.cursor;
  } while (cursor !== undefined);
  return pages;
}

async function commitAll(store: Store, ids: readonly string[]): Promise<void> {
  for (const name of ids) await store.commit(commitOf(id(name), 0));
}

export const sessionCases: readonly StoreCase[] = [
  {
    rule: "ST5",
    title: "an empty store lists nothing",
    run: async ({ store }) => assert.deepEqual(await store.list({}), { items: [] }),
  },
  {
    rule: "ST5",
    title: "a summary has the revision, the turn index and the parent, if any",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { head: head({ turnIndex: 4 }) }));
      await store.commit(commitOf(B, 0, { head: head({ parentSessionId: "a" }) }));
      await store.commit(commitOf(B, 1, { head: head({ parentSessionId: "a", turnIndex: 1 }) }));
      assert.deepEqual((await store.list({})).items, [
        { id: "a", revision: 1, turnIndex: 4 },
        { id: "b", revision: 2, turnIndex: 1, parentSessionId: "a" },
      ]);
    },
  },
  {
    rule: "ST5",
    title: "sessions are listed by id, whatever the order of their commits",
    run: async ({ store }) => {
      await commitAll(store, ["m", "a", "z", "B", "a/1", "a-1"]);
      assert.deepEqual(await allPages(store, {}), [["B", "a", "a-1", "a/1", "m", "z"]]);
    },
  },
  {
    rule: "ST5",
    title: "a session without commits is not listed",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting"));
      assert.deepEqual((await store.list({})).items, []);
    },
  },
  {
    rule: "ST5",
    title: "a prefix is taken as it is",
    run: async ({ store }) => {
      await commitAll(store, ["a", "a%", "a%b", "a_b", "ab", "b", "é1", "é2", "😀1", "😀2"]);
      assert.deepEqual(await allPages(store, { prefix: "a" }), [["a", "a%", "a%b", "a_b", "ab"]]);
      assert.deepEqual(await allPages(store, { prefix: "a%" }), [["a%", "a%b"]]);
      assert.deepEqual(await allPages(store, { prefix: "é" }), [["é1", "é2"]]);
      assert.deepEqual(await allPages(store, { prefix: "😀" }), [["😀1", "😀2"]]);
      assert.deepEqual(await allPages(store, { prefix: "none" }), [[]]);
    },
  },
  {
    rule: "ST5",
    title: "pages have a cursor as long as there is more",
    run: async ({ store }) => {
      await commitAll(store, ["s1", "s2", "s3", "s4", "s5", "t1"]);
      assert.deepEqual(await allPages(store, { limit: 2 }), [
        ["s1", "s2"],
        ["s3", "s4"],
        ["s5", "t1"],
      ]);
      assert.deepEqual(await allPages(store, { limit: 2, prefix: "s" }), [
        ["s1", "s2"],
        ["s3", "s4"],
        ["s5"],
      ]);
      assert.deepEqual(await allPages(store, { limit: 6 }), [["s1", "s2", "s3", "s4", "s5", "t1"]]);
    },
  },
  {
    rule: "ST5",
    title: "following cursors visits every session once, in any script",
    run: async ({ store }) => {
      const ids = [
        "a",
        "é",
        "ÿ",
        "\u{ffff}",
        "\u{10000}",
        "😀",
        "\u{e000}",
        "日本",
        "\u{10ffff}",
        "\u{10ffff}z",
      ];
      await commitAll(store, ids);
      const visited = (await allPages(store, { limit: 3 })).flat();
      assert.deepEqual([...visited].sort(), [...ids].sort());
      assert.deepEqual(await allPages(store, { prefix: "\u{10ffff}" }), [["\u{10ffff}", "\u{10ffff}z"]]);
    },
  },
  {
    rule: "ST5",
    title: "a page goes on where its cursor was, though that session was deleted",
    run: async ({ store }) => {
      await commitAll(store, ["s1", "s2", "s3"]);
      const { cursor } = await store.list({ limit: 2 });
      assert.ok(cursor);
      await store.delete(id("s2"));
      assert.deepEqual(
        (await store.list({ cursor })).items.map((item) => item.id),
        ["s3"],
      );
    },
  },
  {
    rule: "ST5",
    title: "a limit that is no positive whole number is refused",
    run: async ({ store }) => {
      for (const limit of [0, -1, 1.5, Number.NaN]) await refused(store.list({ limit }), "invalid_input");
    },
  },
  {
    rule: "ST15",
    title: "a session exists from its first commit until it is deleted",
    run: async ({ store }) => {
      assert.equal(await store.exists(A), false);
      await store.admit(inputOf(A, "waiting"));
      assert.equal(await store.exists(A), false);
      await store.commit(commitOf(A, 0));
      assert.equal(await store.exists(A), true);
      await store.delete(A);
      assert.equal(await store.exists(A), false);
    },
  },
  {
    rule: "ST4",
    title: "everything that names a deleted session is refused",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting", { key: "k" }));
      await store.commit(commitOf(A, 0));
      await store.commit(commitOf(B, 0));
      await store.delete(A);
      await refused(store.load(A), "session_deleted");
      await refused(store.commit(commitOf(A, 0)), "session_deleted");
      await refused(store.commit(commitOf(A, 1)), "session_deleted");
      await refused(store.admit(inputOf(A, "waiting", { key: "k" })), "session_deleted");
      await refused(store.find(inputOf(A, "waiting", { key: "k" })), "session_deleted");
      await refused(store.pending(A), "session_deleted");
      await refused(store.fork({ from: A, as: id("c") }), "session_deleted");
      await refused(store.fork({ from: B, as: A }), "session_deleted");
    },
  },
  {
    rule: "ST4",
    title: "a deleted session has no lease, queue, wait or announcement that could be asked for",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting"));
      const generation = await claimed(store, "one");
      await store.waits.create(waitOf("w"));
      await store.delete(A);
      await refused(store.revision(A), "session_deleted");
      await refused(store.claim(A, leaseFor("one")), "session_deleted");
      await refused(store.admit(inputOf(A, "more"), leaseFor("one")), "session_deleted");
      await refused(store.deliver(deliveryTo("k", generation)), "session_deleted");
      await refused(store.withdraw(A, []), "session_deleted");
      await refused(store.cancel({ sessionId: A, turnId: FIRST, reason: "late" }), "session_deleted");
      await refused(store.park(parking(generation)), "session_deleted");
      await refused(store.announced(A, 1), "session_deleted");
      await refused(store.waits.create(waitOf("w")), "session_deleted");
      await refused(store.waits.read(A, FIRST), "session_deleted");
      await refused(store.waits.end(waitOf("w")), "session_deleted");
      assert.deepEqual(await store.workable(1e12), []);
    },
  },
  {
    rule: "ST4",
    title: "a deleted session is not listed and has nothing unsettled",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting"));
      await commitAll(store, ["a", "b"]);
      await store.delete(A);
      assert.deepEqual(
        (await store.list({})).items.map((item) => item.id),
        ["b"],
      );
      assert.deepEqual(await store.unsettled(), []);
    },
  },
  {
    rule: "ST4",
    title: "an id is retired though it never had a commit, or was never used",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "waiting"));
      for (const sessionId of [A, id("unused")]) {
        await store.delete(sessionId);
        await refused(store.commit(commitOf(sessionId, 0)), "session_deleted");
      }
    },
  },
  {
    rule: "ST4",
    title: "deleting again is fine and changes nothing",
    run: async ({ store }) => {
      await commitAll(store, ["a", "b"]);
      await store.delete(A);
      await store.delete(A);
      await refused(store.load(A), "session_deleted");
      assert.equal(await store.exists(B), true);
    },
  },
  {
    rule: "ST4",
    title: "the journal of a deleted session is refused",
    needs: "journal",
    run: async ({ store }) => {
      const journal = journalOf(store);
      await journal.append([record("k", "done")]);
      await store.delete(A);
      await refused(journal.append([record("k2", "done")]), "session_deleted");
      await refused(journal.read(A, turn("t1")), "session_deleted");
    },
  },
  {
    rule: "ST24",
    title: "sessions whose ids contain each other do not see each other",
    run: async ({ store }) => {
      const ids: readonly SessionId[] = ["s", "s:turn:1", "s:input:1", "S", "s "].map(id);
      for (const sessionId of ids) {
        await store.admit(inputOf(sessionId, `input of ${sessionId}`, { key: "k" }));
        await store.commit(commitOf(sessionId, 0, { operation: "op", ids: [`node of ${sessionId}`] }));
      }
      for (const sessionId of ids) {
        assert.deepEqual(await nodeIds(store, sessionId), [`node of ${sessionId}`]);
        assert.deepEqual(
          (await store.pending(sessionId)).map(({ submitted }) => submitted),
          [{ text: `input of ${sessionId}` }],
        );
      }
    },
  },
];
