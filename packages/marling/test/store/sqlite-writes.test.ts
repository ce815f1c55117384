// How writes share transactions, and what becomes of them when SQLite fails.

import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import type { SessionHead, Store } from "../../src/store/contract.ts";
import { loadDriver, type SqliteDatabase } from "../../src/store/sqlite/driver.ts";
import { openSqliteStore, type SqliteInternals } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  commitOf,
  id,
  inputOf,
  journalOf,
  observe,
  record,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { query, refusal, sqliteError, type Tap, tappedDriver, temporaryFolder } from "./sqlite-support.ts";

async function tappedStore(
  internals: SqliteInternals = {},
): Promise<{ store: Store; tap: Tap; path: string }> {
  const tap: Tap = {};
  const path = join(temporaryFolder(), "store.db");
  const store = openSqliteStore({ path }, { ...internals, loadDriver: () => tappedDriver(tap) });
  await store.commit(commitOf(id("first"), 0));
  return { store, tap, path };
}

function countCommits(tap: Tap): () => number {
  let commits = 0;
  tap.before = (sql) => {
    if (sql === "COMMIT") commits += 1;
  };
  return () => commits;
}

test("[SL4] writes of one tick share one transaction", async () => {
  const { store, tap } = await tappedStore();
  const commits = countCommits(tap);
  await Promise.all([
    store.admit(inputOf(A, "one")),
    store.commit(commitOf(B, 0)),
    journalOf(store).append([record("k", "done")]),
    store.blobs.put(Uint8Array.of(1)),
    store.delete(id("c")),
    ...Array.from({ length: 50 }, (_, index) => store.commit(commitOf(id(`s${index}`), 0))),
  ]);
  expect(commits()).toBe(1);
  await store.admit(inputOf(A, "two"));
  await store.admit(inputOf(A, "three"));
  expect(commits()).toBe(3);
  await store.close();
});

test("[SL4] a write that is alone waits for nothing from outside", async () => {
  const { store, tap } = await tappedStore();
  const order: string[] = [];
  await new Promise(setImmediate);
  tap.before = (sql) => {
    if (sql === "COMMIT") order.push("commit");
  };
  const outside = new Promise<void>((resolve) => {
    setImmediate(() => {
      order.push("outside");
      resolve();
    });
  });
  await store.admit(inputOf(A, "one"));
  await outside;
  expect(order).toEqual(["commit", "outside"]);
  await store.close();
});

test("[SL4] what many write one after the other, before anything comes from outside, is two transactions", async () => {
  const { store, tap } = await tappedStore();
  await new Promise(setImmediate);
  const commits = countCommits(tap);
  await store.commit(commitOf(A, 0));
  expect(commits()).toBe(1);
  const others: Promise<unknown>[] = [];
  for (let index = 0; index < 20; index += 1) {
    others.push(store.commit(commitOf(id(`s${index}`), 0)));
    await new Promise<void>(process.nextTick);
  }
  await Promise.all(others);
  expect(commits()).toBe(2);
  await store.close();
});

test("[SL4] a tick whose writes are all refused commits nothing", async () => {
  const { store, tap } = await tappedStore();
  const commits = countCommits(tap);
  const refused = [store.commit(commitOf(A, 4)), store.commit(commitOf(B, 5))].map(refusal);
  expect(await Promise.all(refused)).toMatchObject([
    { code: "revision_conflict" },
    { code: "revision_conflict" },
  ]);
  expect(commits()).toBe(0);
  await store.close();
});

test("[SL4] a caller hears of its write after the transaction, not before", async () => {
  const { store, tap } = await tappedStore();
  const order: string[] = [];
  tap.before = (sql) => {
    if (sql === "COMMIT") order.push("commit");
  };
  const writes = ["one", "two"].map((text) => store.admit(inputOf(A, text)).then(() => order.push(text)));
  await Promise.all(writes);
  expect(order).toEqual(["commit", "one", "two"]);
  await store.close();
});

/** Makes SQLite fail for inputs that contain a word. */
function failFor(tap: Tap, word: string, fail: (database: SqliteDatabase) => never): void {
  tap.before = (sql, values, database) => {
    const isInput = sql.startsWith("INSERT INTO inbox");
    if (isInput && values.some((value) => typeof value === "string" && value.includes(word))) fail(database);
  };
}

