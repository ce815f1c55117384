// A tool in a few lines, for prompts and discovery: signature, what its parameters mean, an example or two.

import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { ToolContract } from "./contract.ts";

const MAX_DEPTH = 2;
const MAX_EXAMPLES = 2;
const MAX_EXAMPLE_LENGTH = 240;

/** The short form of a tool: `add(a: number, b?: string) -> number`, then one line per documented parameter and example. */
export function compactContract(tool: { readonly name: string; contract(): ToolContract }): string {
  const { inputSchema, outputSchema, examples = [] } = tool.contract();
  const writer = new TypeWriter(inputSchema);
  const returns =
    outputSchema === undefined ? "" : ` -> ${new TypeWriter(outputSchema).type(outputSchema, 0)}`;
  const documented = membersOf(inputSchema).flatMap(([name, schema]) => {
    const text = isJsonObject(schema) ? schema.description : undefined;
    return typeof text === "string" && text.trim() !== ""
      ? [`  ${name}: ${text.trim().replaceAll(/\s+/g, " ")}`]
      : [];
  });
  const shown = examples
    .slice(0, MAX_EXAMPLES)
    .map((example) => `  example: ${cut(JSON.stringify(example))}`);
  return [`${tool.name}(${writer.members(inputSchema, 0)})${returns}`, ...documented, ...shown].join("\n");
}

class TypeWriter {
  readonly #root: JsonObject;

  constructor(root: JsonObject) {
    this.#root = root;
  }

  members(schema: JsonObject, depth: number): string {
    const { required } = schema;
    const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name);
    return membersOf(schema)
      .map(([name, member]) => `${name}${isRequired(name) ? "" : "?"}: ${this.type(member, depth + 1)}`)
      .join(", ");
  }

  type(schema: Json, depth: number): string {
    if (!isJsonObject(schema)) return "any";
    if (Object.hasOwn(schema, "const")) return JSON.stringify(schema.const);
    const { $ref, enum: options, anyOf, oneOf, type } = schema;
    if (typeof $ref === "string")
      return $ref.startsWith("#/") ? ($ref.split("/").at(-1) ?? "any") : this.#nameOfRoot();
    if (Array.isArray(options)) return options.map((option) => JSON.stringify(option)).join(" | ");
    const union = anyOf ?? oneOf;
    if (Array.isArray(union))
      return [...new Set(union.map((option: Json) => this.type(option, depth)))].join(" | ");
    if (Array.isArray(type))
      return type.map((name: Json) => this.#named(String(name), schema, depth)).join(" | ");
    return typeof type === "string" ? this.#named(type, schema, depth) : "any";
  }

  #named(type: string, schema: JsonObject, depth: number): string {
    if (type === "array") return this.#list(schema, depth);
    if (type !== "object") return type;
    return depth > MAX_DEPTH || membersOf(schema).length === 0
      ? "object"
      : `{ ${this.members(schema, depth)} }`;
  }

  #list({ items }: JsonObject, depth: number): string {
    const item = items === undefined ? "any" : this.type(items, depth + 1);
    return item.includes(" | ") && !item.startsWith("{") ? `(${item})[]` : `${item}[]`;
  }

  #nameOfRoot(): string {
    const { title } = this.#root;
    return typeof title === "string" ? title : "object";
  }
}

function membersOf({ properties }: JsonObject): readonly (readonly [string, Json])[] {
  return isJsonObject(properties) ? Object.entries(properties) : [];
}

function cut(text: string): string {
  return text.length > MAX_EXAMPLE_LENGTH ? `${text.slice(0, MAX_EXAMPLE_LENGTH - 3)}...` : text;
}
