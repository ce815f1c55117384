// What the keywords of JSON Schema share: how an operand is read, and how a mismatch is told.

import type { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";

export interface Mismatch {
  readonly path: string;
  readonly reason: string;
}

/** Nothing when the value fits. */
export type Check = (value: Json) => Mismatch | undefined;

/** What a keyword may ask while it is compiled. */
export interface KeywordScope {
  readonly schema: JsonObject;
  /** A schema for a part of the value. */
  inside(schema: Json | undefined, at: string): Check;
  /** A schema for the same value. */
  same(schema: Json | undefined, at: string): Check;
  refer(reference: string): Check;
  refuse(keyword: string, expected: string, found: string): MarlingError;
}

export function mismatch(reason: string, path = ""): Mismatch {
  return { path, reason };
}

/** What a value is, in words. */
export function named(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

export function listOf(operand: Json, keyword: string, scope: KeywordScope): readonly Json[] {
  if (!Array.isArray(operand)) throw scope.refuse(keyword, "a list", named(operand));
  return operand;
}

export function objectOf(operand: Json, keyword: string, scope: KeywordScope): JsonObject {
  if (!isJsonObject(operand)) throw scope.refuse(keyword, "an object", named(operand));
  return operand;
}

export function namesOf(operand: Json, keyword: string, scope: KeywordScope): readonly string[] {
  return listOf(operand, keyword, scope).map((name) => {
    if (typeof name !== "string") throw scope.refuse(keyword, "a list of strings", `${named(name)} in it`);
    return name;
  });
}

export function count(operand: Json, keyword: string, scope: KeywordScope): number {
  if (typeof operand !== "number" || !Number.isInteger(operand) || operand < 0) {
    throw scope.refuse(keyword, "a whole number of at least 0", brief(operand));
  }
  return operand;
}

/** A pattern in unicode mode as the standard asks; patterns that only older engines take are compiled without it. */
export function regularExpression(operand: Json, keyword: string, scope: KeywordScope): RegExp {
  if (typeof operand !== "string") throw scope.refuse(keyword, "a regular expression", named(operand));
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(operand, flags);
    } catch {
      // Tried again without unicode mode, and refused below when that fails too.
    }
  }
  throw scope.refuse(keyword, "a regular expression", brief(operand));
}

export function codePoints(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}

export function brief(value: Json): string {
  const text = JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
