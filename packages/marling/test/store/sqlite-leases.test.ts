// Leases between stores that share a file: who is alive, who is dead, and what the one who lost a lease can still do.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { EffectKey } from "../../src/model/ids.ts";
import type { LeaseRequest, Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  commitOf,
  inputOf,
  journalOf,
  observe,
  record,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { buildChild, refusal, startChild, temporaryFolder } from "./sqlite-support.ts";

let program: Awaited<ReturnType<typeof buildChild>>;
beforeAll(async () => {
  program = await buildChild();
});
afterAll(() => program.remove());

/** A request for a lease that holds until 1000, made at 500. */
function requestOf(owner: string, changes: Partial<LeaseRequest> = {}): LeaseRequest {
  return { owner, incarnation: `${owner}-1`, now: 500, expiresAt: 1000, ...changes };
}

function storePath(): string {
  return join(temporaryFolder(), "leases.db");
}

/** The files of stores that say that they are alive. */
function liveFiles(path: string): readonly string[] {
  return readdirSync(join(path, "..")).filter((name) => name.includes("-live-"));
}

test("[SL2] the lease of a process that was killed is taken over at once, and its file goes away", async () => {
  const path = storePath();
  const child = startChild(program.file, "lease", path, "a");
  await child.printed(1);
  expect(child.lines).toEqual(["claimed 1"]);
  const store = sqliteStore({ path });
  expect(await store.claim(A, requestOf("me"))).toEqual({ kind: "held", owner: "child", expiresAt: 1000 });
  expect(await store.workable(500)).toEqual([]);
  expect(liveFiles(path)).toHaveLength(2);
  await child.kill();
  expect(await store.workable(500)).toEqual(["a"]);
  expect(liveFiles(path)).toHaveLength(1);
  expect(await store.claim(A, requestOf("me"))).toEqual({
    kind: "claimed",
    generation: 2,
    isTakeover: true,
    revision: 0,
    inputs: 1,
  });
  await store.close();
  expect(liveFiles(path)).toEqual([]);
}, 60_000);

test("[SL2] a claim finds the dead by itself, and so does an admission", async () => {
  const path = storePath();
  for (const [session, claim] of [
    [A, (store: Store) => store.claim(A, requestOf("me"))],
    [B, async (store: Store) => (await store.admit(inputOf(B, "mine"), requestOf("me"))).claim],
  ] as const) {
    const child = startChild(program.file, "lease", path, session);
    await child.printed(1);
    const store = sqliteStore({ path });
    expect(await claim(store)).toMatchObject({ kind: "held", owner: "child" });
    await child.kill();
    expect(await claim(store)).toMatchObject({ kind: "claimed", generation: 2, isTakeover: true });
    expect(liveFiles(path)).toHaveLength(1);
    await store.close();
  }
}, 60_000);

test("[SL2] opening removes the files of the dead and leaves those of the living", async () => {
  const path = storePath();
  const [dead, living] = [startChild(program.file, "hold", path), startChild(program.file, "hold", path)];
  await Promise.all([dead.printed(1), living.printed(1)]);
  const both = liveFiles(path);
  await dead.kill();
  expect(liveFiles(path)).toEqual(both);
  const store = sqliteStore({ path });
  await store.list({});
  expect(liveFiles(path)).toHaveLength(2);
  expect(liveFiles(path).filter((file) => both.includes(file))).toHaveLength(1);
  await store.close();
  expect(both).toEqual(expect.arrayContaining([...liveFiles(path)]));
  expect(liveFiles(path)).toHaveLength(1);
}, 60_000);

test("[ST28] the lease of a living process is taken over after its expiry, and what it then writes is `lease_lost`", async () => {
  const path = storePath();
  const child = startChild(program.file, "lease", path, "a");
  await child.printed(1);
  const store = sqliteStore({ path });
  expect(await store.claim(A, requestOf("me", { now: 999 }))).toMatchObject({ kind: "held" });
  const claim = await store.claim(A, requestOf("me", { now: 1000, expiresAt: 2000 }));
  expect(claim).toMatchObject({ kind: "claimed", generation: 2, isTakeover: true });
  const before = await observe(store, A);
  await child.printed(7);
  expect(child.lines.slice(1)).toEqual([
    "commit lease_lost",
    "append lease_lost",
    "deliver lease_lost",
    "park lease_lost",
    "create lease_lost",
    "end lease_lost",
  ]);
  expect(await observe(store, A)).toEqual(before);
  expect(await store.waits.read(A, turn("a:turn:1"))).toEqual([]);
  expect((await store.commit(commitOf(A, 0, { lease: 2 }))).revision).toBe(1);
  await store.close();
}, 60_000);

test("[SL2] a store that was closed is dead, though its process lives and it released nothing", async () => {
  const path = storePath();
  const [first, second] = [sqliteStore({ path }), sqliteStore({ path })];
  expect(await first.claim(A, requestOf("first"))).toMatchObject({ kind: "claimed", generation: 1 });
  expect(await second.claim(A, requestOf("second"))).toMatchObject({ kind: "held", owner: "first" });
  await first.close();
  expect(await second.claim(A, requestOf("second"))).toMatchObject({ generation: 2, isTakeover: true });
  await second.close();
});

test("[SL2] whoever asks about the dead does not disturb the living of the same process", async () => {
  const path = storePath();
  const [holder, other] = [sqliteStore({ path }), sqliteStore({ path })];
  await holder.claim(A, requestOf("holder"));
  for (let count = 0; count < 5; count += 1)
    expect(await other.claim(A, requestOf("other"))).toMatchObject({ kind: "held" });
  const third = sqliteStore({ path });
  expect(await third.claim(A, requestOf("third"))).toMatchObject({ kind: "held", owner: "holder" });
  await third.close();
  const child = startChild(program.file, "try", path);
  await child.printed(2);
  expect(liveFiles(path)).toHaveLength(2);
  expect(await other.claim(A, requestOf("other"))).toMatchObject({ kind: "held" });
  await Promise.all([holder.close(), other.close()]);
}, 60_000);

test("[ST28] the same run of a worker gets its lease again, also through another store", async () => {
  const path = storePath();
  const [first, second] = [sqliteStore({ path }), sqliteStore({ path })];
  await first.claim(A, requestOf("worker"));
  expect(await second.claim(A, requestOf("worker", { expiresAt: 3000 }))).toMatchObject({
    generation: 1,
    isTakeover: false,
  });
  await first.close();
  expect(await second.claim(A, requestOf("other", { now: 2999 }))).toEqual({
    kind: "held",
    owner: "worker",
    expiresAt: 3000,
  });
  await second.close();
});

test("[ST29] after a takeover nothing that the old holder writes happens, from another store as well", async () => {
  const path = storePath();
  const [old, heir] = [sqliteStore({ path }), sqliteStore({ path })];
  const { row } = await old.admit(inputOf(A, "one"), requestOf("old"));
  await old.admit(inputOf(A, "two", { deliver: "active_turn" }));
  await journalOf(old).append([record("k", "started")], 1);
  await heir.claim(A, requestOf("heir", { now: 1000, expiresAt: 2000 }));
  const before = await observe(heir, A);
  const lost = { sessionId: A, generation: 1, turnId: row.turnId };
  const wait = { sessionId: A, turnId: row.turnId, name: "w", lease: 1 };
  const attempts: readonly Promise<unknown>[] = [
    old.commit(commitOf(A, 0, { ids: ["n1"], lease: 1, releases: true })),
    journalOf(old).append([record("k", "done")], 1),
    old.deliver({ ...lost, key: "c" as EffectKey, isReplay: false }),
    old.park({ ...lost, names: [], due: null }),
    old.waits.create({ ...wait, kind: "approval", keyHash: "cd".repeat(32) }),
  ];
  expect((await Promise.all(attempts.map(refusal))).map(({ code }) => code)).toEqual(
    Array.from({ length: 5 }, () => "lease_lost"),
  );
  expect(await refusal(old.commit(commitOf(A, 0)))).toMatchObject({ code: "lease_held" });
  expect(await old.renew([lost], requestOf("old", { expiresAt: 9000 }))).toEqual([A]);
  await old.release(lost);
  expect(await observe(heir, A)).toEqual(before);
  await journalOf(heir).append([record("k", "done")], 2);
  expect((await heir.commit(commitOf(A, 0, { lease: 2, releases: true }))).revision).toBe(1);
  expect((await old.commit(commitOf(A, 1))).revision).toBe(2);
  await Promise.all([old.close(), heir.close()]);
});
