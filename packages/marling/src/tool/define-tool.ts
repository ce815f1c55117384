// How a tool is written: a name, a description, a schema and a function. Everything else has a default.
//   TD1  a mistake in a definition is thrown where the tool is defined, naming the tool and the field.
//   TD2  a definition never changes, and its contract is made once.
//   TD3  names are what every provider of models accepts: letters, digits, _ and -, at most 64.

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json, type JsonObject } from "../model/json.ts";
import { isPendingResult, isToolOutput, type PendingResult, type ToolOutput } from "../model/tool-output.ts";
import { compactContract } from "./compact-contract.ts";
import type {
  ExecutableCall,
  PrepareContext,
  PreparedCall,
  PrepareResult,
  Schema,
  ToolCall,
  ToolContext,
  ToolContract,
  ToolManifest,
  ToolProvider,
  ToolValidator,
  ValidatedCall,
} from "./contract.ts";
import { decodeManifest } from "./manifest.ts";
import { checkToolOutput, toToolResult } from "./output.ts";
import { type CompiledSchema, compileSchema, isStandardSchema, jsonSchemaValidator } from "./schema.ts";

/** What `execute` is given: the output of a Standard Schema, or the arguments as JSON. */
export type ToolInput<I extends Schema> = I extends StandardSchemaV1<unknown, infer T> ? T : JsonObject;

/** What `execute` may return: what the output schema takes, when there is one, or a result of marling. */
export type ToolReturn<O> =
  O extends StandardSchemaV1<infer T, unknown> ? T | ToolOutput | PendingResult : unknown;

type ManifestFields = Omit<ToolManifest, "id" | "name" | "description" | "compactContract">;

/** What `defineTool` takes. Only `name`, `description`, `input` and `execute` are required. */
export interface ToolDeclaration<I extends Schema, O extends Schema | undefined> extends ManifestFields {
  readonly name: string;
  readonly description: string;
  /** Checks the arguments; must describe an object. */
  readonly input: I;
  /** The JSON Schema the model is shown, for a schema library that cannot say its own. */
  readonly inputSchema?: JsonObject;
  /** Checked on success; a value that does not fit is a failed call with code `invalid_tool_output`. */
  readonly output?: O;
  /** What session states know the tool by; the name unless given. */
  readonly id?: string;
  readonly examples?: readonly Json[];
  /** Runs once before the attempts. A returned output completes the call, any other value reaches `execute` as payload. */
  prepare?(input: ToolInput<I>, context: PrepareContext, call: ToolCall): unknown;
  /** Runs once per attempt. Any JSON value is success; a throw is a failure whose message the model reads. */
  execute(
    input: ToolInput<I>,
    context: ToolContext,
    call: PreparedCall,
  ): ToolReturn<O> | Promise<ToolReturn<O>>;
}