test.each([
  ["fails one statement", (_database: SqliteDatabase) => undefined],
  ["gives up the whole transaction", (database: SqliteDatabase) => database.exec("ROLLBACK")],
])("[SL4] the others of the tick succeed when SQLite %s", async (_name, before) => {
  const { store, tap } = await tappedStore();
  failFor(tap, "poison", (database) => {
    before(database);
    throw sqliteError(778, "disk I/O error");
  });
  const settled = await Promise.allSettled([
    store.commit(commitOf(A, 0, { ids: ["n1"] })),
    store.commit(commitOf(A, 1, { ids: ["n2"], enqueues: [inputOf(B, "poison")] })),
    store.commit(commitOf(A, 1, { operation: "other", ids: ["n3"] })),
    store.admit(inputOf(B, "fine")),
  ]);
  expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
  expect(settled[1]).toMatchObject({
    reason: { code: "io_failed", message: expect.stringContaining("disk I/O error") },
  });
  expect((await store.load(A))?.nodes.map((item) => item.id)).toEqual(["n1", "n3"]);
  expect((await store.pending(B)).map(({ submitted }) => submitted)).toEqual([{ text: "fine" }]);
  await store.close();
});

test("[SL4] what was remembered of a write that was undone is forgotten", async () => {
  const { store, tap, path } = await tappedStore();
  const journal = journalOf(store);
  await store.commit(commitOf(A, 0, { ids: ["n1"], head: { ...commitOf(A, 0).head, operations: 1 } }));
  failFor(tap, "poison", () => {
    throw sqliteError(778, "disk I/O error");
  });
  const bad = {
    ...commitOf(A, 1, { ids: ["bad"], enqueues: [inputOf(B, "poison")], forgets: [turn("t1")] }),
  };
  await journal.append([record("k", "done", { outcome: 1 })]);
  await refusal(store.commit({ ...bad, head: { ...bad.head, operations: 2, frames: [{ id: "bad" }] } }));
  await journal.append([record("k", "done", { outcome: 2 })]);
  const good = commitOf(A, 1, { ids: ["n2"] });
  await store.commit({ ...good, head: { ...good.head, operations: 2 } });
  const seen = await observe(store, A);
  await store.close();
  const again = openSqliteStore({ path }, {});
  expect(await observe(again, A)).toEqual(seen);
  expect((await again.load(A))?.head).toMatchObject({
    operations: 2,
    leaf: "n2",
    frames: [{ id: "frame-1" }],
  });
  expect(await again.journal?.read(A, turn("t1"))).toMatchObject([{ outcome: 1 }]);
  await again.close();
});

test("[SL6] a full disk is `io_failed`, and the store goes on with what was committed", async () => {
  const { store, tap } = await tappedStore();
  await store.commit(commitOf(A, 0, { ids: ["n1"] }));
  let limit = "PRAGMA store.max_page_count = 60";
  tap.before = (sql, _values, database) => {
    if (sql === "BEGIN IMMEDIATE") database.exec(limit);
  };
  const large = [{ id: "n2", text: "x".repeat(100_000) }];
  const settled = await Promise.allSettled([
    store.commit(commitOf(A, 1, { nodes: large })),
    store.commit(commitOf(B, 0, { ids: ["b1"] })),
  ]);
  expect(settled).toMatchObject([
    { status: "rejected", reason: { code: "io_failed", message: expect.stringContaining("full") } },
    { status: "fulfilled" },
  ]);
  expect((await store.load(A))?.revision).toBe(1);
  limit = "PRAGMA store.max_page_count = 100000";
  expect((await store.commit(commitOf(A, 1, { nodes: large }))).revision).toBe(2);
  await store.close();
});

test("[SL6] a transaction that cannot be ended is undone, and its writes are tried one by one", async () => {
  const { store, tap } = await tappedStore();
  let failures = 1;
  tap.before = (sql) => {
    if (sql !== "COMMIT" || failures === 0) return;
    failures -= 1;
    throw sqliteError(266, "disk I/O error");
  };
  const results = await Promise.all([store.commit(commitOf(A, 0)), store.commit(commitOf(B, 0))]);
  expect(results.map(({ revision }) => revision)).toEqual([1, 1]);
  failures = 1;
  expect(await refusal(store.commit(commitOf(A, 1)))).toMatchObject({ code: "io_failed" });
  expect((await store.commit(commitOf(A, 1))).revision).toBe(2);
  await store.close();
});

/** Somebody else who holds the file for writing. */
async function holdFile(path: string): Promise<() => void> {
  const { DatabaseSync } = await loadDriver();
  const database = new DatabaseSync(path);
  database.exec("BEGIN IMMEDIATE");
  return () => database.close();
}

