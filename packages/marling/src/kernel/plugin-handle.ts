// The operations of one plugin with their types: session.plugin(guard).query.count({}).

import { MarlingError } from "../base/errors.ts";
import type { ToolOutput } from "../model/tool-output.ts";
import type { PluginDefinition } from "../plugin/plugin.ts";
import type { CommandReceipt, OperationOptions } from "./operations.ts";
import type { Session } from "./session.ts";

type PartsOf<P> = P extends PluginDefinition<infer _O, infer Parts> ? Parts : never;
type OperationsOf<P, Kind extends string> =
  PartsOf<P> extends { readonly operations?: infer Ops }
    ? NonNullable<Ops> extends { readonly [K in Kind]: infer Named }
      ? Named
      : Record<never, never>
    : Record<never, never>;
type ShortName<P, Name> = P extends { readonly id: infer Id extends string }
  ? Name extends `${Id}.${infer Short}`
    ? Short
    : Name
  : Name;
type ArgsOf<Op> = Op extends { handler(ctx: never, args: infer Args): unknown } ? Args : never;
type ResultOf<Op> = Op extends { handler(...args: never[]): infer Result } ? Awaited<Result> : never;

export interface PluginHandle<P> {
  readonly query: {
    readonly [Name in keyof OperationsOf<P, "queries"> as ShortName<P, Name> & string]: (
      args: ArgsOf<OperationsOf<P, "queries">[Name]>,
      options?: OperationOptions,
    ) => Promise<ResultOf<OperationsOf<P, "queries">[Name]>>;
  };
  readonly command: {
    readonly [Name in keyof OperationsOf<P, "commands"> as ShortName<P, Name> & string]: (
      args: ArgsOf<OperationsOf<P, "commands">[Name]>,
      options?: OperationOptions,
    ) => Promise<CommandReceipt>;
  };
  readonly task: {
    readonly [Name in keyof OperationsOf<P, "tasks"> as ShortName<P, Name> & string]: (
      args: ArgsOf<OperationsOf<P, "tasks">[Name]>,
      options?: OperationOptions,
    ) => Promise<CommandReceipt>;
  };
  readonly action: {
    readonly [Name in keyof OperationsOf<P, "actions"> as ShortName<P, Name> & string]: (
      args: ArgsOf<OperationsOf<P, "actions">[Name]>,
      options?: OperationOptions,
    ) => Promise<ToolOutput>;
  };
}

type Caller = (name: string, args: unknown, options?: OperationOptions) => Promise<unknown>;

export function pluginHandle<P extends PluginDefinition>(session: Session, plugin: P): PluginHandle<P> {
  const defs = session.operations().filter((def) => def.pluginId === plugin.id);
  const callers: Readonly<Record<string, Caller>> = {
    query: (name, args, options) => session.query(name, args, options),
    command: (name, args, options) => session.command(name, args, options),
    task: (name, args, options) => session.task(name, args, options),
    action: (name, args, options) => session.action(name, args, options),
  };
  if (defs.length === 0)
    throw new MarlingError(
      "unknown_plugin",
      `session ${session.id}: expected a plugin ${plugin.id} with operations, found none`,
      { details: { pluginId: plugin.id } },
    );
  const handle: Record<string, Record<string, unknown>> = { query: {}, command: {}, task: {}, action: {} };
  for (const { kind, name } of defs) {
    const short = name.startsWith(`${plugin.id}.`) ? name.slice(plugin.id.length + 1) : name;
    const call = callers[kind] as Caller;
    (handle[kind] as Record<string, unknown>)[short] = (args: unknown, options?: OperationOptions) =>
      call(name, args, options);
  }
  return handle as unknown as PluginHandle<P>;
}
