// Nodes that are appended beside turns, and commits that land while a turn runs.

import type { AppendNode, HistoryNode, Plugin } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { SessionCommit } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { type Held, held } from "./sessions-support.ts";
import { play, plugin, rejectionOf, type StageOptions, stage } from "./tools-support.ts";

const NOTE: AppendNode = { kind: "message", message: { role: "user", content: "Note." } };
const MARK: AppendNode = { kind: "plugin", type: "mark", body: { n: 1 } };
const EVENT: AppendNode = { kind: "protocol_event", payload: { at: 1 } };

function parents(history: readonly HistoryNode[]): boolean {
  return history.every((node, index) => node.parentId === history[index - 1]?.id);
}

const waiting = (options: StageOptions = {}): Promise<Held> =>
  held([callTool("wait"), say("Done."), say("More.")], options);

/** A store that tells of what it has committed. */
function watched(commits: SessionCommit[]): ReturnType<typeof memoryStore> {
  const store = memoryStore();
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (name !== "commit") return typeof member === "function" ? member.bind(target) : member;
      return async (commit: SessionCommit) => {
        const result = await target.commit(commit);
        commits.push(commit);
        return result;
      };
    },
  });
}

describe("appending", () => {
  test("[K122] nodes of every kind are appended in order, behind the leaf", async () => {
    const { session, model } = await stage({ script: [say("Hi.")] });
    const result = await session.appendNodes([NOTE, MARK, EVENT]);
    const history = await session.history();
    expect(result).toEqual({
      status: "appended",
      nodeIds: history.slice(1).map(({ id }) => id),
      leaf: history.at(-1)?.id,
    });
    expect(history.slice(1)).toMatchObject([
      { kind: "message", message: { role: "user", parts: [{ kind: "text", text: "Note." }] } },
      { kind: "plugin", type: "mark", body: { n: 1 } },
      { kind: "protocol_event", payload: { at: 1 } },
    ]);
    expect(parents(history)).toBe(true);
    await play(session.turn("Go"));
    expect(model.requests[0]?.messages.map(({ parts }) => parts)).toMatchObject([
      [{ text: "Note." }],
      [{ text: "Go" }],
    ]);
  });

  test("[K122] an ancestor on the path is enough, the leaf or any node before it", async () => {
    const { session } = await stage();
    const first = await session.appendNodes([NOTE]);
    const ancestor = first.status === "appended" ? first.leaf : "";
    await session.appendNodes([NOTE]);
    expect((await session.appendNodes([MARK], { requiresAncestor: ancestor })).status).toBe("appended");
  });

  test("[K122] an ancestor elsewhere is a stale branch: a value, and nothing is written", async () => {
    const commits: SessionCommit[] = [];
    const asked: unknown[] = [];
    const protocol = appendWatcher((nodes) => void asked.push(nodes));
    const { runtime, session } = await stage({ store: watched(commits), plugins: [protocol] });
    const fork = await runtime.sessions.fork("s", { as: "f" });
    const elsewhere = await fork.appendNodes([NOTE]);
    const requiresAncestor = elsewhere.status === "appended" ? elsewhere.leaf : "";
    const before = { commits: commits.length, asked: asked.length, history: await session.history() };
    for (const wanted of [requiresAncestor, "n_nowhere"]) {
      expect(await session.appendNodes([NOTE], { requiresAncestor: wanted })).toEqual({
        status: "stale_branch",
        leaf: before.history.at(-1)?.id,
      });
    }
    expect({ commits: commits.length, asked: asked.length, history: await session.history() }).toEqual(
      before,
    );
  });

  test("[K122] the protocol is told before the commit, and its refusal is the end of the append", async () => {
    const commits: SessionCommit[] = [];
    const log: string[] = [];
    let isBroken = false;
    const protocol = appendWatcher((nodes) => {
      log.push(`told of ${nodes.length} after ${commits.length} commits`);
      if (isBroken) throw new Error("Not these.");
    });
    const { session } = await stage({ store: watched(commits), plugins: [protocol] });
    await session.appendNodes([NOTE, MARK]);
    expect([log, commits.length]).toEqual([["told of 2 after 1 commits"], 2]);
    isBroken = true;
    const history = await session.history();
    expect(await rejectionOf(session.appendNodes([NOTE]))).toMatchObject({
      code: "protocol_failed",
      details: { pluginId: "protocol" },
    });
    expect(await session.history()).toEqual(history);
    expect(commits).toHaveLength(2);
  });

  test("[K122] nothing to append is appended without a commit; transient messages are nothing", async () => {
    const { session } = await stage();
    const leaf = (await session.history()).at(-1)?.id;
    const transient: AppendNode = {
      kind: "message",
      message: { role: "user", content: "Gone.", transient: true },
    };
    expect(await session.appendNodes([])).toEqual({ status: "appended", nodeIds: [], leaf });
    expect(await session.appendNodes([transient])).toEqual({ status: "appended", nodeIds: [], leaf });
    expect(session.read().revision).toBe(1);
    const mixed = await session.appendNodes([transient, MARK]);
    expect(mixed.status === "appended" && mixed.nodeIds).toHaveLength(1);
  });

  test("[K122] a node that is none is refused by its place, and none of its list is appended", async () => {
    const { session } = await stage();
    const error = await rejectionOf(session.appendNodes([NOTE, { kind: "nonsense" } as never]));
    expect(error).toMatchObject({ code: "invalid_node", message: expect.stringContaining("nodes[1].kind") });
    expect(await session.history()).toHaveLength(1);
  });

  test("[K122] appends at the same time land one after the other, each with ids of its own", async () => {
    const { session } = await stage();
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, n) => session.appendNodes([NOTE, { ...MARK, body: n }])),
    );
    const ids = results.flatMap((result) => (result.status === "appended" ? result.nodeIds : []));
    const history = await session.history();
    expect(history.slice(1).map(({ id }) => id)).toEqual(ids);
    expect(new Set(ids).size).toBe(10);
    expect(parents(history)).toBe(true);
    expect(session.read().revision).toBe(6);
  });

  test("[K106] inline bytes of an appended message are stored first, where the policy allows them", async () => {
    const { session } = await stage({
      attachmentPolicy: ({ mediaType }, producer) => mediaType === "image/png" && producer === "host",
    });
    const withBytes = (mediaType: string): AppendNode => ({
      kind: "message",
      message: {
        role: "user",
        parts: [{ kind: "attachment", source: { kind: "inline", mediaType, base64: "aGVsbG8=" } }],
      },
    });
    await session.appendNodes([withBytes("image/png")]);
    expect(JSON.stringify(await session.history())).not.toContain("aGVsbG8=");
    expect(session.read().messages[0]?.parts).toMatchObject([
      { kind: "attachment", source: { kind: "stored", mediaType: "image/png", bytes: 5 } },
    ]);
    expect((await rejectionOf(session.appendNodes([withBytes("image/gif")]))).code).toBe(
      "invalid_attachment",
    );
  });
});

