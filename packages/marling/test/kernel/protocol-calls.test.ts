// What a protocol is asked during turns and appends: before model calls, with the tools, and around changes of history.

import { definePlugin, defineTool, memoryStore, type Store, switchFrame } from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { ProtocolBuildInput, ProtocolSession } from "../../src/plugin/protocol.ts";
import { standardDriverFactory } from "../../src/plugin/standard-protocol.ts";
import { open, plugin, usage, watch } from "./model-support.ts";
import { protocol } from "./protocol-support.ts";

const tool = (name: string, execute: () => unknown = () => "ok") =>
  defineTool({ name, description: `The tool ${name}.`, input: z.object({}), execute });

/** A store that notes the operations it commits. */
function notingStore(log: string[]): Store {
  const store = memoryStore();
  return new Proxy(store, {
    get: (target, member: keyof Store) => {
      if (member === "commit") {
        return async (commit: Parameters<Store["commit"]>[0]) => {
          log.push(`commit ${commit.operation.split(":")[0]}`);
          return target.commit(commit);
        };
      }
      const value = target[member];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

describe("before a model call", () => {
  test("[K132] the protocol may go on in another frame: the model is not called, the task is the frame's input", async () => {
    const model = scriptedModel([say("in the new frame")]);
    const asked: string[] = [];
    const session: ProtocolSession = {
      beforeLlmCall: ({ state }, request) => {
        asked.push(JSON.stringify(request.messages.at(-1)?.parts));
        if (state.frames.length > 1) return undefined;
        return { kind: "switch_frame", key: "chapter-2", task: "Write chapter two." };
      },
    };
    const opened = await open({ model, plugins: [protocol(session)] });
    const { report, events } = await watch(opened.turn("Write chapter one."));
    expect(asked).toEqual([
      '[{"kind":"text","text":"Write chapter one."}]',
      '[{"kind":"text","text":"Write chapter two."}]',
    ]);
    expect(model.requests).toHaveLength(1);
    expect(model.requests[0]?.messages).toEqual([
      { role: "user", parts: [{ kind: "text", text: "Write chapter two." }] },
    ]);
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "in the new frame" });
    expect(events).toContainEqual({
      kind: "frame_switched",
      frameId: "s:frame:chapter-2",
      previousFrameId: "s:frame:initial",
      reason: "switch",
    });
    // No seed nodes: the frame begins with its task.
    expect(opened.read().messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(JSON.stringify(await opened.history())).toContain("Write chapter one.");
  });

  test("[K132] no stream has begun, so none is finished", async () => {
    const reasons: string[] = [];
    const told = plugin("told", { output: { streamFinished: ({ reason }) => void reasons.push(reason) } });
    const once: ProtocolSession = {
      beforeLlmCall: ({ state }) =>
        state.frames.length > 1 ? undefined : { kind: "switch_frame", key: "k", task: "t" },
    };
    const session = await open({ model: scriptedModel([say("x")]), plugins: [protocol(once), told] });
    await session.run("Hi");
    expect(reasons).toEqual(["complete"]);
  });

  test("[K160] it is asked before every call, with the messages in flight and what the call before used", async () => {
    const asked: unknown[] = [];
    const session: ProtocolSession = {
      beforeLlmCall: ({ sessionId, state, latestPromptUsage }, request) => {
        asked.push({
          sessionId,
          roles: state.messages.map(({ role }) => role),
          latestPromptUsage,
          tools: request.tools.length,
        });
        return undefined;
      },
    };
    const model = scriptedModel([
      callTool("look", {}, { usage: { input: 10, output: 1 } }),
      say("one", { usage: { input: 20, output: 2 } }),
      say("two"),
    ]);
    const opened = await open({ model, tools: [tool("look")], plugins: [protocol(session)] });
    await opened.run("Hi");
    await opened.run("Hi");
    expect(asked).toEqual([
      { sessionId: "s", roles: ["user"], latestPromptUsage: undefined, tools: 1 },
      { sessionId: "s", roles: ["user", "assistant", "tool"], latestPromptUsage: usage(10, 1), tools: 1 },
      {
        sessionId: "s",
        roles: ["user", "assistant", "tool", "assistant", "user"],
        latestPromptUsage: usage(20, 2),
        tools: 1,
      },
    ]);
  });

  test("[K160] another attempt of a call is the same call: it is asked once", async () => {
    let asked = 0;
    const counting: ProtocolSession = {
      beforeLlmCall: () => {
        asked += 1;
        return undefined;
      },
    };
    const again = plugin("again", { model: { error: () => ({ kind: "retry", afterMs: 0 }) } });
    const model = scriptedModel([failWith({ kind: "overloaded" }), say("up")]);
    const session = await open({ model, plugins: [protocol(counting), again] });
    expect((await session.run("Hi")).text).toBe("up");
    expect(asked).toBe(1);
  });

  test("[K160] it may read the session and append to it; its failure ends the turn by name, before the call", async () => {
    const model = scriptedModel([say("never")]);
    const broken: ProtocolSession = {
      beforeLlmCall: async ({ sessions, sessionGraph, sessionId }) => {
        const current = await sessions.snapshotCurrent();
        const nodes = [{ kind: "plugin", type: "note", body: { turn: current.turnIndex } }] as const;
        await sessionGraph.appendSessionNodes(sessionId, { nodes });
        throw new Error("out of budget");
      },
    };
    const reasons: string[] = [];
    const told = plugin("told", { output: { streamFinished: ({ reason }) => void reasons.push(reason) } });
    const session = await open({ model, plugins: [protocol(broken), told] });
    const { outcome, issues } = await session.turn("Hi").result;
    expect(reasons).toEqual([]);
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "before_llm_call_failed" });
    expect(issues).toMatchObject([
      { pluginId: "protocol", hook: "beforeLlmCall", message: expect.stringContaining("out of budget") },
    ]);
    expect(model.requests).toEqual([]);
    expect((await session.history()).map(({ kind }) => kind)).toEqual(["frame_open", "plugin", "message"]);
  });

  test("[K160] a turn whose extension the protocol refuses fails before any effect", async () => {
    const log: string[] = [];
    const strict: ProtocolSession = {
      validateTurnExtension: () => {
        throw new Error("unknown extension");
      },
    };
    const witness = plugin("witness", {
      context: { prepareTurn: { transform: () => void log.push("transform") } },
      turn: { before: () => void log.push("before") },
      prompt: () => void log.push("prompt"),
    });
    const model = scriptedModel([say("without")]);
    const session = await open({ model, plugins: [protocol(strict), witness] });
    const { outcome, issues } = await session.turn("Hi", { extension: { mode: "odd" } }).result;
    expect(outcome).toMatchObject({
      kind: "stopped",
      reason: "runtime_error",
      code: "turn_extension_rejected",
    });
    expect(issues).toMatchObject([{ pluginId: "protocol", hook: "validateTurnExtension" }]);
    expect(log).toEqual([]);
    expect(model.requests).toEqual([]);
    // A turn without an extension is none of its business.
    expect((await session.run("Hi")).text).toBe("without");
  });
});

describe("the preamble", () => {
  test("[K135] is built from the catalog, the extensions and the triggers of the session, once per catalog", async () => {
    const inputs: ProtocolBuildInput[] = [];
    const standard = standardDriverFactory();
    const driver = {
      buildPreamble: (input: ProtocolBuildInput) => {
        inputs.push(input);
        return { ...standard.buildPreamble(input), executionPrompt: "Work in steps." };
      },
    };
    const extending = definePlugin({
      id: "extending",
      extensions: [
        { id: "policy", payload: { level: 1 } },
        { id: "policy", payload: { level: 2 } },
      ],
      build: () => ({
        tools: [tool("saw")],
        triggers: [{ resourceType: "repo", alias: "main", event: "push" }],
      }),
    });
    const model = scriptedModel([callTool("saw"), say("done"), say("again")]);
    const session = await open({ model, plugins: [protocol({}, driver), extending()] });
    await session.run("Hi");
    await session.run("Hi");
    expect(inputs).toHaveLength(1);
    const [input] = inputs;
    expect(input?.toolCatalog.names).toEqual(["saw"]);
    expect(input?.extensions.payloads("policy")).toEqual([{ level: 1 }, { level: 2 }]);
    expect(input?.extensions.payloads("none")).toEqual([]);
    expect(input?.triggers.triggers.map(({ sourceType }) => sourceType)).toEqual(["main.push"]);
    expect(input?.extraPromptContributions).toEqual([]);
    expect(model.requests[0]?.system).toContain("Work in steps.");
    await session.tools.setMembership(["saw"], false);
    await session.run("Hi").catch(() => undefined);
    expect(inputs).toHaveLength(2);
    expect(inputs[1]?.toolCatalog.names).toEqual([]);
  });

  test.each([
    ["throws", "protocol_failed"],
    ["returns a promise", "hook_must_be_synchronous"],
  ])("[K135] a driver whose buildPreamble %s ends the turn by its plugin's name", async (what, code) => {
    const driver = {
      buildPreamble: () => {
        if (what === "throws") throw new Error("no preamble");
        return Promise.resolve({}) as never;
      },
    };
    const session = await open({ model: scriptedModel([]), plugins: [protocol({}, driver)] });
    const { outcome, issues } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ reason: "runtime_error", code });
    expect(issues).toMatchObject([{ pluginId: "protocol", hook: "buildPreamble" }]);
  });
});

