// Schemas of hosts: rules TS4 to TS6, with the real libraries.

import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Json } from "../../src/model/json.ts";
import type { Schema } from "../../src/tool/contract.ts";
import { compileSchema, mismatchText } from "../../src/tool/schema.ts";

async function check(schema: Schema, value: Json): Promise<unknown> {
  const verdict = await compileSchema(schema, "test").validate(value);
  return verdict.ok ? { value: verdict.value } : mismatchText(verdict);
}

describe("[TS4] a Standard Schema checks by itself and gives what it made of the value", () => {
  test("zod: defaults, coercion and stripping", async () => {
    const schema = z.object({ a: z.coerce.number(), b: z.string().default("x") });
    expect(await check(schema, { a: "1", extra: true })).toEqual({ value: { a: 1, b: "x" } });
  });
  test("valibot: transforms", async () => {
    const schema = v.object({ a: v.pipe(v.string(), v.transform(Number)) });
    expect(await check(schema, { a: "1" })).toEqual({ value: { a: 1 } });
  });
  test("arktype: morphs", async () => {
    expect(await check(type({ a: "string.numeric.parse" }), { a: "1" })).toEqual({ value: { a: 1 } });
  });
  test("asynchronous refinements", async () => {
    const schema = z.object({ a: z.string().refine(async (text) => text === "yes", "not yes") });
    expect(await check(schema, { a: "yes" })).toEqual({ value: { a: "yes" } });
    expect(await check(schema, { a: "no" })).toBe("/a: not yes");
  });
});

describe("[TS6] a mismatch is told with its path", () => {
  test("zod", async () => {
    const schema = z.object({ list: z.array(z.object({ n: z.number() })) });
    expect(await check(schema, { list: [{ n: 1 }, { n: "x" }] })).toBe(
      "/list/1/n: Invalid input: expected number, received string",
    );
  });
  test("valibot", async () => {
    expect(await check(v.object({ a: v.object({ b: v.number() }) }), { a: { b: "x" } })).toBe(
      '/a/b: Invalid type: Expected number but received "x"',
    );
  });
  test("arktype", async () => {
    expect(await check(type({ a: "number" }), { a: "x" })).toBe("/a: a must be a number (was a string)");
  });
  test("the value itself has no path", async () => {
    expect(await check(z.object({}), "x")).toBe("Invalid input: expected object, received string");
  });
  test("up to three issues are told", async () => {
    const schema = z.object({ a: z.number(), b: z.number(), c: z.number(), d: z.number() });
    expect(await check(schema, { a: "x", b: "x", c: "x", d: "x" })).toBe(
      [
        "/a: Invalid input: expected number, received string",
        "/b: Invalid input: expected number, received string",
        "/c: Invalid input: expected number, received string",
      ].join("; "),
    );
  });
  test("a schema that throws is a mismatch", async () => {
    const schema = z.string().refine(() => {
      throw new Error("broken check");
    });
    expect(await check(schema, "x")).toBe("the schema could not check the value: broken check");
  });
  test("a schema that rejects is a mismatch", async () => {
    const validate = async (): Promise<never> => {
      throw new Error("broken check");
    };
    const schema = { "~standard": { version: 1 as const, vendor: "other", validate } };
    expect(await check(schema, "x")).toBe("the schema could not check the value: broken check");
  });
});

