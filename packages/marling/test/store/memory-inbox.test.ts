// The store in memory: inputs that were accepted, and where a fork begins.

import { describe, expect, test } from "vitest";
import type { NodeId, SessionId } from "../../src/model/ids.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { codeOf, commitOf, head, inputOf, reportOf, S } from "./memory-support.ts";

describe("inputs", () => {
  test("[ST3] are numbered in the order they were admitted, with ids that derive from it", async () => {
    const store = memoryStore();
    expect(await store.admit(inputOf("a"))).toEqual({
      status: "accepted",
      row: {
        sessionId: "s",
        submitted: "a",
        input: "a",
        inputId: "s:input:1",
        turnId: "s:turn:1",
        sequence: 1,
      },
    });
    expect((await store.admit(inputOf("a"))).row).toMatchObject({
      inputId: "s:input:2",
      turnId: "s:turn:2",
      sequence: 2,
    });
    expect((await store.admit(inputOf("x", { sessionId: "t" as SessionId }))).row.inputId).toBe("t:input:1");
    await store.commit(commitOf(["a"]));
    expect((await store.load(S))?.inputs).toBe(2);
  });

  test.each([
    ["key", { key: "k" }],
    ["turn id", { turnId: "t" }],
    ["key and turn id", { key: "k", turnId: "t" }],
    ["empty key", { key: "" }],
  ])("[ST3] the same %s and content is the same row; other content is a conflict", async (_by, by) => {
    const store = memoryStore();
    await store.admit(inputOf("before"));
    const first = await store.admit(inputOf({ b: 1, a: 2 }, by));
    expect(await store.admit({ ...inputOf({ a: 2, b: 1 }, by), input: "whatever" })).toEqual({
      status: "duplicate",
      row: first.row,
    });
    expect(await store.find(inputOf({ a: 2, b: 1 }, by))).toEqual(first.row);
    expect(await codeOf(store.admit(inputOf({ a: 3 }, by)))).toBe("idempotency_conflict");
    expect(await codeOf(store.find(inputOf({ a: 3 }, by)))).toBe("idempotency_conflict");
    expect(await store.pending(S)).toHaveLength(2);
  });

  test.each([
    ["a key with another turn id", { key: "k", turnId: "u" }],
    ["a turn id with another key", { key: "l", turnId: "t" }],
    ["a key and a turn id of two rows", { key: "k", turnId: "v" }],
  ])("[ST3] %s is a conflict", async (_what, by) => {
    const store = memoryStore();
    await store.admit(inputOf("x", { key: "k", turnId: "t" }));
    await store.admit(inputOf("x", { turnId: "v" }));
    expect(await codeOf(store.admit(inputOf("x", by)))).toBe("idempotency_conflict");
  });

  test("[ST3] keys and turn ids belong to one session", async () => {
    const store = memoryStore();
    await store.admit(inputOf("a", { key: "k", turnId: "t" }));
    expect(
      (await store.admit(inputOf("b", { key: "k", turnId: "t", sessionId: "other" as SessionId }))).status,
    ).toBe("accepted");
  });

  test("[ST3] no two turns have one id, whoever chose it first", async () => {
    const store = memoryStore();
    await store.admit(inputOf("a", { turnId: "s:turn:2" }));
    expect((await store.admit(inputOf("b"))).row.turnId).toBe("s:turn:2.2");
    expect((await store.admit(inputOf("c"))).row.turnId).toBe("s:turn:3");
  });

  test("[ST3] an unknown key finds nothing, and looking leaves nothing", async () => {
    const store = memoryStore();
    expect(await store.find(inputOf("x", { key: "k" }))).toBeUndefined();
    expect(await store.pending(S)).toEqual([]);
    expect(await store.unsettled()).toEqual([]);
  });

  test("[ST3] an input is pending until a commit settles it, and then has its report", async () => {
    const store = memoryStore();
    const { row } = await store.admit(inputOf("a", { key: "k" }));
    await store.admit(inputOf("b"));
    expect((await store.pending(S)).map(({ submitted }) => submitted)).toEqual(["a", "b"]);
    expect(await store.unsettled()).toEqual(["s"]);
    const report = reportOf(row.turnId);
    await store.commit(commitOf(["n"], { settles: { inputId: row.inputId, report } }));
    expect((await store.pending(S)).map(({ submitted }) => submitted)).toEqual(["b"]);
    expect((await store.admit(inputOf("a", { key: "k" }))).row).toEqual({ ...row, report });
  });

  test("[ST3] a commit that brings a turn further keeps where it goes on from", async () => {
    const store = memoryStore();
    const { row } = await store.admit(inputOf("a"));
    await store.commit(commitOf(["n"], { advances: { inputId: row.inputId, progress: { part: 1 } } }));
    expect(await store.pending(S)).toEqual([{ ...row, progress: { part: 1 } }]);
  });

  test("[ST1] inputs that a commit queues are in its result, in order; known ones too", async () => {
    const store = memoryStore();
    const known = await store.admit(inputOf("known", { key: "k" }));
    const { enqueued } = await store.commit(
      commitOf(["n"], { enqueues: [inputOf("new"), inputOf("known", { key: "k" })] }),
    );
    expect(enqueued).toEqual([
      expect.objectContaining({ inputId: "s:input:2", turnId: "s:turn:2" }),
      known.row,
    ]);
    expect(await store.pending(S)).toHaveLength(2);
  });
});