describe("changes of the history", () => {
  test("[K159] the protocol is told of appended nodes before they are committed, with the session's id alone", async () => {
    const log: string[] = [];
    const contexts: unknown[] = [];
    const session: ProtocolSession = {
      appendSessionNodes: (ctx, nodes) => {
        contexts.push({ ...ctx });
        log.push(`append ${nodes.map(({ kind }) => kind).join(" ")}`);
      },
    };
    const opened = await open({
      model: scriptedModel([]),
      plugins: [protocol(session)],
      store: notingStore(log),
    });
    log.length = 0;
    await opened.appendNodes([
      { kind: "message", message: { role: "user", content: "a note" } },
      { kind: "plugin", type: "mark", body: 1 },
    ]);
    expect(log).toEqual(["append message plugin", "commit append"]);
    expect(contexts).toEqual([{ sessionId: "s" }]);
  });

  test("[K159] its failure fails the append, and nothing is written", async () => {
    const log: string[] = [];
    const refusing: ProtocolSession = {
      appendSessionNodes: () => {
        throw new Error("not now");
      },
    };
    const opened = await open({
      model: scriptedModel([]),
      plugins: [protocol(refusing)],
      store: notingStore(log),
    });
    log.length = 0;
    const append = opened.appendNodes([{ kind: "plugin", type: "mark", body: 1 }]);
    await expect(append).rejects.toThrow("not now");
    expect(log).toEqual([]);
    expect((await opened.history()).map(({ kind }) => kind)).toEqual(["frame_open"]);
  });

  test("[K159] it restores itself after each committed change of frames, and sees the new frame", async () => {
    const log: string[] = [];
    const session: ProtocolSession = {
      restoreSession: (ctx, { currentFrameId }) =>
        void log.push(`restore ${Object.keys(ctx)} ${currentFrameId}`),
    };
    let switches = 0;
    const next = tool("next", () => {
      switches += 1;
      return switchFrame({ key: `part-${switches}`, task: `Do part ${switches}.` });
    });
    const compactor = plugin("compactor", {
      context: {
        compact: {
          compact: () => ({ initialNodes: [{ kind: "message", message: { role: "user", content: "sum" } }] }),
        },
      },
    });
    const model = scriptedModel([callTool("next"), callTool("next"), say("done")]);
    const opened = await open({
      model,
      tools: [next],
      plugins: [protocol(session), compactor],
      store: notingStore(log),
    });
    expect(log).toEqual(["restore sessionId s:frame:initial", "commit open"]);
    log.length = 0;
    await opened.run("Go");
    expect(log).toEqual([
      "commit turn",
      "restore sessionId s:frame:part-1",
      "commit turn",
      "restore sessionId s:frame:part-2",
      "commit turn",
    ]);
    log.length = 0;
    await opened.compact();
    expect(log).toEqual([
      "commit compaction",
      expect.stringMatching(/^restore sessionId s:frame:compaction/),
    ]);
  });

  test("[K159] a failure to restore after a commit is reported, and the turn stands", async () => {
    let isBroken = false;
    const fragile: ProtocolSession = {
      restoreSession: () => {
        if (isBroken) throw new Error("lost");
        isBroken = true;
      },
    };
    const once: ProtocolSession = {
      ...fragile,
      beforeLlmCall: ({ state }) =>
        state.frames.length > 1 ? undefined : { kind: "switch_frame", key: "k", task: "t" },
    };
    const session = await open({ model: scriptedModel([say("x")]), plugins: [protocol(once)] });
    const { outcome, issues } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ kind: "finished", text: "x" });
    expect(issues).toMatchObject([{ code: "protocol_failed", pluginId: "protocol", hook: "restoreSession" }]);
  });
});
