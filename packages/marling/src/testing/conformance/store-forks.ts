// Cases about forks: where they start, what they carry, and that nobody hurts anybody.

import assert from "node:assert/strict";
import type { Store } from "../../store/contract.ts";
import {
  A,
  B,
  commitOf,
  head,
  id,
  inputOf,
  journalOf,
  loaded,
  NO_TOKENS,
  node,
  nodeIds,
  record,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

const C = id("c");
const D = id("d");

/** Three commits: n1 and n2; n3; n4 and n5. */
async function history(store: Store): Promise<void> {
  await store.commit(
    commitOf(A, 0, { ids: ["n1", "n2"], components: { plugins: { p: 1 }, tools: { t: 1 } } }),
  );
  await store.commit(commitOf(A, 1, { ids: ["n3"], components: { plugins: { p: 2 } } }));
  await store.commit(commitOf(A, 2, { ids: ["n4", "n5"], components: { tools: { t: 3 } } }));
}

export const forkCases: readonly StoreCase[] = [
  {
    rule: "ST16",
    title: "a fork is at revision 1 on the newest commit, and is what load returns",
    run: async ({ store }) => {
      await history(store);
      const fork = await store.fork({ from: A, as: B });
      assert.deepEqual([fork.sessionId, fork.revision, fork.head.leaf, fork.inputs], ["b", 1, "n5", 0]);
      const stored = await loaded(store, B);
      assert.deepEqual({ ...fork, nodes: stored.nodes }, stored);
      assert.deepEqual(await nodeIds(store, B), ["n1", "n2", "n3", "n4", "n5"]);
    },
  },
  {
    rule: "ST16",
    title: "a fork starts at the commit that ended with a node",
    run: async ({ store }) => {
      await history(store);
      const fork = await store.fork({ from: A, as: B, at: node("n3") });
      assert.deepEqual([fork.head.leaf, fork.head.turnIndex], ["n3", 1]);
      assert.deepEqual(await nodeIds(store, B), ["n1", "n2", "n3"]);
    },
  },
  {
    rule: "ST16",
    title: "of several commits that ended with a node the newest counts",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { ids: ["n1"], components: { plugins: { p: 1 } } }));
      await store.commit(
        commitOf(A, 1, { head: head({ leaf: node("n1"), turnIndex: 7 }), components: { plugins: { p: 2 } } }),
      );
      await store.commit(commitOf(A, 2, { ids: ["n2"] }));
      const fork = await store.fork({ from: A, as: B, at: node("n1") });
      assert.deepEqual([fork.head.turnIndex, fork.components], [7, { plugins: { p: 2 } }]);
    },
  },
  {
    rule: "ST16",
    title: "a fork exists and is listed",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n3") });
      assert.equal(await store.exists(B), true);
      assert.deepEqual((await store.list({})).items[1], { id: "b", revision: 1, turnIndex: 1 });
    },
  },
  {
    rule: "ST16",
    title: "a fork goes back to any commit of its path, its own and those it shares",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n3") });
      await store.commit(commitOf(B, 1, { ids: ["b1"] }));
      await store.commit(commitOf(B, 2, { ids: ["b2"] }));
      for (const [index, [at, expected]] of Object.entries({
        n2: ["n1", "n2"],
        n3: ["n1", "n2", "n3"],
        b1: ["n1", "n2", "n3", "b1"],
      }).entries()) {
        const as = id(`fork-${index}`);
        await store.fork({ from: B, as, at: node(at) });
        assert.deepEqual(await nodeIds(store, as), expected);
      }
    },
  },
  {
    rule: "ST16",
    title: "a chain of twenty forks has the path of all of them",
    run: async ({ store }) => {
      await store.commit(commitOf(id("f0"), 0, { ids: ["n0"] }));
      for (let step = 1; step <= 20; step += 1) {
        await store.fork({ from: id(`f${step - 1}`), as: id(`f${step}`) });
        await store.commit(commitOf(id(`f${step}`), 1, { ids: [`n${step}`] }));
      }
      assert.deepEqual(
        await nodeIds(store, id("f20")),
        Array.from({ length: 21 }, (_, index) => `n${index}`),
      );
      assert.deepEqual(await nodeIds(store, id("f3")), ["n0", "n1", "n2", "n3"]);
      await store.fork({ from: id("f20"), as: B, at: node("n1") });
      assert.deepEqual(await nodeIds(store, B), ["n0", "n1"]);
    },
  },
  {
    rule: "ST17",
    title: "a fork has the components of its commit, whatever came later",
    run: async ({ store }) => {
      await history(store);
      const forks = [];
      for (const at of ["n2", "n3", "n5"])
        forks.push(await store.fork({ from: A, as: id(`at-${at}`), at: node(at) }));
      assert.deepEqual(
        forks.map(({ components }) => components),
        [
          { plugins: { p: 1 }, tools: { t: 1 } },
          { plugins: { p: 2 }, tools: { t: 1 } },
          { plugins: { p: 2 }, tools: { t: 3 } },
        ],
      );
    },
  },
  {
    rule: "ST17",
    title: "a fork has the head of its commit, without parent and usage",
    run: async ({ store }) => {
      const ledger = [{ source: "turn", model: "m", usage: { ...NO_TOKENS, input: 5 } }];
      const frames = [{ id: "f1" }, { id: "f2" }];
      const lastPromptUsage = { ...NO_TOKENS, output: 2 };
      const first = head({
        turnIndex: 3,
        leaf: node("n1"),
        frames,
        ledger,
        lastPromptUsage,
        operations: 2,
        parentSessionId: "p",
        currentFrameId: "f2",
      });
      await store.commit(commitOf(A, 0, { ids: ["n1"], head: first }));
      const second = head({ turnIndex: 4, leaf: node("n2"), frames: [], ledger, parentSessionId: "p" });
      await store.commit(commitOf(A, 1, { ids: ["n2"], head: second }));
      const fork = await store.fork({ from: A, as: B, at: node("n1") });
      assert.deepEqual(fork.head, { ...first, ledger: [], parentSessionId: null });
      const newest = await store.fork({ from: A, as: C });
      assert.deepEqual(newest.head, { ...second, ledger: [], parentSessionId: null });
      assert.deepEqual((await loaded(store, C)).head, newest.head);
      assert.deepEqual((await loaded(store, A)).head, second);
    },
  },
  {
    rule: "ST17",
    title: "inputs stay behind, and those that a fork takes are its own",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "settled", { key: "k1" }));
      await store.admit(inputOf(A, "waiting", { key: "k2" }));
      await store.commit(
        commitOf(A, 0, { ids: ["n1"], settles: { inputId: "a:input:1" as never, report: report("done") } }),
      );
      await store.fork({ from: A, as: B });
      assert.deepEqual(await store.pending(B), []);
      const { status, row } = await store.admit(inputOf(B, "other", { key: "k1" }));
      assert.deepEqual([status, row.inputId, row.sequence], ["accepted", "b:input:1", 1]);
      assert.equal((await store.pending(A)).length, 1);
    },
  },
  {
    rule: "ST17",
    title: "a fork keeps inputs that were admitted under its id before",
    run: async ({ store }) => {
      await history(store);
      await store.admit(inputOf(B, "early"));
      assert.equal((await store.fork({ from: A, as: B })).inputs, 1);
      assert.equal(await store.exists(B), true);
      assert.deepEqual([(await loaded(store, B)).inputs, (await nodeIds(store, B)).length], [1, 5]);
      assert.equal((await store.admit(inputOf(B, "late"))).row.sequence, 2);
      assert.deepEqual(
        (await store.pending(B)).map(({ sequence }) => sequence),
        [1, 2],
      );
    },
  },
  {
    rule: "ST17",
    title: "operations of the source can be committed by the fork",
    run: async ({ store }) => {
      await store.commit(commitOf(A, 0, { once: true, operation: "same", ids: ["n1"] }));
      await store.fork({ from: A, as: B });
      assert.equal(
        (await store.commit(commitOf(B, 1, { once: true, operation: "same", ids: ["b1"] }))).revision,
        2,
      );
      assert.deepEqual(await nodeIds(store, B), ["n1", "b1"]);
    },
  },
  {
    rule: "ST17",
    title: "the journal stays behind",
    needs: "journal",
    run: async ({ store }) => {
      await history(store);
      await journalOf(store).append([record("k", "done")]);
      await store.fork({ from: A, as: B });
      assert.deepEqual(await journalOf(store).read(B, turn("t1")), []);
      assert.equal((await journalOf(store).read(A, turn("t1"))).length, 1);
    },
  },
  {
    rule: "ST18",
    title: "a node inside a commit is refused with the boundaries around it",
    run: async ({ store }) => {
      await history(store);
      const first = await refused(store.fork({ from: A, as: B, at: node("n1") }), "fork_point_inside_turn");
      assert.deepEqual([first.before, first.after], [null, "n2"]);
      const last = await refused(store.fork({ from: A, as: B, at: node("n4") }), "fork_point_inside_turn");
      assert.deepEqual([last.before, last.after], ["n3", "n5"]);
      assert.equal(await store.exists(B), false);
    },
  },
  {
    rule: "ST18",
    title: "a node inside a commit that a fork shares is refused with the boundaries around it",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n5") });
      await store.commit(commitOf(B, 1, { ids: ["b1", "b2"] }));
      const shared = await refused(store.fork({ from: B, as: C, at: node("n4") }), "fork_point_inside_turn");
      assert.deepEqual([shared.before, shared.after], ["n3", "n5"]);
      const own = await refused(store.fork({ from: B, as: C, at: node("b1") }), "fork_point_inside_turn");
      assert.deepEqual([own.before, own.after], ["n5", "b2"]);
    },
  },
  {
    rule: "ST18",
    title: "a node that is not on the path is unknown, also when the source went on after the fork",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n3") });
      await refused(store.fork({ from: A, as: C, at: node("nowhere") }), "fork_point_unknown");
      await refused(store.fork({ from: B, as: C, at: node("n5") }), "fork_point_unknown");
      assert.equal(await store.exists(C), false);
    },
  },
  {
    rule: "ST18",
    title: "a source that has no commit is unknown, and a target that has one is taken",
    run: async ({ store }) => {
      await store.admit(inputOf(B, "waiting"));
      await refused(store.fork({ from: A, as: C }), "unknown_session");
      await refused(store.fork({ from: B, as: C }), "unknown_session");
      await history(store);
      await store.commit(commitOf(B, 0));
      await refused(store.fork({ from: A, as: B }), "duplicate_session");
      await refused(store.fork({ from: A, as: A }), "duplicate_session");
    },
  },
  {
    rule: "ST19",
    title: "source and fork go on by themselves",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n3") });
      await store.commit(commitOf(B, 1, { ids: ["b1"], components: { plugins: { p: "b" } } }));
      await store.commit(commitOf(A, 3, { ids: ["n6"], components: { plugins: { p: "a" } } }));
      assert.deepEqual(await nodeIds(store, A), ["n1", "n2", "n3", "n4", "n5", "n6"]);
      assert.deepEqual(await nodeIds(store, B), ["n1", "n2", "n3", "b1"]);
      assert.deepEqual((await loaded(store, A)).components, { plugins: { p: "a" }, tools: { t: 3 } });
      assert.deepEqual((await loaded(store, B)).components, { plugins: { p: "b" }, tools: { t: 1 } });
    },
  },
  {
    rule: "ST19",
    title: "deleting the source does not hurt the fork, and the other way round",
    run: async ({ store }) => {
      await history(store);
      await store.fork({ from: A, as: B, at: node("n3") });
      await store.fork({ from: A, as: C });
      const before = await loaded(store, B);
      await store.delete(A);
      assert.deepEqual(await loaded(store, B), before);
      await store.delete(C);
      assert.deepEqual(await loaded(store, B), before);
      await store.commit(commitOf(B, 1, { ids: ["b1"] }));
      assert.deepEqual(await nodeIds(store, B), ["n1", "n2", "n3", "b1"]);
    },
  },
  {
    rule: "ST19",
    title: "a chain of forks lives when everything between was deleted, in any order",
    run: async ({ store }) => {
      for (const [round, order] of [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["b", "a", "c"],
      ].entries()) {
        const name = (letter: string) => id(`${round}${letter}`);
        await store.commit(commitOf(name("a"), 0, { ids: ["n1"], components: { plugins: { p: 1 } } }));
        await store.fork({ from: name("a"), as: name("b") });
        await store.commit(commitOf(name("b"), 1, { ids: ["n2"], components: { tools: { t: 1 } } }));
        await store.fork({ from: name("b"), as: name("c") });
        await store.commit(commitOf(name("c"), 1, { ids: ["n3"] }));
        await store.fork({ from: name("c"), as: name("d"), at: node("n2") });
        const before = await loaded(store, name("d"));
        for (const letter of order) await store.delete(name(letter));
        assert.deepEqual(await loaded(store, name("d")), before);
        await store.fork({ from: name("d"), as: name("e"), at: node("n1") });
        assert.deepEqual(await nodeIds(store, name("e")), ["n1"]);
        assert.deepEqual((await loaded(store, name("e"))).components, { plugins: { p: 1 } });
      }
    },
  },
  {
    rule: "ST19",
    title: "deleting one session leaves a component that another shares",
    run: async ({ store }) => {
      const plugins = { shared: { text: "x".repeat(2000) } };
      for (const sessionId of [A, B, D])
        await store.commit(commitOf(sessionId, 0, { components: { plugins } }));
      await store.delete(A);
      assert.deepEqual((await loaded(store, B)).components, { plugins });
      await store.commit(commitOf(B, 1, { components: { plugins: {} } }));
      assert.deepEqual((await loaded(store, D)).components, { plugins });
    },
  },
];
