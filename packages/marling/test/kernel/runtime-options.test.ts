// Mistakes in options are named where they are made, and nothing half-built is left behind.

import {
  createRuntime,
  definePlugin,
  defineTool,
  MarlingError,
  memoryStore,
  type RuntimeOptions,
} from "marling";
import { say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";

function refusal(run: () => unknown): { code: string; advice: string; message: string } {
  try {
    run();
  } catch (thrown) {
    if (MarlingError.is(thrown)) return { code: thrown.code, advice: thrown.advice, message: thrown.message };
    throw thrown;
  }
  throw new Error("expected a refusal, found none");
}

const model = scriptedModel([]);

test.each<[string, unknown]>([
  ["model", "gpt"],
  ["model", { model: {} }],
  ["models", { fast: {} }],
  ["models", [model]],
  ["store", {}],
  ["effects", () => undefined],
  ["plugins", {}],
  ["tools", "add"],
  ["tools", {}],
  ["tools", [[]]],
  ["tools", [() => undefined]],
  ["tools", [{ name: "add" }]],
  ["instructions", 7],
  ["turnBudget", 0],
  ["turnBudget", -1],
  ["turnBudget", 1.5],
  ["turnBudget", Number.NaN],
  ["turnBudget", "many"],
  ["hookTimeoutMs", 0],
  ["hookTimeoutMs", -5],
  ["toolConcurrency", 0],
  ["toolConcurrency", 2.5],
  ["trace", () => undefined],
  ["clock", {}],
])("the option %s refuses %j", (option, value) => {
  const found = refusal(() => createRuntime({ model, [option]: value } as RuntimeOptions));
  expect(found).toMatchObject({ code: "invalid_options", advice: "fix" });
  expect(found.message).toContain(`option ${option}: expected `);
});

test("an unknown option is refused by name, with the names that exist", () => {
  const found = refusal(() => createRuntime({ model, instruction: "typo" } as RuntimeOptions));
  expect(found.code).toBe("invalid_options");
  expect(found.message).toContain("option instruction: expected one of the options model, models, store");
});

test("a negative context window is refused with the name of the model", () => {
  const found = refusal(() => createRuntime({ models: { small: { model, contextWindow: -1 } } }));
  expect(found.message).toBe("option small.contextWindow: expected a positive number of tokens, found -1");
});

test("two plugins with one id are refused before anything is built", () => {
  let builds = 0;
  const plugin = definePlugin({
    id: "twice",
    build: () => {
      builds += 1;
      return {};
    },
  });
  const found = refusal(() => createRuntime({ model, plugins: [plugin(), plugin()] }));
  expect(found).toMatchObject({ code: "duplicate_plugin" });
  expect(found.message).toContain("twice");
  expect(builds).toBe(0);
});

test("a plugin definition that was not called is refused with what to do", () => {
  const plugin = definePlugin({ id: "uncalled", build: () => ({}) });
  const found = refusal(() => createRuntime({ model, plugins: [plugin as never] }));
  expect(found.code).toBe("invalid_plugin");
  expect(found.message).toContain("uncalled: call it");
});

const failing: readonly [string, string, string, () => Partial<RuntimeOptions>][] = [
  [
    "two owners of a slot",
    "slot_taken",
    "both-a",
    () => ({ plugins: [projector("both-a"), projector("both-b")] }),
  ],
  [
    "duplicate tool names",
    "duplicate_tool",
    "add",
    () => ({ tools: [tool("add")], plugins: [withTool("other", "add")] }),
  ],
  [
    "one of the two protocol slots",
    "missing_protocol",
    "driver",
    () => ({ plugins: [definePlugin({ id: "half", build: () => ({ protocol: { session: {} } }) })()] }),
  ],
  [
    "unknown parts of a plugin",
    "invalid_plugin",
    "hooks",
    () => ({ plugins: [definePlugin({ id: "odd", build: () => ({ hooks: [] }) as never })()] }),
  ],
];

test.each(failing)(
  "%s fail the opening of a session and leave nothing behind",
  async (_name, code, culprit, options) => {
    const store = memoryStore();
    const runtime = createRuntime({ model: scriptedModel([say("fine")]), store, ...options() });
    const opening = runtime.session("s");
    await expect(opening).rejects.toMatchObject({ code });
    await expect(opening).rejects.toThrow(culprit);
    expect(await runtime.sessions.exists("s")).toBe(false);
    expect((await runtime.sessions.list()).items).toEqual([]);
    const second = createRuntime({ model: scriptedModel([say("fine")]), store });
    expect((await (await second.session("s")).run("hello")).text).toBe("fine");
  },
);

test("options of a session are checked by name, and a failed opening can be tried again", async () => {
  const guard = definePlugin({ id: "guard", options: z.object({ root: z.string() }), build: () => ({}) });
  const runtime = createRuntime({ model: scriptedModel([say("ok")]), plugins: [guard({ root: "a" })] });
  await expect(runtime.session("s", { colour: "red" } as never)).rejects.toThrow(
    "option colour: expected one of plugins, instructions, model",
  );
  await expect(runtime.session("s", { model: "smart" })).rejects.toMatchObject({
    code: "provider_unavailable",
  });
  await expect(runtime.session("s", { plugins: { nobody: {} } })).rejects.toMatchObject({
    code: "unknown_plugin",
  });
  await expect(runtime.session("s", { plugins: { guard: { root: 7 } } })).rejects.toMatchObject({
    code: "invalid_plugin_options",
  });
  await expect(runtime.session("s", { plugins: { guard: { root: 7 } } })).rejects.toThrow("guard");
  await expect(runtime.session("s", { maxTurns: -1 })).rejects.toMatchObject({ code: "invalid_policy" });
  await expect(
    runtime.session("s", { plugins: JSON.parse('{"guard":{"__proto__":{"a":1}}}') }),
  ).rejects.toThrow("__proto__");
  const loop: { self?: unknown } = {};
  loop.self = loop;
  await expect(runtime.session("s", { plugins: { guard: loop } })).rejects.toMatchObject({
    code: "invalid_json",
  });
  expect((await (await runtime.session("s")).run("hello")).text).toBe("ok");
});

test.each([
  ["", "blank"],
  ["  ", "blank"],
  ["a\nb", "control"],
  ["__proto__", "__proto__"],
  [7, "number"],
])("the session id %j is refused", async (id, why) => {
  const runtime = createRuntime({ model });
  await expect(runtime.session(id as string)).rejects.toMatchObject({ code: "invalid_id" });
  await expect(runtime.session(id as string)).rejects.toThrow(why);
});

test("an invalid schema is refused where the tool is defined, naming the tool", () => {
  const found = refusal(() =>
    defineTool({ name: "odd", description: "Odd.", input: { type: "objekt" } as never, execute: () => 1 }),
  );
  expect(found.code).toBe("invalid_schema");
  expect(found.message).toContain("odd");
});

test("invalid inputs are not accepted and leave nothing behind", async () => {
  const scripted = scriptedModel([say("after all")]);
  const runtime = createRuntime({ model: scripted });
  const session = await runtime.session("s");
  for (const input of [7, null, { txet: "typo" }, { text: 7 }, { attachments: "none" }]) {
    const turn = session.turn(input as never);
    await expect(turn.accepted).rejects.toMatchObject({ code: "invalid_input", advice: "fix" });
    await expect(turn.result).rejects.toMatchObject({ code: "invalid_input" });
  }
  expect(scripted.requests).toHaveLength(0);
  expect(session.read().turnIndex).toBe(0);
  expect((await session.run("hello")).text).toBe("after all");
});

function projector(id: string) {
  return definePlugin({ id, build: () => ({ toolResults: { projector: () => "x" } }) })();
}

function tool(name: string) {
  return defineTool({ name, description: "Adds.", input: z.object({}), execute: () => 1 });
}

function withTool(id: string, name: string) {
  return definePlugin({ id, build: () => ({ tools: [tool(name)] }) })();
}