/** A tool, ready to be given to a runtime, a plugin or `toolProvider`. Frozen. */
export interface ToolDefinition<Input = unknown> {
  readonly name: string;
  readonly manifest: ToolManifest;
  contract(): ToolContract;
  readonly validator: ToolValidator;
  readonly outputValidator?: ToolValidator;
  prepare?(input: Input, context: PrepareContext, call: ToolCall): unknown;
  execute(input: Input, context: ToolContext, call: PreparedCall): unknown;
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

/** Defines a tool. Throws `invalid_tool` or `invalid_schema`, naming the tool and the field. */
export function defineTool<I extends Schema, O extends Schema | undefined = undefined>(
  declaration: ToolDeclaration<I, O>,
): ToolDefinition<ToolInput<I>> {
  const where = checkDeclaration(declaration);
  const input = compileInput(declaration, where);
  const output =
    declaration.output === undefined ? undefined : compileSchema(declaration.output, `${where}: output`);
  const made = makeContract(declaration, input, output);
  const contract = (): ToolContract => made;
  const manifest = makeManifest(declaration, compactContract({ name: declaration.name, contract }));
  const { prepare, execute } = declaration;
  return Object.freeze({
    name: manifest.name,
    manifest,
    contract,
    validator: input,
    ...(output === undefined ? {} : { outputValidator: output }),
    ...(prepare === undefined ? {} : { prepare: prepare.bind(declaration) }),
    execute: execute.bind(declaration),
  });
}

/** Offers defined tools. Throws `duplicate_tool` when two of them share a name or an id. */
export function toolProvider(definitions: readonly ToolDefinition[]): ToolProvider {
  const byName = index(definitions, "name");
  const byId = index(definitions, "id");
  const manifests = Object.freeze(definitions.map((definition) => definition.manifest));
  return Object.freeze<ToolProvider>({
    manifests: () => manifests,
    contract: (name) => byName.get(name)?.contract(),
    resolve: (key) => ("id" in key ? byId.get(key.id) : byName.get(key.name))?.manifest,
    validator: (name) => byName.get(name)?.validator,
    outputValidator: (name) => byName.get(name)?.outputValidator,
    ...(definitions.some(({ prepare }) => prepare !== undefined)
      ? { prepare: (call, context) => prepareDefined(definitionOf(byName, call.name), call, context) }
      : {}),
    execute: (call, context) => executeDefined(definitionOf(byName, call.name), call, context),
  });
}

/** Recognises a defined tool among things a host may list as tools. */
export function isToolDefinition(value: unknown): value is ToolDefinition {
  return (
    typeof value === "object" &&
    value !== null &&
    "manifest" in value &&
    "validator" in value &&
    "execute" in value
  );
}

function checkDeclaration(declaration: unknown): string {
  if (typeof declaration !== "object" || declaration === null)
    throw refuse("defineTool", "an object", declaration);
  const { name, description, input, execute, prepare }: Partial<Record<string, unknown>> = { ...declaration };
  if (typeof name !== "string" || !NAME.test(name)) {
    throw refuse("defineTool: name", "1 to 64 letters, digits, _ or -", name);
  }
  const where = `tool ${name}`;
  if (typeof description !== "string" || description.trim() === "")
    throw refuse(`${where}: description`, "some words", description);
  if (input === undefined || input === null) throw refuse(`${where}: input`, "a schema", input);
  if (typeof execute !== "function") throw refuse(`${where}: execute`, "a function", execute);
  if (prepare !== undefined && typeof prepare !== "function")
    throw refuse(`${where}: prepare`, "a function", prepare);
  return where;
}

/** Arguments are always an object, so a schema that leaves the type open gets it, and one with another type is refused. */
function compileInput(
  declaration: ToolDeclaration<Schema, Schema | undefined>,
  where: string,
): CompiledSchema {
  const { input, inputSchema } = declaration;
  const place = `${where}: input`;
  const compiled = compileSchema(input, place, {
    mustDescribe: true,
    ...(inputSchema === undefined ? {} : { jsonSchema: inputSchema }),
  });
  const { type } = compiled.jsonSchema;
  if (type === "object") return compiled;
  if (type !== undefined) throw refuse(place, "a schema of an object", type);
  const jsonSchema: JsonObject = Object.freeze({ type: "object", ...compiled.jsonSchema });
  return Object.freeze({
    ...(isStandardSchema(input) ? compiled : jsonSchemaValidator(jsonSchema, place)),
    jsonSchema,
  });
}

function makeContract(
  { examples }: ToolDeclaration<Schema, Schema | undefined>,
  input: CompiledSchema,
  output: CompiledSchema | undefined,
): ToolContract {
  return Object.freeze({
    inputSchema: input.jsonSchema,
    ...(output === undefined ? {} : { outputSchema: output.jsonSchema }),
    ...(examples === undefined
      ? {}
      : { examples: examples.map((example) => decodeJson(example, "examples")) }),
  });
}

const MANIFEST_FIELDS: { readonly [K in keyof ManifestFields]-?: true } = {
  activation: true,
  argumentProjection: true,
  availability: true,
  bindings: true,
  discovery: true,
  execution: true,
  isOrchestrating: true,
  pathArgs: true,
  replay: true,
  retry: true,
  timeoutMs: true,
};

function makeManifest(
  declaration: ToolDeclaration<Schema, Schema | undefined>,
  signature: string,
): ToolManifest {
  const { id, name, description } = declaration;
  const given = Object.entries(declaration).filter(([field]) => Object.hasOwn(MANIFEST_FIELDS, field));
  return decodeManifest(
    { id: id ?? name, name, description, compactContract: signature, ...Object.fromEntries(given) },
    "defineTool",
  );
}

function index(
  definitions: readonly ToolDefinition[],
  by: "name" | "id",
): ReadonlyMap<string, ToolDefinition> {
  const found = new Map<string, ToolDefinition>();
  for (const definition of definitions) {
    const key = definition.manifest[by];
    if (found.has(key)) {
      throw new MarlingError("duplicate_tool", `tools: expected one tool with the ${by} ${key}, found two`, {
        details: { tool: key },
      });
    }
    found.set(key, definition);
  }
  return found;
}

function definitionOf(byName: ReadonlyMap<string, ToolDefinition>, name: string): ToolDefinition {
  const definition = byName.get(name);
  if (definition !== undefined) return definition;
  throw new MarlingError(
    "unknown_tool",
    `tools: expected one of ${[...byName.keys()].join(", ")}, found ${name}`,
    { details: { tool: name } },
  );
}

async function prepareDefined(
  definition: ToolDefinition,
  call: ValidatedCall,
  context: PrepareContext,
): Promise<PrepareResult> {
  const { input, ...plain } = call;
  const made = await definition.prepare?.(input, context, plain);
  if (isToolOutput(made)) return { kind: "completed", output: made };
  if (made === undefined) return { kind: "prepared", call: plain };
  return {
    kind: "prepared",
    call: { ...plain, payload: decodeJson(made, `tool ${definition.name}: what prepare returned`) },
  };
}

async function executeDefined(
  definition: ToolDefinition,
  call: ExecutableCall,
  context: ToolContext,
): Promise<ToolOutput | PendingResult> {
  const { input, ...prepared } = call;
  const { name, outputValidator: validator } = definition;
  const result = toToolResult(await definition.execute(input, context, prepared), name);
  if (isPendingResult(result) || validator === undefined) return result;
  return checkToolOutput(result, name, { validator });
}

function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown =
    found === undefined ? "nothing" : typeof found === "function" ? "a function" : JSON.stringify(found);
  return new MarlingError("invalid_tool", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}
