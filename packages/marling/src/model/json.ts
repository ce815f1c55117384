// JSON values: what marling stores, compares and hashes.
//   J1  a value that enters is checked once (`decodeJson`), with the path of the culprit in the error.
//   J4  a value that nobody else holds may be adopted: what is plain JSON is frozen and not copied (`adoptJson`).
//   J2  canonical text sorts keys, so equal values have equal texts.
//   J3  a value nests at most MAX_JSON_DEPTH levels, so that whatever walks it stays within the stack.

import { MarlingError } from "../base/errors.ts";

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [key: string]: Json };

export const MAX_JSON_DEPTH = 512;

/** Checks and copies a value into frozen JSON. Members that are `undefined` are left out, as in `JSON.stringify`. */
export function decodeJson(value: unknown, where = "value"): Json {
  return copy(value, where, []);
}

/** As `decodeJson`, of a value that nobody else holds: plain JSON is frozen as it is, anything else is copied or refused. */
export function adoptJson(value: unknown, where = "value"): Json {
  return freeze(value, 0) ? (value as Json) : decodeJson(value, where);
}

/** As `decodeJson`, and the value must be an object. */
export function decodeJsonObject(value: unknown, where = "value"): JsonObject {
  const json = decodeJson(value, where);
  if (!isJsonObject(json)) throw refuse(where, "an object", json === null ? "null" : typeName(json));
  return json;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value is an object that no class made; such objects are copied member by member. */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** The text of a value with sorted keys and no spaces. */
export function canonicalJson(value: Json): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  let text = "";
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1)
      text += `${index === 0 ? "" : ","}${canonicalJson(value[index])}`;
    return `[${text}]`;
  }
  return canonicalMembers(value, noneKnown);
}

const noneKnown = (): undefined => undefined;

/** As `canonicalJson`, of an object of which the texts of some members are known. */
export function canonicalMembers(value: object, known: (name: string) => string | undefined): string {
  let text = "";
  const keys = Object.keys(value).sort();
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] as string;
    const member = known(key) ?? canonicalJson((value as JsonObject)[key] as Json);
    text += `${index === 0 ? "" : ","}${quoted(key)}:${member}`;
  }
  return `{${text}}`;
}

/** Names of members in quotes: most are few, and met again and again. */
const QUOTED = new Map<string, string>();
const MOST_QUOTED = 256;

function quoted(name: string): string {
  const known = QUOTED.get(name);
  if (known !== undefined) return known;
  const text = JSON.stringify(name);
  if (QUOTED.size < MOST_QUOTED) QUOTED.set(name, text);
  return text;
}

export function jsonEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => jsonEqual(item, b[index]));
  }
  const [one, other] = [a as JsonObject, b as JsonObject];
  const keys = Object.keys(one);
  if (keys.length !== Object.keys(other).length) return false;
  return keys.every((key) => Object.hasOwn(other, key) && jsonEqual(one[key], other[key]));
}

/** Freezes a value to the bottom, as far as it is plain JSON; says whether all of it is. */
function freeze(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0);
    case "object":
      return value === null || (depth < MAX_JSON_DEPTH && freezeMembers(value, depth + 1));
    default:
      return false;
  }
}

function freezeMembers(value: object, depth: number): boolean {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) if (!freeze(value[index], depth)) return false;
  } else {
    if (Object.getPrototypeOf(value) !== Object.prototype) return false;
    // Whatever a prototype has besides is no JSON, and leads to a copy.
    for (const key in value)
      if (key === "__proto__" || !freeze((value as JsonObject)[key], depth)) return false;
  }
  Object.freeze(value);
  return true;
}

/** `ancestors` is one stack for the whole walk. */
function copy(value: unknown, path: string, ancestors: object[]): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (!Number.isFinite(value)) throw refuse(path, "a finite number", String(value));
      return Object.is(value, -0) ? 0 : value;
    case "object":
      return value === null ? null : copyObject(value, path, ancestors);
    default:
      throw refuse(path, "a JSON value", typeName(value));
  }
}

function copyObject(value: object, path: string, ancestors: object[]): Json {
  if (ancestors.includes(value))
    throw refuse(path, "a value without cycles", "a reference to its own ancestor");
  if (ancestors.length === MAX_JSON_DEPTH) throw refuse(path, `at most ${MAX_JSON_DEPTH} levels`, "one more");
  ancestors.push(value);
  const json = copyMembers(value, path, ancestors);
  ancestors.pop();
  return json;
}

function copyMembers(value: object, path: string, ancestors: object[]): Json {
  if (Array.isArray(value)) {
    return Object.freeze(Array.from(value, (item, index) => copy(item, `${path}[${index}]`, ancestors)));
  }
  const toJson = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJson === "function") return copy(toJson.call(value), path, ancestors);
  if (!isPlainObject(value)) throw refuse(path, "a plain object", `an instance of ${className(value)}`);
  const result: { [key: string]: Json } = {};
  for (const [key, member] of Object.entries(value)) {
    if (key === "__proto__") throw refuse(path, "no member named __proto__", "one");
    if (member !== undefined) result[key] = copy(member, `${path}.${key}`, ancestors);
  }
  return Object.freeze(result);
}

function className(value: object): string {
  const { name } = (value.constructor ?? {}) as { readonly name?: unknown };
  return typeof name === "string" && name !== "" ? name : "a class";
}

function refuse(path: string, expected: string, found: string): MarlingError {
  return new MarlingError("invalid_json", `${path}: expected ${expected}, found ${found}`, {
    details: { path },
  });
}

function typeName(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  return value === undefined ? "undefined" : `a ${typeof value}`;
}
