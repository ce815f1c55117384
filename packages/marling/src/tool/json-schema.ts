// JSON Schema as tools use it, compiled once into closures: what a model wrote is checked without a library.
//   TS1  a schema that cannot be meant (unknown type, bad pattern, reference outside itself) fails when it is compiled.
//   TS2  the first mismatch is reported with its instance path; a value that fits allocates nothing.
//   TS3  references may recurse as long as each round trip goes deeper into the value.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJsonObject, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { KEYWORDS } from "./json-schema-keywords.ts";
import { type Check, type KeywordScope, type Mismatch, mismatch, named } from "./json-schema-operand.ts";

/** What a check came to. `path` is a JSON pointer into the value, empty for the value itself. */
export type SchemaVerdict =
  | { readonly ok: true }
  | { readonly ok: false; readonly path: string; readonly reason: string };

export type JsonSchemaCheck = (value: Json) => SchemaVerdict;

const FITS: SchemaVerdict = Object.freeze({ ok: true });
const COMPILED = new WeakMap<object, JsonSchemaCheck>();

/**
 * Compiles a JSON Schema (the parts of drafts 7 and 2020-12 that tools use; other keywords are ignored, `format` says
 * nothing). The result is kept per schema object. Throws `invalid_schema`, naming the place in the schema.
 */
export function compileJsonSchema(schema: unknown, where: string): JsonSchemaCheck {
  const known = isJsonObject(schema) ? COMPILED.get(schema) : undefined;
  if (known !== undefined) return known;
  const root = new SchemaCompiler(decodeSchema(schema, where), where).compile();
  const check = (value: Json): SchemaVerdict => {
    const found = root(value);
    return found === undefined ? FITS : { ok: false, ...found };
  };
  if (isJsonObject(schema)) COMPILED.set(schema, check);
  return check;
}

/** Copies a schema into frozen JSON; refuses what is not an object. */
export function decodeSchema(schema: unknown, where: string): JsonObject {
  if (!isJsonObject(schema)) throw refuse(where, "a JSON Schema object", named(schema));
  try {
    return decodeJsonObject(schema, where);
  } catch (cause) {
    throw new MarlingError("invalid_schema", messageOf(cause), { cause, details: { where } });
  }
}

interface SchemaNode {
  readonly at: string;
  readonly checks: Check[];
  /** Schemas that look at the very same value. */
  readonly inPlace: SchemaNode[];
}

class SchemaCompiler {
  readonly #root: JsonObject;
  readonly #where: string;
  readonly #nodes = new Map<JsonObject, SchemaNode>();

  constructor(root: JsonObject, where: string) {
    this.#root = root;
    this.#where = where;
  }

  compile(): Check {
    const node = this.#node(this.#root, "");
    refuseEndless(this.#nodes.values(), this.#where);
    return run(node);
  }

  #node(schema: Json | undefined, at: string): SchemaNode {
    if (typeof schema === "boolean") return { at, checks: schema ? [] : [refuseAll], inPlace: [] };
    if (!isJsonObject(schema))
      throw refuse(`${this.#where}#${at}`, "a schema (an object or a boolean)", named(schema));
    const known = this.#nodes.get(schema);
    if (known !== undefined) return known;
    const node: SchemaNode = { at, checks: [], inPlace: [] };
    this.#nodes.set(schema, node);
    const scope = this.#scope(schema, node);
    for (const [keyword, compile] of KEYWORDS) {
      if (!Object.hasOwn(schema, keyword)) continue;
      const check = compile(schema[keyword] ?? null, scope);
      if (check !== undefined) node.checks.push(check);
    }
    return node;
  }

  #scope(schema: JsonObject, node: SchemaNode): KeywordScope {
    const inPlace = (target: SchemaNode): Check => {
      node.inPlace.push(target);
      return run(target);
    };
    return {
      schema,
      inside: (part, at) => run(this.#node(part, `${node.at}/${at}`)),
      same: (part, at) => inPlace(this.#node(part, `${node.at}/${at}`)),
      refer: (reference) => inPlace(this.#target(reference, node.at)),
      refuse: (keyword, expected, found) => refuse(`${this.#where}#${node.at}/${keyword}`, expected, found),
    };
  }

  #target(reference: string, at: string): SchemaNode {
    const place = `${this.#where}#${at}/$ref`;
    const pointer = decodePointer(reference);
    if (pointer === undefined)
      throw refuse(place, "a reference inside the schema (# or #/path)", JSON.stringify(reference));
    const target = pointer.reduce<Json | undefined>(member, this.#root);
    if (target === undefined) throw refuse(place, `something at ${reference}`, "nothing");
    return this.#node(target, pointer.map((segment) => `/${segment}`).join(""));
  }
}

function run(node: SchemaNode): Check {
  const { checks } = node;
  return (value) => {
    for (const check of checks) {
      const found = check(value);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

function refuseAll(): Mismatch {
  return mismatch("no value is allowed here");
}

/** The segments of `#/a/b`; nothing for a reference that leaves the schema or uses an anchor. */
function decodePointer(reference: string): readonly string[] | undefined {
  if (reference === "#" || reference === "#/") return [];
  if (!reference.startsWith("#/")) return undefined;
  try {
    return reference
      .slice(2)
      .split("/")
      .map((segment) => decodeURIComponent(segment).replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    return undefined; // A malformed percent sequence: the caller refuses the reference.
  }
}

function member(parent: Json | undefined, key: string): Json | undefined {
  if (Array.isArray(parent)) return /^\d+$/.test(key) ? parent[Number(key)] : undefined;
  return isJsonObject(parent) && Object.hasOwn(parent, key) ? parent[key] : undefined;
}

/** TS3: a schema that leads back to itself for the same value would never come to an answer. */
function refuseEndless(nodes: Iterable<SchemaNode>, where: string): void {
  const settled = new Set<SchemaNode>();
  const visit = (node: SchemaNode, open: ReadonlySet<SchemaNode>): void => {
    if (settled.has(node)) return;
    if (open.has(node))
      throw refuse(
        `${where}#${node.at}`,
        "a reference that goes deeper into the value",
        "one that leads back to itself",
      );
    const inside = new Set(open).add(node);
    for (const next of node.inPlace) visit(next, inside);
    settled.add(node);
  };
  for (const node of nodes) visit(node, new Set());
}

function refuse(place: string, expected: string, found: string): MarlingError {
  return new MarlingError("invalid_schema", `${place}: expected ${expected}, found ${found}`, {
    details: { where: place },
  });
}
