// Rules J1-J4 in the header of src/model/json.ts.

import fc from "fast-check";
import { expect, test } from "vitest";
import {
  adoptJson,
  canonicalJson,
  decodeJson,
  decodeJsonObject,
  isJsonObject,
  type Json,
  jsonEqual,
  MAX_JSON_DEPTH,
} from "../../src/model/json.ts";
import { refusal } from "../base/refusal.ts";

class Point {
  readonly x = 1;
}

test("[J1] JSON is copied: equal to what came in, frozen to the bottom, and independent of it", () => {
  const given = { list: [1, { deep: "a" }], none: null, yes: true };
  const json = decodeJson(given);
  given.list[0] = 2;
  expect(json).toEqual({ list: [1, { deep: "a" }], none: null, yes: true });
  expect(isFrozenToTheBottom(json)).toBe(true);
});

test("[J1] every JSON value survives decoding", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      fc.pre(!text.includes("__proto__"));
      const value = JSON.parse(text);
      expect(JSON.stringify(decodeJson(value))).toBe(JSON.stringify(value));
    }),
  );
});

test("[J1] members that are undefined are left out", () => {
  expect(decodeJson({ a: undefined, b: { c: undefined } })).toEqual({ b: {} });
  expect(Object.keys(decodeJson({ a: undefined }) as object)).toEqual([]);
});

test("[J1] minus zero is stored as zero", () => {
  expect(Object.is(decodeJson(-0), 0)).toBe(true);
});

test("[J1] objects that know their JSON are asked for it", () => {
  expect(decodeJson({ at: new Date(0) })).toEqual({ at: "1970-01-01T00:00:00.000Z" });
});

test("[J1] objects without a prototype are plain", () => {
  expect(decodeJson(Object.assign(Object.create(null), { a: 1 }))).toEqual({ a: 1 });
});

const cycle: { self?: unknown } = {};
cycle.self = { cycle };
const endless = { toJSON: (): object => ({ ...endless }) };

test.each<[string, unknown, string]>([
  ["undefined", undefined, "input: expected a JSON value, found undefined"],
  ["a function", { run: () => 1 }, "input.run: expected a JSON value, found a function"],
  ["a symbol", [Symbol("s")], "input[0]: expected a JSON value, found a symbol"],
  ["a bigint", { big: 1n }, "input.big: expected a JSON value, found a bigint"],
  ["NaN", { n: Number.NaN }, "input.n: expected a finite number, found NaN"],
  ["infinity", [1, Number.POSITIVE_INFINITY], "input[1]: expected a finite number, found Infinity"],
  ["an undefined item", [1, undefined], "input[1]: expected a JSON value, found undefined"],
  // biome-ignore lint/suspicious/noSparseArray: the hole is what is refused
  ["a hole in an array", [1, , 3], "input[1]: expected a JSON value, found undefined"],
  ["a class instance", { at: new Point() }, "input.at: expected a plain object, found an instance of Point"],
  ["a map", new Map(), "input: expected a plain object, found an instance of Map"],
  ["a boxed string", { s: Object("s") }, "input.s: expected a plain object, found an instance of String"],
  [
    "a cycle",
    cycle,
    "input.self.cycle: expected a value without cycles, found a reference to its own ancestor",
  ],
  [
    "a member named __proto__",
    JSON.parse('{"a":{"__proto__":1}}'),
    "input.a: expected no member named __proto__, found one",
  ],
  ["JSON that never ends", endless, "input: expected at most 512 levels, found one more"],
])("[J1] [J4] %s is refused by its path", (_name, value, message) => {
  for (const decode of [decodeJson, adoptJson])
    expect(refusal(() => decode(value, "input"))).toEqual({ code: "invalid_json", message });
});

test("[J4] plain JSON that is adopted is the very value, frozen to the bottom", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      fc.pre(!text.includes("__proto__") && !text.includes("-0"));
      const value = JSON.parse(text);
      expect(adoptJson(value)).toBe(value);
      expect(isFrozenToTheBottom(value)).toBe(true);
      expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
    }),
  );
});

test("[J4] what is not plain JSON yet is copied into it", () => {
  const given = { at: new Date(0), none: undefined, zero: -0, bare: Object.create(null) };
  expect(adoptJson(given)).toEqual({ at: "1970-01-01T00:00:00.000Z", zero: 0, bare: {} });
  expect(Object.isFrozen(given)).toBe(false);
});

test("[J1] one object in two places is no cycle", () => {
  const shared = { a: 1 };
  expect(decodeJson([shared, { shared }])).toEqual([{ a: 1 }, { shared: { a: 1 } }]);
});

test("[J3] a value nests 512 levels and not one more", () => {
  const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
  expect(MAX_JSON_DEPTH).toBe(512);
  expect(canonicalJson(decodeJson(nested(512)))).toHaveLength(1 + 2 * 512);
  expect(refusal(() => decodeJson(nested(513))).code).toBe("invalid_json");
});

test("[J1] where an object is expected, arrays, null and texts are refused", () => {
  expect(decodeJsonObject({ a: 1 })).toEqual({ a: 1 });
  expect(refusal(() => decodeJsonObject([], "options")).message).toBe(
    "options: expected an object, found an array",
  );
  expect(refusal(() => decodeJsonObject(null, "options")).message).toBe(
    "options: expected an object, found null",
  );
  expect(refusal(() => decodeJsonObject("a", "options")).message).toBe(
    "options: expected an object, found a string",
  );
  expect([isJsonObject({}), isJsonObject([]), isJsonObject(null), isJsonObject("a")]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("[J2] canonical text sorts keys at every level and keeps the order of lists", () => {
  const json: Json = { b: [2, 1, { d: null, c: "\n" }], a: { z: true, y: 0.5 } };
  expect(canonicalJson(json)).toBe('{"a":{"y":0.5,"z":true},"b":[2,1,{"c":"\\n","d":null}]}');
});

test("[J2] keys are sorted by code units, not by a locale", () => {
  expect(canonicalJson({ ä: 1, z: 2, Z: 3, a: 4 })).toBe('{"Z":3,"a":4,"z":2,"ä":1}');
});

test("[J2] values are equal when their texts are", () => {
  expect(jsonEqual({ a: 1, b: [1] }, { b: [1], a: 1 })).toBe(true);
  expect(jsonEqual({ a: 1 }, { a: 1, b: null })).toBe(false);
  expect(jsonEqual(1, "1")).toBe(false);
  expect(jsonEqual([], {})).toBe(false);
  expect(jsonEqual(undefined, undefined)).toBe(true);
  expect(jsonEqual(undefined, null)).toBe(false);
});

function isFrozenToTheBottom(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenToTheBottom);
}
