// What a fork reads of the history that it shares: SL12, counted at the driver of SQLite.

import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Store } from "../../src/store/contract.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { A, B, commitOf, head, id, node } from "../../src/testing/conformance/store-case.ts";
import { refusal, rowsIn, type Tap, tappedDriver, temporaryFolder } from "./sqlite-support.ts";

interface Read {
  /** Rows of any table; a row that is made of many counts as those. */
  readonly rows: number;
  /** Rows of commits with their nodes. */
  readonly nodes: number;
  /** Statements that write, begin or end. */
  readonly statements: number;
}

interface Counted {
  readonly store: Store;
  readonly path: string;
  /** What a call reads. */
  during(call: () => Promise<unknown>): Promise<Read>;
}

function countedStore(path = join(temporaryFolder(), "store.db")): Counted {
  const tap: Tap = {};
  const store = openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  onTestFinished(() => store.close());
  const during = async (call: () => Promise<unknown>): Promise<Read> => {
    const read = { rows: 0, nodes: 0, statements: 0 };
    tap.before = () => {
      read.statements += 1;
    };
    tap.read = (sql, row) => {
      const count = rowsIn(row);
      read.rows += count;
      if (/\bnodes\b/.test(sql)) read.nodes += count;
    };
    await call();
    tap.before = () => undefined;
    tap.read = () => undefined;
    return read;
  };
  return { store, path, during };
}

/** Commits n0, n1 and so on; the first has components, as the first commit of a session does. */
async function grow(store: Store, from: number, to: number): Promise<void> {
  for (let revision = from; revision < to; revision += 1) {
    const components = revision === 0 ? { plugins: { p: 1 }, tools: { t: "x".repeat(600) } } : {};
    const turnIndex = revision + 1;
    const changes = { head: head({ leaf: node(`n${revision}`), turnIndex, operations: revision }) };
    await store.commit(commitOf(A, revision, { ids: [`n${revision}`], components, ...changes }));
  }
}

test("[SL12] a fork reads as many rows, and makes as many statements, of 10 commits as of 1,000", async () => {
  const { store, during } = countedStore();
  await grow(store, 0, 10);
  const short = await during(() => store.fork({ from: A, as: id("short") }));
  await grow(store, 10, 1_000);
  const long = await during(async () => {
    const { components } = await store.fork({ from: A, as: id("long") });
    expect(components).toEqual({ plugins: { p: 1 }, tools: { t: "x".repeat(600) } });
  });
  expect(long).toEqual(short);
  expect(short).toMatchObject({ nodes: 1 });
  expect(short.rows).toBeLessThan(10);
});

test("[SL12] the first commit of a fork, and a fork of it, read nothing of what it shares", async () => {
  const { store, during } = countedStore();
  await grow(store, 0, 300);
  await store.fork({ from: A, as: B });
  const commit = await during(() => store.commit(commitOf(B, 1, { ids: ["b1"] })));
  const fork = await during(() => store.fork({ from: B, as: id("c") }));
  const bare = await during(() => store.fork({ from: id("c"), as: id("d") }));
  expect([commit.nodes, fork.nodes, bare.nodes]).toEqual([0, 1, 1]);
  for (const { rows } of [commit, fork, bare]) expect(rows).toBeLessThan(10);
});

test("[SL12] a fork at an earlier commit reads nodes from the end back to it, and no others", async () => {
  const { store, during } = countedStore();
  await grow(store, 0, 300);
  const near = await during(() => store.fork({ from: A, as: id("near"), at: node("n297") }));
  const far = await during(() => store.fork({ from: A, as: id("far"), at: node("n4") }));
  expect([near.nodes, far.nodes]).toEqual([3, 296]);
});

test("[SL12] a store that knows nothing of the source reads once what its newest commits changed, and no node but the newest", async () => {
  const made = countedStore();
  await grow(made.store, 0, 300);
  await made.store.close();
  const { store, during } = countedStore(made.path);
  const first = await during(() => store.fork({ from: A, as: B }));
  const second = await during(() => store.fork({ from: A, as: id("c") }));
  expect([first.nodes, second.nodes]).toEqual([1, 1]);
  expect(first.rows - second.rows).toBeGreaterThanOrEqual(44); // Since the 256th, which stored all.
  expect(first.rows - second.rows).toBeLessThan(2 * 64 + 10);
  expect(second.rows).toBeLessThan(10);
});

test("[SL11] [SL12] a fork has what another store committed to its source meanwhile", async () => {
  const one = countedStore();
  const other = countedStore(one.path);
  await grow(one.store, 0, 3);
  await other.store.load(A);
  await one.store.commit(
    commitOf(A, 3, {
      ids: ["late"],
      components: { plugins: { p: "late" } },
      head: head({ leaf: node("late"), turnIndex: 9, operations: 7 }),
    }),
  );
  const fork = await other.store.fork({ from: A, as: B });
  expect(fork.head).toMatchObject({ leaf: "late", turnIndex: 9, operations: 7 });
  expect(fork.components.plugins).toEqual({ p: "late" });
});

test("[SL4] what was remembered for a fork that was undone is forgotten", async () => {
  const { store } = countedStore();
  await grow(store, 0, 2);
  const taken = [
    store.fork({ from: A, as: B }),
    store.fork({ from: A, as: B }),
    store.fork({ from: A, as: B }),
  ];
  const refused = await Promise.all(taken.slice(1).map(refusal));
  expect(refused.map(({ code }) => code)).toEqual(["duplicate_session", "duplicate_session"]);
  await store.commit(
    commitOf(B, 1, { ids: ["b1"], head: head({ leaf: node("b1"), turnIndex: 3, operations: 4 }) }),
  );
  const again = await store.load(B);
  expect(again?.head).toMatchObject({ leaf: "b1", turnIndex: 3, operations: 4, ledger: [] });
  expect(again?.components.plugins).toEqual({ p: 1 });
});

test("[ST17] what a caller does to the head of a fork changes no other", async () => {
  const { store } = countedStore();
  await store.commit(
    commitOf(A, 0, { ids: ["n0"], head: head({ leaf: node("n0"), frames: [{ id: "f" }] }) }),
  );
  const first = await store.fork({ from: A, as: B });
  Object.assign(first.head.frames[0] as object, { id: "changed" });
  const second = await store.fork({ from: A, as: id("c") });
  expect([second.head.frames, (await store.load(B))?.head.frames]).toEqual([[{ id: "f" }], [{ id: "f" }]]);
});
