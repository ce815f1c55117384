// The host: what it is made of, how sessions are built, and what is left when building fails.

import { expect, test } from "vitest";
import { definePlugin } from "../../src/plugin/define-plugin.ts";
import type { PluginParts } from "../../src/plugin/plugin.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import { PluginStack } from "../../src/plugin/plugin-stack.ts";
import type { ProtocolDriverFactory } from "../../src/plugin/protocol.ts";
import { standardProtocol } from "../../src/plugin/standard-protocol.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import { standardDriver } from "../../src/turn/protocols/standard.ts";
import { plugin, rejection, sessionOf, thrownBy } from "./samples.ts";

const tool = (name: string) =>
  defineTool({ name, description: name, input: { type: "object" }, execute: () => 1 });

const driver: ProtocolDriverFactory = {
  buildPreamble: () => ({
    driver: standardDriver(),
    syncsEnvironment: false,
    executionPrompt: "mine",
    promptContributions: [],
  }),
};

test("[K6] a session gives back what it was built with", () => {
  const trigger = { resourceType: "mail", alias: "inbox", event: "arrived" };
  const guard = definePlugin({
    id: "guard",
    extensions: [{ id: "policy", payload: { strict: true } }],
    build: () => ({ tools: [tool("add")], triggers: [trigger] }),
  });
  const host = createPluginHost([guard()]);
  const subagent = { parentSessionId: "p", capability: "search", depth: 1, maxDepth: 2 };
  const session = host.buildSession("child", {
    parent: "p",
    authority: { toolAccess: { hiddenTools: ["rm"] }, subagent },
  });
  expect(session.sessionId).toBe("child");
  expect(session.parentSessionId).toBe("p");
  expect(session.toolAccess).toEqual({ tools: [], hiddenTools: ["rm"] });
  expect(session.subagentContext).toEqual(subagent);
  expect(session.extensions.payloads("policy")).toEqual([{ strict: true }]);
  expect(session.triggers.triggers).toEqual([{ ...trigger, sourceType: "inbox.arrived", pluginId: "guard" }]);
  expect(session.host).toBe(host);
  expect(session.toolRegistry.manifests().map(({ name }) => name)).toEqual(["add", "batch"]);
  expect(session.tools).toBe(session.toolRegistry);
});

test("[K6] build is told the session, its parent, its authority and its options", () => {
  const seen: unknown[] = [];
  const look = definePlugin({
    id: "look",
    options: { type: "object" },
    build(ctx) {
      const { sessionId, parentSessionId, isRoot, options, toolAccess, subagent } = ctx;
      seen.push({ sessionId, parentSessionId, isRoot, options, toolAccess, subagent });
      return {};
    },
  });
  const host = createPluginHost([look({ dir: "a" })]);
  host.buildSession("root");
  host.buildSession("child", { parent: "root", authority: { pluginOptions: { look: { dir: "b" } } } });
  const toolAccess = { tools: [], hiddenTools: [] };
  expect(seen).toEqual([
    { sessionId: "root", isRoot: true, options: { dir: "a" }, toolAccess },
    { sessionId: "child", parentSessionId: "root", isRoot: false, options: { dir: "b" }, toolAccess },
  ]);
});

test("[K7] the standard protocol is there when nobody brings one", () => {
  const session = sessionOf([plugin("a")]);
  expect(session.pluginIds).toEqual(["standard_protocol", "a"]);
  expect(session.protocolSession).toEqual({});
});

test.each<[string, PluginParts["protocol"], string]>([
  ["the driver", { session: {} }, "protocol.driver"],
  ["the session", { driver }, "protocol.session"],
])("[K7] half a protocol is refused, naming %s as missing", (_name, protocol, missing) => {
  const error = thrownBy(() => sessionOf([plugin("half", protocol === undefined ? {} : { protocol })]));
  expect([error.code, error.details]).toEqual(["missing_protocol", { missing: [missing] }]);
  expect(error.message).toContain("plugin half");
});

test("[K7] a plugin that takes the id of the standard protocol and brings none leaves both halves missing", () => {
  const error = thrownBy(() => sessionOf([plugin("standard_protocol")]));
  expect([error.code, error.details]).toEqual([
    "missing_protocol",
    { missing: ["protocol.session", "protocol.driver"] },
  ]);
});

