// One form for every schema a host may bring: how to check a value, and how to describe it in JSON Schema.
//   TS4  a Standard Schema checks by itself and its result is what the tool gets, defaults and transforms included;
//        its JSON Schema only describes.
//   TS5  the description comes from the schema (`~standard.jsonSchema`, or the structure of a valibot schema) unless
//        one is given; a tool's input must have one, other schemas fall back to the open schema.
//   TS6  a mismatch has the instance path as a JSON pointer; a schema that throws is a mismatch, not a crash.

import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { Schema, ToolValidator, ValidatedArgs } from "./contract.ts";
import { compileJsonSchema, decodeSchema } from "./json-schema.ts";
import { KEYWORDS } from "./json-schema-keywords.ts";
import { describeValibot } from "./valibot-json-schema.ts";

export interface CompiledSchema extends ToolValidator {
  /** Without `$schema`. The open schema `{}` when nothing is known. */
  readonly jsonSchema: JsonObject;
}

export interface SchemaOptions {
  /** Describes the schema in place of what it says of itself. */
  readonly jsonSchema?: unknown;
  /** Whether a schema that cannot be described is refused; by default it is described as open. */
  readonly mustDescribe?: boolean;
}

const OPEN: JsonObject = Object.freeze({});
const MAX_ISSUES = 3;
const ANNOTATIONS = [
  "$schema",
  "$id",
  "$comment",
  "$defs",
  "definitions",
  "title",
  "description",
  "default",
  "examples",
  "format",
];

/** Compiles a Standard Schema or a JSON Schema. Throws `invalid_schema`, naming `where`. */
export function compileSchema(schema: Schema, where: string, options: SchemaOptions = {}): CompiledSchema {
  if (isStandardSchema(schema)) return compileStandard(schema, where, options);
  refuseLookalike(schema, where);
  const jsonSchema = withoutDialect(decodeSchema(schema, where));
  return Object.freeze({ jsonSchema, ...jsonSchemaValidator(jsonSchema, where) });
}

/** A validator for a JSON Schema; the value is passed on as it is. */
export function jsonSchemaValidator(schema: JsonObject, where: string): ToolValidator {
  const check = compileJsonSchema(schema, where);
  return {
    validate: (value) => {
      const verdict = check(value);
      return verdict.ok ? { ok: true, value } : verdict;
    },
  };
}

/** `<path>: <reason>`, or the reason alone for the value itself. */
export function mismatchText(mismatch: { readonly path: string; readonly reason: string }): string {
  return mismatch.path === "" ? mismatch.reason : `${mismatch.path}: ${mismatch.reason}`;
}

export function isStandardSchema(schema: unknown): schema is StandardSchemaV1 {
  if ((typeof schema !== "object" || schema === null) && typeof schema !== "function") return false;
  const standard: unknown = Reflect.get(schema, "~standard");
  return (
    typeof standard === "object" &&
    standard !== null &&
    "validate" in standard &&
    typeof standard.validate === "function"
  );
}

function compileStandard(schema: StandardSchemaV1, where: string, options: SchemaOptions): CompiledSchema {
  const jsonSchema = describe(schema, where, options);
  return Object.freeze({ jsonSchema, validate: (value: Json) => validateStandard(schema, value) });
}

function describe(schema: StandardSchemaV1, where: string, options: SchemaOptions): JsonObject {
  if (options.jsonSchema !== undefined) {
    const given = withoutDialect(decodeSchema(options.jsonSchema, where));
    compileJsonSchema(given, where);
    return given;
  }
  const { vendor } = schema["~standard"];
  try {
    const described = hasJsonSchema(schema)
      ? schema["~standard"].jsonSchema.input({ target: "draft-2020-12" })
      : vendor === "valibot"
        ? describeValibot(schema)
        : undefined;
    if (described !== undefined) return withoutDialect(decodeSchema(described, where));
  } catch (cause) {
    if (options.mustDescribe !== true) return OPEN;
    throw undescribed(where, `the ${vendor} schema has no JSON Schema (${messageOf(cause)})`, cause);
  }
  if (options.mustDescribe === true)
    throw undescribed(where, `the ${vendor} schema does not say its JSON Schema`);
  return OPEN;
}

function undescribed(where: string, problem: string, cause?: unknown): MarlingError {
  const advice = "give the JSON Schema that the model is shown beside it, as `inputSchema`";
  return new MarlingError("invalid_schema", `${where}: ${problem}; ${advice}`, { cause, details: { where } });
}

function hasJsonSchema(schema: StandardSchemaV1): schema is StandardSchemaV1 & StandardJSONSchemaV1 {
  const standard: object = schema["~standard"];
  return "jsonSchema" in standard && typeof standard.jsonSchema === "object" && standard.jsonSchema !== null;
}

/** An object without a single keyword is a list of fields that somebody took for a schema. */
function refuseLookalike(schema: unknown, where: string): void {
  const keys = typeof schema === "object" && schema !== null ? Object.keys(schema) : [];
  if (keys.length === 0 || keys.some((key) => KEYWORDS.has(key) || ANNOTATIONS.includes(key))) return;
  const expected = "a Standard Schema (zod 4, valibot, arktype ...) or a JSON Schema";
  throw new MarlingError(
    "invalid_schema",
    `${where}: expected ${expected}, found an object with the members ${keys.join(", ")}`,
    {
      details: { where },
    },
  );
}

function withoutDialect(schema: JsonObject): JsonObject {
  if (!Object.hasOwn(schema, "$schema")) return schema;
  const { $schema: _, ...rest } = schema;
  return Object.freeze(rest);
}

function validateStandard(schema: StandardSchemaV1, value: Json): ValidatedArgs | Promise<ValidatedArgs> {
  try {
    const result = schema["~standard"].validate(value);
    return isPromise(result) ? Promise.resolve(result).then(readResult, thrown) : readResult(result);
  } catch (error) {
    return thrown(error);
  }
}

function thrown(error: unknown): ValidatedArgs {
  return { ok: false, path: "", reason: `the schema could not check the value: ${messageOf(error)}` };
}

function readResult(result: StandardSchemaV1.Result<unknown>): ValidatedArgs {
  if (result.issues === undefined) return { ok: true, value: result.value };
  const found = result.issues
    .slice(0, MAX_ISSUES)
    .map((issue) => ({ path: pointerTo(issue.path), reason: issue.message }));
  const [first, ...others] = found;
  if (first === undefined)
    return { ok: false, path: "", reason: "the schema refused the value without saying why" };
  return { ok: false, path: first.path, reason: [first.reason, ...others.map(mismatchText)].join("; ") };
}

function pointerTo(path: StandardSchemaV1.Issue["path"]): string {
  return (path ?? [])
    .map((segment) => (typeof segment === "object" ? segment.key : segment))
    .map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}
