// Definitions and the static provider: rules TD1 to TD7.

import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import { compactContract } from "../../src/tool/compact-contract.ts";
import { defineTool, isToolDefinition, toolProvider } from "../../src/tool/define-tool.ts";
import { call, prepareContext, toolContext } from "./sample-tools.ts";

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  output: z.number(),
  replay: "safe",
  retry: { attempts: 3, delayMs: 100 },
  execute: ({ a, b }) => a + b,
});

describe("[TD1] a mistake is thrown at the definition, naming tool and field", () => {
  const good = { name: "t", description: "A tool.", input: z.object({}), execute: () => null };
  const rows: readonly [string, object, string][] = [
    [
      "no name",
      { name: undefined },
      "defineTool: name: expected 1 to 64 letters, digits, _ or -, found nothing",
    ],
    [
      "a dotted name",
      { name: "a.b" },
      'defineTool: name: expected 1 to 64 letters, digits, _ or -, found "a.b"',
    ],
    ["no description", { description: " " }, 'tool t: description: expected some words, found " "'],
    ["no input", { input: undefined }, "tool t: input: expected a schema, found nothing"],
    ["no execute", { execute: "run" }, 'tool t: execute: expected a function, found "run"'],
    ["prepare", { prepare: 1 }, "tool t: prepare: expected a function, found 1"],
    [
      "replay",
      { replay: "always" },
      'defineTool: tool "t": replay: expected safe, idempotent or unsafe, found "always"',
    ],
    [
      "attempts",
      { retry: { attempts: 0 } },
      'defineTool: tool "t": retry: expected { attempts, delayMs?, maxDelayMs? } with attempts of at least 1 and delays of at least 0, found {"attempts":0}',
    ],
    [
      "delays",
      { retry: { attempts: 2, delayMs: -1 } },
      'defineTool: tool "t": retry: expected { attempts, delayMs?, maxDelayMs? } with attempts of at least 1 and delays of at least 0, found {"attempts":2,"delayMs":-1}',
    ],
    [
      "availability",
      { availability: "shown" },
      'defineTool: tool "t": availability: expected one of off, searchable, callable, showcased, found "shown"',
    ],
    [
      "execution",
      { execution: "serially" },
      'defineTool: tool "t": execution: expected parallel or serial, found "serially"',
    ],
    [
      "id",
      { id: " " },
      'defineTool: tool "t": id: expected a non-blank string without control characters, found " "',
    ],
    [
      "aliases",
      { discovery: { aliases: [1] } },
      'defineTool: tool "t": discovery: expected { namespace?, aliases? }, found {"aliases":[1]}',
    ],
  ];
  test.each(rows)("%s", (_name, wrong, message) => {
    const declaration = { ...good, ...wrong } as typeof good;
    expect(() => defineTool(declaration)).toThrowError(
      expect.objectContaining({ code: "invalid_tool", message }),
    );
  });
  test("a bad schema names the tool and the place in the schema", () => {
    const input = { type: "object", properties: { a: { type: "text" } } };
    expect(() => defineTool({ ...good, input })).toThrowError(
      expect.objectContaining({
        code: "invalid_schema",
        message: expect.stringContaining("tool t: input#/properties/a/type"),
      }),
    );
  });
});

describe("[TD2] a definition is frozen", () => {
  test("it and its manifest cannot be changed, and its contract is one object", () => {
    expect(Object.isFrozen(add)).toBe(true);
    expect(Object.isFrozen(add.manifest)).toBe(true);
    expect(add.contract()).toBe(add.contract());
    expect(isToolDefinition(add)).toBe(true);
    expect(isToolDefinition({ name: "add" })).toBe(false);
  });
  test("manifest and contract say what was declared", () => {
    expect(add.manifest).toEqual({
      id: "add",
      name: "add",
      description: "Adds two numbers.",
      compactContract: "add(a: number, b: number) -> number",
      replay: "safe",
      retry: { attempts: 3, delayMs: 100 },
    });
    expect(add.contract()).toEqual({
      inputSchema: {
        type: "object",
        properties: { a: { type: "number" }, b: { type: "number" } },
        required: ["a", "b"],
      },
      outputSchema: { type: "number" },
    });
  });
});

