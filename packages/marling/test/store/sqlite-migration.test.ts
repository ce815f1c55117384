// Files of older versions: everything in them is there, and everything that came since can be done with them. The file of
// version 1 was written by the store of commit 8bf4124, the last one of that version.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import type { EffectKey } from "../../src/model/ids.ts";
import type { SessionCommit, Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  commitOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  node,
  report,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { query, refusal, temporaryFolder } from "./sqlite-support.ts";

const MAIN = id("main");
const LONG = "A sentence of the session that is long enough to be shared.";
const NAMED_BY_NODE = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const NAMED_BY_PLUGIN = "sha256:49020ec315d8932825b16f3480fdf8b5c74c29d38ab3d5027af4ea7206f4aa0f";
const NAMED_BY_INPUT = "sha256:cd7f17be9601625f6c05e0f7595b64b71873caf4e645792b7476b5ed01dd23a6";
const NAMED_BY_NOTHING = "sha256:b4b26762ddf4beafe4fb9a54b835389b7d22290017dea72cfd66cf50a3bc7f70";
const WORKER = { owner: "worker", incarnation: "run-1", now: 1000, expiresAt: 2000 };

/** A store on a copy of the file. */
function opened(): { readonly store: Store; readonly path: string } {
  const path = join(temporaryFolder(), "store.db");
  copyFileSync(fileURLToPath(new URL("fixtures/store-v1-turns.db", import.meta.url)), path);
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  return { store, path };
}

/** The commit that ended the first turn of the file, as it was asked for. */
const FIRST_TURN: SessionCommit = commitOf(MAIN, 0, {
  operation: "turn:t1",
  once: true,
  nodes: [{ id: "n1", text: LONG }],
  head: head({
    turnIndex: 1,
    leaf: node("n1"),
    frames: [{ id: "f1", status: "active" }],
    parentSessionId: "above",
  }),
  components: {
    plugins: {
      plugins: { counter: { n: 1 }, memory: { text: "m".repeat(600), image: NAMED_BY_PLUGIN } },
    },
    tools: { generation: 1 },
  },
  settles: { inputId: inputId("main:input:1"), report: report(LONG) },
  enqueues: [inputOf(id("other"), "from main", { key: "q" })],
});

test("[SL9] a session of version 1 is loaded as it was", async () => {
  const { store } = opened();
  const session = await store.load(MAIN);
  expect(session).toMatchObject({ revision: 3, inputs: 4, unannounced: [] });
  expect(session?.nodes).toEqual([
    { id: "n1", text: LONG },
    { id: "n2", text: "second" },
    { id: "n3", text: "part" },
  ]);
  expect(session?.head).toEqual(
    head({
      turnIndex: 2,
      leaf: node("n3"),
      frames: [
        { id: "f1", status: "superseded" },
        { id: "f2", status: "active" },
      ],
      operations: 1,
      parentSessionId: "above",
    }),
  );
  expect(session?.components).toEqual({
    plugins: {
      plugins: { counter: { n: 2 }, memory: { text: "m".repeat(600), image: NAMED_BY_PLUGIN } },
    },
    tools: { generation: 1 },
  });
  expect((await store.list({})).items.map((item) => [item.id, item.revision])).toEqual([
    ["ba7816bf", 1],
    ["fork", 2],
    ["heir", 1],
    ["main", 3],
  ]);
});

test("[SL9] inputs of version 1 are found, pending or settled, and commits are known again", async () => {
  const { store } = opened();
  expect(await store.find({ sessionId: MAIN, key: "k1", submitted: { text: "one" } })).toEqual({
    sessionId: "main",
    key: "k1",
    turnId: "t1",
    inputId: "main:input:1",
    sequence: 1,
    submitted: { text: "one" },
    input: { text: "one" },
    report: report(LONG),
  });
  const byTurn = { sessionId: MAIN, turnId: turn("main:turn:2"), submitted: { text: "two" } };
  expect(await store.find(byTurn)).toMatchObject({
    sequence: 2,
    input: { text: "TWO" },
    report: report("second"),
  });
  expect(await store.pending(MAIN)).toEqual([
    {
      sessionId: "main",
      key: "k3",
      turnId: "main:turn:3",
      inputId: "main:input:3",
      sequence: 3,
      submitted: { text: "three" },
      input: { text: "three" },
      progress: { at: 1 },
    },
    {
      sessionId: "main",
      turnId: "main:turn:4",
      inputId: "main:input:4",
      sequence: 4,
      submitted: { text: "four", image: NAMED_BY_INPUT },
      input: { text: "four", image: NAMED_BY_INPUT },
    },
  ]);
  expect(await store.unsettled()).toEqual(["main", "other"]);
  expect(await store.workable(1000)).toEqual(["main", "other"]);
  expect(await store.commit(FIRST_TURN)).toMatchObject({ revision: 1, enqueued: [{ key: "q" }] });
});

test("[SL9] journals, forks, deleted ids and blobs of version 1 are there", async () => {
  const { store } = opened();
  expect(await journalOf(store).read(MAIN, turn("main:turn:3:frame:1"))).toMatchObject([
    { key: "0.model", status: "started" },
    { key: "0.model", status: "done", outcome: { ok: true } },
  ]);
  expect((await store.load(id("fork")))?.nodes.map((item) => item.id)).toEqual(["n1", "n2", "f-n1"]);
  expect(await store.load(id("heir"))).toMatchObject({
    nodes: [{ id: "g1" }],
    components: { tools: { generation: 7 } },
  });
  expect(await refusal(store.load(id("gone")))).toMatchObject({ code: "session_deleted" });
  expect(new TextDecoder().decode(await store.blobs.get(NAMED_BY_NODE))).toBe("abc");
});

test("[SL9] a turn of version 1 can be leased, parked, woken, cancelled and settled", async () => {
  const { store, path } = opened();
  const claim = await store.claim(MAIN, WORKER);
  expect(claim).toEqual({ kind: "claimed", generation: 1, isTakeover: false, revision: 3, inputs: 4 });
  const lease = { sessionId: MAIN, generation: 1 };
  const wait = { sessionId: MAIN, turnId: turn("main:turn:3"), name: "answer" };
  await store.waits.create({ ...wait, kind: "completion", keyHash: "ab".repeat(32), lease: 1 });
  expect(await store.park({ ...lease, turnId: wait.turnId, names: ["answer"], due: null })).toBe("parked");
  expect(await store.workable(5000)).toEqual(["other"]);
  expect((await store.waits.resolve("ab".repeat(32), "completion", { ok: 1 })).status).toBe("resolved");
  expect(await store.workable(5000)).toEqual(["main", "other"]);
  await store.admit(inputOf(MAIN, "and this", { deliver: "active_turn", key: "k5" }));
  expect(await store.claim(MAIN, WORKER)).toMatchObject({ kind: "claimed", generation: 2 });
  const key = "1.checkpoint" as EffectKey;
  const request = { sessionId: MAIN, generation: 2, turnId: wait.turnId, key, isReplay: false };
  expect((await store.deliver(request)).map((row) => row.sequence)).toEqual([5]);
  expect(await store.cancel({ sessionId: MAIN, turnId: wait.turnId, reason: "late" })).toBe("requested");
  const settles = { inputId: inputId("main:input:3"), report: report("done") };
  const commit = commitOf(MAIN, 3, {
    settles,
    joins: [inputId("main:input:5")],
    lease: 2,
    releases: true,
    forgets: [wait.turnId],
    announces: wait.turnId,
  });
  expect(await refusal(store.commit(commit))).toMatchObject({ code: "turn_cancelled" });
  const outcome = { kind: "stopped", reason: "cancelled" } as const;
  const ended = { ...report("done"), outcome };
  await store.commit({ ...commit, settles: { ...settles, report: ended } });
  expect(await store.find({ sessionId: MAIN, key: "k5", submitted: { text: "and this" } })).toMatchObject({
    sequence: 5,
    report: ended,
  });
  expect((await store.load(MAIN))?.unannounced).toEqual([{ revision: 4, turnId: "main:turn:3" }]);
  expect((await store.pending(MAIN)).map((row) => row.sequence)).toEqual([4]);
  const withdrawn = await store.withdraw(MAIN, [{ inputId: inputId("main:input:4"), report: ended }]);
  expect(withdrawn).toEqual([{ inputId: "main:input:4", status: "cancelled" }]);
  await store.close();
  expect(await query(path, "SELECT value FROM meta WHERE name = 'version'")).toEqual([{ value: "3" }]);
  expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
});

test("[ST40] a vacuum of a file of version 1 removes what nothing names, and nothing else", async () => {
  const { store } = opened();
  expect(await store.vacuum({ now: Date.now(), keepMs: 0 })).toMatchObject({
    journal: 1,
    inputs: 0,
    waits: 0,
    components: 0,
    blobs: 1,
  });
  for (const ref of [NAMED_BY_NODE, NAMED_BY_PLUGIN, NAMED_BY_INPUT]) {
    expect(await store.blobs.get(ref)).toBeDefined();
  }
  expect(await store.blobs.get(NAMED_BY_NOTHING)).toBeUndefined();
  expect(await journalOf(store).read(MAIN, turn("nobody"))).toEqual([]);
  expect(await journalOf(store).read(MAIN, turn("main:turn:3:frame:1"))).toHaveLength(2);
  expect((await store.load(id("heir")))?.components).toEqual({ tools: { generation: 7 } });
  expect((await store.load(id("fork")))?.nodes).toHaveLength(3);
});
