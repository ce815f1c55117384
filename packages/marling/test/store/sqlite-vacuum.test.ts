// What a vacuum of the SQLite store leaves, and what it removes.

import { describe, expect, test } from "vitest";
import type { TurnReport } from "../../src/model/turn.ts";
import type { SessionCommit, Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  cancelledReport,
  commitOf,
  id,
  inputId,
  inputOf,
  journalOf,
  record,
  report,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { opened, query, queryAsOlder } from "./sqlite-support.ts";

describe("vacuum", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

  /** Puts a blob, has it named, and says whether a vacuum leaves it there. */
  async function isKept(name: (store: Store, ref: string) => Promise<unknown>): Promise<boolean> {
    const { store } = opened();
    const ref = await store.blobs.put(bytes("abc"));
    await name(store, ref);
    const { blobs } = await store.vacuum({ now: Date.now(), keepMs: 0 });
    expect(blobs).toBe((await store.blobs.get(ref)) === undefined ? 1 : 0);
    return blobs === 0;
  }

  const wait = { sessionId: A, turnId: turn("t1"), name: "w", kind: "completion", keyHash: "h" } as const;
  const settle = (store: Store, changes: Partial<SessionCommit>, text: TurnReport): Promise<unknown> =>
    store.commit(commitOf(A, 0, { settles: { inputId: inputId("a:input:1"), report: text }, ...changes }));

  test.each<[string, (store: Store, ref: string) => Promise<unknown>]>([
    ["a node", (store, ref) => store.commit(commitOf(A, 0, { nodes: [{ id: "n", ref }] }))],
    ["text around it", (store, ref) => store.commit(commitOf(A, 0, { nodes: [{ id: `x${ref}00` }] }))],
    ["text in text", (store, ref) => store.admit(inputOf(A, JSON.stringify(JSON.stringify({ ref }))))],
    ["a session with part of it as id", (store, ref) => store.admit(inputOf(id("ba7816bf"), ref))],
    ["a session with its beginning as id", (store, ref) => store.admit(inputOf(id("sha256:ba"), ref))],
    ["a session with all of it as id", (store, ref) => store.admit(inputOf(id(ref), ref))],
    ["a key of an input", (store, ref) => store.admit(inputOf(A, "one", { key: ref }))],
    [
      "the report of a settled input, which its nodes repeat",
      async (store, ref) => {
        await store.admit(inputOf(A, ref));
        await settle(store, { nodes: [{ id: "n", ref }] }, report(ref));
      },
    ],
    [
      "the report of a settled input alone",
      async (store, ref) => {
        await store.admit(inputOf(A, "one"));
        await settle(store, {}, report(ref));
      },
    ],
    [
      "the progress of an input",
      async (store, ref) => {
        await store.admit(inputOf(A, "one"));
        await store.commit(
          commitOf(A, 0, { advances: { inputId: inputId("a:input:1"), progress: { ref } } }),
        );
      },
    ],
    [
      "the report of a journaled effect",
      async (store, ref) => {
        await store.admit(inputOf(A, "one", { turnId: turn("t1") }));
        await journalOf(store).append([record("k", "done", { outcome: { ref } })]);
      },
    ],
    [
      "the value of a wait",
      async (store, ref) => {
        await store.waits.create(wait);
        await store.waits.resolve("h", "completion", { ok: { ref } });
      },
    ],
    [
      "a large member of a component",
      (store, ref) =>
        store.commit(commitOf(A, 0, { components: { plugins: { p: { t: "x".repeat(900), ref } } } })),
    ],
    [
      "a commit of a deleted session that a fork reads",
      async (store, ref) => {
        await store.commit(commitOf(A, 0, { nodes: [{ id: "n", ref }] }));
        await store.fork({ from: A, as: B });
        await store.delete(A);
      },
    ],
  ])("[ST40] a blob is named by %s", async (_where, name) => {
    expect(await isKept(name)).toBe(true);
  });

  test.each<[string, (store: Store, ref: string) => Promise<unknown>]>([
    ["nothing", async () => undefined],
    ["its digest without the scheme", (store, ref) => store.admit(inputOf(A, ref.slice("sha256:".length)))],
    ["a part of its address", (store, ref) => store.admit(inputOf(A, ref.slice(0, -1)))],
    [
      "a session that was deleted",
      async (store, ref) => {
        await store.commit(commitOf(A, 0, { nodes: [{ id: "n", ref }] }));
        await store.delete(A);
      },
    ],
    [
      "an input that is removed with it",
      async (store, ref) => {
        const { row } = await store.admit(inputOf(A, ref));
        await store.withdraw(A, [{ inputId: row.inputId, report: cancelledReport("never ran") }]);
      },
    ],
    [
      "the journal of a turn that has no input",
      (store, ref) => journalOf(store).append([record("k", "done", { outcome: { ref } })]),
    ],
  ])("[ST40] a blob is removed that is named by %s", async (_where, name) => {
    expect(await isKept(name)).toBe(false);
  });

  test("[ST40] a blob that was put a moment ago stays: whoever put it is about to name it", async () => {
    const { store } = opened();
    const ref = await store.blobs.put(bytes("abc"));
    expect(await store.vacuum({ now: Date.now(), keepMs: 60_000 })).toMatchObject({ blobs: 0 });
    expect(await store.vacuum({ now: Date.now() + 61_000, keepMs: 60_000 })).toMatchObject({ blobs: 1 });
    await store.blobs.put(bytes("abc"));
    expect(await store.vacuum({ now: Date.now(), keepMs: 60_000 })).toMatchObject({ blobs: 0 });
    expect(await store.blobs.get(ref)).toEqual(bytes("abc"));
  });

  test("[ST40] journals stay for a pending input and the parts of its turn, and for no other", async () => {
    const { store } = opened();
    await store.admit(inputOf(A, "one", { turnId: turn("t1") }));
    const turns = ["t1", "t1:frame:2", "t10", "t0"];
    await journalOf(store).append(turns.map((turnId) => record("k", "done", { turnId, outcome: turnId })));
    await journalOf(store).append([record("k", "done", { sessionId: B })]);
    expect(await store.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({ journal: 3 });
    const left = await Promise.all(turns.map((turnId) => journalOf(store).read(A, turn(turnId))));
    expect(left.map((records) => records.length)).toEqual([1, 1, 0, 0]);
    await journalOf(store).append([record("k", "done", { turnId: "t10", outcome: "again" })]);
    expect(await journalOf(store).read(A, turn("t10"))).toHaveLength(1);
  });

  test("[ST40] components without a holder go, with what only they hold", async () => {
    const { store, path } = opened();
    const plugins = { p: { own: "x".repeat(900) } };
    await store.commit(commitOf(A, 0, { components: { plugins } }));
    await store.commit(commitOf(B, 0, { components: { tools: { generation: 1 } } }));
    await store.close();
    const announced = "UPDATE sessions SET status = 'announced' WHERE no = 1";
    await queryAsOlder(path, "DELETE FROM commits WHERE at >> 32 = 1", announced);
    const again = sqliteStore({ path });
    expect(await again.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({ components: 2 });
    expect((await again.load(B))?.components).toEqual({ tools: { generation: 1 } });
    await again.close();
    expect(await query(path, "SELECT count(*) AS n FROM holders")).toEqual([{ n: 1 }]);
  });
});