test("[TD3] the id is the name unless given", () => {
  const tool = defineTool({
    id: "math/add@1",
    name: "add",
    description: "Adds.",
    input: {},
    execute: () => 0,
  });
  expect(tool.manifest.id).toBe("math/add@1");
});

describe("[TD4] the input is an object", () => {
  test("a union of objects says so at its root", () => {
    const input = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    const tool = defineTool({ name: "t", description: "T.", input, execute: () => 0 });
    expect(tool.contract().inputSchema.type).toBe("object");
  });
  test("an open JSON Schema checks it too", async () => {
    const tool = defineTool({ name: "t", description: "T.", input: {}, execute: () => 0 });
    expect(tool.contract().inputSchema).toEqual({ type: "object" });
    expect(await tool.validator.validate("x")).toEqual({
      ok: false,
      path: "",
      reason: "expected an object, found a string",
    });
  });
  test("another type is refused", () => {
    expect(() =>
      defineTool({ name: "t", description: "T.", input: z.number(), execute: () => 0 }),
    ).toThrowError(
      expect.objectContaining({
        code: "invalid_tool",
        message: 'tool t: input: expected a schema of an object, found "number"',
      }),
    );
  });
});

describe("a tool is typed by its schemas", () => {
  test("zod, valibot, arktype and JSON Schema", () => {
    const common = { name: "t", description: "T." };
    defineTool({
      ...common,
      input: z.object({ a: z.number() }),
      execute: (input) => expectTypeOf(input).toEqualTypeOf<{ a: number }>(),
    });
    defineTool({
      ...common,
      input: v.object({ a: v.string() }),
      execute: (input) => expectTypeOf(input.a).toEqualTypeOf<string>(),
    });
    defineTool({
      ...common,
      input: type({ a: "boolean" }),
      execute: (input) => expectTypeOf(input.a).toEqualTypeOf<boolean>(),
    });
    defineTool({ ...common, input: { type: "object" }, execute: ({ a }: { a: number }) => a + 1 });
    // @ts-expect-error the output schema is for numbers
    defineTool({ ...common, input: z.object({}), output: z.number(), execute: () => "text" });
    defineTool({
      ...common,
      input: z.object({}),
      output: z.number(),
      execute: async () => toolFailure("no"),
    });
    expect(common.name).toBe("t");
  });
});

test("a valibot tool needs nothing but its schema", async () => {
  const tool = defineTool({
    name: "greet",
    description: "Greets.",
    input: v.object({ who: v.pipe(v.string(), v.minLength(1)), times: v.optional(v.number(), 1) }),
    execute: ({ who, times }) => "hi ".repeat(times) + who,
  });
  expect(tool.contract().inputSchema).toEqual({
    type: "object",
    properties: { who: { type: "string", minLength: 1 }, times: { type: "number", default: 1 } },
    required: ["who"],
  });
  expect(await tool.validator.validate({ who: "you" })).toEqual({
    ok: true,
    value: { who: "you", times: 1 },
  });
  expect(await tool.validator.validate({ who: "" })).toMatchObject({ ok: false, path: "/who" });
});

test("a schema that cannot be described takes a JSON Schema beside it", async () => {
  const tool = defineTool({
    name: "on",
    description: "Asks about a day.",
    input: z.object({ day: z.string().transform((text) => new Date(text)), zone: z.custom<string>() }),
    inputSchema: {
      type: "object",
      properties: { day: { type: "string", format: "date" } },
      required: ["day"],
    },
    execute: ({ day }) => day.getUTCFullYear(),
  });
  expect(tool.contract().inputSchema).toEqual({
    type: "object",
    properties: { day: { type: "string", format: "date" } },
    required: ["day"],
  });
});

