// valibot schemas say nothing of JSON Schema, but they are plain data: this reads what a model needs to be told.
// The schema itself still does the checking, so that what has no words here is left open rather than refused.

import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";

interface Part {
  readonly kind?: unknown;
  readonly type?: unknown;
  readonly [member: string]: unknown;
}

type Describe = (schema: Part) => JsonObject;

/** The JSON Schema of what a valibot schema takes in; throws a plain error for what JSON cannot carry. */
export function describeValibot(schema: unknown): JsonObject {
  if (!isPart(schema)) return {};
  const base =
    typeof schema.type === "string" && Object.hasOwn(TYPES, schema.type) ? TYPES[schema.type] : undefined;
  if (base === undefined) throw new Error(`${String(schema.type)} cannot be represented in JSON Schema`);
  return { ...base(schema), ...actionsOf(schema) };
}

const object =
  (rest: (schema: Part) => JsonObject): Describe =>
  (schema) => {
    const entries = Object.entries(isPart(schema.entries) ? schema.entries : {});
    const required = entries.filter(([, entry]) => !isOptional(entry)).map(([name]) => name);
    return {
      type: "object",
      properties: Object.fromEntries(entries.map(([name, entry]) => [name, describeValibot(entry)])),
      ...(required.length === 0 ? {} : { required }),
      ...rest(schema),
    };
  };

const tuple =
  (rest: (schema: Part) => JsonObject): Describe =>
  (schema) => {
    const items = listOf(schema.items).map(describeValibot);
    return { type: "array", prefixItems: items, minItems: items.length, ...rest(schema) };
  };

const wrapped: Describe = (schema) => ({ ...describeValibot(schema.wrapped), ...defaultOf(schema) });
const nullable: Describe = (schema) => ({
  anyOf: [describeValibot(schema.wrapped), { type: "null" }],
  ...defaultOf(schema),
});
const anyOf: Describe = (schema) => ({ anyOf: listOf(schema.options).map(describeValibot) });
const open: Describe = () => ({});
const closed = (): JsonObject => ({ additionalProperties: false });

const TYPES: { readonly [type: string]: Describe } = {
  any: open,
  array: (schema) => ({ type: "array", items: describeValibot(schema.item) }),
  boolean: () => ({ type: "boolean" }),
  custom: open,
  enum: (schema) => ({ enum: listOf(schema.options).filter(isPlain) }),
  exact_optional: wrapped,
  intersect: (schema) => ({ allOf: listOf(schema.options).map(describeValibot) }),
  lazy: open,
  literal: (schema) => (isPlain(schema.literal) ? { const: schema.literal } : {}),
  loose_object: object(open),
  loose_tuple: tuple(open),
  non_nullable: wrapped,
  non_nullish: wrapped,
  non_optional: wrapped,
  null: () => ({ type: "null" }),
  nullable,
  nullish: nullable,
  number: () => ({ type: "number" }),
  object: object(open),
  object_with_rest: object((schema) => ({ additionalProperties: describeValibot(schema.rest) })),
  optional: wrapped,
  picklist: (schema) => ({ enum: listOf(schema.options).filter(isPlain) }),
  record: (schema) => ({ type: "object", additionalProperties: describeValibot(schema.value) }),
  strict_object: object(closed),
  strict_tuple: tuple((schema) => ({ maxItems: listOf(schema.items).length })),
  string: () => ({ type: "string" }),
  tuple: tuple(open),
  tuple_with_rest: tuple((schema) => ({ items: describeValibot(schema.rest) })),
  undefinedable: wrapped,
  union: anyOf,
  unknown: open,
  variant: anyOf,
};

/** What the steps after the schema say of the value that goes in: everything up to the first that changes it. */
function actionsOf(schema: Part): JsonObject {
  const steps = listOf(schema.pipe).filter(isPart);
  const changed = steps.findIndex(
    (step) => step.kind === "transformation" && step.type !== "brand" && step.type !== "readonly",
  );
  const described = steps.flatMap((step, index) => {
    if (step.kind === "metadata") return [wordsOf(step)];
    return step.kind === "validation" && (changed === -1 || index < changed)
      ? [limitOf(step, schema.type === "array")]
      : [];
  });
  return Object.fromEntries(described.flatMap((words) => Object.entries(words)));
}

function wordsOf({ type, ...step }: Part): JsonObject {
  if (type === "description" && typeof step.description === "string")
    return { description: step.description };
  if (type === "title" && typeof step.title === "string") return { title: step.title };
  const { description, title } = isPart(step.metadata) ? step.metadata : {};
  return {
    ...(typeof title === "string" ? { title } : {}),
    ...(typeof description === "string" ? { description } : {}),
  };
}

const FORMATS: { readonly [type: string]: string } = {
  email: "email",
  ip: "ip",
  ipv4: "ipv4",
  ipv6: "ipv6",
  iso_date: "date",
  iso_timestamp: "date-time",
  url: "uri",
  uuid: "uuid",
};

function limitOf({ type, requirement }: Part, isArray: boolean): JsonObject {
  if (typeof type !== "string") return {};
  if (type === "integer") return { type: "integer" };
  if (type === "non_empty") return isArray ? { minItems: 1 } : { minLength: 1 };
  if (type === "regex" && requirement instanceof RegExp)
    return requirement.flags.includes("i") ? {} : { pattern: requirement.source };
  if (Object.hasOwn(FORMATS, type)) return { format: FORMATS[type] ?? type };
  return typeof requirement === "number" ? numericLimit(type, requirement, isArray) : {};
}

function numericLimit(type: string, limit: number, isArray: boolean): JsonObject {
  const [least, most] = isArray ? ["minItems", "maxItems"] : ["minLength", "maxLength"];
  switch (type) {
    case "min_length":
      return { [least]: limit };
    case "max_length":
      return { [most]: limit };
    case "length":
      return { [least]: limit, [most]: limit };
    case "min_value":
      return { minimum: limit };
    case "max_value":
      return { maximum: limit };
    case "gt_value":
      return { exclusiveMinimum: limit };
    case "lt_value":
      return { exclusiveMaximum: limit };
    case "multiple_of":
      return { multipleOf: limit };
    default:
      return {};
  }
}

function defaultOf({ default: fallback }: Part): JsonObject {
  return isPlain(fallback) ? { default: fallback } : {};
}

function isOptional(entry: unknown): boolean {
  return isPart(entry) && ["optional", "exact_optional", "nullish"].includes(String(entry.type));
}

function isPart(value: unknown): value is Part {
  return typeof value === "object" && value !== null;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A value that JSON can carry as it is. */
function isPlain(value: unknown): value is Json {
  if (Array.isArray(value)) return value.every(isPlain);
  if (isJsonObject(value))
    return Object.getPrototypeOf(value) === Object.prototype && Object.values(value).every(isPlain);
  return value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
}