test("[K8] a session builds without a code executor and without a prose projector, and has them when given", () => {
  const bare = sessionOf([]);
  expect([bare.codeExecutor, bare.proseProjector]).toEqual([undefined, undefined]);
  const codeExecutor = { executeCode: async () => ({ observations: [] }) };
  const full = sessionOf([
    plugin("a", { execution: { codeExecutor }, output: { proseProjector: (text) => text.toUpperCase() } }),
  ]);
  expect(full.codeExecutor).toBe(codeExecutor);
  expect(full.proseProjector?.("hi")).toBe("HI");
});

test.each<[string, PluginParts]>([
  ["tool_results.projector", { toolResults: { projector: () => "x" } }],
  ["output.prose_projector", { output: { proseProjector: (text) => text } }],
  ["protocol.session", { protocol: { session: {}, driver } }],
  [
    "execution.code_executor",
    { execution: { codeExecutor: { executeCode: async () => ({ observations: [] }) } } },
  ],
])("[K9] the slot %s refuses a second owner and names both", (slot, parts) => {
  const error = thrownBy(() => sessionOf([plugin("first", parts), plugin("second", parts)]));
  expect([error.code, error.details]).toEqual(["slot_taken", { slot, plugins: ["first", "second"] }]);
  for (const word of [slot, "first", "second"]) expect(error.message).toContain(word);
});

test("[K10] a plugin with a builtin's id takes its place; the others come after the builtins", () => {
  const builtins = [plugin("trigger_resource"), plugin("extra")];
  const mine = plugin("trigger_resource", {}, "mine");
  const host = createPluginHost([plugin("a"), mine], { builtins });
  expect(host.plugins.map(({ id, version }) => [id, version])).toEqual([
    ["extra", "1"],
    ["a", "1"],
    ["trigger_resource", "mine"],
  ]);
});

test("[K10] a plugin with the id of the standard protocol replaces it", () => {
  const session = sessionOf([plugin("standard_protocol", { protocol: { session: {}, driver } })]);
  expect(session.protocolDriver).toBe(driver);
  expect(session.pluginIds).toEqual(["standard_protocol"]);
});

test("[K11] extensions are collected in plugin order and seen by host, session and plugins", () => {
  const seen: unknown[] = [];
  const give = (id: string, payload: unknown) =>
    definePlugin({
      id,
      extensions: [{ id: "theme", payload }],
      build(ctx) {
        seen.push(ctx.extensions.payloads("theme"));
        return {};
      },
    })();
  const host = createPluginHost([give("a", 1), give("b", { two: 2 })]);
  expect(host.extensions.payloads("theme")).toEqual([1, { two: 2 }]);
  expect(host.extensions.payloads("unknown")).toEqual([]);
  expect(host.buildSession("s").extensions).toBe(host.extensions);
  expect(seen).toEqual([
    [1, { two: 2 }],
    [1, { two: 2 }],
  ]);
  const replaced = createPluginHost([give("a", 1)], { extensions: [{ id: "theme", payload: 9 }] });
  expect(replaced.extensions.payloads("theme")).toEqual([9]);
});

test("[K12] two plugins cannot offer one tool name, and both are named", () => {
  const error = thrownBy(() =>
    sessionOf([plugin("a", { tools: [tool("add")] }), plugin("b", { tools: [tool("sub"), tool("add")] })]),
  );
  expect([error.code, error.details]).toEqual(["duplicate_tool", { tool: "add", plugins: ["a", "b"] }]);
});

test("[K12] one plugin cannot offer one name twice, and is named", () => {
  const twice = plugin("a", { tools: [tool("add"), tool("add")] });
  const error = thrownBy(() => sessionOf([twice]));
  expect([error.code, error.details]).toEqual(["duplicate_tool", { tool: "add", pluginId: "a" }]);
});

test("[K12] a tool named like the standard protocol's own takes its place", () => {
  const session = sessionOf([plugin("a", { tools: [tool("batch")] })]);
  expect(session.toolRegistry.manifests().map(({ description }) => description)).toEqual(["batch"]);
});

test.each([
  ["the same key", { resourceType: "mail", alias: "inbox", event: "arrived" }],
  ["the same source type", { resourceType: "chat", alias: "inbox", event: "arrived" }],
])("[K13] a trigger with %s is refused", (_name, second) => {
  const first = { resourceType: "mail", alias: "inbox", event: "arrived" };
  const error = thrownBy(() =>
    sessionOf([plugin("a", { triggers: [first] }), plugin("b", { triggers: [second] })]),
  );
  expect([error.code, error.details]).toEqual([
    "duplicate_trigger",
    { sourceType: "inbox.arrived", plugins: ["a", "b"] },
  ]);
});

