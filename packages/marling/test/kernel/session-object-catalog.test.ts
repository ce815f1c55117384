// The session object: what its catalog is kept by, what it exposes, and how its errors are told apart.

import { createRuntime, memoryStore, type Store } from "marling";
import { say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { AsyncQueue } from "../../src/base/async-queue.ts";
import { ERROR_CODES, type ErrorCode, type MarlingError } from "../../src/base/errors.ts";
import type { SandboxMessage } from "../../src/kernel/resident-session.ts";
import { provider } from "../tool/sample-tools.ts";
import { open, plugin, resident } from "./model-support.ts";
import { protocol } from "./protocol-support.ts";

const NO_OVERLAY = { providers: [], prompts: [], includeBaseTools: true };

/** A plugin whose revision a test moves. */
function moving() {
  const state = { revision: 0 };
  return { state, plugin: plugin("moving", { snapshot: () => null, revision: () => state.revision }) };
}

describe("the catalog", () => {
  test("[K138] it is the same object until base tools, overlay, generation or a plugin's revision move", async () => {
    const { state, plugin: revised } = moving();
    const { session } = await resident({
      plugins: [revised, plugin("tools", { tools: provider("base", "saw", "file") })],
    });
    const seen = [session.resolvedToolCatalog()];
    const look = (): boolean => {
      const catalog = session.resolvedToolCatalog();
      const isKnown = seen.includes(catalog);
      seen.push(catalog);
      return isKnown;
    };
    expect(look()).toBe(true);
    session.setContextOverlay(NO_OVERLAY);
    expect(look()).toBe(true);
    session.plugins.toolRegistry.setMembership(["saw"], false);
    expect(look()).toBe(false);
    expect(look()).toBe(true);
    state.revision = 1;
    expect(look()).toBe(false);
    expect(look()).toBe(true);
    session.setContextOverlay({ ...NO_OVERLAY, prompts: [{ slot: "guidance", content: "x" }] });
    expect(look()).toBe(false);
    expect(look()).toBe(true);
    session.setContextOverlay({ ...NO_OVERLAY, includeBaseTools: false });
    expect(look()).toBe(false);
    expect(look()).toBe(true);
  });

  test("[K138] the preamble is kept with its catalog", async () => {
    const { state, plugin: revised } = moving();
    const { session } = await resident({ plugins: [revised] });
    const preamble = session.turnPreamble();
    expect(session.turnPreamble()).toBe(preamble);
    state.revision = 1;
    expect(session.turnPreamble()).not.toBe(preamble);
  });

  test("[K154] going back to an earlier state gives the earlier object, whatever the session is called", async () => {
    const { state, plugin: revised } = moving();
    const asked: string[] = [];
    const contributing = plugin("contributing", {
      toolCatalog: ({ sessionId }) => {
        asked.push(sessionId);
        return undefined;
      },
    });
    const { session } = await resident({ plugins: [revised, contributing] });
    const first = session.resolvedToolCatalog();
    state.revision = 1;
    const second = session.resolvedToolCatalog();
    state.revision = 0;
    expect(session.resolvedToolCatalog()).toBe(first);
    state.revision = 1;
    expect(session.resolvedToolCatalog()).toBe(second);
    expect(asked).toEqual(["s", "s"]);
  });

  test("[K154] only the catalogs used last are kept, so that a session does not grow with its plugins' revisions", async () => {
    const { state, plugin: revised } = moving();
    const { session } = await resident({ plugins: [revised] });
    const first = session.resolvedToolCatalog();
    for (state.revision = 1; state.revision <= 7; state.revision += 1) session.resolvedToolCatalog();
    state.revision = 0;
    expect(session.resolvedToolCatalog()).toBe(first);
    for (state.revision = 8; state.revision <= 14; state.revision += 1) session.resolvedToolCatalog();
    state.revision = 0;
    expect(session.resolvedToolCatalog()).toBe(first);
    for (state.revision = 15; state.revision <= 22; state.revision += 1) session.resolvedToolCatalog();
    state.revision = 0;
    expect(session.resolvedToolCatalog()).not.toBe(first);
  });

  test("[K139] the shared list is one object, and a copy is one's own", async () => {
    const { session } = await resident({ plugins: [plugin("tools", { tools: provider("base", "saw") })] });
    const shared = session.sharedToolCatalog();
    expect(session.sharedToolCatalog()).toBe(shared);
    expect(Object.isFrozen(shared)).toBe(true);
    const copy = session.toolCatalog();
    expect(copy).toEqual(shared);
    expect(copy).not.toBe(shared);
    expect(session.toolCatalog()).not.toBe(copy);
    copy.pop();
    expect(session.sharedToolCatalog()).toHaveLength(shared.length);
  });

  test("[K153] the first contributor that fails fails the catalog, names itself, and is asked again", async () => {
    const asked: string[] = [];
    let isBroken = true;
    const contributing = (id: string, fails: boolean) =>
      plugin(id, {
        toolCatalog: () => {
          asked.push(id);
          if (fails && isBroken) throw new Error("which tools?");
          return { remove: ["saw"] };
        },
      });
    const plugins = [
      plugin("tools", { tools: provider("base", "saw", "file") }),
      contributing("fine", false),
      contributing("broken", true),
      contributing("later", false),
    ];
    const { session } = await resident({ plugins });
    const failure = { code: "hook_failed", details: { pluginId: "broken", hook: "tool_catalog.contribute" } };
    expect(() => session.resolvedToolCatalog()).toThrow(expect.objectContaining(failure));
    expect(asked).toEqual(["fine", "broken"]);
    expect(() => session.turnPreamble()).toThrow(expect.objectContaining(failure));
    isBroken = false;
    expect(session.toolCatalog().map(({ name }) => name)).not.toContain("saw");
    expect(asked).toEqual(["fine", "broken", "fine", "broken", "fine", "broken", "later"]);
  });

  test("[K153] a contributor is synchronous: a promise is an error that says so, and the model is not called", async () => {
    const model = scriptedModel([say("never")]);
    const late = plugin("late", { toolCatalog: (async () => undefined) as never });
    const session = await open({ model, plugins: [late] });
    const { outcome, issues } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "hook_must_be_synchronous" });
    expect(issues).toMatchObject([{ pluginId: "late" }]);
    expect(model.requests).toEqual([]);
  });
});

