// What one tenant has of a store, beside what others have. The suite of the contract runs over it too.

import { expect, test } from "vitest";
import { type SessionId, type TurnId, workLeaseId } from "../../src/model/ids.ts";
import { tenantOf } from "../../src/model/tenant-ids.ts";
import type { SessionCommit, Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { tenantStore, withoutTenants } from "../../src/store/tenant-store.ts";

const S = "s" as SessionId;
const T = "t" as TurnId;

function parts(): {
  readonly data: Store;
  readonly acme: Store;
  readonly other: Store;
  readonly rest: Store;
} {
  const data = memoryStore();
  return {
    data,
    acme: tenantStore(data, "acme"),
    other: tenantStore(data, "acme2"),
    rest: withoutTenants(data),
  };
}

function opening(sessionId: SessionId): SessionCommit {
  return {
    sessionId,
    expectedRevision: 0,
    operation: "open",
    head: {
      version: 1,
      turnIndex: 0,
      leaf: null,
      currentFrameId: "f",
      frames: [],
      ledger: [],
      lastPromptUsage: null,
      parentSessionId: null,
      operations: 0,
    },
    nodes: [],
    components: {},
  };
}

test("[TN1] sessions of one name under two tenants, and under none, are three", async () => {
  const { acme, other, rest } = parts();
  for (const store of [acme, other, rest]) await store.commit(opening(S));
  await acme.delete(S);
  expect(await acme.exists(S)).toBe(false);
  expect(await other.revision(S)).toBe(1);
  expect(await rest.revision(S)).toBe(1);
});

test("[TN1] ids that the store makes come back without their tenant, and lead to the same rows", async () => {
  const { acme } = parts();
  const { row } = await acme.admit({ sessionId: S, submitted: "hi", input: "hi" });
  expect([row.sessionId, row.inputId, row.turnId]).toEqual(["s", "s:input:1", "s:turn:1"]);
  expect(await acme.cancel({ sessionId: S, turnId: row.turnId, reason: "r" })).toBe("requested");
  expect((await acme.pending(S)).map(({ cancel }) => cancel)).toEqual([{ reason: "r" }]);
});

test("[TN1] a list has the tenant's own sessions, page by page", async () => {
  const { acme, other, rest } = parts();
  for (const id of ["a", "b", "c"]) await acme.commit(opening(id as SessionId));
  await other.commit(opening("aa" as SessionId));
  await rest.commit(opening("ab" as SessionId));
  const first = await acme.list({ limit: 2 });
  expect(first.items.map(({ id }) => id)).toEqual(["a", "b"]);
  expect(first.cursor).toBe("b");
  const second = await acme.list({ limit: 2, cursor: "b" });
  expect(second).toEqual({ items: [{ id: "c", revision: 1, turnIndex: 0 }] });
});

test("[TN2] the address of bytes of another tenant leads nowhere, even for the same bytes", async () => {
  const { acme, other, rest } = parts();
  const bytes = Uint8Array.of(1, 2, 3);
  const ref = await acme.blobs.put(bytes);
  expect(await other.blobs.get(ref)).toBeUndefined();
  expect(await other.blobs.put(bytes)).not.toBe(ref);
  expect(await rest.blobs.put(bytes)).not.toBe(ref);
  expect(Array.from((await acme.blobs.get(ref)) ?? [])).toEqual([1, 2, 3]);
});

test("[TN2] a wait key of another tenant is unknown, and its own still resolves", async () => {
  const { acme, other, rest } = parts();
  const keyHash = "ab".repeat(32);
  await acme.admit({ sessionId: S, turnId: T, submitted: 1, input: 1 });
  await acme.waits.create({ sessionId: S, turnId: T, name: "w", kind: "completion", keyHash });
  expect(await other.waits.resolve(keyHash, "completion", { ok: 1 })).toEqual({ status: "unknown" });
  expect(await rest.waits.resolve(keyHash, "completion", { ok: 1 })).toEqual({ status: "unknown" });
  const { status, sessionId, turnId } = await acme.waits.resolve(keyHash, "completion", { ok: 2 });
  expect([status, sessionId, turnId]).toEqual(["resolved", "s", "t"]);
});

test("[TN3] a refusal names the session as its tenant does", async () => {
  const { acme } = parts();
  await acme.commit(opening(S));
  const refused = await acme.commit({ ...opening(S), operation: "again" }).catch((thrown: unknown) => thrown);
  expect(refused).toMatchObject({ code: "revision_conflict" });
  const { message } = refused as Error;
  expect(message).toContain("session s");
  expect(message).not.toContain("acme");
});

test("[TN4] a tenant cannot vacuum the store, and closing its part leaves the store open", async () => {
  const { acme, data } = parts();
  await expect(acme.vacuum({ now: 0, keepMs: 0 })).rejects.toMatchObject({ code: "not_of_tenants" });
  await acme.close();
  expect(await data.exists(S)).toBe(false);
});

test("[TN5] what no tenant has is told apart from what tenants have", async () => {
  const { acme, rest, data } = parts();
  await acme.commit(opening(S));
  await acme.admit({ sessionId: S, submitted: 1, input: 1 });
  await rest.commit(opening("!" as SessionId));
  expect(await rest.unsettled()).toEqual([]);
  expect(await rest.workable(0)).toEqual([]);
  expect((await rest.list({})).items.map(({ id }) => id)).toEqual(["!"]);
  const [id] = await data.workable(0);
  expect(id === undefined ? undefined : tenantOf(id)).toEqual({ tenant: "acme", id: "s" });
  expect(tenantOf("s" as SessionId)).toBeUndefined();
});

test("[TN1] [TN5] work beside turns is found by its tenant, and by whoever has the whole store", async () => {
  const { acme, rest, data } = parts();
  await acme.commit({ ...opening(S), hasWork: true });
  expect(await acme.resumable(0)).toEqual(["s"]);
  expect(await rest.resumable(0)).toEqual([]);
  const [id] = await data.resumable(0);
  expect(id === undefined ? undefined : tenantOf(id)).toEqual({ tenant: "acme", id: "s" });
  const request = { owner: "o", incarnation: "i", now: 0, expiresAt: 10 };
  await acme.claim(workLeaseId(S), request);
  expect([await acme.resumable(5), await data.resumable(5)]).toEqual([[], []]);
});
