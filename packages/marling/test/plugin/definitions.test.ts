// What is refused where a plugin is written: definitions, options, parts, operations, triggers.

import { type as arktype } from "arktype";
import * as v from "valibot";
import { expect, test } from "vitest";
import { z } from "zod";
import { definePlugin } from "../../src/plugin/define-plugin.ts";
import type { PluginParts } from "../../src/plugin/plugin.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import { PluginOptions } from "../../src/plugin/plugin-options.ts";
import { plugin, sessionOf, thrownBy } from "./samples.ts";

test("[DF1] a version is 1 unless given, and the definition knows its id", () => {
  const define = definePlugin({ id: "guard", build: () => ({}) });
  expect([define.id, define().id, define().version]).toEqual(["guard", "guard", "1"]);
});

test.each([
  ["no object", undefined, "definePlugin"],
  ["a blank id", { id: " ", build: () => ({}) }, "id"],
  ["no id", { build: () => ({}) }, "id"],
  ["no build", { id: "a" }, "build"],
  ["an empty version", { id: "a", version: "", build: () => ({}) }, "version"],
  ["a member that is none", { id: "a", build: () => ({}), hooks: {} }, "hooks"],
  ["extensions that are no list", { id: "a", build: () => ({}), extensions: {} }, "extensions"],
  ["a nameless extension", { id: "a", build: () => ({}), extensions: [{ payload: 1 }] }, "extensions[0].id"],
])("[DF1] a definition with %s is refused by its member", (_name, spec, member) => {
  const error = thrownBy(() => definePlugin(spec as never));
  expect([error.code, error.details.member]).toEqual(["invalid_plugin", member]);
});

test("[DF1] an extension that is not JSON is refused where it is written", () => {
  const error = thrownBy(() =>
    definePlugin({ id: "a", extensions: [{ id: "x", payload: { at: () => 1 } }], build: () => ({}) }),
  );
  expect(error.code).toBe("invalid_plugin");
  expect(error.message).toContain("extensions[0].payload.at");
});

test("[DF1] a schema that cannot be meant is refused where the plugin is defined", () => {
  const error = thrownBy(() => definePlugin({ id: "a", options: { type: "objekt" }, build: () => ({}) }));
  expect(error.code).toBe("invalid_schema");
  expect(error.message).toContain("plugin a: options");
});

test.each<[string, unknown, string]>([
  ["an unknown member", { onTurn: () => {} }, "onTurn"],
  ["an unknown hook", { turn: { during: () => {} } }, "turn.during"],
  ["a handler that is no function", { turn: { before: "log" } }, "turn.before"],
  ["a list with something else in it", { prompt: [() => [], 3] }, "prompt"],
  ["a group that is no object", { toolCalls: [] }, "toolCalls"],
  ["a slot that is no function", { output: { proseProjector: {} } }, "output.proseProjector"],
  ["a bare transform", { context: { prepareTurn: () => undefined } }, "context.prepareTurn"],
  [
    "a priority that is no number",
    { context: { compact: { priority: "high", compact: () => {} } } },
    "context.compact",
  ],
  ["tools that are no tools", { tools: ["add"] }, "tools"],
  ["triggers that are no list", { triggers: {} }, "triggers"],
  ["a trigger without an event", { triggers: [{ resourceType: "r", alias: "a" }] }, "triggers[0].event"],
  ["an unknown kind of operation", { operations: { mutations: {} } }, "operations.mutations"],
  ["an operation without a handler", { operations: { queries: { q: {} } } }, "operations.queries.q.handler"],
  [
    "an operation with a typo",
    { operations: { tasks: { t: { handler() {}, sesion: "optional" } } } },
    "operations.tasks.t.sesion",
  ],
  [
    "a session rule that is none",
    { operations: { tasks: { t: { handler() {}, session: "maybe" } } } },
    "operations.tasks.t.session",
  ],
])("[DF2] parts with %s are refused by name", (_name, parts, member) => {
  const error = thrownBy(() => sessionOf([plugin("a", parts as PluginParts)]));
  expect([error.code, error.details]).toEqual(["invalid_plugin", { pluginId: "a", member }]);
  expect(error.message).toContain(`plugin a: ${member}`);
});

test.each([
  ["nothing", undefined],
  ["a list", []],
  ["a promise", Promise.resolve({})],
])("[DF2] build that returns %s is refused", (_name, parts) => {
  const error = thrownBy(() => sessionOf([definePlugin({ id: "a", build: () => parts as never })()]));
  expect([error.code, error.details]).toEqual(["invalid_plugin", { pluginId: "a", member: "build" }]);
});

test("[DF2] a plugin that definePlugin did not make is checked like any other", () => {
  const handmade = {
    id: "own",
    version: "1",
    extensions: [],
    decodeOptions: () => undefined,
    build: () => ({ turns: {} }) as never,
  };
  expect(thrownBy(() => sessionOf([handmade])).details).toEqual({ pluginId: "own", member: "turns" });
});

test("[DF2] an operation with a schema that cannot be meant names the operation", () => {
  const error = thrownBy(() =>
    sessionOf([
      plugin("a", { operations: { queries: { q: { input: { type: 3 } as never, handler: () => 1 } } } }),
    ]),
  );
  expect(error.code).toBe("invalid_schema");
  expect(error.message).toContain("operation q: input");
});

