// What a server offers, as it is kept: every tool with the digest of its contract.
//   MC3  a digest covers all that a server says of a tool: name, title, description, schemas and hints.
//   MC5  a description is a server's words: characters that nobody who approves it would see are left out of it.
//   MC4  what cannot be offered (names, size, shape) is left out and reported; the rest of the list is not touched by it.

import { createHash } from "node:crypto";
import type { Tool } from "@modelcontextprotocol/client";
import type { Json, JsonObject } from "../../index.ts";
import { toolNameFor } from "./tool-name.ts";

/** A tool of a server. Plain JSON: sessions keep it. */
export interface KnownTool {
  /** As models call it. */
  readonly name: string;
  /** As the server calls it. */
  readonly tool: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly hints?: { readonly isReadOnly?: boolean; readonly isIdempotent?: boolean };
  readonly digest: string;
  /** Set for the tools that are made here, over the resources of the server. */
  readonly builtin?: "list_resources" | "read_resource";
}

export interface RefusedTool {
  readonly tool: string;
  readonly reason: string;
}

export interface ToolList {
  readonly tools: readonly KnownTool[];
  readonly refused: readonly RefusedTool[];
  /** Of all tools together. */
  readonly digest: string;
}

const MOST_TOOLS = 512;
const LONGEST_DESCRIPTION = 8_192;
const LARGEST_SCHEMA = 64 * 1024;
const DEEPEST_SCHEMA = 48;
/** Controls but for line ends and tabs, changes of direction, zero widths, and the tag characters that spell hidden text. */
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

export function readToolList(
  server: string,
  listed: readonly Tool[],
  options: { readonly hasResources: boolean },
): ToolList {
  const known = new Map<string, KnownTool>();
  const refused: RefusedTool[] = [];
  if (options.hasResources) for (const tool of resourceTools(server)) known.set(tool.name, tool);
  for (const [index, tool] of listed.entries()) {
    const read =
      index < MOST_TOOLS ? readTool(server, tool) : `the server lists more than ${MOST_TOOLS} tools`;
    const reason = typeof read === "string" ? read : known.has(read.name) ? "its name is taken" : undefined;
    if (typeof read !== "string" && reason === undefined) known.set(read.name, read);
    else if (refused.length < MOST_TOOLS)
      refused.push({ tool: String(tool.name).slice(0, 256), reason: reason ?? "" });
  }
  const tools = Object.freeze([...known.values()].sort((a, b) => (a.name < b.name ? -1 : 1)));
  return Object.freeze({
    tools,
    refused: Object.freeze(refused),
    digest: digestOf(tools.map(({ name, digest }) => [name, digest])),
  });
}

/** SHA-256 of a JSON value whose members are in no particular order. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

function readTool(server: string, tool: Tool): KnownTool | string {
  const naming = toolNameFor(server, tool.name);
  if ("refused" in naming) return naming.refused;
  const { name, title, description = "", inputSchema, outputSchema, annotations } = tool;
  const problem = schemaProblem(inputSchema) ?? (outputSchema && schemaProblem(outputSchema));
  if (problem !== undefined) return problem;
  const { $schema: _, ...shown } = inputSchema as JsonObject;
  const hints = {
    ...(annotations?.readOnlyHint === true ? { isReadOnly: true } : {}),
    ...(annotations?.idempotentHint === true ? { isIdempotent: true } : {}),
  };
  return Object.freeze({
    name: naming.name,
    tool: name,
    description: description.replaceAll(UNSEEN, "").slice(0, LONGEST_DESCRIPTION),
    inputSchema: shown,
    ...(outputSchema === undefined ? {} : { outputSchema: outputSchema as JsonObject }),
    ...(Object.keys(hints).length === 0 ? {} : { hints }),
    digest: digestOf({ name, title, description, inputSchema, outputSchema, annotations }),
  });
}

function schemaProblem(schema: unknown): string | undefined {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    return "its schema is not an object";
  if (!isPlain(schema, 0)) return "its schema is too deep, or has a member named __proto__";
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  return bytes > LARGEST_SCHEMA ? `its schema has ${bytes} bytes, more than ${LARGEST_SCHEMA}` : undefined;
}

function isPlain(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (depth >= DEEPEST_SCHEMA || Object.hasOwn(value, "__proto__")) return false;
  return Object.values(value).every((member) => isPlain(member, depth + 1));
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}

function resourceTools(server: string): readonly KnownTool[] {
  const cursor: JsonObject = { type: "string", description: "Where to go on, as the last answer says." };
  const uri: JsonObject = {
    type: "string",
    description: "The address of the resource, as the server lists it.",
  };
  return [
    resourceTool(server, "list_resources", {
      description: `Lists the resources of the MCP server ${server}.`,
      inputSchema: { type: "object", properties: { cursor }, additionalProperties: false },
    }),
    resourceTool(server, "read_resource", {
      description: `Reads one resource of the MCP server ${server}.`,
      inputSchema: { type: "object", properties: { uri }, required: ["uri"], additionalProperties: false },
    }),
  ];
}

function resourceTool(
  server: string,
  builtin: NonNullable<KnownTool["builtin"]>,
  said: { readonly description: string; readonly inputSchema: JsonObject },
): KnownTool {
  const digest = digestOf({ builtin, ...said } satisfies { readonly [name: string]: Json });
  return Object.freeze({ name: `mcp__${server}__${builtin}`, tool: builtin, ...said, digest, builtin });
}
