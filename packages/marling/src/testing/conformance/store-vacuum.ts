// Cases about removing what nothing names any more. What is over is so since now, by the wall clock of the store.

import assert from "node:assert/strict";
import { sha256 } from "../../base/digest.ts";
import type { Store, VacuumReport } from "../../store/contract.ts";
import {
  A,
  B,
  cancelledReport,
  claimed,
  commitOf,
  FIRST,
  hashOf,
  head,
  id,
  inputId,
  inputOf,
  journalOf,
  loaded,
  node,
  observe,
  parking,
  record,
  refused,
  report,
  type StoreCase,
  turn,
  waitOf,
} from "./store-case.ts";

const HOUR = 3_600_000;

/** A vacuum long after everything that happened so far. */
function vacuumLater(store: Store): Promise<VacuumReport> {
  return store.vacuum({ now: Date.now() + 48 * HOUR, keepMs: HOUR });
}

/** A vacuum while everything that is over is still kept. */
function vacuumNow(store: Store): Promise<VacuumReport> {
  return store.vacuum({ now: Date.now(), keepMs: 48 * HOUR });
}

async function put(store: Store, text: string): Promise<string> {
  return store.blobs.put(new TextEncoder().encode(text));
}

function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
}

async function bring(store: Store, name: string): Promise<string> {
  return (await store.waits.resolve(hashOf(name), "completion", { ok: 1 })).status;
}

/** Everything that may name a blob, so that it stays. */
const NAMES: readonly (readonly [what: string, name: (store: Store, ref: string) => Promise<unknown>])[] = [
  ["a node", (store, ref) => store.commit(commitOf(A, 0, { nodes: [{ id: "n1", parts: [{ ref }] }] }))],
  [
    "a node of an earlier commit",
    async (store, ref) => {
      await store.commit(commitOf(A, 0, { nodes: [{ id: "n1", text: `see ${ref}.` }] }));
      for (const revision of [1, 2, 3]) await store.commit(commitOf(A, revision, { ids: [`m${revision}`] }));
    },
  ],
  [
    "a frame",
    (store, ref) => store.commit(commitOf(A, 0, { head: head({ frames: [{ id: "f", image: ref }] }) })),
  ],
  [
    "plugin state",
    (store, ref) => store.commit(commitOf(A, 0, { components: { plugins: { p: { [ref]: 1 } } } })),
  ],
  ["tool state", (store, ref) => store.commit(commitOf(A, 0, { components: { tools: { t: [ref] } } }))],
  [
    "plugin state of an earlier commit, which a fork may begin at",
    async (store, ref) => {
      await store.commit(commitOf(A, 0, { ids: ["n1"], components: { plugins: { p: ref } } }));
      await store.commit(commitOf(A, 1, { ids: ["n2"], components: { plugins: { p: 2 } } }));
    },
  ],
  ["a pending input", (store, ref) => store.admit({ sessionId: A, submitted: "x", input: { image: ref } })],
  ["what was submitted", (store, ref) => store.admit({ sessionId: A, submitted: [ref], input: "x" })],
  [
    "a settled input",
    async (store, ref) => {
      const { row } = await store.admit({ sessionId: A, key: "k", submitted: ref, input: ref });
      await store.commit(commitOf(A, 0, { settles: { inputId: row.inputId, report: report("done") } }));
    },
  ],
  [
    "a report",
    async (store, ref) => {
      const { row } = await store.admit(inputOf(A, "one", { key: "k" }));
      await store.commit(commitOf(A, 0, { settles: { inputId: row.inputId, report: report(ref) } }));
    },
  ],
  ["the plan of a pending input", (store, ref) => store.admit(inputOf(A, "one", { plan: { ref } }))],
  [
    "the progress of a turn",
    async (store, ref) => {
      const { row } = await store.admit(inputOf(A, "one"));
      await store.commit(commitOf(A, 0, { advances: { inputId: row.inputId, progress: { ref } } }));
    },
  ],
  [
    "the journal of a pending turn",
    async (store, ref) => {
      await store.admit(inputOf(A, "one"));
      await store.journal?.append([record("k", "done", { turnId: FIRST, outcome: { ref } })]);
    },
  ],
  [
    "a fork whose source was deleted",
    async (store, ref) => {
      await store.commit(commitOf(A, 0, { nodes: [{ id: "n1", ref }] }));
      await store.fork({ from: A, as: B });
      await store.delete(A);
    },
  ],
];

