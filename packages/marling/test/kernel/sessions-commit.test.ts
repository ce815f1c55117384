// Commits: what they carry, what they leave out, and what a commit that fails leaves behind.

import { defineTool, type Plugin, type Store, switchFrame } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { SessionCommit } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { play, plugin, rejectionOf, type StageOptions, stage } from "./tools-support.ts";

interface Ledger {
  readonly store: Store;
  readonly commits: SessionCommit[];
  /** Thrown by the next commits, one each. */
  readonly faults: unknown[];
}

function ledger(): Ledger {
  const store = memoryStore();
  const commits: SessionCommit[] = [];
  const faults: unknown[] = [];
  const proxy = new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (name !== "commit") return typeof member === "function" ? member.bind(target) : member;
      return async (commit: SessionCommit) => {
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
        const result = await target.commit(commit);
        commits.push(commit);
        return result;
      };
    },
  });
  return { store: proxy, commits, faults };
}

/** Counts turns in declared state, if it is told to. */
function counter(isCounting = true): Plugin {
  return plugin("counter", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    return {
      turn: {
        before: () => {
          if (isCounting) count.update((n) => n + 1);
          return undefined;
        },
      },
      operations: { queries: { "counter.get": { session: "required", handler: () => count.get() } } },
    };
  });
}

async function staged(options: StageOptions = {}) {
  const kept = ledger();
  return { ...kept, ...(await stage({ store: kept.store, script: () => say("Hi."), ...options })) };
}

describe("what a commit carries", () => {
  test("[C2] a turn is one commit with its nodes, its report and nothing that did not move", async () => {
    const { session, commits } = await staged({ plugins: [counter(false)] });
    commits.length = 0;
    const { report } = await play(session.turn("Go", { id: "t" }));
    await play(session.turn("Again"));
    expect(commits).toHaveLength(2);
    expect(commits[0]).toMatchObject({
      sessionId: "s",
      expectedRevision: 1,
      operation: "turn:t",
      once: true,
      components: {},
      settles: { inputId: "s:input:1", report: { turnId: "t", revision: 2, text: "Hi." } },
    });
    expect(commits[0]?.settles?.report).toEqual(report);
    expect(commits.map(({ nodes }) => nodes.length)).toEqual([2, 2]);
    expect(commits.map(({ head }) => head.turnIndex)).toEqual([1, 2]);
  });

  test("[C2] plugin state is written when it moved, tool state when its generation did", async () => {
    let isCounting = true;
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: () => {
            if (isCounting) count.update((n) => n + 1);
            return undefined;
          },
        },
      };
    });
    const { session, commits } = await staged({ plugins: [counting] });
    expect(commits.map(({ components }) => Object.keys(components).sort())).toEqual([["plugins", "tools"]]);
    commits.length = 0;
    await play(session.turn("One"));
    isCounting = false;
    await play(session.turn("Two"));
    await session.tools.setMembership(["batch"], false);
    expect(commits.map(({ components }) => Object.keys(components))).toEqual([["plugins"], [], ["tools"]]);
  });

  test("[C2] a snapshot that fails is an issue of the turn, live and stored, and is tried again", async () => {
    let isBroken = false;
    let revision = 1;
    const fragile = plugin("fragile", {
      turn: {
        before: () => {
          revision += 1;
          return undefined;
        },
      },
      revision: () => revision,
      snapshot: () => {
        if (isBroken) throw new Error("No picture.");
        return { revision };
      },
    });
    const { session, commits } = await staged({ plugins: [fragile] });
    commits.length = 0;
    isBroken = true;
    const { report } = await play(session.turn("One", { key: "k" }));
    expect(report.issues).toMatchObject([
      { kind: "plugin", code: "snapshot_failed", message: expect.stringContaining("No picture.") },
    ]);
    expect(await session.turn("One", { key: "k" }).result).toEqual(report);
    isBroken = false;
    await session.appendNodes([{ kind: "plugin", type: "mark", body: 1 }]);
    expect(commits.map(({ components }) => Object.keys(components))).toEqual([[], ["plugins"]]);
  });

  test("[C1] the parts of a turn that switches frames are commits of their own; the last settles the input", async () => {
    const go = defineTool({
      name: "go",
      description: "Goes.",
      input: { type: "object" },
      execute: () => switchFrame({ key: "x", task: "On." }),
    });
    const { session, commits } = await staged({ tools: [go], script: [callTool("go"), say("There.")] });
    commits.length = 0;
    await play(session.turn("Go", { id: "t" }));
    expect(
      commits.map(({ operation, settles, head }) => [
        operation,
        settles?.inputId ?? null,
        head.turnIndex,
        head.operations,
      ]),
    ).toEqual([
      ["turn:t", null, 0, 1],
      ["turn:t:frame:1", "s:input:1", 1, 1],
    ]);
  });

  test("[C1] what a commit costs depends on what it adds, not on what was before", async () => {
    const { session, commits } = await staged();
    const sizes: number[] = [];
    for (let turn = 0; turn < 30; turn += 1) {
      commits.length = 0;
      await play(session.turn("The same words"));
      sizes.push(JSON.stringify(commits).length);
    }
    const grown = (sizes.at(-1) ?? 0) - (sizes[9] ?? 0);
    expect(grown).toBeLessThan(10);
  });
});