test("[SL7] writes wait without blocking while somebody else holds the file", async () => {
  const { store, path } = await tappedStore();
  const release = await holdFile(path);
  let isSettled = false;
  const write = store.commit(commitOf(A, 0)).then(() => {
    isSettled = true;
  });
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
    if (ticks === 5) release();
  }, 5);
  expect((await store.load(id("first")))?.revision).toBe(1);
  await write;
  clearInterval(timer);
  expect(ticks).toBeGreaterThanOrEqual(5);
  expect(isSettled).toBe(true);
  await store.close();
});

test("[SL7] writes fail with `store_busy` when the file stays held, and the next ones are fine", async () => {
  const { store, path } = await tappedStore({ busyLimitMs: 30 });
  const release = await holdFile(path);
  const refused = await Promise.all(
    [store.commit(commitOf(A, 0)), store.admit(inputOf(B, "x"))].map(refusal),
  );
  expect(refused).toMatchObject([{ code: "store_busy" }, { code: "store_busy" }]);
  release();
  expect((await store.commit(commitOf(A, 0))).revision).toBe(1);
  await store.close();
});

test("[SL7] reads wait as well when SQLite says that the file is locked", async () => {
  const { store, tap } = await tappedStore({ busyLimitMs: 30 });
  let failures = 2;
  tap.before = (sql) => {
    if (sql !== "BEGIN" || failures === 0) return;
    failures -= 1;
    throw sqliteError(261, "database is locked");
  };
  expect((await store.load(id("first")))?.revision).toBe(1);
  expect(failures).toBe(0);
  failures = 1_000_000;
  expect(await refusal(store.load(id("first")))).toMatchObject({ code: "store_busy" });
  failures = 0;
  expect((await store.load(id("first")))?.revision).toBe(1);
  await store.close();
});

test("[SL7] a store that others hold is closed all the same", async () => {
  const { store, path } = await tappedStore();
  const release = await holdFile(path);
  await store.close();
  release();
  expect(await query(path, "SELECT count(*) AS n FROM commits")).toEqual([{ n: 1 }]);
});

test("[ST40] a store that others hold is vacuumed without becoming smaller", async () => {
  const { store, tap, path } = await tappedStore({ busyLimitMs: 30 });
  await store.commit(commitOf(A, 0, { nodes: [{ id: "n", text: "x".repeat(50_000) }] }));
  await store.delete(A);
  let release: (() => void) | undefined;
  const { DatabaseSync } = await loadDriver();
  tap.before = (sql) => {
    if (!sql.startsWith("VACUUM") || release !== undefined) return;
    const holder = new DatabaseSync(path);
    holder.exec("BEGIN IMMEDIATE");
    release = () => holder.close();
  };
  expect((await store.vacuum({ now: 0, keepMs: 0 })).bytes).toBe(0);
  release?.();
  expect((await store.vacuum({ now: 0, keepMs: 0 })).bytes).toBeGreaterThan(40_000);
  expect(await store.revision(id("first"))).toBe(1);
  await store.close();
});

test("[SL11] a commit on one of another store stores what changed since that one", async () => {
  const { store: one, path } = await tappedStore();
  const two = openSqliteStore({ path }, {});
  const head = (changes: object): { head: SessionHead } => ({ head: { ...commitOf(A, 0).head, ...changes } });
  await one.commit(commitOf(A, 0, head({ turnIndex: 1, frames: [{ id: "f1" }], operations: 1 })));
  await two.commit(
    commitOf(A, 1, head({ turnIndex: 2, frames: [{ id: "f1" }, { id: "f2" }], operations: 7 })),
  );
  await one.commit(commitOf(A, 2, head({ turnIndex: 3, frames: [{ id: "f1" }], operations: 1 })));
  for (const store of [one, two])
    expect((await store.load(A))?.head).toMatchObject({
      turnIndex: 3,
      frames: [{ id: "f1" }],
      operations: 1,
    });
  await Promise.all([one.close(), two.close()]);
});

test("[SL11] journal keys and places of another store are known", async () => {
  const { store: one, path } = await tappedStore();
  const two = openSqliteStore({ path }, {});
  await journalOf(one).append([record("k1", "started")]);
  await journalOf(two).append([record("k1", "done", { outcome: "two" }), record("k2", "started")]);
  await journalOf(one).append([record("k1", "done", { outcome: "one" }), record("k3", "started")]);
  await two.commit(commitOf(A, 0, { forgets: [turn("t2")] }));
  expect(await journalOf(one).read(A, turn("t1"))).toEqual([
    record("k1", "started"),
    record("k1", "done", { outcome: "two" }),
    record("k2", "started"),
    record("k3", "started"),
  ]);
  await two.commit(commitOf(A, 1, { forgets: [turn("t1")] }));
  await journalOf(one).append([record("k1", "done", { outcome: "again" })]);
  expect(await journalOf(two).read(A, turn("t1"))).toEqual([record("k1", "done", { outcome: "again" })]);
  await Promise.all([one.close(), two.close()]);
});

