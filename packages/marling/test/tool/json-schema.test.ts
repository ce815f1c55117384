// JSON Schema: rules TS1 to TS3 and TS7.

import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../../src/model/json.ts";
import { compileJsonSchema } from "../../src/tool/json-schema.ts";

/** Nothing when the value fits, else `<path>: <reason>`. */
function check(schema: JsonObject, value: Json): string | undefined {
  const verdict = compileJsonSchema(schema, "test")(value);
  return verdict.ok ? undefined : `${verdict.path}: ${verdict.reason}`;
}

describe("[TS2] each keyword accepts what fits and says what does not", () => {
  const rows: readonly [string, JsonObject, readonly Json[], readonly (readonly [Json, string])[]][] = [
    ["type", { type: "string" }, ["", "a"], [[1, ": expected a string, found the number 1"]]],
    [
      "integer",
      { type: "integer" },
      [1, 1e3, -0],
      [
        [1.5, ": expected an integer, found the number 1.5"],
        ["1", ": expected an integer, found a string"],
      ],
    ],
    [
      "object is not array or null",
      { type: "object" },
      [{}],
      [
        [[], ": expected an object, found an array"],
        [null, ": expected an object, found null"],
      ],
    ],
    [
      "several types",
      { type: ["string", "null"] },
      ["a", null],
      [[true, ": expected a string or null, found a boolean"]],
    ],
    [
      "enum",
      { enum: ["a", 1, { x: [1] }] },
      ["a", 1, { x: [1] }],
      [["b", ': expected one of "a", 1, {"x":[1]}, found "b"']],
    ],
    [
      "const",
      { const: { a: 1, b: 2 } },
      [{ b: 2, a: 1 }],
      [[{ a: 1 }, ': expected {"a":1,"b":2}, found {"a":1}']],
    ],
    ["minimum", { minimum: 1 }, [1, 2, "x"], [[0, ": expected at least 1, found 0"]]],
    ["maximum", { maximum: 1 }, [1], [[2, ": expected at most 1, found 2"]]],
    ["exclusiveMinimum", { exclusiveMinimum: 0 }, [0.1], [[0, ": expected more than 0, found 0"]]],
    ["exclusiveMaximum", { exclusiveMaximum: 0 }, [-1], [[0, ": expected less than 0, found 0"]]],
    ["multipleOf", { multipleOf: 0.1 }, [0.3, 7, 0], [[0.35, ": expected a multiple of 0.1, found 0.35"]]],
    [
      "lengths count characters",
      { minLength: 1, maxLength: 2 },
      ["ab", "😀😀"],
      [
        ["", ": expected at least 1 characters, found 0"],
        ["abc", ": expected at most 2 characters, found 3"],
      ],
    ],
    [
      "pattern is not anchored",
      { pattern: "b+" },
      ["abc", 1],
      [["ac", ': expected a match of b+, found "ac"']],
    ],
    ["format is an annotation", { format: "email" }, ["nobody"], []],
    ["required", { required: ["a"] }, [{ a: null }, "x"], [[{}, ': missing required property "a"']]],
    [
      "dependentRequired",
      { dependentRequired: { a: ["b"] } },
      [{}, { a: 1, b: 2 }],
      [[{ a: 1 }, ': missing required property "b"']],
    ],
    [
      "properties",
      { properties: { a: { type: "number" } } },
      [{}, { a: 1, z: "x" }, []],
      [[{ a: "x" }, "/a: expected a number, found a string"]],
    ],
    [
      "patternProperties",
      { patternProperties: { "^n_": { type: "number" } } },
      [{ n_a: 1, a: "x" }],
      [[{ n_a: "x" }, "/n_a: expected a number, found a string"]],
    ],
    [
      "additionalProperties false",
      { properties: { a: true }, patternProperties: { "^x": true }, additionalProperties: false },
      [{ a: 1, xyz: 2 }],
      [[{ b: 1 }, "/b: unexpected property"]],
    ],
    [
      "additionalProperties schema",
      { properties: { a: true }, additionalProperties: { type: "number" } },
      [{ a: "x", b: 1 }],
      [[{ b: "x" }, "/b: expected a number, found a string"]],
    ],
    [
      "propertyNames",
      { propertyNames: { maxLength: 1 } },
      [{ a: 1 }],
      [[{ ab: 1 }, "/ab: property name: expected at most 1 characters, found 2"]],
    ],
    [
      "minProperties and maxProperties",
      { minProperties: 1, maxProperties: 2 },
      [{ a: 1 }],
      [
        [{}, ": expected at least 1 properties, found 0"],
        [{ a: 1, b: 1, c: 1 }, ": expected at most 2 properties, found 3"],
      ],
    ],
    [
      "items",
      { items: { type: "number" } },
      [[], [1, 2]],
      [[[1, "x"], "/1: expected a number, found a string"]],
    ],
    [
      "prefixItems with items",
      { prefixItems: [{ type: "string" }], items: { type: "number" } },
      [["a", 1], []],
      [
        [["a", "b"], "/1: expected a number, found a string"],
        [[1], "/0: expected a string, found the number 1"],
      ],
    ],
    [
      "draft 7 items list",
      { items: [{ type: "string" }], additionalItems: false },
      [["a"]],
      [[["a", 1], "/1: no value is allowed here"]],
    ],
    [
      "minItems and maxItems",
      { minItems: 1, maxItems: 1 },
      [[0]],
      [
        [[], ": expected at least 1 items, found 0"],
        [[1, 2], ": expected at most 1 items, found 2"],
      ],
    ],
    [
      "uniqueItems",
      { uniqueItems: true },
      [[1, 2, "1"]],
      [
        [
          [
            { a: 1, b: 2 },
            { b: 2, a: 1 },
          ],
          ": expected different items, found item 1 equal to item 0",
        ],
      ],
    ],
    ["uniqueItems false", { uniqueItems: false }, [[1, 1]], []],
    [
      "contains",
      { contains: { type: "number" }, maxContains: 2 },
      [
        ["a", 1],
        [1, 2],
      ],
      [
        [["a"], ": expected at least 1 fitting items, found 0"],
        [[1, 2, 3], ": expected at most 2 fitting items, found 3"],
      ],
    ],
    ["allOf", { allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1, 2], [[3, ": expected at most 2, found 3"]]],
    [
      "anyOf",
      { anyOf: [{ type: "string" }, { type: "null" }] },
      ["a", null],
      [
        [
          1,
          ": none of 2 alternatives fits: expected a string, found the number 1; expected null, found the number 1",
        ],
      ],
    ],
    [
      "oneOf",
      { oneOf: [{ type: "number" }, { type: "integer" }] },
      [1.5],
      [[1, ": expected exactly one alternative to fit, found 2"]],
    ],
    [
      "not",
      { not: { type: "string" } },
      [1],
      [["a", ": expected a value that does not fit the schema under `not`"]],
    ],
    [
      "if then else",
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      { if: { properties: { kind: { const: "a" } } }, then: { required: ["x"] }, else: { required: ["y"] } },
      [
        { kind: "a", x: 1 },
        { kind: "b", y: 1 },
      ],
      [
        [{ kind: "a" }, ': missing required property "x"'],
        [{ kind: "b" }, ': missing required property "y"'],
      ],
    ],
    [
      "boolean schemas",
      { properties: { yes: true, no: false } },
      [{ yes: 1 }, {}],
      [[{ no: 1 }, "/no: no value is allowed here"]],
    ],
    ["unknown keywords", { nonsense: 1, type: "string" }, ["a"], []],
    ["the empty schema", {}, [null, 1, "a", [], {}], []],
  ];
  test.each(rows)("%s", (_name, schema, fitting, refused) => {
    for (const value of fitting) expect(check(schema, value), JSON.stringify(value)).toBeUndefined();
    for (const [value, text] of refused) expect(check(schema, value)).toBe(text);
  });
});

