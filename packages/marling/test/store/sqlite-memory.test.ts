// What the SQLite store asks the file for: SL13, counted at the driver, and that it never answers from a memory that is void.

import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { SessionCommit, Store } from "../../src/store/contract.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  claimed,
  commitOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  leaseFor,
  record,
  report,
  turn,
  waitOf,
} from "../../src/testing/conformance/store-case.ts";
import { refusal, sqliteError, type Tap, tappedDriver, temporaryFolder } from "./sqlite-support.ts";

interface Counted {
  readonly store: Store;
  readonly path: string;
  readonly tap: Tap;
  /** What was run since the last call: the first two words of every statement. */
  ran(): readonly string[];
}

async function countedStore(): Promise<Counted> {
  const path = join(temporaryFolder(), "store.db");
  const tap: Tap = {};
  const store = openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  onTestFinished(() => store.close());
  await store.commit(commitOf(A, 0, { ids: ["n0"] }));
  let statements: string[] = [];
  tap.run = (sql) => void statements.push(sql.split(" ").slice(0, 2).join(" "));
  const ran = (): readonly string[] => {
    const before = statements;
    statements = [];
    return before;
  };
  return { store, path, tap, ran };
}

function another(path: string): Store {
  const store = openSqliteStore({ path }, {});
  onTestFinished(() => store.close());
  return store;
}

/** The commit that ends turn `n` of session A, whose lease has this generation. */
function endOf(n: number, lease: number): SessionCommit {
  return commitOf(A, n, {
    ids: [`n${n}`],
    operation: `turn:a:turn:${n}`,
    once: true,
    head: head({ turnIndex: n }),
    settles: { inputId: inputId(`a:input:${n}`), report: report(`answer ${n}`) },
    forgets: [turn(`a:turn:${n}`)],
    lease,
    releases: true,
  });
}

const VERSION = "PRAGMA store.data_version";

describe("a turn of a session that is known", () => {
  /** Runs turn `n`, the calls that a text turn makes one after the other; returns what each ran. */
  async function runTurn({ store, ran }: Counted, n: number): Promise<readonly (readonly string[])[]> {
    const turnId = turn(`a:turn:${n}`);
    const steps: (readonly string[])[] = [];
    ran();
    const { row, claim } = await store.admit(inputOf(A, `text ${n}`), leaseFor("me"));
    steps.push(ran());
    expect(await store.find({ sessionId: A, turnId, submitted: row.submitted })).toEqual(row);
    expect(await store.pending(A)).toEqual([row]);
    expect(await journalOf(store).read(A, turnId)).toEqual([]);
    expect(await store.revision(A)).toBe(n);
    steps.push(ran());
    await store.commit(endOf(n, claim?.kind === "claimed" ? claim.generation : 0));
    steps.push(ran());
    return steps;
  }

  test("[SL13] reads no row: each write changes its rows, and each read asks whether others have written", async () => {
    const counted = await countedStore();
    await runTurn(counted, 1);
    expect(await runTurn(counted, 2)).toEqual([
      ["BEGIN IMMEDIATE", VERSION, "INSERT INTO", "INSERT OR", "COMMIT"],
      [VERSION, VERSION, VERSION, VERSION],
      ["BEGIN IMMEDIATE", VERSION, "DELETE FROM", "INSERT INTO", "UPDATE leases", "COMMIT"],
    ]);
  });

  test("[SL13] of tools writes one row for each record, and what begins together shares a transaction without savepoints", async () => {
    const counted = await countedStore();
    await runTurn(counted, 1);
    const { store, ran } = counted;
    const { claim } = await store.admit(inputOf(A, "text 2"), leaseFor("me"));
    const lease = claim?.kind === "claimed" ? claim.generation : 0;
    const append = (key: string, status: "started" | "done"): Promise<void> =>
      journalOf(store).append([{ ...record(key, status), turnId: turn("a:turn:2") }], lease);
    ran();
    await Promise.all([append("k1", "started"), append("k2", "started"), append("k3", "started")]);
    expect(ran()).toEqual([
      "BEGIN IMMEDIATE",
      VERSION,
      "INSERT INTO",
      "INSERT INTO",
      "INSERT INTO",
      "COMMIT",
    ]);
    await append("k1", "started");
    expect(ran()).toEqual(["BEGIN IMMEDIATE", VERSION, "COMMIT"]);
    await store.commit(endOf(2, lease));
    expect(ran()).toEqual([
      "BEGIN IMMEDIATE",
      VERSION,
      "DELETE FROM",
      "DELETE FROM",
      "INSERT INTO",
      "UPDATE leases",
      "COMMIT",
    ]);
  });

  test("[SL13] prepares no statement again", async () => {
    const counted = await countedStore();
    const prepared: string[] = [];
    await runTurn(counted, 1);
    await runTurn(counted, 2);
    counted.tap.prepared = (sql) => void prepared.push(sql);
    for (let n = 3; n < 20; n += 1) await runTurn(counted, n);
    expect(prepared).toEqual([]);
  });

  test("[SL13] bytes that were put a moment ago are not looked for again", async () => {
    const { store, path, ran } = await countedStore();
    await store.blobs.put(Uint8Array.of(1, 2, 3));
    ran();
    const ref = await store.blobs.put(Uint8Array.of(1, 2, 3));
    expect(ran()).toEqual(["BEGIN IMMEDIATE", VERSION, "COMMIT"]);
    await another(path).vacuum({ now: Date.now() + 1_000, keepMs: 0 });
    expect(await store.blobs.get(ref)).toBeUndefined();
    await store.blobs.put(Uint8Array.of(1, 2, 3));
    expect(await store.blobs.get(ref)).toEqual(Uint8Array.of(1, 2, 3));
    await store.vacuum({ now: Date.now() + 1_000, keepMs: 0 });
    await store.blobs.put(Uint8Array.of(1, 2, 3));
    expect(await store.blobs.get(ref)).toEqual(Uint8Array.of(1, 2, 3));
  });
});