test("[K13] a declared trigger is found by its source type", () => {
  const session = sessionOf([
    plugin("a", {
      triggers: [{ resourceType: "mail", alias: "inbox", event: "arrived", description: "Mail." }],
    }),
  ]);
  expect(session.triggers.bySourceType("inbox.arrived")?.pluginId).toBe("a");
  expect(session.triggers.bySourceType("inbox.left")).toBeUndefined();
});

test("[K14] queries, commands and tasks share one namespace, over all plugins", () => {
  const handler = () => 1;
  const error = thrownBy(() =>
    sessionOf([
      plugin("a", { operations: { queries: { count: { handler } } } }),
      plugin("b", { operations: { commands: { count: { handler } } } }),
    ]),
  );
  expect([error.code, error.details]).toEqual([
    "duplicate_operation",
    { operation: "count", plugins: ["a", "b"] },
  ]);
});

test("[K15] editing the stack keeps the order and the identity of the others", () => {
  const [a, b, c] = [plugin("a"), plugin("b"), plugin("c")];
  const newB = plugin("b", {}, "2");
  const stack = new PluginStack([a]).push(b).extend([c]);
  expect(stack.ids).toEqual(["a", "b", "c"]);
  expect(stack.replace(newB).toArray()).toEqual([a, newB, c]);
  expect(stack.toArray()[1]).toBe(newB);
  expect(stack.replace(plugin("d")).ids).toEqual(["a", "b", "c", "d"]);
  expect(stack.remove("unknown").ids).toEqual(["a", "b", "c", "d"]);
  expect(stack.remove("a").ids).toEqual(["b", "c", "d"]);
  expect(stack.retain(({ id }) => id !== "c").ids).toEqual(["b", "d"]);
  expect(stack.configure((edit) => edit.push(a)).ids).toEqual(["b", "d", "a"]);
});

test("[K15] of two with one id, replace swaps the first and remove drops both", () => {
  const stack = new PluginStack([plugin("a", {}, "1"), plugin("a", {}, "2")]);
  expect(
    stack
      .replace(plugin("a", {}, "3"))
      .toArray()
      .map(({ version }) => version),
  ).toEqual(["3", "2"]);
  expect(stack.remove("a").ids).toEqual([]);
});

test("[K16] ready comes after all plugins are built, restore after ready, and declared state before both", () => {
  const log: string[] = [];
  const logged = (id: string) =>
    plugin(id, (ctx) => {
      log.push(`build ${id}`);
      const state = ctx.durable({ version: 1, initial: () => "new" });
      return {
        ready: () => {
          log.push(`ready ${id} ${state.get()}`);
        },
        restore: () => {
          log.push(`restore ${id}`);
        },
      };
    });
  const entry = (pluginId: string) => ({
    meta: { pluginId, pluginVersion: "1", revision: 1, durable: { state: { version: 1, value: "old" } } },
    artifacts: [],
  });
  sessionOf([logged("a"), logged("b")], {
    build: { snapshot: { plugins: { a: entry("a"), b: entry("b") } } },
  });
  expect(log).toEqual(["build a", "build b", "ready a old", "ready b old", "restore a", "restore b"]);
});

test("[K16] without a snapshot nobody is asked to restore", () => {
  const log: string[] = [];
  sessionOf([
    plugin("a", {
      restore: () => {
        log.push("restore");
      },
    }),
  ]);
  expect(log).toEqual([]);
});

test("[K17] an id has one live session; after unregistering it is unknown and free", () => {
  const host = createPluginHost([]);
  const session = host.buildSession("s");
  expect(host.session("s")).toBe(session);
  const again = thrownBy(() => host.buildSession("s"));
  expect([again.code, again.details]).toEqual(["duplicate_session", { sessionId: "s" }]);
  host.unregisterSession("s");
  host.unregisterSession("never known");
  expect(thrownBy(() => host.session("s")).code).toBe("unknown_session");
  expect(host.buildSession("s")).not.toBe(session);
});

test("[K17] an isolated registry has the same plugins and no sessions", () => {
  const host = createPluginHost([plugin("a")]);
  host.buildSession("s");
  const isolated = host.isolatedRegistry();
  expect(isolated.plugins).toEqual(host.plugins);
  expect(thrownBy(() => isolated.session("s")).code).toBe("unknown_session");
  expect(isolated.buildSession("s").sessionId).toBe("s");
});

