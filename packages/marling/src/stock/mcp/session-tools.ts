// The tools of the servers in one session.
//   MC50  a server that was reached offers what it listed last; one that was not reached yet in this process, what the session
//         saw of it before. So a turn that goes on after a restart finds its tools before its servers are up.
//   MC51  every manifest carries the digest of its contract: a changed contract is a changed tool.
//   MC52  hints of a server set no replay policy unless the host trusts them: a call that a crash cut is not repeated.
//   MC53  arguments are checked against the schema of the tool, unless it holds patterns or cannot be read: then the server
//         checks them.

import {
  type DurableState,
  defineTool,
  type Json,
  type JsonObject,
  type ReplayPolicy,
  type ToolContext,
  type ToolContract,
  type ToolManifest,
  type ToolProvider,
} from "../../index.ts";
import { callTool, changedOutput, detachedOutput } from "./call-tool.ts";
import type { McpConnection } from "./connection.ts";
import type { ContractPins } from "./contract-pins.ts";
import type { McpPool } from "./pool.ts";
import type { KnownTool } from "./tool-contracts.ts";

/** What a session saw of its servers, by server. */
export type SeenTools = { readonly [server: string]: readonly KnownTool[] };

export interface OfferedTool {
  readonly server: string;
  readonly connection: McpConnection;
  readonly tool: KnownTool;
}

type Provider = Required<Pick<ToolProvider, "resolve" | "validator" | "prepare">> & ToolProvider;
type Validator = NonNullable<ReturnType<NonNullable<ToolProvider["validator"]>>>;
type Call = Parameters<ToolProvider["execute"]>[0];
type Shown = {
  readonly lists: readonly (readonly KnownTool[])[];
  readonly manifests: readonly ToolManifest[];
  readonly byName: ReadonlyMap<string, OfferedTool>;
};

export class SessionTools implements Provider {
  readonly #pool: McpPool;
  readonly #seen: DurableState<SeenTools>;
  readonly #pins: ContractPins;
  #shown: Shown | undefined;

  constructor(pool: McpPool, from: { readonly seen: DurableState<SeenTools>; readonly pins: ContractPins }) {
    this.#pool = pool;
    this.#seen = from.seen;
    this.#pins = from.pins;
  }

  /** Nothing when the server was never reached. */
  knownOf({ name, list }: McpConnection): readonly KnownTool[] | undefined {
    return list?.tools ?? this.#seen.get()[name];
  }

  find(name: string): OfferedTool | undefined {
    return this.#read().byName.get(name);
  }

  manifests(): readonly ToolManifest[] {
    return this.#read().manifests;
  }

  resolve(key: Parameters<Provider["resolve"]>[0]): ToolManifest | undefined {
    return this.manifests().find(({ id, name }) => ("id" in key ? id === key.id : name === key.name));
  }

  /** With its description and digest: decisions about calls are bound to the whole contract. */
  contract(name: string): ToolContract | undefined {
    const tool = this.find(name)?.tool;
    if (tool === undefined) return undefined;
    const { inputSchema, outputSchema, description, digest } = tool;
    const bound = { inputSchema, description, digest };
    return outputSchema === undefined ? bound : { ...bound, outputSchema };
  }

  validator(name: string): Validator | undefined {
    const tool = this.find(name)?.tool;
    return tool === undefined ? undefined : validatorOf(tool);
  }

  /** The contract that was decided about goes with the call; where it has changed since, the call ends here. */
  prepare: Provider["prepare"] = ({ input: _, ...call }) => {
    const offered = this.find(call.name);
    if (offered === undefined) return { kind: "prepared", call };
    const { connection, tool } = offered;
    if (!this.#pins.isAsAsked(call.callId, offered))
      return { kind: "completed", output: changedOutput(connection, tool) };
    return { kind: "prepared", call: { ...call, payload: { digest: tool.digest } } };
  };

  async execute(call: Call, context: ToolContext): Promise<unknown> {
    const offered = this.find(call.name);
    if (offered === undefined) return detachedOutput(serverIn(call.toolId));
    const { connection, tool } = offered;
    const digest = digestIn(call.payload) ?? tool.digest;
    this.#pins.letThrough(call.callId, { offered, digest });
    const args = call.input as JsonObject; // validated: an object
    const isRepeatable = replayOf(offered) !== "unsafe";
    return callTool(connection, { tool, args, digest, isRepeatable }, context);
  }

  #read(): Shown {
    const known = this.#pool.connections.flatMap((connection) => {
      const tools = this.knownOf(connection);
      return tools === undefined ? [] : [{ connection, tools }];
    });
    const lists = known.map(({ tools }) => tools);
    const shown = this.#shown;
    if (shown !== undefined && isSame(shown.lists, lists)) return shown;
    const offered = known.flatMap(({ connection, tools }) =>
      tools.map((tool): OfferedTool => ({ server: connection.name, connection, tool })),
    );
    this.#shown = {
      lists,
      manifests: Object.freeze(offered.map(manifestOf)),
      byName: new Map(offered.map((each) => [each.tool.name, each])),
    };
    return this.#shown;
  }
}

function manifestOf(offered: OfferedTool): ToolManifest {
  const { server, tool } = offered;
  return Object.freeze({
    id: `mcp:${server}:${tool.tool}`,
    name: tool.name,
    description: tool.description,
    replay: replayOf(offered),
    bindings: { mcp: { server, tool: tool.tool, digest: tool.digest } },
    discovery: { namespace: server },
  });
}

function replayOf({ connection, tool }: OfferedTool): ReplayPolicy {
  if (tool.builtin !== undefined) return "safe";
  if (!connection.settings.trustHints) return "unsafe";
  if (tool.hints?.isReadOnly === true) return "safe";
  return tool.hints?.isIdempotent === true ? "idempotent" : "unsafe";
}

const VALIDATORS = new WeakMap<KnownTool, Validator>();

function validatorOf(tool: KnownTool): Validator {
  const known = VALIDATORS.get(tool);
  if (known !== undefined) return known;
  const validator = (hasPattern(tool.inputSchema) ? undefined : schemaValidator(tool)) ?? OBJECTS;
  VALIDATORS.set(tool, validator);
  return validator;
}

function schemaValidator({ name, inputSchema }: KnownTool): Validator | undefined {
  try {
    return defineTool({ name, description: name, input: inputSchema, execute: () => null }).validator;
  } catch {
    return undefined; // A schema that is not understood here is the server's to check.
  }
}

const OBJECTS: Validator = Object.freeze({ validate: (value: Json) => ({ ok: true, value }) as const });

/** What a server writes must not run as a regular expression here: one can take for ever. */
function hasPattern(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(
    ([name, member]) =>
      name === "patternProperties" ||
      (name === "pattern" && typeof member === "string") ||
      hasPattern(member as Json),
  );
}

function isSame(one: Shown["lists"], other: Shown["lists"]): boolean {
  return one.length === other.length && one.every((list, index) => list === other[index]);
}

function digestIn(payload: Json | undefined): string | undefined {
  const { digest } = (payload ?? {}) as { readonly digest?: unknown };
  return typeof digest === "string" ? digest : undefined;
}

function serverIn(toolId: string): string {
  return toolId.split(":")[1] ?? toolId;
}
