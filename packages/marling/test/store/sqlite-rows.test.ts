import { describe, expect, test } from "vitest";
import type { EffectKey, InputId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { Json } from "../../src/model/json.ts";
import type { TurnReport } from "../../src/model/turn.ts";
import type { InboxRow, SessionCommit, Store } from "../../src/store/contract.ts";
import {
  A,
  B,
  commitOf,
  id,
  inputId,
  inputOf,
  report,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { opened, query, refusal } from "./sqlite-support.ts";

const WORKER = { owner: "worker", incarnation: "run-1", now: 1000, expiresAt: 2000 };
const KEY = "0.checkpoint" as EffectKey;
const LONG = "a sentence of more than thirty-two characters";
const CANCELLED: TurnReport = {
  ...report("never ran"),
  outcome: { kind: "stopped", reason: "cancelled", message: LONG },
};

async function admitted(store: Store, text: string, changes: Partial<InboxRow> = {}): Promise<InboxRow> {
  return (await store.admit(inputOf(A, text, changes))).row;
}

async function generation(store: Store, sessionId: SessionId = A): Promise<number> {
  const claim = await store.claim(sessionId, WORKER);
  if (claim.kind !== "claimed") throw new Error(`expected the lease, found it with ${claim.owner}`);
  return claim.generation;
}

/** A turn that took these inputs at its checkpoint, and the commit that would end it. */
async function turnWith(store: Store, ...inputs: readonly Partial<InboxRow>[]): Promise<SessionCommit> {
  const running = await admitted(store, "the question");
  const rows: InboxRow[] = [];
  for (const [index, changes] of inputs.entries())
    rows.push(await admitted(store, `meanwhile ${index}`, { deliver: "active_turn", ...changes }));
  const lease = await generation(store);
  const request = { sessionId: A, generation: lease, turnId: running.turnId, key: KEY, isReplay: false };
  expect(await store.deliver(request)).toHaveLength(inputs.length);
  return commitOf(A, 0, {
    lease,
    nodes: [{ id: "n1", text: LONG }],
    settles: { inputId: running.inputId, report: report(LONG) },
    joins: rows.map((row) => row.inputId),
  });
}

describe("inputs", () => {
  test("[SL5] an input of which nothing was asked has no state, and a turn with it leaves no other row", async () => {
    const { store, path } = opened();
    const row = await admitted(store, "one");
    await admitted(store, "two");
    await store.commit(
      commitOf(A, 0, {
        operation: row.turnId,
        once: true,
        settles: { inputId: row.inputId, report: report("done") },
        forgets: [row.turnId],
        announced: [],
      }),
    );
    await store.close();
    expect(await query(path, "SELECT at & 4294967295 AS n, state FROM inbox")).toEqual([
      { n: 2, state: null },
    ]);
    const counts = ["names", "withdrawn", "waits", "wait_keys", "outbox", "leases", "journal"].map(
      (table) => `SELECT '${table}' AS name, count(*) AS n FROM ${table}`,
    );
    expect((await query(path, counts.join(" UNION ALL "))).map(({ n }) => n)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test("[ST33] an input that joined a turn is found by each of its names, with the report of that turn", async () => {
    const { store, reopen } = opened();
    const commit = await turnWith(
      store,
      { key: "k" },
      { turnId: turn("mine") },
      { submitted: { text: LONG }, input: { text: LONG, again: LONG } },
    );
    await store.commit(commit);
    const again = await reopen();
    const claimed = { turnId: "a:turn:1", key: KEY };
    const common = { sessionId: "a", deliver: "active_turn", claimed, report: report(LONG) };
    const byKey = await again.find({ sessionId: A, key: "k", submitted: { text: "meanwhile 0" } });
    expect(byKey).toEqual({
      ...common,
      key: "k",
      turnId: "a:turn:2",
      inputId: "a:input:2",
      sequence: 2,
      submitted: { text: "meanwhile 0" },
      input: { text: "meanwhile 0" },
    });
    const given = { sessionId: A, turnId: turn("mine"), submitted: { text: "meanwhile 1" } };
    expect(await again.find(given)).toMatchObject({ ...common, sequence: 3 });
    const derived = { sessionId: A, turnId: turn("a:turn:4"), submitted: { text: LONG } };
    expect(await again.find(derived)).toMatchObject({
      ...common,
      sequence: 4,
      input: { text: LONG, again: LONG },
    });
    expect(await again.admit(inputOf(A, "meanwhile 0", { key: "k" }))).toEqual({
      status: "duplicate",
      row: byKey,
    });
    expect(await refusal(again.find({ ...derived, submitted: { text: "other" } }))).toMatchObject({
      code: "idempotency_conflict",
    });
    expect(await again.cancel({ sessionId: A, turnId: turn("mine"), reason: "late" })).toBe("completed");
    expect(await again.pending(A)).toEqual([]);
    expect((await again.load(A))?.inputs).toBe(4);
  });

  test("[ST2] a commit with joined inputs is known again, under whatever lease", async () => {
    const { store } = opened();
    const commit: SessionCommit = {
      ...(await turnWith(store, { key: "k" })),
      operation: "turn:a:turn:1",
      once: true,
      releases: true,
    };
    expect((await store.commit(commit)).revision).toBe(1);
    expect((await store.claim(A, { ...WORKER, incarnation: "run-2" })).kind).toBe("claimed");
    const { lease: _lease, releases: _releases, ...unleased } = commit;
    for (const again of [commit, unleased, { ...commit, lease: 99, announced: [7] }]) {
      expect(await store.commit(again)).toEqual({ revision: 1, enqueued: [] });
    }
    expect(await refusal(store.commit({ ...commit, joins: [] }))).toMatchObject({ code: "lease_lost" });
    expect(await refusal(store.commit({ ...commit, joins: [], lease: 2 }))).toMatchObject({
      code: "revision_conflict",
    });
    expect((await store.claim(A, { ...WORKER, incarnation: "run-2" })).kind).toBe("claimed");
  });

  test("[ST33] what a part of a turn took is joined or freed with the turn", async () => {
    const { store } = opened();
    const running = await admitted(store, "the question");
    const [one, two] = [
      await admitted(store, "one", { deliver: "active_turn" }),
      await admitted(store, "two", { deliver: "active_turn" }),
    ];
    const lease = await generation(store);
    const part = `${running.turnId}:frame:1` as TurnId;
    const request = { sessionId: A, generation: lease, turnId: part, key: KEY, isReplay: false };
    expect((await store.deliver(request)).map((row) => row.sequence)).toEqual([2, 3]);
    const settles = { inputId: running.inputId, report: report("done") };
    await store.commit(commitOf(A, 0, { lease, settles, joins: [two.inputId] }));
    expect(await store.pending(A)).toEqual([one]);
  });

  test("[ST12] inputs that a commit put into an inbox are in its repeated result as they were admitted", async () => {
    const { store } = opened();
    const commit = commitOf(B, 0, {
      once: true,
      enqueues: [inputOf(A, "one"), inputOf(A, "two", { deliver: "active_turn" })],
    });
    const first = await store.commit(commit);
    const lease = await generation(store);
    await store.deliver({
      sessionId: A,
      generation: lease,
      turnId: turn("a:turn:1"),
      key: KEY,
      isReplay: false,
    });
    await store.cancel({ sessionId: A, turnId: turn("a:turn:1"), reason: "late" });
    expect(await store.commit(commit)).toEqual(first);
    const stopped = { inputId: inputId("a:input:1"), report: CANCELLED };
    await store.commit(commitOf(A, 0, { lease, settles: stopped, joins: [inputId("a:input:2")] }));
    expect(await store.commit(commit)).toEqual(first);
  });

  test("[ST36] a part of a turn sleeps with the input that it is of, and wakes by its own waits", async () => {
    const { store } = opened();
    const running = await admitted(store, "the question");
    const lease = await generation(store);
    const part = `${running.turnId}:frame:1` as TurnId;
    const wait = { sessionId: A, name: "answer", kind: "completion" } as const;
    await store.waits.create({ ...wait, turnId: running.turnId, keyHash: "h1", lease });
    await store.waits.create({ ...wait, turnId: part, keyHash: "h2", lease });
    const park = { sessionId: A, generation: lease, turnId: part, names: ["answer"], due: null };
    expect(await store.park(park)).toBe("parked");
    expect((await store.pending(A))[0]?.parked).toEqual({ names: ["answer"], due: null });
    await store.waits.resolve("h1", "completion", { ok: 1 });
    expect(await store.workable(0)).toEqual([]);
    await store.waits.resolve("h2", "completion", { ok: 2 });
    expect(await store.workable(0)).toEqual(["a"]);
  });
});

describe("withdrawn inputs", () => {
  const withdraw = (store: Store, ...ids: readonly InputId[]): Promise<readonly { status: string }[]> =>
    store.withdraw(
      A,
      ids.map((input) => ({ inputId: input, report: CANCELLED })),
    );

  test("[ST35] sequences of withdrawn inputs are never used again, whatever a vacuum removes", async () => {
    const { store, reopen } = opened();
    const one = await admitted(store, "one", { key: "k" });
    const two = await admitted(store, "two", { turnId: turn("mine") });
    await withdraw(store, one.inputId, two.inputId);
    expect(await store.vacuum({ now: Date.now(), keepMs: 60_000 })).toMatchObject({ inputs: 0 });
    expect(await store.find({ sessionId: A, key: "k", submitted: { text: "one" } })).toEqual({
      ...one,
      report: CANCELLED,
    });
    expect(await store.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({ inputs: 2 });
    expect(await store.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({ inputs: 0 });
    const again = await reopen();
    expect(await withdraw(again, one.inputId, two.inputId)).toMatchObject([
      { status: "unknown" },
      { status: "unknown" },
    ]);
    expect(await again.cancel({ sessionId: A, turnId: turn("mine"), reason: "late" })).toBe("unknown");
    expect((await again.admit(inputOf(A, "other", { key: "k", turnId: turn("mine") }))).row.sequence).toBe(3);
    await again.commit(commitOf(A, 0));
    expect((await again.load(A))?.inputs).toBe(3);
  });

  test("[ST35] what only said that a sequence was used goes when something else says so", async () => {
    const { store, path } = opened();
    for (const text of ["one", "two"]) {
      const { inputId: input } = await admitted(store, text);
      await withdraw(store, input);
      await store.vacuum({ now: Date.now(), keepMs: 0 });
    }
    await admitted(store, "three");
    await store.vacuum({ now: Date.now(), keepMs: 0 });
    await store.close();
    expect(await query(path, "SELECT count(*) AS n FROM withdrawn")).toEqual([{ n: 0 }]);
  });

  test("[ST40] an input that was withdrawn before a commit leaves nothing behind", async () => {
    const { store, path } = opened();
    const { inputId: input } = await admitted(store, "one", { key: "k" });
    await withdraw(store, input);
    await store.commit(commitOf(A, 0));
    await store.vacuum({ now: Date.now(), keepMs: 0 });
    await store.close();
    expect(await query(path, "SELECT at FROM withdrawn UNION ALL SELECT n FROM names")).toEqual([]);
  });
});

describe("waits", () => {
  test("[ST34] waits of any name are told apart, and come back with values of any text", async () => {
    const { store, reopen } = opened();
    const names = ["a", '"a"', "\u0001", "\ud800", "", "ü/~0"];
    for (const [index, name] of names.entries()) {
      const wait = { sessionId: id("chat"), turnId: turn("chat:turn:1"), name };
      await store.waits.create({ ...wait, kind: "approval", keyHash: `h${index}` });
    }
    const value: Json = { text: "chat \u0001 \ud800", list: [null, -0.5] };
    const error = { code: "denied", message: "chat" };
    expect(await store.waits.resolve("h2", "approval", { ok: value })).toEqual({
      status: "resolved",
      sessionId: "chat",
      turnId: "chat:turn:1",
      name: "\u0001",
    });
    await store.waits.resolve("h3", "approval", { error });
    const again = await reopen();
    expect(await again.waits.read(id("chat"), turn("chat:turn:1"))).toEqual(
      names.map((name, index) => ({
        sessionId: "chat",
        turnId: "chat:turn:1",
        name,
        kind: "approval",
        isOver: false,
        ...(index === 2 ? { resolution: { ok: value } } : {}),
        ...(index === 3 ? { resolution: { error } } : {}),
      })),
    );
  });

  test("[ST34] a key is for the wait it was made for first, and a wait for one kind", async () => {
    const { store } = opened();
    const wait = { sessionId: A, turnId: turn("t1"), kind: "completion", keyHash: "h" } as const;
    await store.waits.create({ ...wait, name: "one" });
    await store.waits.create({ ...wait, name: "two" });
    expect(await store.waits.resolve("h", "completion", { ok: 1 })).toMatchObject({ name: "one" });
    const other = store.waits.create({ ...wait, name: "one", kind: "approval", keyHash: "h2" });
    expect(await refusal(other)).toMatchObject({ code: "invalid_input" });
    expect(await store.waits.resolve("h2", "approval", { ok: 1 })).toEqual({ status: "unknown" });
  });

  test("[ST34] a commit ends the waits of the turns that it forgets, resolved or not, and a vacuum removes them", async () => {
    const { store } = opened();
    for (const [name, turnId] of [
      ["open", "t1"],
      ["resolved", "t1"],
      ["kept", "t2"],
    ] as const)
      await store.waits.create({
        sessionId: A,
        turnId: turn(turnId),
        name,
        kind: "completion",
        keyHash: name,
      });
    await store.waits.resolve("resolved", "completion", { ok: 1 });
    await store.commit(commitOf(A, 0, { forgets: [turn("t1")] }));
    expect(await store.waits.read(A, turn("t1"))).toMatchObject([
      { name: "open", isOver: true },
      { name: "resolved", isOver: true, resolution: { ok: 1 } },
    ]);
    expect((await store.waits.resolve("open", "completion", { ok: 2 })).status).toBe("already_resolved");
    expect(await store.vacuum({ now: Date.now(), keepMs: 60_000 })).toMatchObject({ waits: 0 });
    expect(await store.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({ waits: 2 });
    expect((await store.waits.resolve("open", "completion", { ok: 2 })).status).toBe("unknown");
    expect((await store.waits.resolve("kept", "completion", { ok: 2 })).status).toBe("resolved");
  });
});
