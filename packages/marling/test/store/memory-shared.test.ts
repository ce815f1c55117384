// The store in memory, shared by those of one process: the order of calls, leases, and what is kept from a vacuum.

import { describe, expect, test } from "vitest";
import type { EffectKey, InputId, TurnId } from "../../src/model/ids.ts";
import type { JournalRecord } from "../../src/model/journal.ts";
import type { NewWait, Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { codeOf, commitOf, inputOf, reportOf, S } from "./memory-support.ts";

const TURN = "s:turn:1" as TurnId;
const REQUEST = { owner: "one", incarnation: "1", now: 1000, expiresAt: 2000 };
const RIVAL = { owner: "two", incarnation: "2", now: 1000, expiresAt: 2000 };

function recordOf(key: string, outcome: JournalRecord["outcome"] = key): JournalRecord {
  return { sessionId: S, turnId: TURN, key: key as EffectKey, status: "done", outcome };
}

describe("calls", () => {
  test("[MS3] happen in the order in which they are made, though nobody waits for them", async () => {
    const store = memoryStore();
    const admissions = ["a", "b", "c"].map((text) => store.admit(inputOf(text)));
    const appends = ["k2", "k1", "k2"].map((key, index) => store.journal?.append([recordOf(key, index)]));
    expect((await store.pending(S)).map(({ submitted }) => submitted)).toEqual(["a", "b", "c"]);
    expect(await store.journal?.read(S, TURN)).toEqual([recordOf("k2", 0), recordOf("k1", 1)]);
    await Promise.all([...admissions, ...appends]);
  });

  test("[MS2] an outcome, and a value that was brought, are not changed by whoever gave them", async () => {
    const store = memoryStore();
    const outcome = { list: [1] };
    await store.journal?.append([recordOf("k", outcome)]);
    const wait: NewWait = { sessionId: S, turnId: TURN, name: "w", kind: "completion", keyHash: "h" };
    await store.waits.create(wait);
    await store.waits.resolve("h", "completion", { ok: outcome });
    outcome.list.push(2);
    expect((await store.journal?.read(S, TURN))?.[0]?.outcome).toEqual({ list: [1] });
    expect((await store.waits.read(S, TURN))[0]?.resolution).toEqual({ ok: { list: [1] } });
  });

  test("[MS1] an outcome that is no JSON refuses the append, records before it included", async () => {
    const store = memoryStore();
    const records = [recordOf("k1"), recordOf("k2", Number.NaN)];
    expect(await codeOf(store.journal?.append(records) ?? Promise.resolve())).toBe("invalid_json");
    expect(await store.journal?.read(S, TURN)).toEqual([]);
  });

  test("[MI1] a row that was handed out stays what it was", async () => {
    const store = memoryStore();
    const { row } = await store.admit(inputOf("x"));
    await store.cancel({ sessionId: S, turnId: row.turnId, reason: "enough" });
    expect(row.cancel).toBeUndefined();
    expect((await store.pending(S))[0]?.cancel).toEqual({ reason: "enough" });
  });
});

describe("leases", () => {
  test("[ML2] no holder is proved dead: a closed store's lease holds until its time is over", async () => {
    const store = memoryStore();
    await store.claim(S, REQUEST);
    await store.close();
    expect(await store.claim(S, RIVAL)).toEqual({ kind: "held", owner: "one", expiresAt: 2000 });
    expect(await store.claim(S, { ...RIVAL, now: 2000, expiresAt: 3000 })).toEqual({
      kind: "claimed",
      generation: 2,
      isTakeover: true,
      revision: 0,
      inputs: 0,
    });
  });

  test("[ML1] what is lost or held says the generations and the owner", async () => {
    const store = memoryStore();
    await store.claim(S, REQUEST);
    await expect(store.commit(commitOf(["a"], { lease: 4 }))).rejects.toMatchObject({
      code: "lease_lost",
      advice: "reload",
      message: "session s: expected the lease of generation 4, found generation 1 of one",
      details: { expected: 4, found: 1 },
    });
    await expect(store.commit(commitOf(["a"]))).rejects.toMatchObject({
      code: "lease_held",
      advice: "retry",
      message: "session s: expected nobody to hold its lease, found one",
      details: { owner: "one", expiresAt: 2000 },
    });
  });
});

describe("changes", () => {
  async function moved(store: Store, call: () => Promise<unknown>): Promise<boolean> {
    const before = await store.changes();
    await call();
    return (await store.changes()) !== before;
  }

  test("[MS4] counts what is written, whoever wrote it", async () => {
    const store = memoryStore();
    const writes = [
      () => store.admit(inputOf("x", { key: "k" }), REQUEST),
      () => store.renew([{ sessionId: S, generation: 1 }], REQUEST),
      () => store.journal?.append([recordOf("k")]) ?? Promise.resolve(),
      () => store.cancel({ sessionId: S, turnId: TURN, reason: "enough" }),
      () => store.release({ sessionId: S, generation: 1 }),
      () => store.withdraw(S, [{ inputId: "s:input:1" as InputId, report: reportOf(TURN) }]),
      () => store.commit(commitOf(["a"], { announces: TURN })),
      () => store.announced(S, 1),
      () => store.blobs.put(Uint8Array.of(1)),
      () => store.vacuum({ now: Date.now() + 1000, keepMs: 0 }),
      () => store.delete(S),
    ];
    for (const [index, write] of writes.entries())
      expect([index, await moved(store, write)]).toEqual([index, true]);
  });

  test("[MS4] does not count what changed nothing", async () => {
    const store = memoryStore();
    await store.admit(inputOf("x", { key: "k" }), REQUEST);
    await store.commit(commitOf(["a"], { lease: 1, once: true }));
    const calls = [
      () => store.admit(inputOf("x", { key: "k" }), RIVAL),
      () => store.commit(commitOf(["a"], { lease: 1, once: true })),
      () => codeOf(store.commit(commitOf(["b"], { lease: 7 }))),
      () => store.renew([{ sessionId: S, generation: 7 }], RIVAL),
      () => store.release({ sessionId: S, generation: 7 }),
      () => store.cancel({ sessionId: S, turnId: "nobody" as TurnId, reason: "enough" }),
      () => store.withdraw(S, [{ inputId: "s:input:1" as InputId, report: reportOf(TURN) }]),
      () => store.announced(S, 1),
      () => store.vacuum({ now: Date.now(), keepMs: 1000 }),
    ];
    for (const [index, call] of calls.entries())
      expect([index, await moved(store, call)]).toEqual([index, false]);
  });
});

describe("a vacuum", () => {
  test("[ST40] keeps bytes that were put a moment ago: what names them may still be to come", async () => {
    const store = memoryStore();
    const ref = await store.blobs.put(Uint8Array.of(1, 2));
    expect(await store.vacuum({ now: Date.now(), keepMs: 60_000 })).toMatchObject({ blobs: 0, bytes: 0 });
    expect(await store.vacuum({ now: Date.now() + 60_000, keepMs: 60_000 })).toMatchObject({
      blobs: 1,
      bytes: 2,
    });
    expect(await store.blobs.get(ref)).toBeUndefined();
  });

  test("[MI2] leaves no sequence to be used twice", async () => {
    const store = memoryStore();
    const { row } = await store.admit(inputOf("x"));
    await store.withdraw(S, [{ inputId: row.inputId, report: reportOf(TURN) }]);
    expect(await store.vacuum({ now: Date.now() + 1000, keepMs: 0 })).toMatchObject({ inputs: 1 });
    expect((await store.admit(inputOf("y"))).row.inputId).toBe("s:input:2");
  });
});