describe("[TD5] what a tool returns", () => {
  const run = async (returned: unknown, output?: z.ZodType): Promise<unknown> => {
    const declaration = { name: "t", description: "T.", input: {}, execute: () => returned };
    const tool = defineTool(output === undefined ? declaration : { ...declaration, output });
    return toolProvider([tool]).execute(call("t"), toolContext());
  };
  test("any JSON value is success, at once or later", async () => {
    expect(await run({ a: [1] })).toEqual(toolSuccess({ a: [1] }));
    expect(await run(Promise.resolve("x"))).toEqual(toolSuccess("x"));
    expect(await run(undefined)).toEqual(toolSuccess(null));
    expect(await run(undefined, z.null())).toEqual(toolSuccess(null));
  });
  test("a value that the output schema refuses is a failure that names the tool", async () => {
    expect(await run({ n: "x" }, z.object({ n: z.number() }))).toMatchObject({
      outcome: {
        kind: "failure",
        class: "internal",
        code: "invalid_tool_output",
        message:
          "The tool t returned a value that its output schema refuses: /n: Invalid input: expected number, received string",
      },
    });
  });
  test("a failure is not checked", async () => {
    expect(await run(toolFailure("no"), z.number())).toEqual(toolFailure("no"));
  });
  test("the check looks at the value as it is stored", async () => {
    expect(await run(new Date(0), z.iso.datetime())).toEqual(toolSuccess("1970-01-01T00:00:00.000Z"));
  });
});

describe("[TD6] prepare", () => {
  const tool = defineTool({
    name: "t",
    description: "T.",
    input: z.object({ mode: z.string() }),
    prepare: ({ mode }) => (mode === "early" ? toolSuccess("done") : mode === "plain" ? undefined : { mode }),
    execute: (_input, _context, { payload }) => payload ?? "none",
  });
  const provider = toolProvider([tool]);
  const prepared = async (mode: string): Promise<unknown> =>
    provider.prepare?.({ ...call("t", { mode }), input: { mode } }, prepareContext());

  test("completes with an output", async () => {
    expect(await prepared("early")).toEqual({ kind: "completed", output: toolSuccess("done") });
  });
  test("hands on a payload, or the call as it is", async () => {
    const plain = { toolId: "t", name: "t", callId: "call-1" };
    expect(await prepared("x")).toEqual({
      kind: "prepared",
      call: { ...plain, args: { mode: "x" }, payload: { mode: "x" } },
    });
    expect(await prepared("plain")).toEqual({
      kind: "prepared",
      call: { ...plain, args: { mode: "plain" } },
    });
  });
  test("the payload reaches execute", async () => {
    const executable = { ...call("t", { mode: "x" }), payload: { mode: "x" } };
    expect(await provider.execute(executable, toolContext())).toEqual(toolSuccess({ mode: "x" }));
  });
});

describe("the static provider", () => {
  test("[TD1] two tools with one name or one id are refused by name", () => {
    const other = defineTool({ id: "add", name: "plus", description: "Adds.", input: {}, execute: () => 0 });
    expect(() => toolProvider([add, add])).toThrowError(
      expect.objectContaining({
        code: "duplicate_tool",
        message: "tools: expected one tool with the name add, found two",
      }),
    );
    expect(() => toolProvider([add, other])).toThrowError(
      "tools: expected one tool with the id add, found two",
    );
  });
  test("knows its tools by name and by id, and nothing else", () => {
    const provider = toolProvider([add]);
    expect(provider.manifests()).toEqual([add.manifest]);
    expect(provider.resolve?.({ id: "add" })).toBe(add.manifest);
    expect(provider.resolve?.({ name: "toString" })).toBeUndefined();
    expect(provider.contract("add")).toBe(add.contract());
    expect(provider.contract("sub")).toBeUndefined();
  });
});

describe("[TD7] the compact contract", () => {
  test("shows types, optional parameters, documentation and examples", () => {
    const tool = defineTool({
      name: "search",
      description: "Searches.",
      input: z.object({
        query: z.string().describe("What to look\n for."),
        kind: z.enum(["file", "folder"]).optional(),
        range: z.object({ from: z.int(), to: z.int().optional() }).optional(),
        tags: z.array(z.union([z.string(), z.null()])).optional(),
      }),
      output: z.array(z.object({ path: z.string() })),
      examples: [{ query: "a" }, { query: "b".repeat(300) }, { query: "c" }],
      execute: () => [],
    });
    expect(compactContract(tool).split("\n")).toEqual([
      'search(query: string, kind?: "file" | "folder", range?: { from: integer, to?: integer }, tags?: (string | null)[]) -> { path: string }[]',
      "  query: What to look for.",
      '  example: {"query":"a"}',
      `  example: {"query":"${"b".repeat(227)}...`,
    ]);
    expect(tool.manifest.compactContract).toBe(compactContract(tool));
  });
});