describe("while a turn runs", () => {
  test("[K122] an append lands at once, and the turn commits on top of it", async () => {
    const { session, model, begun, gate } = await waiting();
    const turn = session.turn("Go");
    await begun.promise;
    const appended = await session.appendNodes([NOTE]);
    expect(appended.status).toBe("appended");
    expect(session.read()).toMatchObject({ revision: 2, turnIndex: 0 });
    gate.resolve();
    const { report } = await play(turn);
    expect(report.revision).toBe(3);
    expect(model.requests[1]?.messages.some(({ parts }) => JSON.stringify(parts).includes("Note."))).toBe(
      false,
    );
    const history = await session.history();
    expect(history.map((node) => (node.kind === "message" ? node.message.role : node.kind))).toEqual([
      "frame_open",
      "user",
      "user",
      "assistant",
      "tool",
      "assistant",
    ]);
    expect(parents(history)).toBe(true);
    await play(session.turn("Next"));
    expect(JSON.stringify(model.requests[2]?.messages)).toContain("Note.");
  });

  test("[C4] what the turn has done to plugin state so far is not committed by it", async () => {
    const commits: SessionCommit[] = [];
    const store = watched(commits);
    let isBroken = true;
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: () => {
            count.update((n) => n + 1);
            return undefined;
          },
          after: () => {
            if (isBroken) throw new Error("No end.");
            return undefined;
          },
        },
        operations: { queries: { "counter.get": { session: "required", handler: () => count.get() } } },
      };
    });
    const { session, begun, gate } = await waiting({ store, plugins: [counting] });
    const turn = session.turn("Go");
    await begun.promise;
    await session.appendNodes([NOTE]);
    await session.tools.setMembership(["wait"], true);
    expect(await session.query("counter.get")).toBe(0);
    expect(commits.slice(1).map(({ components }) => Object.keys(components))).toEqual([[], ["tools"]]);
    gate.resolve();
    const { report } = await play(turn);
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "runtime_error" });
    expect(await session.query("counter.get")).toBe(0);
    isBroken = false;
    await play(session.turn("Again"));
    expect(await session.query("counter.get")).toBe(1);
    expect(commits.at(-1)?.components.plugins).toMatchObject({
      plugins: { counter: { meta: { durable: { state: { value: 1 } } } } },
    });
  });

  test("[K122] a plugin appends to its own session in the middle of its turn", async () => {
    const scribe = plugin("scribe", {
      toolCalls: {
        before: async ({ host, sessionId }) => {
          await host.appendSessionNodes(sessionId, { nodes: [MARK] });
          return undefined;
        },
      },
    });
    const { session, gate } = await waiting({ plugins: [scribe] });
    gate.resolve();
    await play(session.turn("Go"));
    expect((await session.history()).map(({ kind }) => kind)).toEqual([
      "frame_open",
      "plugin",
      "message",
      "message",
      "message",
      "message",
    ]);
  });
});

/** The standard way to drive a turn is of no interest here: only what the protocol is told of appends. */
function appendWatcher(onAppend: (nodes: readonly AppendNode[]) => void): Plugin {
  return plugin("protocol", {
    protocol: {
      session: { appendSessionNodes: (_ctx, nodes) => onAppend(nodes) },
      driver: {
        buildPreamble: () => ({
          driver: { prepareRound: () => [], onModelResponse: () => [], onToolResults: () => [] },
          syncsEnvironment: false,
          executionPrompt: "",
          promptContributions: [],
        }),
      },
    },
  });
}