describe("what another store writes is seen at once", () => {
  /** Two stores on one file; the first remembers everything of session A. */
  async function pair(): Promise<{ one: Store; two: Store; generation: number }> {
    const { store: one, path } = await countedStore();
    const { claim } = await one.admit(inputOf(A, "text 1"), leaseFor("one"));
    await Promise.all([one.pending(A), one.find(inputOf(A, "x", { key: "k" })), one.revision(A)]);
    const generation = claim?.kind === "claimed" ? claim.generation : 0;
    return { one, two: another(path), generation };
  }

  test("[SL11] a lease that was taken", async () => {
    const { one, two, generation } = await pair();
    await two.claim(A, leaseFor("two", { now: 10_000_000_000_000, expiresAt: 20_000_000_000_000 }));
    expect(await refusal(one.commit(endOf(1, generation)))).toMatchObject({ code: "lease_lost" });
    expect(await refusal(journalOf(one).append([record("k", "done")], generation))).toMatchObject({
      code: "lease_lost",
    });
  });

  test("[SL11] inputs, and how many there were", async () => {
    const { one, two } = await pair();
    await two.admit(inputOf(A, "text 2"));
    expect((await one.pending(A)).map(({ sequence }) => sequence)).toEqual([1, 2]);
    await two.admit(inputOf(A, "text 3"));
    expect((await one.admit(inputOf(A, "text 4"))).row.inputId).toBe("a:input:4");
  });

  test("[SL11] keys", async () => {
    const { one, two } = await pair();
    const { row } = await two.admit(inputOf(A, "x", { key: "k" }));
    expect(await one.find(inputOf(A, "x", { key: "k" }))).toEqual(row);
    expect((await one.admit(inputOf(A, "x", { key: "k" }))).status).toBe("duplicate");
  });

  test("[SL11] that a turn was asked to end", async () => {
    const { one, two, generation } = await pair();
    await two.cancel({ sessionId: A, turnId: turn("a:turn:1"), reason: "enough" });
    expect((await one.pending(A))[0]?.cancel).toEqual({ reason: "enough" });
    await two.cancel({ sessionId: A, turnId: turn("a:turn:1"), reason: "again" });
    expect(await refusal(one.commit(endOf(1, generation)))).toMatchObject({ code: "turn_cancelled" });
  });

  test("[SL11] commits, and that a session was deleted", async () => {
    const { one, two } = await pair();
    const { store: three, path } = await countedStore();
    const four = another(path);
    expect(await three.revision(A)).toBe(1);
    await four.commit(commitOf(A, 1, { ids: ["n1"] }));
    expect(await three.revision(A)).toBe(2);
    expect((await three.commit(commitOf(A, 2, { ids: ["n2"] }))).revision).toBe(3);
    await two.delete(A);
    expect(await refusal(one.pending(A))).toMatchObject({ code: "session_deleted" });
    expect(await refusal(one.admit(inputOf(A, "x")))).toMatchObject({ code: "session_deleted" });
  });

  test("[SL11] waits, which end with their turn", async () => {
    const { one, two, generation } = await pair();
    const [first, second] = [turn("a:turn:1"), turn("a:turn:2")];
    await one.commit({ ...endOf(1, generation), forgets: [first] });
    const { claim } = await one.admit(inputOf(A, "text 2"), leaseFor("one"));
    await two.waits.create(waitOf("w", { turnId: second }));
    const lease = claim?.kind === "claimed" ? claim.generation : 0;
    await one.commit({ ...endOf(2, lease), forgets: [second] });
    expect((await two.waits.read(A, second)).map(({ isOver }) => isOver)).toEqual([true]);
  });
});