describe("forks", () => {
  const fork = "f" as SessionId;

  /** Three commits: [a], [b c], and one that adds no node. */
  async function history(): Promise<ReturnType<typeof memoryStore>> {
    const store = memoryStore();
    const ledger = [
      {
        source: "turn",
        model: "m",
        usage: { input: 1, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 },
      },
    ];
    await store.commit(commitOf(["a"], { components: { plugins: { n: 1 } } }));
    await store.commit(
      commitOf(["b", "c"], {
        expectedRevision: 1,
        head: head({ leaf: "c" as NodeId, turnIndex: 1, ledger, parentSessionId: "p" }),
        components: { plugins: { n: 2 } },
      }),
    );
    await store.commit(
      commitOf([], {
        expectedRevision: 2,
        operation: "tools:0",
        head: head({ leaf: "c" as NodeId, turnIndex: 1, ledger, parentSessionId: "p" }),
        components: { tools: { t: 1 } },
      }),
    );
    return store;
  }

  test("[ST1] at the newest commit a fork has everything but usage, parent and inputs", async () => {
    const store = await history();
    await store.admit(inputOf("x", { key: "k" }));
    const forked = {
      sessionId: "f",
      revision: 1,
      head: head({ leaf: "c" as NodeId, turnIndex: 1 }),
      components: { plugins: { n: 2 }, tools: { t: 1 } },
      inputs: 0,
      unannounced: [],
    };
    expect(await store.fork({ from: S, as: fork })).toEqual(forked);
    expect(await store.load(fork)).toEqual({ ...forked, nodes: [{ id: "a" }, { id: "b" }, { id: "c" }] });
    expect(await store.pending(fork)).toEqual([]);
    expect((await store.admit(inputOf("y", { key: "k", sessionId: fork }))).status).toBe("accepted");
  });

  test("[ST1] at the last node of an older commit it has the state of that commit", async () => {
    const store = await history();
    expect(await store.fork({ from: S, as: fork, at: "a" as NodeId })).toMatchObject({
      components: { plugins: { n: 1 } },
      head: { turnIndex: 0 },
    });
    expect((await store.load(fork))?.nodes).toEqual([{ id: "a" }]);
  });

  test("[ST1] both go on apart, and the fork can be forked at what it shares", async () => {
    const store = await history();
    await store.fork({ from: S, as: fork, at: "a" as NodeId });
    await store.commit(commitOf(["x"], { sessionId: fork, expectedRevision: 1 }));
    await store.commit(commitOf(["d"], { expectedRevision: 3 }));
    expect([(await store.load(fork))?.nodes, (await store.load(S))?.nodes]).toEqual([
      [{ id: "a" }, { id: "x" }],
      [{ id: "a" }, { id: "b" }, { id: "c" }, { id: "d" }],
    ]);
    await store.fork({ from: fork, as: "g" as SessionId, at: "a" as NodeId });
    expect((await store.load("g" as SessionId))?.nodes).toEqual([{ id: "a" }]);
    await store.delete(S);
    expect((await store.load(fork))?.nodes).toEqual([{ id: "a" }, { id: "x" }]);
  });

  test("[ST1] a node inside a commit is refused with the ends around it; an unknown one is unknown", async () => {
    const store = await history();
    await expect(store.fork({ from: S, as: fork, at: "b" as NodeId })).rejects.toMatchObject({
      code: "fork_point_inside_turn",
      details: { before: "a", after: "c" },
    });
    expect(await codeOf(store.fork({ from: S, as: fork, at: "z" as NodeId }))).toBe("fork_point_unknown");
    expect(await codeOf(store.fork({ from: "nobody" as SessionId, as: fork }))).toBe("unknown_session");
    expect(await codeOf(store.fork({ from: S, as: S }))).toBe("duplicate_session");
    expect(await store.exists(fork)).toBe(false);
  });

  test("[ST1] a node of the first commit has nothing before it", async () => {
    const store = memoryStore();
    await store.commit(commitOf(["a", "b"]));
    await expect(store.fork({ from: S, as: fork, at: "a" as NodeId })).rejects.toMatchObject({
      details: { before: null, after: "b" },
    });
  });
});