test("[TS2] of several alternatives the one that came furthest is told", () => {
  const schema = {
    oneOf: [
      {
        type: "object",
        properties: {
          kind: { const: "a" },
          at: { type: "object", properties: { line: { type: "integer" } } },
        },
      },
      { type: "string" },
    ],
  };
  expect(check(schema, { kind: "a", at: { line: "1" } })).toBe(
    "/at/line: expected an integer, found a string (none of 2 alternatives fits)",
  );
});

test("[TS2] a path is a JSON pointer with ~ and / escaped", () => {
  const schema = { additionalProperties: { items: { type: "number" } } };
  expect(check(schema, { "a/b~c": [0, "x"] })).toBe("/a~1b~0c/1: expected a number, found a string");
});

test("[TS3] references reach $defs, definitions, the root and any place, and have siblings", () => {
  const schema = {
    type: "object",
    properties: {
      a: { $ref: "#/$defs/short", minLength: 1 },
      b: { $ref: "#/definitions/with~1slash" },
      c: { $ref: "#/properties/list/items/0" },
      list: { items: [{ type: "boolean" }] },
    },
    $defs: { short: { type: "string", maxLength: 2 } },
    definitions: { "with/slash": { type: "number" } },
  };
  expect(check(schema, { a: "ab", b: 1, c: true })).toBeUndefined();
  expect(check(schema, { a: "abc" })).toBe("/a: expected at most 2 characters, found 3");
  expect(check(schema, { a: "" })).toBe("/a: expected at least 1 characters, found 0");
  expect(check(schema, { b: "x" })).toBe("/b: expected a number, found a string");
  expect(check(schema, { c: 1 })).toBe("/c: expected a boolean, found the number 1");
});

test("[TS3] a schema may recurse into the value", () => {
  const tree = {
    type: "object",
    required: ["v"],
    properties: { v: { type: "number" }, kids: { items: { $ref: "#" } } },
  };
  expect(check(tree, { v: 1, kids: [{ v: 2, kids: [{ v: 3 }] }] })).toBeUndefined();
  expect(check(tree, { v: 1, kids: [{ v: 2, kids: [{}] }] })).toBe(
    '/kids/0/kids/0: missing required property "v"',
  );
});

