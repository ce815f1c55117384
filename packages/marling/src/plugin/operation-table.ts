// The operations of a session by name: all kinds share one namespace.

import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { Schema, ToolValidator } from "../tool/contract.ts";
import type { CompiledSchema } from "../tool/schema.ts";
import type { Operation, OperationDef, OperationKind, PluginOperations } from "./operation.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import { invalidPlugin } from "./plugin-shape.ts";
import { compileOnce } from "./schema-check.ts";

export interface RegisteredOperation {
  readonly def: OperationDef;
  readonly input: ToolValidator | undefined;
  readonly output: ToolValidator | undefined;
  call(ctx: object, args: unknown): unknown;
}

export type OperationTable = ReadonlyMap<string, RegisteredOperation>;

const KINDS = { queries: "query", commands: "command", tasks: "task", actions: "action" } as const satisfies {
  readonly [M in keyof PluginOperations]-?: OperationKind;
};
const ORDER: readonly OperationKind[] = ["query", "command", "task", "action"];
const MEMBERS = ["session", "description", "input", "output", "handler"];

/** Collects operations. Throws `duplicate_operation` for a name that any kind of any plugin has already. */
export function collectOperations(instances: readonly PluginInstance[]): OperationTable {
  const table = new Map<string, RegisteredOperation>();
  for (const { id: pluginId, parts } of instances) {
    for (const [member, kind] of Object.entries(KINDS)) {
      for (const [name, raw] of Object.entries(parts.operations?.[member as keyof PluginOperations] ?? {})) {
        const known = table.get(name);
        if (known !== undefined) throw duplicate(known.def, { kind, pluginId });
        table.set(
          name,
          compileOperation(raw, { name, kind, pluginId, member: `operations.${member}.${name}` }),
        );
      }
    }
  }
  return table;
}

/** The definitions of some kinds: kinds in their order, names in theirs. */
export function listOperations(
  table: OperationTable,
  kinds: readonly OperationKind[],
): readonly OperationDef[] {
  const byName = (a: OperationDef, b: OperationDef): number =>
    a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  const defs = [...table.values()].map(({ def }) => def);
  return ORDER.filter((kind) => kinds.includes(kind)).flatMap((kind) =>
    defs.filter((def) => def.kind === kind).sort(byName),
  );
}

interface Place {
  readonly name: string;
  readonly kind: OperationKind;
  readonly pluginId: string;
  readonly member: string;
}

function compileOperation(raw: unknown, place: Place): RegisteredOperation {
  const { name, kind, pluginId } = place;
  const operation = checkOperation(raw, place);
  const { session = "optional", description = "" } = operation;
  const input = compile(operation.input, `operation ${name}: input`);
  const output = compile(operation.output, `operation ${name}: output`);
  const def: OperationDef = Object.freeze({
    name,
    description,
    kind,
    session,
    inputSchema: input?.jsonSchema ?? {},
    outputSchema: output?.jsonSchema ?? {},
    pluginId,
  });
  return Object.freeze({
    def,
    input,
    output,
    call: (ctx: object, args: unknown) => operation.handler(ctx, args as Json),
  });
}

function checkOperation(raw: unknown, { pluginId, member, name }: Place): Operation<object> {
  if (name.trim() === "") throw invalidPlugin(pluginId, member, "a name that is not blank");
  if (typeof raw !== "object" || raw === null)
    throw invalidPlugin(pluginId, member, "an operation with a handler");
  const operation = raw as { readonly [member: string]: unknown };
  const unknown = Object.keys(operation).find((key) => !MEMBERS.includes(key));
  if (unknown !== undefined)
    throw invalidPlugin(pluginId, `${member}.${unknown}`, `one of ${MEMBERS.join(", ")}`);
  const { session, description, handler } = operation;
  if (typeof handler !== "function")
    throw invalidPlugin(pluginId, `${member}.handler`, `a function, found ${typeof handler}`);
  if (description !== undefined && typeof description !== "string")
    throw invalidPlugin(pluginId, `${member}.description`, "a string");
  if (session !== undefined && session !== "required" && session !== "optional" && session !== "forbidden") {
    throw invalidPlugin(
      pluginId,
      `${member}.session`,
      `required, optional or forbidden, found ${JSON.stringify(session)}`,
    );
  }
  return operation as unknown as Operation<object>;
}

function compile(schema: Schema | undefined, where: string): CompiledSchema | undefined {
  return schema === undefined ? undefined : compileOnce(schema, where);
}

function duplicate(
  known: OperationDef,
  second: { readonly kind: OperationKind; readonly pluginId: string },
): MarlingError {
  const { name, kind, pluginId } = known;
  const message = `operation ${name}: expected one owner, found ${kind} of plugin ${pluginId} and ${second.kind} of plugin ${second.pluginId}`;
  return new MarlingError("duplicate_operation", message, {
    details: { operation: name, plugins: [pluginId, second.pluginId] },
  });
}