test("[ST39] `changes` moves with what other stores write, and with nothing else", async () => {
  const { store, path } = await tappedStore();
  const other = openSqliteStore({ path }, {});
  const start = await store.changes();
  await store.commit(commitOf(A, 0));
  await other.load(A);
  expect(await store.changes()).toBe(start);
  await other.cancel({ sessionId: A, turnId: turn("none"), reason: "nothing to write" });
  expect(await store.changes()).toBe(start);
  await other.admit(inputOf(A, "one"));
  const moved = await store.changes();
  expect(moved).not.toBe(start);
  expect(await store.changes()).toBe(moved);
  await Promise.all([store.close(), other.close()]);
});

test("[SL1] durability decides whether the log is synced", async () => {
  const levels: number[] = [];
  for (const durability of ["process", "power"] as const) {
    const tap: Tap = {};
    const store = openSqliteStore(
      { path: join(temporaryFolder(), "s.db"), durability },
      { loadDriver: () => tappedDriver(tap) },
    );
    await store.list({});
    tap.before = (sql, _values, database) => {
      if (sql === "BEGIN IMMEDIATE")
        levels.push(Number(database.prepare("PRAGMA store.synchronous").get()?.synchronous));
    };
    await store.commit(commitOf(A, 0));
    await store.close();
  }
  expect(levels).toEqual([1, 2]);
});

test("[SL1] a store that is closed leaves everything in one file", async () => {
  const { store, path } = await tappedStore();
  await store.commit(commitOf(A, 0, { ids: ["n1"] }));
  await store.close();
  expect(await query(path, "SELECT count(*) AS n FROM commits")).toEqual([{ n: 2 }]);
  expect(await query(path, "PRAGMA journal_mode")).toEqual([{ journal_mode: "wal" }]);
});

test("[BL2] bytes that were put last are known by what they are, whatever became of them since", async () => {
  const { store } = await tappedStore();
  const bytes = Uint8Array.of(1, 2, 3);
  const first = await store.blobs.put(bytes);
  expect(await store.blobs.put(bytes)).toBe(first);
  bytes[0] = 9;
  const second = await store.blobs.put(bytes);
  bytes[0] = 7;
  expect(await store.blobs.put(Uint8Array.of(1, 2, 3))).toBe(first);
  expect([await store.blobs.get(first), await store.blobs.get(second)]).toEqual([
    Uint8Array.of(1, 2, 3),
    Uint8Array.of(9, 2, 3),
  ]);
  await store.close();
});

describe("a large transaction", () => {
  test("[WQ6] is written back behind its commit, in another turn of the event loop, and small ones are not touched", async () => {
    const path = join(temporaryFolder(), "store.db");
    const ran: string[] = [];
    const driver = await tappedDriver({ run: (sql) => void ran.push(sql.trim()) });
    const store = openSqliteStore({ path }, { loadDriver: async () => driver });
    await store.commit(commitOf(A, 0));
    ran.length = 0;
    await store.commit(commitOf(A, 1, { nodes: [{ id: "n", text: "x".repeat(100_000) }] }));
    expect(ran.filter((sql) => sql.includes("checkpoint"))).toEqual([]);
    let turns = 0;
    const count = (): void => {
      turns += 1;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    await store.commit(commitOf(A, 2, { nodes: [{ id: "m", text: "x".repeat(2_000_000) }] }));
    const told = turns;
    await vi.waitFor(() => expect(ran.some((sql) => sql.includes("wal_checkpoint"))).toBe(true));
    clearImmediate(immediate);
    const kinds = ran.filter((sql) => sql === "COMMIT" || sql.includes("checkpoint"));
    expect(kinds.map((sql) => sql.replace(/= [1-9].*/, "= n"))).toEqual([
      "COMMIT",
      "PRAGMA wal_autocheckpoint = 0",
      "COMMIT",
      "PRAGMA wal_autocheckpoint = n",
      "PRAGMA store.wal_checkpoint(PASSIVE)",
    ]);
    expect(told).toBeGreaterThan(1);
    await store.close();
  });
});