describe("[TS5] the description is what the schema says of itself", () => {
  const describeInput = (schema: Schema): unknown =>
    compileSchema(schema, "test", { mustDescribe: true }).jsonSchema;

  test("zod, without $schema, as it takes values in", () => {
    expect(describeInput(z.object({ a: z.number(), b: z.string().default("x") }))).toEqual({
      type: "object",
      properties: { a: { type: "number" }, b: { type: "string", default: "x" } },
      required: ["a"],
    });
  });

  test("arktype", () => {
    expect(describeInput(type({ a: "number", "b?": "string" }))).toEqual({
      type: "object",
      properties: { a: { type: "number" }, b: { type: "string" } },
      required: ["a"],
    });
  });

  test("valibot, read from its structure", () => {
    const schema = v.strictObject({
      path: v.pipe(v.string(), v.minLength(1), v.description("Where to look.")),
      limit: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100)), 10),
      kind: v.picklist(["file", "folder"]),
      tags: v.optional(v.pipe(v.array(v.string()), v.nonEmpty())),
      at: v.nullable(v.pipe(v.string(), v.isoTimestamp())),
      size: v.pipe(v.string(), v.trim(), v.maxLength(3), v.transform(Number)),
    });
    expect(describeInput(schema)).toEqual({
      type: "object",
      properties: {
        path: { type: "string", minLength: 1, description: "Where to look." },
        limit: { type: "integer", minimum: 1, maximum: 100, default: 10 },
        kind: { enum: ["file", "folder"] },
        tags: { type: "array", items: { type: "string" }, minItems: 1 },
        at: { anyOf: [{ type: "string", format: "date-time" }, { type: "null" }] },
        size: { type: "string" },
      },
      required: ["path", "kind", "at", "size"],
      additionalProperties: false,
    });
  });

  test("valibot unions, tuples, records and literals", () => {
    const schema = v.object({
      shape: v.variant("kind", [
        v.object({ kind: v.literal("circle"), r: v.pipe(v.number(), v.gtValue(0)) }),
        v.object({ kind: v.literal("box"), wh: v.strictTuple([v.number(), v.number()]) }),
      ]),
      extra: v.record(v.string(), v.union([v.string(), v.boolean()])),
      anything: v.lazy(() => v.unknown()),
    });
    expect(describeInput(schema)).toEqual({
      type: "object",
      properties: {
        shape: {
          anyOf: [
            {
              type: "object",
              properties: { kind: { const: "circle" }, r: { type: "number", exclusiveMinimum: 0 } },
              required: ["kind", "r"],
            },
            {
              type: "object",
              properties: {
                kind: { const: "box" },
                wh: {
                  type: "array",
                  prefixItems: [{ type: "number" }, { type: "number" }],
                  minItems: 2,
                  maxItems: 2,
                },
              },
              required: ["kind", "wh"],
            },
          ],
        },
        extra: { type: "object", additionalProperties: { anyOf: [{ type: "string" }, { type: "boolean" }] } },
        anything: {},
      },
      required: ["shape", "extra", "anything"],
    });
  });

  test("one that is given stands in its place", () => {
    const given = { $schema: "x", type: "object", properties: { d: { type: "string" } } };
    const compiled = compileSchema(z.object({ d: z.date() }), "test", {
      jsonSchema: given,
      mustDescribe: true,
    });
    expect(compiled.jsonSchema).toEqual({ type: "object", properties: { d: { type: "string" } } });
  });

  test.each([
    [
      "zod",
      z.object({ d: z.date() }),
      "the zod schema has no JSON Schema (Date cannot be represented in JSON Schema)",
    ],
    [
      "valibot",
      v.object({ d: v.date() }),
      "the valibot schema has no JSON Schema (date cannot be represented in JSON Schema)",
    ],
    [
      "an unknown library",
      { "~standard": { version: 1 as const, vendor: "other", validate: (value: unknown) => ({ value }) } },
      "the other schema does not say its JSON Schema",
    ],
  ])(
    "what cannot be described is refused where it must be, and open elsewhere: %s",
    (_name, schema, problem) => {
      expect(() => compileSchema(schema, "tool x: input", { mustDescribe: true })).toThrowError(
        expect.objectContaining({
          code: "invalid_schema",
          message: `tool x: input: ${problem}; give the JSON Schema that the model is shown beside it, as \`inputSchema\``,
        }),
      );
      expect(compileSchema(schema, "options").jsonSchema).toEqual({});
    },
  );
});

describe("[TS1] plain JSON Schema", () => {
  test("is checked and passed on as it is, without $schema", async () => {
    const schema = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      required: ["a"],
    };
    expect(compileSchema(schema, "test").jsonSchema).toEqual({ type: "object", required: ["a"] });
    expect(await check(schema, { a: 1, b: 2 })).toEqual({ value: { a: 1, b: 2 } });
    expect(await check(schema, {})).toBe('missing required property "a"');
  });
  test("a list of fields is not taken for a schema", () => {
    expect(() => compileSchema({ city: "string", days: "number" }, "tool weather: input")).toThrowError(
      "tool weather: input: expected a Standard Schema (zod 4, valibot, arktype ...) or a JSON Schema, found an object with the members city, days",
    );
  });
  test("neither is a zod shape", () => {
    const shape: unknown = { city: z.string() };
    expect(() => compileSchema(shape as Schema, "tool weather: input")).toThrowError(
      expect.objectContaining({ code: "invalid_schema" }),
    );
  });
});
