// Cases about commits that succeed: revisions, operations, heads and components.

import assert from "node:assert/strict";
import type { SessionCommit, SessionHead } from "../../store/contract.ts";
import {
  A,
  B,
  commitOf,
  head,
  inputOf,
  loaded,
  NO_TOKENS,
  node,
  nodeIds,
  nodes,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

const SPENT = { input: 3, output: 2, cacheRead: 1, cacheWrite: 0, reasoning: 1 };

export const commitCases: readonly StoreCase[] = [
  {
    rule: "ST6",
    title: "a session that was never committed is not there",
    run: async ({ store }) => assert.equal(await store.load(A), undefined),
  },
  {
    rule: "ST1",
    title: "the first commit is made on revision 0 and makes revision 1",
    run: async ({ store }) => {
      assert.deepEqual(await store.commit(commitOf(A, 0, { ids: ["n1"] })), { revision: 1, enqueued: [] });
      assert.equal((await loaded(store, A)).revision, 1);
    },
  },
  {
    rule: "ST1",
    title: "each commit makes the next revision",
    run: async ({ store }) => {
      for (const revision of [0, 1, 2]) await store.commit(commitOf(A, revision, { ids: [`n${revision}`] }));
      assert.equal((await loaded(store, A)).revision, 3);
    },
  },
  {
    rule: "ST1",
    title: "an older revision is refused with what was expected and found",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0));
      const details = await refused(
        store.commit(commitOf(A, 0, { operation: "other" })),
        "revision_conflict",
      );
      assert.deepEqual([details.expected, details.found], [0, 1]);
    },
  },
  {
    rule: "ST1",
    title: "a newer revision is refused, for a new session too",
    run: async ({ store }) => {
      await refused(store.commit(commitOf(A, 1)), "revision_conflict");
      await store.commit(commitOf(A, 0));
      await refused(store.commit(commitOf(A, 2)), "revision_conflict");
    },
  },
  {
    rule: "ST2",
    title: "a commit that happens once, asked for again, returns the first result and appends nothing",
    run: async ({ store }) => {
      const first = await store.commit(commitOf(A, 0, { once: true, ids: ["n1"] }));
      assert.deepEqual(await store.commit(commitOf(A, 0, { once: true, ids: ["n1"] })), first);
      assert.deepEqual(await nodeIds(store, A), ["n1"]);
    },
  },
  {
    rule: "ST2",
    title: "asked for again after others, it returns the first result",
    run: async ({ store }) => {
      const commit = commitOf(A, 0, { once: true, operation: "first", ids: ["n1"] });
      await store.commit(commit);
      await store.commit(commitOf(A, 1, { ids: ["n2"] }));
      assert.equal((await store.commit(commit)).revision, 1);
      assert.deepEqual(await nodeIds(store, A), ["n1", "n2"]);
    },
  },
  {
    rule: "ST2",
    title: "asked for again with other content, it is refused",
    run: async ({ store }) => {
      const first = commitOf(A, 0, { once: true, operation: "first", ids: ["n1"] });
      await store.commit(first);
      const others: readonly Partial<SessionCommit>[] = [
        { nodes: nodes("other") },
        { expectedRevision: 1 },
        { head: head({ turnIndex: 5, leaf: node("n1") }) },
        { components: { plugins: { p: 1 } } },
        { enqueues: [inputOf(B, "more")] },
      ];
      for (const other of others) await refused(store.commit({ ...first, ...other }), "revision_conflict");
      assert.deepEqual(await nodeIds(store, A), ["n1"]);
      assert.deepEqual(await store.pending(B), []);
    },
  },
  {
    rule: "ST2",
    title: "the order of members is no other content",
    run: async ({ store }) => {
      const commit = commitOf(A, 0, { once: true, components: { plugins: { a: 1, b: 2 }, tools: { t: 1 } } });
      await store.commit(commit);
      const reordered = { ...commit, components: { tools: { t: 1 }, plugins: { b: 2, a: 1 } } };
      assert.equal((await store.commit(reordered)).revision, 1);
    },
  },
  {
    rule: "ST2",
    title: "a turn that is committed again returns the first result, whatever its turn id and its operation",
    run: async ({ store }) => {
      const turns = [{}, { turnId: turn("given") }, {}, { turnId: turn("also given") }];
      const operations = ["a:turn:1", "given", "turn:a:turn:3", "turn:also given"];
      for (const [revision, names] of turns.entries()) {
        const { row } = await store.admit(inputOf(A, `input ${revision}`, names));
        const settles = { inputId: row.inputId, report: report("done") };
        const operation = operations[revision] ?? "";
        const commit = commitOf(A, revision, { once: true, operation, settles, ids: [`n${revision}`] });
        assert.equal((await store.commit(commit)).revision, revision + 1);
        assert.equal((await store.commit(commit)).revision, revision + 1);
        await refused(store.commit({ ...commit, nodes: [] }), "revision_conflict");
        await refused(
          store.commit(commitOf(A, revision + 1, { once: true, operation })),
          "revision_conflict",
        );
      }
      assert.deepEqual(await nodeIds(store, A), ["n0", "n1", "n2", "n3"]);
    },
  },
  {
    rule: "ST2",
    title: "operations that end like the one of a turn are others",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "input"));
      const settles = { inputId: row.inputId, report: report("done") };
      await store.commit(commitOf(A, 0, { once: true, operation: "turn:a:turn:1", settles }));
      for (const [index, operation] of [
        "a:turn:1",
        "part:a:turn:1",
        "turn:a:turn:1.2",
        "turn:a:turn:2",
      ].entries()) {
        assert.equal(
          (await store.commit(commitOf(A, index + 1, { once: true, operation }))).revision,
          index + 2,
        );
      }
    },
  },
  {
    rule: "ST2",
    title: "other commits are told apart by their revision, whatever their operation",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { once: true, operation: "same", ids: ["n1"] }));
      await store.commit(commitOf(A, 1, { operation: "same", ids: ["n2"] }));
      await store.commit(commitOf(A, 2, { operation: "same", ids: ["n3"] }));
      await refused(store.commit(commitOf(A, 2, { operation: "same", ids: ["n3"] })), "revision_conflict");
      assert.deepEqual(await nodeIds(store, A), ["n1", "n2", "n3"]);
    },
  },
  {
    rule: "ST2",
    title: "the same operation of another session is another operation",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { once: true, operation: "same", ids: ["a1"] }));
      await store.commit(commitOf(B, 0, { once: true, operation: "same", ids: ["b1"] }));
      assert.deepEqual([await nodeIds(store, A), await nodeIds(store, B)], [["a1"], ["b1"]]);
    },
  },
  {
    rule: "ST2",
    title: "an operation that was refused can be committed",
    run: async ({ store }) => {
      await refused(store.commit(commitOf(A, 5, { once: true, operation: "late" })), "revision_conflict");
      assert.equal((await store.commit(commitOf(A, 0, { once: true, operation: "late" }))).revision, 1);
    },
  },
  {
    rule: "ST6",
    title: "nodes of all commits are the path, oldest first",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { ids: ["n1", "n2"] }));
      await store.commit(commitOf(A, 1, { ids: [] }));
      await store.commit(commitOf(A, 2, { ids: ["n3"] }));
      assert.deepEqual((await loaded(store, A)).nodes, nodes("n1", "n2", "n3"));
    },
  },
  {
    rule: "ST41",
    title:
      "what a session that is loaded in part comes without can be read later, and with the rest it is the path",
    run: async ({ store }) => {
      const inFrame = (frame: string, leaf: string): { readonly head: SessionHead } => ({
        head: head({ currentFrameId: frame, leaf: node(leaf) }),
      });
      await store.commit(commitOf(A, 0, { ids: ["n1", "n2"], ...inFrame("f1", "n2") }));
      await store.commit(commitOf(A, 1, { ids: ["n3"], ...inFrame("f1", "n3") }));
      await store.commit(commitOf(A, 2, { ids: ["n4", "n5"], ...inFrame("f2", "n5") }));
      await store.commit(commitOf(A, 3, { ids: ["n6"], ...inFrame("f2", "n6") }));
      await store.fork({ from: A, as: B });
      for (const sessionId of [A, B]) {
        const whole = await loaded(store, sessionId);
        const part = await store.load(sessionId, { isPartial: true });
        await store.commit(commitOf(sessionId, whole.revision, { ids: [`${sessionId}7`] }));
        const { nodes: rest = [], earlier, ...others } = part ?? {};
        assert.deepEqual([...(earlier?.() ?? []), ...rest], nodes("n1", "n2", "n3", "n4", "n5", "n6"));
        assert.deepEqual(rest.slice(-3), nodes("n4", "n5", "n6"));
        const { nodes: _nodes, ...same } = whole;
        assert.deepEqual(others, same);
      }
    },
  },
  {
    rule: "ST6",
    title: "every member of the head is the one of the newest commit",
    run: async ({ store }) => {
      const first = head({
        turnIndex: 1,
        leaf: node("n1"),
        operations: 4,
        parentSessionId: "b",
        lastPromptUsage: SPENT,
      });
      await store.commit(commitOf(A, 0, { head: first, nodes: nodes("n1") }));
      assert.deepEqual((await loaded(store, A)).head, first);
      const second = head({ turnIndex: 2, leaf: node("n1"), operations: 5, lastPromptUsage: null });
      await store.commit(commitOf(A, 1, { head: second }));
      assert.deepEqual((await loaded(store, A)).head, second);
    },
  },
  {
    rule: "ST6",
    title: "a leaf that is not the last node of the commit is kept",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { nodes: nodes("n1", "n2"), head: head({ leaf: node("n1") }) }));
      assert.equal((await loaded(store, A)).head.leaf, "n1");
      await store.commit(commitOf(A, 1, { nodes: nodes("n3"), head: head({ leaf: null }) }));
      assert.equal((await loaded(store, A)).head.leaf, null);
    },
  },
  {
    rule: "ST6",
    title: "frames that open, change and close are those of the newest commit",
    run: async ({ store }) => {
      const versions = [
        [{ id: "f1", status: "active" }],
        [
          { id: "f1", status: "superseded" },
          { id: "f2", status: "active" },
        ],
        [
          { id: "f1", status: "superseded" },
          { id: "f2", status: "superseded" },
          { id: "f3", status: "active", n: [1] },
        ],
        [{ id: "f1", status: "active" }],
        [],
      ];
      for (const [revision, frames] of versions.entries()) {
        await store.commit(commitOf(A, revision, { head: head({ frames }) }));
        assert.deepEqual((await loaded(store, A)).head.frames, frames);
      }
    },
  },
  {
    rule: "ST6",
    title: "the ledger is the one of the newest commit",
    run: async ({ store }) => {
      const entry = (source: string, usage = SPENT) => ({ source, model: "m", usage });
      const versions = [
        [entry("turn")],
        [entry("turn"), entry("child")],
        [entry("turn", NO_TOKENS), entry("child")],
        [],
      ];
      for (const [revision, ledger] of versions.entries()) {
        await store.commit(commitOf(A, revision, { head: head({ ledger }) }));
        assert.deepEqual((await loaded(store, A)).head.ledger, ledger);
      }
    },
  },
  {
    rule: "ST6",
    title: "a component that a commit does not carry stays",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { components: { plugins: { p: 1 }, tools: { t: 1 } } }));
      await store.commit(commitOf(A, 1, { components: { tools: { t: 2 } } }));
      await store.commit(commitOf(A, 2));
      assert.deepEqual((await loaded(store, A)).components, { plugins: { p: 1 }, tools: { t: 2 } });
    },
  },
  {
    rule: "ST6",
    title: "a component that goes back to an earlier state has that state",
    run: async ({ store }) => {
      const states = [{ p: 1 }, { p: 2 }, { p: 1 }];
      for (const [revision, plugins] of states.entries())
        await store.commit(commitOf(A, revision, { components: { plugins } }));
      assert.deepEqual((await loaded(store, A)).components, { plugins: { p: 1 } });
    },
  },
  {
    rule: "ST6",
    title: "a session without components has none",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0));
      assert.deepEqual((await loaded(store, A)).components, {});
    },
  },
  {
    rule: "ST6",
    title: "the number of inputs counts settled and pending ones",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(A, "two"));
      await store.commit(commitOf(A, 0, { settles: { inputId: row.inputId, report: report("done") } }));
      assert.equal((await loaded(store, A)).inputs, 2);
    },
  },
  {
    rule: "ST25",
    title: "of several commits on one revision exactly one succeeds",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0));
      const rivals = ["x", "y", "z"].map((operation) =>
        store.commit(commitOf(A, 1, { operation, ids: [operation] })),
      );
      const settled = await Promise.allSettled(rivals);
      const won = settled.flatMap(({ status }, index) =>
        status === "fulfilled" ? [["x", "y", "z"][index]] : [],
      );
      assert.equal(won.length, 1);
      assert.deepEqual(await nodeIds(store, A), won);
      assert.equal((await loaded(store, A)).revision, 2);
    },
  },
  {
    rule: "ST25",
    title: "one operation that is committed twice at once commits once",
    run: async ({ store }) => {
      const both = [
        commitOf(A, 0, { once: true, ids: ["n1"] }),
        commitOf(A, 0, { once: true, ids: ["n1"] }),
      ].map((commit) => store.commit(commit));
      assert.deepEqual(
        (await Promise.all(both)).map(({ revision }) => revision),
        [1, 1],
      );
      assert.deepEqual(await nodeIds(store, A), ["n1"]);
    },
  },
];
