// What a commit costs on disk, and what a deleted session leaves there.

import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import type { UsageEntry } from "../../src/model/usage.ts";
import type { SessionCommit, SessionHead, Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  commitOf,
  head,
  id,
  inputOf,
  journalOf,
  NO_TOKENS,
  node,
  record,
  report,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { query, temporaryFolder } from "./sqlite-support.ts";

const FRAME_BYTES = 512 + 24;

interface Measured {
  readonly store: Store;
  readonly path: string;
  /** Bytes that one commit adds to the log. */
  cost(revision: number, changes?: Partial<SessionCommit>): Promise<number>;
}

function measured(): Measured {
  const path = join(temporaryFolder(), "store.db");
  const store = sqliteStore({ path });
  const logBytes = (): number => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  return {
    store,
    path,
    cost: async (revision, changes = {}) => {
      const nodes = [{ id: `n${revision}`, text: "a text of the turn ".repeat(85) }];
      const before = logBytes();
      await store.commit(commitOf(A, revision, { nodes, head: headAt(revision), ...changes }));
      return logBytes() - before;
    },
  };
}

function headAt(revision: number, changes: Partial<SessionHead> = {}): SessionHead {
  return head({ turnIndex: revision, leaf: node(`n${revision}`), ...changes });
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

test("[SL5] a commit costs the same after 10 and after 500 others", async () => {
  const { store, cost } = measured();
  const costs: number[] = [];
  for (let revision = 0; revision < 520; revision += 1) costs.push(await cost(revision));
  const [early, late] = [median(costs.slice(10, 30)), median(costs.slice(-20))];
  expect(late).toBeLessThanOrEqual(early + FRAME_BYTES);
  expect(late).toBeLessThanOrEqual(7 * FRAME_BYTES);
  await store.close();
});

test("[SL5] a commit does not pay for frames and ledger entries that are there already", async () => {
  const { store, cost } = measured();
  const frames = Array.from({ length: 300 }, (_, index) => ({
    id: `f${index}`,
    status: "superseded",
    note: "x".repeat(100),
  }));
  const ledger: readonly UsageEntry[] = Array.from({ length: 300 }, (_, index) => ({
    source: `s${index}`,
    model: "m",
    usage: NO_TOKENS,
  }));
  await cost(0);
  const plain = await cost(1);
  expect(await cost(2, { head: headAt(2, { frames, ledger }) })).toBeGreaterThan(50_000);
  expect(await cost(3, { head: headAt(3, { frames, ledger }) })).toBeLessThanOrEqual(plain + FRAME_BYTES);
  const spent = ledger.with(7, { source: "s7", model: "m", usage: { ...NO_TOKENS, input: 5 } });
  const opened = [
    ...frames.with(299, { id: "f299", status: "gone", note: "" }),
    { id: "f300", status: "active", note: "" },
  ];
  expect(await cost(4, { head: headAt(4, { frames: opened, ledger: spent }) })).toBeLessThanOrEqual(
    plain + 2 * FRAME_BYTES,
  );
  expect((await store.load(A))?.head).toEqual(headAt(4, { frames: opened, ledger: spent }));
  await store.close();
});

test("[SL5] the first commit after a reopening does not pay for them either", async () => {
  const { store, path, cost } = measured();
  const frames = Array.from({ length: 300 }, (_, index) => ({ id: `f${index}`, note: "x".repeat(100) }));
  await cost(0);
  const plain = await cost(1);
  await cost(2, { head: headAt(2, { frames }) });
  await store.close();
  const again = sqliteStore({ path });
  await again.exists(A);
  const before = statSync(`${path}-wal`).size;
  const nodes = [{ id: "n3", text: "a text of the turn ".repeat(85) }];
  await again.commit(commitOf(A, 3, { nodes, head: headAt(3, { frames: structuredClone(frames) }) }));
  // The first commit of a log has its header before it.
  expect(statSync(`${path}-wal`).size - before).toBeLessThanOrEqual(plain + FRAME_BYTES + 32);
  await again.close();
});

test("[SL5] components that stay, and large members that stay in one that changes, cost nothing", async () => {
  const { store, cost } = measured();
  const plugins = (counter: number): JsonObject => ({
    plugins: { memory: { text: "m".repeat(200_000) }, counter: { counter } },
  });
  await cost(0);
  const plain = await cost(1);
  expect(await cost(2, { components: { plugins: plugins(1) } })).toBeGreaterThan(200_000);
  expect(await cost(3)).toBeLessThanOrEqual(plain + FRAME_BYTES);
  expect(await cost(4, { components: { plugins: plugins(2) } })).toBeLessThanOrEqual(plain + 6 * FRAME_BYTES);
  expect(await cost(5, { components: { plugins: plugins(1) } })).toBeLessThanOrEqual(plain + 6 * FRAME_BYTES);
  expect((await store.load(A))?.components).toEqual({ plugins: plugins(1) });
  await store.close();
});

test("[SL5] a report that repeats the nodes costs little more than none", async () => {
  const { store, cost } = measured();
  await cost(0);
  const plain = await cost(1);
  const text = "a text of the turn ".repeat(85);
  const { row } = await store.admit(inputOf(A, "question"));
  const settles = { inputId: row.inputId, report: report(text) };
  expect(await cost(2, { settles })).toBeLessThanOrEqual(plain + 3 * FRAME_BYTES);
  await store.close();
});

test("[SL5] a turn with a journal writes into the room that its journal leaves", async () => {
  const { store, path, cost } = measured();
  const text = "an outcome of the turn ".repeat(70);
  const frames: number[] = [];
  for (let revision = 0; revision < 20; revision += 1) {
    const before = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    const { row } = await store.admit(inputOf(A, "question"));
    await journalOf(store).append([record("model", "done", { turnId: row.turnId, outcome: text })]);
    const settles = { inputId: row.inputId, report: report("done") };
    await cost(revision, { operation: row.turnId, once: true, settles, forgets: [row.turnId] });
    frames.push((statSync(`${path}-wal`).size - before) / FRAME_BYTES);
  }
  // As many as the store of version 1 wrote.
  expect(median(frames)).toBeLessThanOrEqual(14);
  await store.close();
});

test("[SL5] a fork copies no node", async () => {
  const { store, path, cost } = measured();
  for (let revision = 0; revision < 50; revision += 1) await cost(revision);
  const before = statSync(`${path}-wal`).size;
  await store.fork({ from: A, as: B });
  expect(statSync(`${path}-wal`).size - before).toBeLessThanOrEqual(6 * FRAME_BYTES);
  await store.close();
});

test("[SL5] a commit takes the journal of its turn away again", async () => {
  const { store, path } = measured();
  for (let revision = 0; revision < 20; revision += 1) {
    const { row } = await store.admit(inputOf(A, "question"));
    await journalOf(store).append([
      record("model", "done", { turnId: row.turnId, outcome: "x".repeat(1500) }),
    ]);
    const settles = { inputId: row.inputId, report: report("done") };
    await store.commit(commitOf(A, revision, { operation: row.turnId, settles, forgets: [row.turnId] }));
  }
  await store.close();
  expect(await rowCounts(path)).toMatchObject({ journal: 0, inbox: 0, commits: 20, names: 0 });
});

const TABLES = [
  "sessions",
  "commits",
  "inbox",
  "withdrawn",
  "names",
  "journal",
  "leases",
  "waits",
  "wait_keys",
  "outbox",
  "components",
  "holders",
  "blobs",
];

async function rowCounts(path: string): Promise<Readonly<Record<string, unknown>>> {
  const counts = await query(
    path,
    TABLES.map((table) => `SELECT '${table}' AS name, count(*) AS n FROM ${table}`).join(" UNION ALL "),
  );
  return Object.fromEntries(counts.map(({ name, n }) => [String(name), n]));
}

/** A session with a bit of everything. */
async function furnish(store: Store, name: string): Promise<void> {
  const sessionId = id(name);
  await store.admit(inputOf(sessionId, "one", { key: "k" }));
  await store.admit(inputOf(sessionId, "two"));
  await journalOf(store).append([record("k", "done", { sessionId })]);
  const plugins = {
    plugins: { own: { text: `${name} `.repeat(500) }, shared: { text: "shared ".repeat(500) } },
  };
  const settles = { inputId: `${name}:input:1` as never, report: report("done") };
  await store.commit(
    commitOf(sessionId, 0, { once: true, ids: [`${name}-1`], components: { plugins }, settles }),
  );
  const { turnId } = (await store.admit(inputOf(sessionId, "three", { deliver: "active_turn" }))).row;
  await store.withdraw(sessionId, [{ inputId: `${name}:input:3` as never, report: report("withdrawn") }]);
  await store.commit(commitOf(sessionId, 1, { once: true, ids: [`${name}-2`], announces: turnId }));
  const wait = { sessionId, turnId, name: "answer", kind: "approval" } as const;
  for (const key of ["one", "two"]) await store.waits.create({ ...wait, keyHash: `${name} ${key}` });
  await store.claim(sessionId, { owner: "worker", incarnation: "run-1", now: 0, expiresAt: 1 });
}

test("[SL8] a deleted session leaves its id and nothing else", async () => {
  const { store, path } = measured();
  await furnish(store, "alpha");
  await store.delete(id("alpha"));
  await store.close();
  expect(await rowCounts(path)).toEqual({
    sessions: 1,
    commits: 0,
    inbox: 0,
    withdrawn: 0,
    names: 0,
    journal: 0,
    leases: 0,
    waits: 0,
    wait_keys: 0,
    outbox: 0,
    components: 0,
    holders: 0,
    blobs: 0,
  });
});

test("[SL8] what other sessions share stays until the last of them is deleted", async () => {
  const { store, path } = measured();
  await furnish(store, "alpha");
  await furnish(store, "beta");
  await store.fork({ from: id("alpha"), as: id("fork"), at: node("alpha-1") });
  await store.fork({ from: id("fork"), as: id("again") });
  await store.delete(id("alpha"));
  await store.delete(id("fork"));
  expect((await store.load(id("again")))?.nodes.map((item) => item.id)).toEqual(["alpha-1"]);
  expect((await store.load(id("again")))?.components).toMatchObject({
    plugins: { plugins: { shared: { text: "shared ".repeat(500) } } },
  });
  await store.delete(id("again"));
  expect((await store.load(id("beta")))?.components).toMatchObject({
    plugins: { plugins: { shared: { text: "shared ".repeat(500) } } },
  });
  await store.close();
  expect(await rowCounts(path)).toMatchObject({
    sessions: 4,
    commits: 2,
    inbox: 1,
    withdrawn: 1,
    leases: 1,
    waits: 1,
    wait_keys: 2,
    outbox: 1,
    components: 3,
    holders: 3,
  });
});

test("[SL8] commits behind the last one that a fork reads go with their session", async () => {
  const { store, path } = measured();
  for (const revision of [0, 1, 2, 3]) await store.commit(commitOf(A, revision, { ids: [`n${revision}`] }));
  await store.fork({ from: A, as: B, at: node("n1") });
  await store.delete(A);
  expect((await store.load(B))?.nodes.map((item) => item.id)).toEqual(["n0", "n1"]);
  await store.close();
  expect(await rowCounts(path)).toMatchObject({ commits: 3 });
});

test("[SL15] [OS4] the log is written back behind fifty commits, however small they are, and not before", async () => {
  const { store, path, cost } = measured();
  const fileBytes = (): number => statSync(path).size;
  await cost(0);
  const begun = fileBytes();
  for (let revision = 1; revision < 49; revision += 1) await cost(revision);
  await new Promise(setImmediate);
  expect(fileBytes()).toBe(begun);
  await cost(49);
  await vi.waitFor(() => expect(fileBytes()).toBeGreaterThan(begun));
  await store.close();
});

test("[SL15] [OS4] journals alone do not have it written back, until it is large", async () => {
  const { store, path, cost } = measured();
  const fileBytes = (): number => statSync(path).size;
  await cost(0);
  const begun = fileBytes();
  const append = (key: string): Promise<void> =>
    journalOf(store).append([record(key, "done", { turnId: turn("t"), outcome: "x".repeat(1_500) })]);
  for (let index = 0; index < 200; index += 1) await append(`a${index}`);
  expect(fileBytes()).toBe(begun);
  for (let index = 0; index < 300; index += 1) await append(`b${index}`);
  expect(fileBytes()).toBeGreaterThan(begun);
  expect(statSync(`${path}-wal`).size).toBeLessThan(1.25 * 1024 * 1024);
  await store.close();
});