describe("a commit that fails", () => {
  test("[C3] rejects the turn, and the session stays where it was", async () => {
    const { session, faults, store } = await staged({ plugins: [counter()], storeRetryMs: 0 });
    await play(session.turn("One"));
    const before = { view: session.read(), history: await session.history() };
    faults.push(new Error("disk full"));
    expect(await rejectionOf(session.turn("Two", { key: "k" }).result)).toMatchObject({
      code: "io_failed",
      advice: "retry",
    });
    expect({ view: session.read(), history: await session.history() }).toEqual(before);
    expect(await session.query("counter.get")).toBe(1);
    expect((await store.pending("s" as never)).map(({ key }) => key)).toEqual(["k"]);
    const { report } = await play(session.turn("Two", { key: "k" }));
    expect(report).toMatchObject({ turnId: "s:turn:2", revision: 3 });
    expect(await session.query("counter.get")).toBe(2);
  });

  test("[C3] because of what the turn wants to store ends the turn, with its input kept", async () => {
    const go = defineTool({
      name: "go",
      description: "Goes nowhere.",
      input: { type: "object" },
      execute: () => switchFrame({ key: "no\u0000where", task: "On." }),
    });
    const { session } = await staged({
      tools: [go],
      plugins: [counter()],
      script: [callTool("go"), say("Back.")],
    });
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "runtime_error", code: "invalid_id" });
    expect(report.issues).toMatchObject([{ kind: "runtime", code: "invalid_id" }]);
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user"]);
    expect(await session.query("counter.get")).toBe(0);
    expect((await play(session.turn("Again"))).report.text).toBe("Back.");
  });

  test("[C3] an append that fails leaves the running turn's state alone", async () => {
    const { session, faults } = await staged({ plugins: [counter()], storeRetryMs: 0 });
    faults.push(new Error("disk full"));
    expect((await rejectionOf(session.appendNodes([{ kind: "plugin", type: "mark", body: 1 }]))).code).toBe(
      "io_failed",
    );
    expect(await session.appendNodes([{ kind: "plugin", type: "mark", body: 2 }])).toMatchObject({
      status: "appended",
      nodeIds: ["n_s/append:1/0"],
    });
    await play(session.turn("One"));
    expect(await session.query("counter.get")).toBe(1);
  });

  test("[C3] a session that cannot be begun leaves nothing behind", async () => {
    const kept = ledger();
    kept.faults.push(new Error("disk full"));
    const failing = stage({ store: kept.store, storeRetryMs: 0 });
    expect((await rejectionOf(failing)).code).toBe("io_failed");
    expect(await kept.store.exists("s" as never)).toBe(false);
  });
});