test("[PH1] two plugins with one id are refused when the host is made", () => {
  const error = thrownBy(() => createPluginHost([plugin("a"), plugin("b"), plugin("a")]));
  expect([error.code, error.details]).toEqual(["duplicate_plugin", { pluginId: "a" }]);
});

test.each([
  [
    "a definition that was not called",
    definePlugin({ id: "d", build: () => ({}) }) as never,
    "the definition d",
  ],
  ["nothing", undefined as never, "something that definePlugin did not make"],
  ["a bare object", { id: "x" } as never, "something that definePlugin did not make"],
])("[PH1] %s is no plugin", (_name, given, found) => {
  const error = thrownBy(() => createPluginHost([given]));
  expect(error.code).toBe("invalid_plugin");
  expect(error.message).toContain(found);
});

test.each([
  [
    "build",
    (): PluginParts => {
      throw new Error("no");
    },
    "plugin_failed",
  ],
  [
    "ready",
    (): PluginParts => ({
      ready: () => {
        throw new Error("no");
      },
    }),
    "plugin_failed",
  ],
  [
    "restore",
    (): PluginParts => ({
      restore: () => {
        throw new Error("no");
      },
    }),
    "snapshot_failed",
  ],
  ["registration", (): PluginParts => ({ tools: [tool("add")] }), "duplicate_tool"],
])(
  "[PH2] a failure in %s leaves no session and disposes what was built, last first",
  (_name, build, code) => {
    const log: string[] = [];
    const keeps = (id: string) =>
      plugin(id, {
        ...(id === "a" ? { tools: [tool("add")] } : {}),
        dispose: () => {
          log.push(`dispose ${id}`);
        },
      });
    const host = createPluginHost([keeps("a"), keeps("b"), plugin("c", build)]);
    const error = thrownBy(() => host.buildSession("s", { snapshot: { plugins: {} } }));
    expect(error.code).toBe(code);
    expect(log).toEqual(["dispose b", "dispose a"]);
    expect(thrownBy(() => host.session("s")).code).toBe("unknown_session");
  },
);

test("[PH2] a failing build names the plugin and keeps the cause", () => {
  const cause = new Error("no disk");
  const error = thrownBy(() =>
    sessionOf([
      plugin("a", () => {
        throw cause;
      }),
    ]),
  );
  expect([error.message, error.details, error.cause]).toEqual([
    "plugin a: build failed: no disk",
    { pluginId: "a", member: "build" },
    cause,
  ]);
});

test("[PH5] disposing goes backwards, once, reports what failed, and frees the id", async () => {
  const log: string[] = [];
  const host = createPluginHost([
    plugin("a", {
      dispose: async () => {
        log.push("a");
      },
    }),
    plugin("b", {
      dispose: () => {
        log.push("b");
        throw new Error("stuck");
      },
    }),
  ]);
  const session = host.buildSession("s");
  const issues = await session.dispose();
  await session.dispose();
  expect(log).toEqual(["b", "a"]);
  expect(issues.map(({ code, pluginId, message }) => [code, pluginId, message])).toEqual([
    ["plugin_failed", "b", "plugin b: dispose failed: stuck"],
  ]);
  expect(host.buildSession("s")).not.toBe(session);
});

test("[PH6] a plugin gets its host in ready and may use it once the session is open", async () => {
  let late: (() => Promise<void>) | undefined;
  const closed: unknown[] = [];
  const session = sessionOf([
    plugin("a", {
      ready: ({ host }) => {
        late = () => host.closeSession("hello");
      },
    }),
  ]);
  expect((await rejection(late?.() ?? Promise.resolve())).code).toBe("host_service_unavailable");
  session.bindHost({
    closeSession: async (id) => {
      closed.push(id);
    },
  });
  await late?.();
  expect(closed).toEqual(["hello"]);
  expect(thrownBy(() => session.bindHost({})).code).toBe("invalid_options");
});

test("[SP1] the standard protocol given by hand is a plugin like any other", () => {
  const session = sessionOf([standardProtocol({ batch: false }), plugin("a")]);
  expect(session.toolRegistry.manifests()).toEqual([]);
  expect(Object.keys(session.snapshot().plugins)).toEqual(["standard_protocol", "a"]);
});