describe("what the session exposes", () => {
  test("[K141] messages go to the sender that is set; clearing it ends whoever receives them", async () => {
    const { session } = await resident();
    expect(session.messageSender).toBeUndefined();
    const channel = new AsyncQueue<SandboxMessage>();
    session.setMessageSender(channel);
    expect(session.messageSender).toBe(channel);
    session.messageSender?.push({ kind: "print", text: "one" });
    session.clearMessageSender();
    expect(session.messageSender).toBeUndefined();
    channel.push({ kind: "print", text: "too late" });
    expect(await received(channel)).toEqual([{ kind: "print", text: "one" }]);
  });

  test("[K141] another sender ends the one before it", async () => {
    const { session } = await resident();
    const first = new AsyncQueue<SandboxMessage>();
    const second = new AsyncQueue<SandboxMessage>();
    session.setMessageSender(first);
    session.setMessageSender(second);
    expect(await received(first)).toEqual([]);
    session.setMessageSender(second);
    session.messageSender?.push({ kind: "print", text: "still open" });
    session.clearMessageSender();
    expect(await received(second)).toHaveLength(1);
  });

  test("[K162] its prompt cache, the prompts of its context, and where its history is kept", async () => {
    const { session, parts } = await resident();
    const { promptCache } = session;
    const prompts = [{ slot: "guidance", content: "x" }] as const;
    expect(session.contextPromptContributions).toEqual([]);
    session.setContextOverlay({ ...NO_OVERLAY, prompts });
    expect(session.contextPromptContributions).toEqual(prompts);
    expect(session.promptCache).toBe(promptCache);
    expect(parts.store.isDurable).toBe(false);
    expect(session.historyStore).toBeUndefined();
    const store = withMembers(memoryStore(), { isDurable: true });
    expect((await resident({ store })).session.historyStore).toBe(store);
  });

  test("views are made without a look at the history, and show the session as it was", async () => {
    const scene = await resident();
    await scene.run("Hi");
    const { session } = scene;
    const view = session.readView();
    const { path, messages } = session.state.graph;
    for (const list of [path, messages]) {
      list.toArray = () => {
        throw new Error("the history was copied");
      };
    }
    expect(session.readView()).toMatchObject({ sessionId: "s", turnIndex: 1, messageCount: 2 });
    expect(view.tail(1).map(({ role }) => role)).toEqual(["assistant"]);
    await scene.run("Hi");
    expect(view.messageCount).toBe(2);
  });
});

async function received<T>(channel: AsyncIterable<T>): Promise<readonly T[]> {
  const items: T[] = [];
  for await (const item of channel) items.push(item);
  return items;
}

