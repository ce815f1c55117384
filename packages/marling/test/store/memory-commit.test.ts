// The store in memory: commits, sessions and bytes.

import { describe, expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { codeOf, commitOf, head, inputOf, reportOf, S } from "./memory-support.ts";

describe("commits", () => {
  test("[ST1] the first is made on revision 0, each on the one before, and what was stored comes back", async () => {
    const store = memoryStore();
    expect(await store.load(S)).toBeUndefined();
    expect(
      await store.commit(commitOf(["a"], { components: { plugins: { p: 1 }, tools: { t: 1 } } })),
    ).toEqual({ revision: 1, enqueued: [] });
    expect(
      await store.commit(commitOf(["b", "c"], { expectedRevision: 1, components: { tools: { t: 2 } } })),
    ).toMatchObject({ revision: 2 });
    expect(await store.load(S)).toEqual({
      sessionId: "s",
      revision: 2,
      head: head({ leaf: "c" as never }),
      nodes: [{ id: "a" }, { id: "b" }, { id: "c" }],
      components: { plugins: { p: 1 }, tools: { t: 2 } },
      inputs: 0,
      unannounced: [],
    });
  });

  test.each([0, 2])(
    "[ST1] one made on revision %i instead of 1 is refused, and nothing of it is there",
    async (expectedRevision) => {
      const store = memoryStore();
      await store.commit(commitOf(["a"]));
      const before = await store.load(S);
      const refused = store.commit(
        commitOf(["b"], { expectedRevision, components: { tools: { t: 1 } }, enqueues: [inputOf("x")] }),
      );
      await expect(refused).rejects.toMatchObject({
        code: "revision_conflict",
        advice: "reload",
        details: { expected: expectedRevision, found: 1 },
      });
      expect(await store.load(S)).toEqual(before);
      expect(await store.pending(S)).toEqual([]);
    },
  );

  test("[ST2] one that happens once returns its first result when it is asked for again, whatever came later", async () => {
    const store = memoryStore();
    const turn = commitOf(["a"], { once: true, enqueues: [inputOf("x")] });
    const first = await store.commit(turn);
    await store.commit(commitOf(["b"], { expectedRevision: 1 }));
    expect(await store.commit(structuredClone(turn))).toEqual(first);
    expect((await store.load(S))?.nodes).toEqual([{ id: "a" }, { id: "b" }]);
    expect(await store.pending(S)).toHaveLength(1);
  });

  test("[ST2] the same operation with other content is a conflict, on whatever revision", async () => {
    const store = memoryStore();
    await store.commit(commitOf(["a"], { once: true, operation: "turn:t" }));
    for (const expectedRevision of [0, 1]) {
      expect(
        await codeOf(store.commit(commitOf(["b"], { once: true, operation: "turn:t", expectedRevision }))),
      ).toBe("revision_conflict");
    }
    expect((await store.load(S))?.nodes).toEqual([{ id: "a" }]);
  });

  test("[ST2] others of one name are told apart by their revision: two that look alike are two", async () => {
    const store = memoryStore();
    await store.commit(commitOf(["a"], { operation: "append:0" }));
    expect(await codeOf(store.commit(commitOf(["a"], { operation: "append:0" })))).toBe("revision_conflict");
    expect(await store.commit(commitOf(["b"], { operation: "append:0", expectedRevision: 1 }))).toMatchObject(
      { revision: 2 },
    );
  });

  test("[MS1] an input that cannot be queued refuses the whole commit, those before it included", async () => {
    const store = memoryStore();
    await store.commit(commitOf(["a"]));
    await store.admit(inputOf("old", { key: "k" }));
    const enqueues = [inputOf("first"), inputOf("second", { key: "new" }), inputOf("other", { key: "k" })];
    expect(await codeOf(store.commit(commitOf(["b"], { expectedRevision: 1, enqueues })))).toBe(
      "idempotency_conflict",
    );
    const rivals = [inputOf("one", { key: "r" }), inputOf("two", { key: "r" })];
    expect(await codeOf(store.commit(commitOf(["b"], { expectedRevision: 1, enqueues: rivals })))).toBe(
      "idempotency_conflict",
    );
    expect((await store.load(S))?.revision).toBe(1);
    expect((await store.pending(S)).map(({ submitted }) => submitted)).toEqual(["old"]);
  });

  test("[MS2] a report that was stored is not changed by whoever gave it", async () => {
    const store = memoryStore();
    const { row } = await store.admit(inputOf("x", { key: "k" }));
    const report = { ...reportOf(row.turnId), issues: [{ kind: "a", code: "b", message: "c" }] };
    await store.commit(commitOf(["a"], { settles: { inputId: row.inputId, report } }));
    report.issues.length = 0;
    expect((await store.find(inputOf("x", { key: "k" })))?.report?.issues).toHaveLength(1);
  });
});

describe("sessions", () => {
  async function holding(ids: readonly string[]): Promise<Store> {
    const store = memoryStore();
    for (const id of ids)
      await store.commit(
        commitOf(["a"], {
          sessionId: id as SessionId,
          head: head(id === "b" ? { parentSessionId: "a" } : {}),
        }),
      );
    return store;
  }

  test("[ST5] are listed in the order of their ids, with a cursor while there are more", async () => {
    const store = await holding(["c", "a", "b", "bb"]);
    expect(await store.list({})).toEqual({
      items: [
        { id: "a", revision: 1, turnIndex: 0 },
        { id: "b", revision: 1, turnIndex: 0, parentSessionId: "a" },
        { id: "bb", revision: 1, turnIndex: 0 },
        { id: "c", revision: 1, turnIndex: 0 },
      ],
    });
    expect(await store.list({ limit: 2 })).toMatchObject({ items: [{ id: "a" }, { id: "b" }], cursor: "b" });
    expect(await store.list({ limit: 2, cursor: "b" })).toEqual({
      items: [
        { id: "bb", revision: 1, turnIndex: 0 },
        { id: "c", revision: 1, turnIndex: 0 },
      ],
    });
    expect((await store.list({ prefix: "b" })).items.map(({ id }) => id)).toEqual(["b", "bb"]);
    expect((await store.list({ prefix: "x" })).items).toEqual([]);
  });

  test.each([0, -1, 1.5, Number.NaN])("[ST5] a limit of %d is refused", async (limit) => {
    expect(await codeOf(memoryStore().list({ limit }))).toBe("invalid_input");
  });

  test("[ST4] a deleted id is retired: whatever names it is refused, and nothing of it is listed", async () => {
    const store = await holding(["s", "t"]);
    await store.admit(inputOf("x"));
    await store.delete(S);
    expect([
      await store.exists(S),
      await store.exists("t" as SessionId),
      (await store.list({})).items.length,
    ]).toEqual([false, true, 1]);
    const refused = [
      store.load(S),
      store.commit(commitOf(["a"])),
      store.admit(inputOf("x")),
      store.find(inputOf("x", { key: "k" })),
      store.pending(S),
      store.fork({ from: S, as: "x" as SessionId }),
      store.fork({ from: "t" as SessionId, as: S }),
    ];
    expect(await Promise.all(refused.map(codeOf))).toEqual(refused.map(() => "session_deleted"));
  });

  test("[ST4] an id that was never used can be retired too", async () => {
    const store = memoryStore();
    await store.delete(S);
    expect(await codeOf(store.commit(commitOf(["a"])))).toBe("session_deleted");
  });
});

describe("bytes", () => {
  test("[MS2] are kept by what they are, and are nobody's to change", async () => {
    const { blobs } = memoryStore();
    const bytes = new TextEncoder().encode("hello");
    const ref = await blobs.put(bytes);
    expect(ref).toBe("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    expect(await blobs.put(new TextEncoder().encode("hello"))).toBe(ref);
    bytes[0] = 0;
    (await blobs.get(ref))?.fill(0);
    expect(new TextDecoder().decode(await blobs.get(ref))).toBe("hello");
    expect(await blobs.get("sha256:nothing")).toBeUndefined();
  });
});
