// Whether a provider that constrains its decoder by a schema takes this one. What it would refuse, or follow by half, is
// asked for in another way.

import { isJsonObject, type Json, type JsonObject } from "../../model/json.ts";

export interface SchemaLimits {
  /** Whether every property must be required. */
  readonly allRequired: boolean;
  /** Keywords that are refused. */
  readonly refused: ReadonlySet<string>;
}

/** Members of a schema that are schemas by name, are lists of schemas, and are schemas. */
const MAPS = ["properties", "$defs", "definitions"] as const;
const LISTS = ["anyOf", "allOf", "prefixItems"] as const;
const ONES = ["items", "additionalProperties"] as const;

/** True when all objects of the schema are closed and nothing in it is refused. */
export function isStrict(schema: JsonObject, limits: SchemaLimits): boolean {
  if (Object.keys(schema).some((keyword) => limits.refused.has(keyword))) return false;
  if (isObjectSchema(schema) && !isClosed(schema, limits)) return false;
  return childrenOf(schema).every((child) => !isJsonObject(child) || isStrict(child, limits));
}

function isObjectSchema({ type, properties }: JsonObject): boolean {
  return properties !== undefined || type === "object" || (Array.isArray(type) && type.includes("object"));
}

function isClosed(
  { additionalProperties, properties, required }: JsonObject,
  { allRequired }: SchemaLimits,
): boolean {
  if (additionalProperties !== false) return false;
  const names = isJsonObject(properties) ? Object.keys(properties) : [];
  return !allRequired || names.every((name) => Array.isArray(required) && required.includes(name));
}

function childrenOf(schema: JsonObject): readonly (Json | undefined)[] {
  return [
    ...MAPS.flatMap((name) => (isJsonObject(schema[name]) ? Object.values(schema[name]) : [])),
    ...LISTS.flatMap((name) => (Array.isArray(schema[name]) ? schema[name] : [])),
    ...ONES.map((name) => schema[name]),
  ];
}