/** A store like another, with members of its own. */
function withMembers(store: Store, members: Partial<Store>): Store {
  return new Proxy(store, {
    get: (target, member: keyof Store) => {
      const value = Object.hasOwn(members, member) ? members[member] : target[member];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

describe("[K157] each kind of session error has its code", () => {
  const opening = async (load: () => Promise<never>): Promise<MarlingError> => {
    const runtime = createRuntime({ model: scriptedModel([]), store: withMembers(memoryStore(), { load }) });
    onTestFinished(() => runtime.close());
    return runtime.session("s").then(
      () => expect.fail("expected the session not to open"),
      (thrown: MarlingError) => thrown,
    );
  };

  test("[K157] the codes are in the table, with what to do about each", () => {
    const kinds: readonly ErrorCode[] = [
      "io_failed",
      "json_failed",
      "code_execution_unavailable",
      "code_runtime_stopped",
      "provider_mismatch",
      "provider_unconfigured",
      "provider_unavailable",
      "protocol_failed",
    ];
    expect(kinds.map((code) => ERROR_CODES[code])).toEqual([
      "retry",
      "report",
      "fix",
      "retry",
      "fix",
      "fix",
      "fix",
      "report",
    ]);
  });

  test("[K157] a session pinned to another model is provider_mismatch, naming session and both models", async () => {
    const store = memoryStore();
    const first = createRuntime({ model: scriptedModel([say("fine")]), store });
    const session = await first.session("s", { modelId: "scripted" });
    expect((await session.run("Go")).text).toBe("fine");
    await first.close();
    const second = createRuntime({ model: { ...scriptedModel([]), id: "other" }, store });
    onTestFinished(() => second.close());
    const { outcome } = await (await second.session("s")).turn("Go on").result;
    expect(outcome).toEqual({
      kind: "stopped",
      reason: "runtime_error",
      code: "provider_mismatch",
      message: "session s: expected the model default to be scripted, found other",
    });
  });

  test("[K157] a store that fails is io_failed, one that holds no JSON is json_failed", async () => {
    const disk = new Error("ENOSPC: no space left on device");
    const io = await opening(() => Promise.reject(disk));
    expect(io).toMatchObject({
      code: "io_failed",
      advice: "retry",
      details: { sessionId: "s" },
      cause: disk,
    });
    expect(io.message).toBe("session s: the store failed: ENOSPC: no space left on device");
    const json = await opening(async () => JSON.parse("{") as never);
    expect(json).toMatchObject({ code: "json_failed", advice: "report", details: { sessionId: "s" } });
  });

  test("[K157] what a durable store gives back is checked node by node; the first that is wrong is named", async () => {
    const memory = memoryStore();
    let spoil = false;
    const load: Store["load"] = async (id) => {
      const stored = await memory.load(id);
      if (!spoil || stored === undefined) return stored;
      const nodes = stored.nodes.map((node, index) => (index === 1 ? { ...node, kind: "mystery" } : node));
      return { ...stored, nodes };
    };
    const store = withMembers(memory, { isDurable: true, load });
    const runtime = createRuntime({ model: scriptedModel(() => say("ok")), store });
    onTestFinished(() => runtime.close());
    const session = await runtime.session("s");
    await session.run("Hi");
    const before = session.read();
    await session.close();
    spoil = true;
    await expect(runtime.session("s")).rejects.toMatchObject({
      code: "invalid_node",
      message: expect.stringContaining("nodes[1].kind"),
    });
    spoil = false;
    expect((await runtime.session("s")).read()).toEqual(before);
  });

  test("[K157] no model at all is provider_unconfigured, and names the session", async () => {
    const session = await open({});
    const { outcome } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "provider_unconfigured" });
    expect(outcome).toHaveProperty("message", "session s: expected a model, found that the runtime has none");
  });

  test("[K157] a model that the runtime does not have is provider_unavailable, and needs_binding where it is stored", async () => {
    const store = memoryStore();
    const before = createRuntime({ model: scriptedModel([]), models: { smart: scriptedModel([]) }, store });
    await before.session("s", { model: "smart" });
    await before.close();
    await expect(open({ model: scriptedModel([]), store })).rejects.toMatchObject({
      code: "needs_binding",
      details: { sessionId: "s", missing: ["model smart"] },
    });
    const session = await open({ model: scriptedModel([]), store: memoryStore() });
    await expect(session.configure({ model: "clever" })).rejects.toMatchObject({
      code: "provider_unavailable",
      message: "session s: expected one of the runtime's models (default), found clever",
      details: { sessionId: "s", providerId: "clever" },
    });
  });

  test("[K157] a protocol that fails is protocol_failed", async () => {
    const failing = protocol({
      initializeSession: () => {
        throw new Error("no");
      },
    });
    await expect(open({ plugins: [failing] })).rejects.toMatchObject({ code: "protocol_failed" });
  });
});