test.each([
  ["itself", { $ref: "#" }],
  [
    "itself through allOf",
    {
      $defs: { a: { allOf: [{ $ref: "#/$defs/b" }] }, b: { anyOf: [{ $ref: "#/$defs/a" }] } },
      $ref: "#/$defs/a",
    },
  ],
])("[TS3] a reference that leads back to %s for the same value is refused", (_name, schema) => {
  expect(() => compileJsonSchema(schema, "tool x: input")).toThrowError(
    /^tool x: input#.*expected a reference that goes deeper into the value/,
  );
});

describe("[TS1] what cannot be meant fails when it is compiled, naming the place", () => {
  const rows: readonly [string, unknown, string][] = [
    ["no object", "string", "here: expected a JSON Schema object, found a string"],
    ["null", null, "here: expected a JSON Schema object, found null"],
    ["an array", [], "here: expected a JSON Schema object, found an array"],
    [
      "an unknown type",
      { properties: { a: { type: "strnig" } } },
      'here#/properties/a/type: expected one of null, boolean, number, integer, string, array, object, found "strnig"',
    ],
    [
      "a type from a prototype",
      { type: "toString" },
      'here#/type: expected one of null, boolean, number, integer, string, array, object, found "toString"',
    ],
    [
      "a remote reference",
      { items: { $ref: "https://example.com/a.json" } },
      'here#/items/$ref: expected a reference inside the schema (# or #/path), found "https://example.com/a.json"',
    ],
    [
      "an anchor",
      { $ref: "#node" },
      'here#/$ref: expected a reference inside the schema (# or #/path), found "#node"',
    ],
    [
      "a dangling reference",
      { $ref: "#/$defs/gone" },
      "here#/$ref: expected something at #/$defs/gone, found nothing",
    ],
    [
      "a reference into a prototype",
      { $ref: "#/constructor" },
      "here#/$ref: expected something at #/constructor, found nothing",
    ],
    [
      "a bad percent sequence",
      { $ref: "#/%zz" },
      'here#/$ref: expected a reference inside the schema (# or #/path), found "#/%zz"',
    ],
    ["a bad pattern", { pattern: "(" }, 'here#/pattern: expected a regular expression, found "("'],
    [
      "a bad pattern for names",
      { patternProperties: { "[": true } },
      'here#/patternProperties: expected a regular expression, found "["',
    ],
    ["a minimum that is no number", { minimum: "1" }, "here#/minimum: expected a number, found a string"],
    ["a multiple of nothing", { multipleOf: 0 }, "here#/multipleOf: expected a number above 0, found 0"],
    [
      "a negative length",
      { minLength: -1 },
      "here#/minLength: expected a whole number of at least 0, found -1",
    ],
    ["required that is no list", { required: true }, "here#/required: expected a list, found a boolean"],
    [
      "required with a number",
      { required: [1] },
      "here#/required: expected a list of strings, found a number in it",
    ],
    [
      "properties that are no schemas",
      { properties: { a: "string" } },
      "here#/properties/a: expected a schema (an object or a boolean), found a string",
    ],
    ["anyOf that is no list", { anyOf: {} }, "here#/anyOf: expected a list, found an object"],
  ];
  test.each(rows)("%s", (_name, schema, message) => {
    expect(() => compileJsonSchema(schema, "here")).toThrowError(
      expect.objectContaining({ code: "invalid_schema", message }),
    );
  });

  test("a schema that contains itself", () => {
    const schema: Record<string, unknown> = { type: "object" };
    schema.properties = { self: schema };
    expect(() => compileJsonSchema(schema, "here")).toThrowError(
      expect.objectContaining({ code: "invalid_schema" }),
    );
  });

  test("a member named __proto__", () => {
    const schema: unknown = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}');
    expect(() => compileJsonSchema(schema, "here")).toThrowError(
      expect.objectContaining({ code: "invalid_schema" }),
    );
  });
});

test("[TS7] names from prototypes are not properties", () => {
  expect(check({ required: ["toString"] }, {})).toBe(': missing required property "toString"');
  expect(check({ properties: { constructor: { type: "string" } } }, {})).toBeUndefined();
  expect(check({ properties: {}, additionalProperties: false }, { hasOwnProperty: 1 })).toBe(
    "/hasOwnProperty: unexpected property",
  );
});

test("[TS1] a pattern that only the older grammar takes is compiled all the same", () => {
  expect(check({ pattern: "^[a-z\\_]+\\-$" }, "ab_-")).toBeUndefined();
});

test("[TS2] a schema is compiled once per object", () => {
  const schema = { type: "string" };
  expect(compileJsonSchema(schema, "a")).toBe(compileJsonSchema(schema, "b"));
  expect(compileJsonSchema({ type: "string" }, "a")).not.toBe(compileJsonSchema(schema, "a"));
});