describe("what is done here is seen at once", () => {
  test("[SL13] a session that is deleted, and one that is forked into", async () => {
    const { store } = await countedStore();
    await store.admit(inputOf(B, "early"));
    await store.fork({ from: A, as: B });
    expect(await store.exists(B)).toBe(true);
    expect(await store.revision(B)).toBe(1);
    expect((await store.admit(inputOf(B, "next"))).row.sequence).toBe(2);
    await store.delete(A);
    expect(await refusal(store.pending(A))).toMatchObject({ code: "session_deleted" });
    expect((await store.load(B))?.nodes.map((item) => item.id)).toEqual(["n0"]);
  });

  test("[SL13] an inbox of many inputs is the same as one of few", async () => {
    const { store, ran } = await countedStore();
    for (let n = 1; n <= 20; n += 1) {
      await store.admit(inputOf(A, `text ${n}`, n === 20 ? { deliver: "active_turn" } : {}));
      expect((await store.pending(A)).map(({ sequence }) => sequence).at(-1)).toBe(n);
    }
    await store.commit(endOf(1, await claimed(store, "me")));
    for (const n of [2, 3, 4, 5, 6])
      await store.withdraw(A, [{ inputId: inputId(`a:input:${n}`), report: report("withdrawn") }]);
    const left = await store.pending(A);
    expect(left.map(({ sequence }) => sequence)).toEqual([
      7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    ]);
    expect(left.at(-1)).toMatchObject({ input: { text: "text 20" }, deliver: "active_turn" });
    ran();
    await store.pending(A);
    expect(ran()).toEqual([VERSION]);
    for (const n of [21, 22, 23]) await store.admit(inputOf(A, `text ${n}`));
    ran();
    await store.pending(A);
    expect(ran()).toEqual([VERSION, "BEGIN", VERSION, "SELECT at", "END"]);
    expect((await store.admit(inputOf(A, "more"))).row.sequence).toBe(24);
  });

  test("[SL13] what was asked of an input, and how far its turn came", async () => {
    const { store } = await countedStore();
    const { row } = await store.admit(inputOf(A, "text"));
    expect(await store.pending(A)).toEqual([row]);
    await store.commit(commitOf(A, 1, { advances: { inputId: row.inputId, progress: { part: 1 } } }));
    expect(await store.pending(A)).toEqual([{ ...row, progress: { part: 1 } }]);
    await store.cancel({ sessionId: A, turnId: row.turnId, reason: "enough" });
    expect(await store.pending(A)).toEqual([{ ...row, progress: { part: 1 }, cancel: { reason: "enough" } }]);
  });

  test("[SL13] a lease that was renewed, and a wait that was made", async () => {
    const { store } = await countedStore();
    const generation = await claimed(store, "me");
    await store.renew([{ sessionId: A, generation }], leaseFor("me", { expiresAt: 5000 }));
    const held = { kind: "held", owner: "me", expiresAt: 5000 };
    expect(await store.claim(A, leaseFor("other", { now: 3000, expiresAt: 4000 }))).toEqual(held);
    await store.commit(commitOf(A, 1, { lease: generation, forgets: [turn("a:turn:0")] }));
    await store.waits.create(waitOf("w"));
    await store.commit(commitOf(A, 2, { lease: generation, forgets: [turn("a:turn:1")] }));
    expect(await store.waits.read(A, turn("a:turn:1"))).toMatchObject([{ name: "w", isOver: true }]);
  });

  test("[SL4] what was remembered of a write that was undone: inputs, leases, names and bytes", async () => {
    const { store, tap } = await countedStore();
    tap.before = (sql, values) => {
      if (sql.startsWith("INSERT INTO inbox") && values.some((value) => String(value).includes("poison")))
        throw sqliteError(778, "disk I/O error");
    };
    const enqueues = [inputOf(A, "one", { key: "k" }), inputOf(id("new"), "poison")];
    await refusal(store.commit(commitOf(A, 1, { enqueues })));
    expect(await store.pending(A)).toEqual([]);
    expect(await store.find(inputOf(A, "one", { key: "k" }))).toBeUndefined();
    expect(await store.revision(A)).toBe(1);
    expect(await store.exists(id("new"))).toBe(false);
    expect((await store.admit(inputOf(A, "other"))).row.sequence).toBe(1);
  });

  test("[SL4] the writes that shared a transaction with one that fails are done again, with savepoints", async () => {
    const { store, ran } = await countedStore();
    ran();
    const settled = await Promise.allSettled([
      store.admit(inputOf(A, "one")),
      store.commit(commitOf(A, 7)),
      store.admit(inputOf(A, "two")),
    ]);
    expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    const statements = ran().filter((sql) => !sql.startsWith("SELECT") && sql !== VERSION);
    expect(statements).toEqual([
      ...["BEGIN IMMEDIATE", "INSERT INTO", "ROLLBACK", "BEGIN IMMEDIATE"],
      ...["SAVEPOINT member", "INSERT INTO", "RELEASE member"],
      ...["SAVEPOINT member", "ROLLBACK TO", "RELEASE member"],
      ...["SAVEPOINT member", "INSERT INTO", "RELEASE member", "COMMIT"],
    ]);
    expect((await store.pending(A)).map(({ sequence }) => sequence)).toEqual([1, 2]);
  });
});

