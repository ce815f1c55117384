// The callbacks of a protocol over the life of a session.

import {
  createRuntime,
  definePlugin,
  directive,
  memoryStore,
  type Plugin,
  type RuntimeOptions,
} from "marling";
import { say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type {
  ProtocolMaterialization,
  ProtocolRuntimeContext,
  ProtocolSession,
} from "../../src/plugin/protocol.ts";
import { open, plugin } from "./model-support.ts";
import { protocol } from "./protocol-support.ts";

function runtimeOf(options: RuntimeOptions) {
  const runtime = createRuntime({ model: scriptedModel(() => say("ok")), ...options });
  onTestFinished(() => runtime.close());
  return runtime;
}

/** A plugin with state of the low-level form, which notes when it is restored. */
const stateful = (log: string[]): Plugin =>
  plugin("stateful", {
    snapshot: () => ({ some: "state" }),
    restore: () => void log.push("plugin restored"),
    ready: () => void log.push("plugin ready"),
    session: { onEvent: ({ kind }) => void log.push(`event ${kind}`) },
  });

const logging = (log: string[], more: ProtocolSession = {}): ProtocolSession => ({
  initializeSession: async () => void log.push("initialize"),
  configureRuntimeOnMaterialize: () => void log.push("materialize"),
  restoreSession: async () => void log.push("restore"),
  ...more,
});

describe("opening", () => {
  test("[K128] a protocol is initialized, then configured, then restored, before anyone is told of the session", async () => {
    const log: string[] = [];
    await open({ model: scriptedModel([]), plugins: [protocol(logging(log)), stateful(log)] });
    expect(log).toEqual(["plugin ready", "initialize", "materialize", "restore", "event session_restored"]);
  });

  test("[K128] [K159] of a stored session, the protocol is restored after the plugins, with the stored state", async () => {
    const log: string[] = [];
    const restored: unknown[] = [];
    const session: ProtocolSession = logging(log, {
      restoreSession: (ctx, state) => {
        log.push("restore");
        restored.push(
          Object.keys(ctx),
          ctx.sessionId,
          state.messages.map(({ role }) => role),
          state.revision,
        );
      },
    });
    const runtime = runtimeOf({ plugins: [protocol(session), stateful(log)] });
    const first = await runtime.session("s");
    await first.run("Hi");
    await first.close();
    log.length = 0;
    restored.length = 0;
    await runtime.session("s");
    // Declared and low-level plugin state is restored while the plugins are built, which ruling 10 wants before `ready`.
    expect(log).toEqual([
      "plugin ready",
      "plugin restored",
      "initialize",
      "materialize",
      "restore",
      "event session_restored",
    ]);
    expect(restored).toEqual([["sessionId"], "s", ["user", "assistant"], 2]);
  });

  test.each(["initializeSession", "configureRuntimeOnMaterialize", "restoreSession"] as const)(
    "[K128] a failure of %s fails the opening by the plugin's name and leaves nothing behind",
    async (callback) => {
      let isBroken = true;
      const disposed: string[] = [];
      const session: ProtocolSession = {
        [callback]: () => {
          if (isBroken) throw new Error("cannot");
        },
      };
      const witness = plugin("witness", { dispose: () => void disposed.push("witness") });
      const runtime = runtimeOf({ plugins: [protocol(session), witness] });
      await expect(runtime.session("s")).rejects.toMatchObject({
        code: "protocol_failed",
        message: `session s: plugin protocol: ${callback} failed: cannot`,
        details: { pluginId: "protocol", hook: callback },
      });
      expect(disposed).toEqual(["witness"]);
      expect(await runtime.sessions.exists("s")).toBe(false);
      isBroken = false;
      expect((await (await runtime.session("s")).run("Hi")).text).toBe("ok");
    },
  );

  test("[K128] initialize gets the session's id and nothing else", async () => {
    const contexts: unknown[] = [];
    const session: ProtocolSession = { initializeSession: (ctx) => void contexts.push({ ...ctx }) };
    await open({ model: scriptedModel([]), plugins: [protocol(session)] });
    expect(contexts).toEqual([{ sessionId: "s" }]);
  });
});

describe("extensions", () => {
  test("[K129] a session extension is refused by a protocol that says nothing of them", async () => {
    for (const plugins of [[], [protocol({})]]) {
      const session = await open({ model: scriptedModel([]), plugins });
      await expect(session.applyExtension({ mode: "strict" })).rejects.toMatchObject({
        code: "protocol_failed",
      });
    }
  });

  test("[K129] a turn extension is accepted by a protocol that says nothing of them", async () => {
    const session = await open({ model: scriptedModel([say("fine")]), plugins: [protocol({})] });
    const report = await session.turn("Hi", { extension: new Map([["live", true]]) }).result;
    expect(report).toMatchObject({ text: "fine", outcome: { kind: "finished" } });
  });

  test("[K129] a protocol that knows them gets them as they are, live objects included", async () => {
    const seen: unknown[] = [];
    const session = await open({
      model: scriptedModel([say("fine")]),
      plugins: [
        protocol({
          applySessionExtension: (extension) => void seen.push(extension),
          validateTurnExtension: (extension) => void seen.push(extension),
        }),
      ],
    });
    const forSession = { close: () => {} };
    const forTurn = new Map();
    await session.applyExtension(forSession);
    await session.turn("Hi", { extension: forTurn }).result;
    expect(seen).toEqual([forSession, forTurn]);
    expect(seen[0]).toBe(forSession);
    expect(seen[1]).toBe(forTurn);
  });
});

describe("materialization", () => {
  interface Materialized {
    readonly isRootSession: boolean;
    readonly options: unknown;
  }
  const noting = (calls: Materialized[]): Plugin =>
    protocol({
      configureRuntimeOnMaterialize: (_ctx, { pluginOptions, isRootSession }) =>
        void calls.push({ isRootSession, options: pluginOptions.decode("format", z.unknown()) }),
    });
  const format = definePlugin({
    id: "format",
    options: z.object({ answer: z.string() }).optional(),
    build: () => ({}),
  });

  test("[K130] the protocol is asked when a root session opens, reopens, and opens in another runtime", async () => {
    const calls: Materialized[] = [];
    const store = memoryStore();
    const plugins = [noting(calls), format()];
    const runtime = runtimeOf({ plugins, store });
    const session = await runtime.session("s", { plugins: { format: { answer: "table" } } });
    expect(calls).toEqual([{ isRootSession: true, options: { answer: "table" } }]);
    await session.run("Hi");
    expect(calls).toHaveLength(1);
    await session.close();
    await runtime.session("s");
    expect(calls.slice(1)).toEqual([{ isRootSession: true, options: { answer: "table" } }]);
    await runtimeOf({ plugins, store }).session("s", { plugins: { format: { answer: "list" } } });
    expect(calls.slice(2)).toEqual([{ isRootSession: true, options: { answer: "list" } }]);
  });

  test("[K130] it is asked for a child, with the options of the request and as no root", async () => {
    const calls: Materialized[] = [];
    const spawn = plugin("spawn", {
      turn: {
        before: () =>
          directive.createSession({ sessionId: "child", pluginOptions: { format: { answer: "one word" } } }),
      },
    });
    const runtime = runtimeOf({ plugins: [noting(calls), format(), spawn] });
    await (await runtime.session("s")).run("Hi");
    expect(calls).toEqual([
      { isRootSession: true, options: undefined },
      { isRootSession: false, options: { answer: "one word" } },
    ]);
    const reopened = await runtime.session("child");
    await reopened.close();
    await runtime.session("child");
    expect(calls[2]).toEqual({ isRootSession: false, options: { answer: "one word" } });
  });

  test("[K130] it is synchronous: a promise is an error that says so, and the session does not open", async () => {
    const late = protocol({ configureRuntimeOnMaterialize: (async () => {}) as never });
    await expect(runtimeOf({ plugins: [late] }).session("s")).rejects.toMatchObject({
      code: "hook_must_be_synchronous",
      details: { pluginId: "protocol", hook: "configureRuntimeOnMaterialize" },
    });
  });

  const optionsOf = (answer: string) => ({ schemaVersion: 1, payload: { answer } });
  type Configure = (ctx: ProtocolRuntimeContext, materialization: ProtocolMaterialization) => void;

  /** Two frames, opened under the options "first"; then the session opens again with another callback. */
  async function reopened(configure: Configure): Promise<readonly unknown[]> {
    const store = memoryStore();
    const compactor = plugin("compactor", {
      context: {
        compact: {
          compact: () => ({
            initialNodes: [{ kind: "message", message: { role: "user", content: "seed" } }],
          }),
        },
      },
    });
    const first: Configure = (ctx) => ctx.setProtocolTurnOptions(optionsOf("first"));
    const before = runtimeOf({
      store,
      plugins: [compactor, protocol({ configureRuntimeOnMaterialize: first })],
    });
    await (await before.session("s")).compact();
    await before.close();
    const after = runtimeOf({
      store,
      plugins: [compactor, protocol({ configureRuntimeOnMaterialize: configure })],
    });
    const view = (await after.session("s")).read();
    return [
      ...view.frames.map(({ protocolOptions }) => protocolOptions.payload),
      view.protocolOptions.payload,
    ];
  }

  test("[K131] options are set for the session and its current frame", async () => {
    const frames = await reopened((ctx) => ctx.setProtocolTurnOptions(optionsOf("second")));
    expect(frames).toEqual([{ answer: "first" }, { answer: "second" }, { answer: "second" }]);
  });

  test("[K131] options are set for the session and all its frames", async () => {
    const frames = await reopened((ctx) => ctx.setProtocolTurnOptionsAllFrames(optionsOf("second")));
    expect(frames).toEqual([{ answer: "second" }, { answer: "second" }, { answer: "second" }]);
  });

  test("[K131] the callback reads the options as they are, its own changes included", async () => {
    const read: unknown[] = [];
    await reopened((ctx) => {
      read.push(ctx.protocolTurnOptions.payload);
      ctx.setProtocolTurnOptions(optionsOf("second"));
      read.push(ctx.protocolTurnOptions.payload);
    });
    expect(read).toEqual([{ answer: "first" }, { answer: "second" }]);
  });

  test("[K131] what was applied last is stored with the next commit, and prompt contributors see it", async () => {
    const seen: unknown[] = [];
    const store = memoryStore();
    const plugins = [
      protocol({ configureRuntimeOnMaterialize: (ctx) => ctx.setProtocolTurnOptions(optionsOf("applied")) }),
      plugin("reader", {
        prompt: ({ protocolTurnOptions }) => {
          seen.push(protocolTurnOptions.payload);
          return undefined;
        },
      }),
    ];
    const runtime = runtimeOf({ store, plugins });
    await (await runtime.session("s")).run("Hi");
    await runtime.close();
    const plain = await runtimeOf({ store }).sessions.open("s");
    expect(plain.read().protocolOptions).toEqual(optionsOf("applied"));
    expect(seen).toEqual([{ answer: "applied" }]);
  });

  test("[K131] options without a version are refused", async () => {
    const wrong = protocol({
      configureRuntimeOnMaterialize: (ctx) => ctx.setProtocolTurnOptions({ payload: {} } as never),
    });
    await expect(runtimeOf({ plugins: [wrong] }).session("s")).rejects.toMatchObject({
      code: "protocol_failed",
      message: expect.stringContaining("schemaVersion"),
    });
  });
});