export const vacuumCases: readonly StoreCase[] = [
  {
    rule: "ST40",
    title: "an empty store has nothing to remove",
    run: async ({ store }) => {
      const { journal, inputs, waits, components, blobs } = await vacuumLater(store);
      assert.deepEqual([journal, inputs, waits, components, blobs], [0, 0, 0, 0, 0]);
    },
  },
  {
    rule: "ST40",
    title: "the journals of turns without a pending input are removed, those of others stay",
    needs: "journal",
    run: async ({ store }) => {
      const journal = journalOf(store);
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two"));
      const settles = { inputId: inputId("a:input:2"), report: report("done") };
      await store.commit(commitOf(A, 0, { settles }));
      const kept = record("k", "done", { turnId: FIRST, outcome: 1 });
      await journal.append([kept, record("k", "done", { turnId: "a:turn:2" }), record("k", "started")]);
      await journal.append([record("k", "done", { sessionId: B, turnId: FIRST })]);
      assert.ok((await vacuumLater(store)).journal > 0);
      assert.deepEqual(await journal.read(A, FIRST), [kept]);
      assert.deepEqual(await journal.read(A, turn("a:turn:2")), []);
      assert.deepEqual(await journal.read(A, turn("t1")), []);
      assert.deepEqual(await journal.read(B, FIRST), []);
      assert.equal((await vacuumLater(store)).journal, 0);
    },
  },
  {
    rule: "ST40",
    title: "the journals of the parts of a pending turn stay, and its first outcomes still win",
    needs: "journal",
    run: async ({ store }) => {
      const journal = journalOf(store);
      await store.admit(inputOf(A, "one"));
      const part = record("k", "done", { turnId: "a:turn:1:frame:1", outcome: 1 });
      await journal.append([part]);
      await vacuumLater(store);
      await journal.append([{ ...part, outcome: 2 }]);
      assert.deepEqual(await journal.read(A, part.turnId), [part]);
    },
  },
  {
    rule: "ST40",
    title: "a journal that was removed can be written again",
    needs: "journal",
    run: async ({ store }) => {
      const journal = journalOf(store);
      await journal.append([record("k", "done", { outcome: 1 })]);
      await vacuumLater(store);
      await journal.append([record("k", "done", { outcome: 2 })]);
      assert.deepEqual(await journal.read(A, turn("t1")), [record("k", "done", { outcome: 2 })]);
    },
  },
  {
    rule: "ST40",
    title: "withdrawn inputs are removed after their time, and their keys can be used again",
    run: async ({ store }) => {
      const input = inputOf(A, "one", { key: "k", turnId: turn("t") });
      await store.admit(input);
      await store.admit(inputOf(A, "two"));
      await store.withdraw(A, [{ inputId: inputId("a:input:1"), report: cancelledReport("gone") }]);
      assert.equal((await vacuumNow(store)).inputs, 0);
      assert.deepEqual((await store.find(input))?.report, cancelledReport("gone"));
      assert.equal((await vacuumLater(store)).inputs, 1);
      assert.equal(await store.find(input), undefined);
      const { status, row } = await store.admit(inputOf(A, "other", { key: "k", turnId: turn("t") }));
      assert.deepEqual([status, row.sequence, row.turnId], ["accepted", 3, "t"]);
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence }) => sequence),
        [2, 3],
      );
      assert.equal((await vacuumLater(store)).inputs, 0);
    },
  },
  {
    rule: "ST40",
    title: "a withdrawn input that was removed is unknown",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one"));
      const withdrawal = { inputId: row.inputId, report: cancelledReport("gone") };
      await store.withdraw(A, [withdrawal]);
      await vacuumLater(store);
      const outcomes = await store.withdraw(A, [withdrawal]);
      assert.deepEqual(outcomes, [{ inputId: row.inputId, status: "unknown" }]);
      assert.equal(await store.cancel({ sessionId: A, turnId: row.turnId, reason: "late" }), "unknown");
    },
  },
  {
    rule: "ST40",
    title: "pending and settled inputs stay, whatever their age",
    run: async ({ store }) => {
      const input = inputOf(A, "one", { key: "k" });
      await store.admit(input);
      await store.admit(inputOf(A, "two", { deliver: "active_turn" }));
      await store.commit(
        commitOf(A, 0, { settles: { inputId: inputId("a:input:1"), report: report("done") } }),
      );
      const before = await observe(store, A);
      assert.equal((await vacuumLater(store)).inputs, 0);
      assert.deepEqual(await observe(store, A), before);
      assert.deepEqual((await store.find(input))?.report, report("done"));
      await refused(store.admit(inputOf(A, "other", { key: "k" })), "idempotency_conflict");
    },
  },
  {
    rule: "ST40",
    title: "waits that are over are removed after their time, and their keys are unknown then",
    run: async ({ store }) => {
      await store.waits.create(waitOf("ended"));
      await store.waits.create(waitOf("ended", { keyHash: hashOf("another key") }));
      await store.waits.end(waitOf("ended"));
      await store.waits.create(waitOf("forgotten", { turnId: turn("t1") }));
      await store.commit(commitOf(A, 0, { forgets: [turn("t1")] }));
      assert.equal((await vacuumNow(store)).waits, 0);
      for (const key of ["ended", "another key", "forgotten"])
        assert.equal(await bring(store, key), "already_resolved");
      assert.equal((await vacuumLater(store)).waits, 2);
      for (const key of ["ended", "another key", "forgotten"])
        assert.equal(await bring(store, key), "unknown");
      assert.deepEqual(await store.waits.read(A, FIRST), []);
      assert.equal((await vacuumLater(store)).waits, 0);
    },
  },
  {
    rule: "ST40",
    title: "a wait with a value that its turn forgot is removed, too",
    run: async ({ store }) => {
      await store.waits.create(waitOf("w"));
      await bring(store, "w");
      await store.commit(commitOf(A, 0, { forgets: [FIRST] }));
      assert.equal((await vacuumNow(store)).waits, 0);
      assert.equal(await bring(store, "w"), "already_resolved");
      assert.equal((await vacuumLater(store)).waits, 1);
      assert.equal(await bring(store, "w"), "unknown");
    },
  },
  {
    rule: "ST40",
    title: "waits that are not over stay, with their values",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      for (const name of ["open", "done"]) await store.waits.create(waitOf(name));
      await bring(store, "done");
      assert.equal((await vacuumLater(store)).waits, 0);
      assert.equal(await bring(store, "open"), "resolved");
      assert.equal(await bring(store, "done"), "already_resolved");
      for (const { resolution } of await store.waits.read(A, FIRST)) assert.deepEqual(resolution, { ok: 1 });
    },
  },
  ...NAMES.map(
    ([what, name]): StoreCase => ({
      rule: "ST40",
      title: `a blob stays that is named by ${what}`,
      ...(what.startsWith("the journal") ? { needs: "journal" } : {}),
      run: async ({ store }) => {
        const ref = await put(store, "named");
        const stray = await put(store, "stray");
        await name(store, ref);
        assert.equal((await vacuumLater(store)).blobs, 1);
        assert.equal(textOf(await store.blobs.get(ref)), "named");
        assert.equal(await store.blobs.get(stray), undefined);
      },
    }),
  ),
  {
    rule: "ST40",
    title: "blobs that only a deleted session, a removed input or a removed journal named are removed",
    run: async ({ store }) => {
      const refs = [await put(store, "one"), await put(store, "two"), await put(store, "three")];
      await store.commit(commitOf(B, 0, { nodes: [{ id: "n1", ref: refs[0] ?? "" }] }));
      await store.delete(B);
      const { row } = await store.admit({ sessionId: A, submitted: "x", input: refs[1] ?? "" });
      await store.withdraw(A, [{ inputId: row.inputId, report: cancelledReport("gone") }]);
      await store.journal?.append([record("k", "done", { outcome: refs[2] ?? "" })]);
      assert.equal((await vacuumLater(store)).blobs, 3);
      for (const ref of refs) assert.equal(await store.blobs.get(ref), undefined);
    },
  },
  {
    rule: "ST40",
    title: "a blob that was removed can be put again",
    run: async ({ store }) => {
      const ref = await put(store, "bytes");
      await vacuumLater(store);
      assert.equal(await put(store, "bytes"), ref);
      assert.equal(ref, `sha256:${sha256("bytes")}`);
      assert.equal(textOf(await store.blobs.get(ref)), "bytes");
    },
  },
  {
    rule: "ST40",
    title: "sessions, forks, leases, parked turns and requests are as before",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one", { key: "k" }));
      await store.admit(inputOf(A, "two"));
      const components = { plugins: { p: { large: "x".repeat(5000) } } };
      await store.commit(commitOf(A, 0, { ids: ["n1"], components, announces: turn("t") }));
      await store.commit(commitOf(A, 1, { ids: ["n2"], components: { plugins: { p: 2 } } }));
      await store.waits.create(waitOf("w"));
      await store.park(parking(await claimed(store, "one"), { names: ["w"], due: 9000 }));
      await store.cancel({ sessionId: A, turnId: turn("a:turn:2"), reason: "enough" });
      await claimed(store, "two", { sessionId: B });
      await store.delete(id("gone"));
      const before = await observe(store, A, B);
      await vacuumLater(store);
      assert.deepEqual(await observe(store, A, B), before);
      await store.fork({ from: A, as: id("fork"), at: node("n1") });
      assert.deepEqual((await loaded(store, id("fork"))).components, components);
      await refused(store.load(id("gone")), "session_deleted");
      await refused(store.commit(commitOf(B, 0)), "lease_held");
      assert.equal((await store.commit(commitOf(A, 2, { ids: ["n3"] }))).revision, 3);
    },
  },
  {
    rule: "ST40",
    title: "components of sessions that are there come back after those of a deleted one went",
    run: async ({ store }) => {
      const shared = { p: { text: "shared ".repeat(500) } };
      await store.commit(commitOf(A, 0, { components: { plugins: shared } }));
      const own = { plugins: shared, tools: { t: "own ".repeat(500) } };
      await store.commit(commitOf(B, 0, { components: own }));
      await store.delete(B);
      const { bytes } = await vacuumLater(store);
      assert.ok(Number.isFinite(bytes));
      assert.deepEqual((await loaded(store, A)).components, { plugins: shared });
    },
  },
];