test.each([
  ["zod", z.object({ root: z.string() })],
  ["valibot", v.object({ root: v.string() })],
  ["arktype", arktype({ root: "string" })],
  ["JSON Schema", { type: "object", properties: { root: { type: "string" } }, required: ["root"] }],
])("[DF3] options are checked by a schema of %s, where they are given and per session", (_name, options) => {
  const guard = definePlugin({ id: "guard", options, build: () => ({}) });
  const given = thrownBy(() => guard({ root: 3 } as never));
  expect([given.code, given.details]).toEqual([
    "invalid_plugin_options",
    { pluginId: "guard", path: "/root" },
  ]);
  expect(given.message).toContain("options of plugin guard: /root");
  const host = createPluginHost([guard({ root: "." } as never)]);
  const perSession = thrownBy(() =>
    host.buildSession("s", { authority: { pluginOptions: { guard: { root: 3 } } } }),
  );
  expect(perSession.code).toBe("invalid_plugin_options");
  expect(host.buildSession("s", { authority: { pluginOptions: { guard: { root: "/" } } } }).sessionId).toBe(
    "s",
  );
});

test("[DF3] required options may come with the session; without any the session is refused", () => {
  const guard = definePlugin({ id: "guard", options: z.object({ root: z.string() }), build: () => ({}) });
  const host = createPluginHost([guard()]);
  expect(thrownBy(() => host.buildSession("s")).code).toBe("invalid_plugin_options");
  host.buildSession("s", { authority: { pluginOptions: { guard: { root: "." } } } });
});

test("[DF3] defaults of the schema reach build, and optional options may be absent", () => {
  const seen: unknown[] = [];
  const withDefault = definePlugin({
    id: "a",
    options: z.object({ depth: z.number().default(3) }).optional(),
    build({ options }) {
      seen.push(options);
      return {};
    },
  });
  createPluginHost([withDefault()]).buildSession("s");
  createPluginHost([withDefault({ depth: 1 })]).buildSession("s");
  createPluginHost([withDefault()]).buildSession("s", { authority: { pluginOptions: { a: {} } } });
  expect(seen).toEqual([undefined, { depth: 1 }, { depth: 3 }]);
});

test("[DF3] null is a value, not the absence of one", () => {
  const optional = definePlugin({ id: "a", options: z.string().optional(), build: () => ({}) });
  const host = createPluginHost([optional()]);
  expect(thrownBy(() => host.buildSession("s", { authority: { pluginOptions: { a: null } } })).code).toBe(
    "invalid_plugin_options",
  );
});

test("[DF3] a plugin without an options schema takes none", () => {
  const bare = definePlugin({ id: "bare", build: () => ({}) });
  expect(thrownBy(() => bare({ x: 1 } as never)).message).toBe(
    "options of plugin bare: expected none: the plugin takes no options",
  );
  const host = createPluginHost([bare()]);
  const error = thrownBy(() => host.buildSession("s", { authority: { pluginOptions: { bare: {} } } }));
  expect(error.code).toBe("invalid_plugin_options");
});

test("[DF3] options of plugins that are not installed are nobody's business", () => {
  const host = createPluginHost([plugin("a")]);
  expect(
    host.buildSession("s", { authority: { pluginOptions: { gone: { x: 1 } } } }).authority.pluginOptions,
  ).toEqual({
    gone: { x: 1 },
  });
});

test("[DF3] a schema that checks asynchronously is refused when it does", () => {
  const slow = definePlugin({ id: "slow", options: z.string().refine(async () => true), build: () => ({}) });
  expect(thrownBy(() => slow("x")).code).toBe("invalid_schema");
});

test("[K18] plugin options tell absent from malformed and decode to their type", () => {
  const options = PluginOptions.typed("a", { n: 1 }).with("b", "text").with("a", { n: 2 });
  const schema = z.object({ n: z.number() });
  expect(options.ids).toEqual(["a", "b"]);
  expect(options.decode("a", schema)).toEqual({ n: 2 });
  expect(options.decode("missing", schema)).toBeUndefined();
  const malformed = thrownBy(() => options.decode("b", schema));
  expect([malformed.code, malformed.details]).toEqual(["invalid_plugin_options", { pluginId: "b" }]);
  const byFunction = thrownBy(() =>
    options.decode("b", () => {
      throw new Error("not mine");
    }),
  );
  expect(byFunction.message).toBe("options of plugin b: not mine");
  expect(thrownBy(() => PluginOptions.typed("a", { at: () => 1 })).code).toBe("invalid_json");
});

test("[K19] empty options serialise to nothing, and options survive the wire", () => {
  expect(JSON.stringify(PluginOptions.empty)).toBe("{}");
  const options = PluginOptions.typed("a", [1]);
  expect(JSON.stringify(options)).toBe('{"plugins":{"a":[1]}}');
  expect(PluginOptions.fromJSON({}).ids).toEqual([]);
  expect(PluginOptions.fromJSON(JSON.parse(JSON.stringify(options))).get("a")).toEqual([1]);
});
