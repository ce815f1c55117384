// A store behind faults: what is called, what is lost, and what contract methods answer when they are asked again.

import { describe, expect, test } from "vitest";
import type { EffectKey, InputId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { NewWait, Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { faultyStore, randomDelays, randomFaults, type StoreFault } from "../../src/testing/faulty-store.ts";
import { codeOf, commitOf, inputOf, reportOf, S } from "../store/memory-support.ts";

const TURN = "s:turn:1" as TurnId;
const INPUT = "s:input:1" as InputId;
const REQUEST = { owner: "one", incarnation: "1", now: 1000, expiresAt: 2000 };
const WAIT: NewWait = { sessionId: S, turnId: TURN, name: "w", kind: "completion", keyHash: "hash" };
const SUBSCRIPTION = {
  subscriptionId: "s1",
  sessionId: S,
  source: "mail",
  definition: null,
  createdAt: 1,
  due: 5,
} as const;
const OCCURRENCE = { occurrenceId: "o1", source: "mail", payload: 1, at: 1, acceptedAt: 1 } as const;
const TICK = { subscriptionId: "s1", due: 5, next: 9 } as const;

/** The first call of a method fails so; all others succeed. */
function failing(store: Store, method: string, fault: StoreFault): Store {
  return faultyStore(store, {
    fail: (called, call) => (called === method && call === 1 ? fault : undefined),
  });
}

/** A call of every method, on sessions that are there. */
const CALLS: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  load: (store) => store.load(S),
  revision: (store) => store.revision(S),
  commit: (store) => store.commit(commitOf(["a"])),
  admit: (store) => store.admit(inputOf("x")),
  find: (store) => store.find(inputOf("x")),
  pending: (store) => store.pending(S),
  unsettled: (store) => store.unsettled(),
  workable: (store) => store.workable(0),
  resumable: (store) => store.resumable(0),
  claim: (store) => store.claim(S, REQUEST),
  renew: (store) => store.renew([], REQUEST),
  release: (store) => store.release({ sessionId: S, generation: 1 }),
  deliver: (store) =>
    store.deliver({
      sessionId: S,
      turnId: TURN,
      key: "k" as EffectKey,
      generation: undefined,
      isReplay: true,
    }),
  withdraw: (store) => store.withdraw(S, []),
  cancel: (store) => store.cancel({ sessionId: S, turnId: TURN, reason: "r" }),
  park: (store) => store.park({ sessionId: S, turnId: TURN, names: [], due: null, generation: 1 }),
  announced: (store) => store.announced(S, 1),
  changes: (store) => store.changes(),
  vacuum: (store) => store.vacuum({ now: 0, keepMs: 0 }),
  list: (store) => store.list({}),
  exists: (store) => store.exists(S),
  delete: (store) => store.delete(S),
  fork: (store) => store.fork({ from: S, as: "f" as SessionId }),
  close: (store) => store.close(),
  "blobs.put": (store) => store.blobs.put(Uint8Array.of(1)),
  "blobs.get": (store) => store.blobs.get("sha256:"),
  "journal.append": async (store) => store.journal?.append([]),
  "journal.read": async (store) => store.journal?.read(S, TURN),
  "waits.create": (store) => store.waits.create(WAIT),
  "waits.read": (store) => store.waits.read(S, TURN),
  "waits.resolve": (store) => store.waits.resolve("hash", "completion", { ok: 1 }),
  "waits.end": (store) => store.waits.end(WAIT),
  "triggers.subscribe": async (store) => store.triggers?.subscribe(SUBSCRIPTION),
  "triggers.get": async (store) => store.triggers?.get("s1"),
  "triggers.list": async (store) => store.triggers?.list({}),
  "triggers.enable": async (store) => store.triggers?.enable("s1", { isEnabled: true }),
  "triggers.unsubscribe": async (store) => store.triggers?.unsubscribe("s1"),
  "triggers.accept": async (store) => store.triggers?.accept(OCCURRENCE),
  "triggers.advance": async (store) => store.triggers?.advance(TICK),
  "triggers.pending": async (store) => store.triggers?.pending({ after: 0, limit: 1 }),
  "triggers.settle": async (store) => store.triggers?.settle({ occurrenceId: "o1", subscriptionId: "s1" }),
  "triggers.due": async (store) => store.triggers?.due(0, 1),
  "triggers.nextDue": async (store) => store.triggers?.nextDue(),
};

describe("faults", () => {
  test.each(Object.entries(CALLS))("[FS1] %s is reached through them only", async (method, call) => {
    const told: string[] = [];
    const store = faultyStore(memoryStore(), {
      fail: (called) => {
        told.push(called);
        return "before";
      },
    });
    await expect(call(store)).rejects.toMatchObject({ code: "io_failed", details: { method } });
    expect(told).toEqual([method]);
  });

  test("[FS1] what a store is stays as it was, a journal that it does not have included", () => {
    const { journal: _journal, ...others } = faultyStore(memoryStore());
    const store = faultyStore(others);
    expect([store.isDurable, "journal" in store]).toEqual([false, false]);
    expect("journal" in faultyStore(memoryStore())).toBe(true);
  });

  test("[FS2] before: the call was not made", async () => {
    const data = memoryStore();
    const store = failing(data, "commit", "before");
    expect(await codeOf(store.commit(commitOf(["a"])))).toBe("io_failed");
    expect(await data.revision(S)).toBe(0);
    expect(await store.commit(commitOf(["a"]))).toMatchObject({ revision: 1 });
  });

  test("[FS2] after: the call was made, and its answer is lost", async () => {
    const data = memoryStore();
    const store = failing(data, "commit", "after");
    expect(await codeOf(store.commit(commitOf(["a"])))).toBe("io_failed");
    expect(await data.revision(S)).toBe(1);
  });

  test("[FS2] a refusal of the store stays its own, whatever was to be lost", async () => {
    const store = failing(memoryStore(), "commit", "after");
    expect(await codeOf(store.commit(commitOf(["a"], { expectedRevision: 7 })))).toBe("revision_conflict");
  });

  test("[FS2] calls are counted by method, from 1", async () => {
    const calls: string[] = [];
    const store = faultyStore(memoryStore(), {
      fail: (method, call) => {
        calls.push(`${method} ${call}`);
        return undefined;
      },
    });
    await store.load(S);
    await store.waits.read(S, TURN);
    await store.load(S);
    expect(calls).toEqual(["load 1", "waits.read 1", "load 2"]);
  });

  test("[FS2] a delayed call happens later than one that is made after it without delay", async () => {
    const delays = [5, 0, 0, 0];
    const store = faultyStore(memoryStore(), { delay: () => delays.shift() ?? 0 });
    const [slow, fast] = await Promise.all([store.admit(inputOf("slow")), store.admit(inputOf("fast"))]);
    expect([slow.row.sequence, fast.row.sequence]).toEqual([2, 1]);
  });
});

describe("chance", () => {
  const numbers = Array.from({ length: 2000 }, (_, index) => index + 1);

  test("[FS3] the same seed fails the same calls, another seed others", () => {
    const faults = (seed: number): readonly unknown[] => {
      const fail = randomFaults(seed, 0.3);
      return numbers.map((call) => fail("load", call));
    };
    expect(faults(1)).toEqual(faults(1));
    expect(faults(1)).not.toEqual(faults(2));
  });

  test("[FS3] whether a call fails does not depend on which were made before it", () => {
    const fail = randomFaults(7, 0.5);
    const alone = fail("commit", 12);
    for (const call of numbers) fail("load", call);
    expect(fail("commit", 12)).toBe(alone);
  });

  test("[FS3] about the given share fails, before and after alike; none at 0, all at 1", () => {
    const count = (rate: number, fault: StoreFault): number => {
      const fail = randomFaults(3, rate);
      return numbers.filter((call) => fail("load", call) === fault).length;
    };
    for (const fault of ["before", "after"] as const) {
      expect(count(0.2, fault)).toBeGreaterThan(140);
      expect(count(0.2, fault)).toBeLessThan(260);
    }
    expect([count(0, "before"), count(0, "after"), count(1, "before") + count(1, "after")]).toEqual([
      0, 0, 2000,
    ]);
  });

  test("[FS3] delays are whole milliseconds from 0 to the most, the same for the same seed", () => {
    const delays = (seed: number): readonly number[] => {
      const delay = randomDelays(seed, 3);
      return numbers.map(() => delay());
    };
    expect([...new Set(delays(1))].sort()).toEqual([0, 1, 2, 3]);
    expect(delays(1)).toEqual(delays(1));
    expect(delays(1)).not.toEqual(delays(2));
    expect(new Set(numbers.map(randomDelays(1, 0)))).toEqual(new Set([0]));
  });
});

/** Makes a call whose answer is lost, and makes it again. */
async function askTwice<T>(data: Store, method: string, call: (store: Store) => Promise<T>): Promise<T> {
  const store = failing(data, method, "after");
  expect(await codeOf(call(store))).toBe("io_failed");
  return call(store);
}

describe("a call that is made again because its answer was lost", () => {
  async function admitted(): Promise<Store> {
    const data = memoryStore();
    await data.admit(inputOf("x", { key: "k" }));
    return data;
  }

  test("[ST2] a commit that happens once answers what it answered first", async () => {
    const commit = commitOf(["a"], { once: true, enqueues: [inputOf("next")] });
    const result = await askTwice(memoryStore(), "commit", (store) => store.commit(commit));
    expect(result).toMatchObject({ revision: 1, enqueued: [{ inputId: "s:input:1" }] });
  });

  test("[ST2] one that releases its lease does so, too", async () => {
    const data = memoryStore();
    await data.claim(S, REQUEST);
    const commit = commitOf(["a"], { once: true, lease: 1, releases: true });
    expect(await askTwice(data, "commit", (store) => store.commit(commit))).toMatchObject({ revision: 1 });
  });

  test("[ST1] any other commit is a conflict with the revision that it made itself", async () => {
    const call = askTwice(memoryStore(), "commit", (store) => store.commit(commitOf(["a"])));
    await expect(call).rejects.toMatchObject({
      code: "revision_conflict",
      details: { expected: 0, found: 1 },
    });
  });

  test("[ST3] an input with a key is a duplicate of itself, and has the lease", async () => {
    const input = inputOf("x", { key: "k" });
    const admission = await askTwice(memoryStore(), "admit", (store) => store.admit(input, REQUEST));
    expect(admission).toMatchObject({
      status: "duplicate",
      row: { sequence: 1 },
      claim: { kind: "claimed", generation: 1, inputs: 1 },
    });
  });

  test("[ST3] an input without a key and a turn id is another one", async () => {
    const admission = await askTwice(memoryStore(), "admit", (store) => store.admit(inputOf("x")));
    expect(admission).toMatchObject({ status: "accepted", row: { sequence: 2 } });
  });

  test("[ST28] a claim has the same generation, and does not tell of the takeover again", async () => {
    const data = memoryStore();
    await data.claim(S, REQUEST);
    const request = { owner: "two", incarnation: "2", now: 3000, expiresAt: 4000 };
    const claim = await askTwice(data, "claim", (store) => store.claim(S, request));
    expect(claim).toMatchObject({ kind: "claimed", generation: 2, isTakeover: false });
  });

  test("[ST18] a fork is refused by the session that it made", async () => {
    const data = memoryStore();
    await data.commit(commitOf(["a"]));
    const call = askTwice(data, "fork", (store) => store.fork({ from: S, as: "f" as SessionId }));
    expect(await codeOf(call)).toBe("duplicate_session");
    expect(await data.revision("f" as SessionId)).toBe(1);
  });

  test("[ST32] [ST34] [ST35] requests, values and withdrawals say that they were made before", async () => {
    const data = await admitted();
    await data.waits.create(WAIT);
    const answers = [
      await askTwice(data, "cancel", (store) => store.cancel({ sessionId: S, turnId: TURN, reason: "r" })),
      await askTwice(data, "waits.resolve", (store) => store.waits.resolve("hash", "completion", { ok: 1 })),
      await askTwice(data, "withdraw", (store) =>
        store.withdraw(S, [{ inputId: INPUT, report: reportOf(TURN) }]),
      ),
    ];
    expect(answers).toMatchObject([
      "already_requested",
      { status: "already_resolved", name: "w" },
      [{ status: "already_cancelled" }],
    ]);
  });

  test("[ST42] [ST43] [ST45] subscriptions, occurrences and ticks say that they were made before", async () => {
    const data = memoryStore();
    const answers = [
      await askTwice(data, "triggers.subscribe", async (store) => store.triggers?.subscribe(SUBSCRIPTION)),
      await askTwice(data, "triggers.accept", async (store) => store.triggers?.accept(OCCURRENCE)),
      await askTwice(data, "triggers.advance", async (store) => store.triggers?.advance(TICK)),
      await askTwice(data, "triggers.unsubscribe", async (store) => store.triggers?.unsubscribe("s1")),
    ];
    expect(answers).toMatchObject([{ isNew: false }, { status: "duplicate", deliveries: 0 }, false, false]);
    expect(await data.triggers?.pending({ after: 0, limit: 9 })).toHaveLength(1);
  });

  test("[ST36] a parking finds that its lease is gone, and the turn asleep", async () => {
    const data = await admitted();
    await data.claim(S, REQUEST);
    const request = { sessionId: S, turnId: TURN, names: [], due: 9, generation: 1 };
    expect(await codeOf(askTwice(data, "park", (store) => store.park(request)))).toBe("lease_lost");
    expect((await data.pending(S))[0]?.parked).toEqual({ names: [], due: 9 });
  });

  test("[ST33] a delivery gives the checkpoint what it took", async () => {
    const data = await admitted();
    await data.admit({ ...inputOf("joins"), deliver: "active_turn" });
    const request = {
      sessionId: S,
      turnId: TURN,
      key: "k" as EffectKey,
      generation: undefined,
      isReplay: false,
    };
    const rows = await askTwice(data, "deliver", (store) => store.deliver(request));
    expect(rows).toMatchObject([{ sequence: 2, claimed: { turnId: TURN, key: "k" } }]);
  });

  test("[ST40] a vacuum has nothing more to remove", async () => {
    const data = memoryStore();
    await data.blobs.put(Uint8Array.of(1));
    const request = { now: Date.now() + 1000, keepMs: 0 };
    expect(await askTwice(data, "vacuum", (store) => store.vacuum(request))).toMatchObject({ blobs: 0 });
  });
});