describe("a commit that is asked for again", () => {
  const turnEnd = commitOf(A, 1, {
    ids: ["n1"],
    operation: "turn:a:turn:1",
    once: true,
    settles: { inputId: inputId("a:input:1"), report: report("answer") },
  });

  test.each<readonly [string, Partial<SessionCommit>]>([
    ["nodes", { nodes: [{ kind: "message", id: "n1", text: "another text" }] }],
    ["report", { settles: { inputId: inputId("a:input:1"), report: report("another answer") } }],
    ["head", { head: head({ turnIndex: 9 }) }],
    ["components", { components: { tools: { generation: 2 } } }],
  ])("[ST2] with other %s is refused", async (_name, other) => {
    const { store } = await countedStore();
    await store.admit(inputOf(A, "text"));
    expect((await store.commit(turnEnd)).revision).toBe(2);
    expect((await store.commit(turnEnd)).revision).toBe(2);
    expect(await refusal(store.commit({ ...turnEnd, ...other }))).toMatchObject({
      code: "revision_conflict",
    });
  });

  test("[ST2] is known by its report also when there was no input to settle", async () => {
    const { store } = await countedStore();
    const unheard: SessionCommit = {
      ...turnEnd,
      settles: { inputId: inputId("a:input:5"), report: report("x") },
    };
    expect((await store.commit(unheard)).revision).toBe(2);
    expect((await store.commit(unheard)).revision).toBe(2);
    const other = { ...unheard, settles: { inputId: inputId("a:input:5"), report: report("y") } };
    expect(await refusal(store.commit(other))).toMatchObject({ code: "revision_conflict" });
  });
});
