// From what plugins built to the tables of a session. Nothing is registered before everything fits together.

import { MarlingError } from "../base/errors.ts";
import type { ToolProvider } from "../tool/contract.ts";
import { isToolDefinition, type ToolDefinition, toolProvider } from "../tool/define-tool.ts";
import type { HookTable, RegisteredHook } from "./hook-table.ts";
import { HOOKS, type HookName } from "./hooks.ts";
import { collectOperations, type OperationTable } from "./operation-table.ts";
import type { ContextCompactor, ContextTransform, PluginParts } from "./plugin.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import { HOOK_MEMBERS, invalidPlugin } from "./plugin-shape.ts";
import { fillSlots, type Slots } from "./slots.ts";
import { collectTriggers, type TriggerCatalog } from "./trigger.ts";

export interface OwnedProvider {
  readonly pluginId: string;
  readonly provider: ToolProvider;
}

export interface Registration {
  readonly hooks: HookTable;
  readonly slots: Slots;
  readonly triggers: TriggerCatalog;
  readonly operations: OperationTable;
  readonly providers: readonly OwnedProvider[];
}

/** Registers instances in order. Throws for a slot, a tool, a trigger or an operation with two owners, naming both. */
export function register(instances: readonly PluginInstance[]): Registration {
  const providers = instances.flatMap((instance) => providersOf(instance));
  refuseSharedTools(providers);
  return Object.freeze({
    hooks: collectHooks(instances),
    slots: fillSlots(instances),
    triggers: triggersOf(instances),
    operations: collectOperations(instances),
    providers,
  });
}

/** What instances declare as triggers. Throws `duplicate_trigger`. */
export function triggersOf(instances: readonly PluginInstance[]): TriggerCatalog {
  return collectTriggers(
    instances.map(({ id, parts }) => ({ pluginId: id, triggers: parts.triggers ?? [] })),
  );
}

/** Whether a plugin offers a tool of this name. */
export function offersTool(instance: PluginInstance, name: string): boolean {
  return providersOf(instance).some(({ provider }) =>
    provider.manifests().some((manifest) => manifest.name === name),
  );
}

function collectHooks(instances: readonly PluginInstance[]): HookTable {
  const names = Object.keys(HOOKS) as HookName[];
  const table = names.map((hook) => {
    const entries = instances.flatMap((instance) => handlersOf(instance, hook));
    return [hook, Object.freeze(entries.sort((a, b) => b.priority - a.priority))] as const;
  });
  return Object.freeze(Object.fromEntries(table)) as HookTable;
}

function handlersOf(instance: PluginInstance, hook: HookName): readonly RegisteredHook[] {
  const { id: pluginId, state, parts } = instance;
  return listOf(memberOf(parts, hook)).map((handler) => {
    const { priority, call } = callable(handler, hook);
    return Object.freeze({ pluginId, site: Object.freeze({ pluginId, hook }), state, priority, call });
  });
}

function memberOf(parts: PluginParts, hook: HookName): unknown {
  const [group, name] = HOOK_MEMBERS[hook];
  const member: unknown = parts[group];
  return name === undefined ? member : (member as { readonly [name: string]: unknown } | undefined)?.[name];
}

/** A handler of a hook on the context is an object with a priority; all others are functions. */
function callable(handler: unknown, hook: HookName): Pick<RegisteredHook, "priority" | "call"> {
  // The shape was checked: a handler is a function, or the object with the method of its hook.
  if (typeof handler === "function") return { priority: 0, call: (ctx, current) => handler(ctx, current) };
  const owner = handler as Partial<ContextTransform & ContextCompactor>;
  const method = hook === "context.compact" ? owner.compact : owner.transform;
  return { priority: owner.priority ?? 0, call: (method as RegisteredHook["call"]).bind(owner) };
}

function providersOf({ id: pluginId, parts }: PluginInstance): readonly OwnedProvider[] {
  const items = listOf(parts.tools as ToolProvider | readonly (ToolDefinition | ToolProvider)[] | undefined);
  const definitions = items.filter(isToolDefinition);
  const providers = items.filter((item): item is ToolProvider => !isToolDefinition(item));
  for (const provider of providers) checkProvider(provider, pluginId);
  const defined = definitions.length === 0 ? [] : [defineProvider(definitions, pluginId)];
  return [...defined, ...providers].map((provider) => ({ pluginId, provider }));
}

function defineProvider(definitions: readonly ToolDefinition[], pluginId: string): ToolProvider {
  try {
    return toolProvider(definitions);
  } catch (cause) {
    if (!MarlingError.is(cause)) throw cause;
    const details = { ...cause.details, pluginId };
    throw new MarlingError(cause.code, `plugin ${pluginId}: ${cause.message}`, { cause, details });
  }
}

function checkProvider(provider: ToolProvider, pluginId: string): void {
  const missing = (["manifests", "contract", "execute"] as const).find(
    (method) => typeof provider?.[method] !== "function",
  );
  if (missing !== undefined)
    throw invalidPlugin(
      pluginId,
      "tools",
      `tools made by defineTool, or providers with manifests, contract and execute; ${missing} is missing`,
    );
}

function refuseSharedTools(providers: readonly OwnedProvider[]): void {
  const owners = new Map<string, string>();
  for (const { pluginId, provider } of providers) {
    for (const { name } of provider.manifests()) {
      const owner = owners.get(name);
      if (owner !== undefined) throw sharedTool(name, owner, pluginId);
      owners.set(name, pluginId);
    }
  }
}

function sharedTool(name: string, owner: string, second: string): MarlingError {
  const message = `tool ${name}: expected one plugin to offer it, found plugin ${owner} and plugin ${second}`;
  return new MarlingError("duplicate_tool", message, { details: { tool: name, plugins: [owner, second] } });
}

function listOf<T>(value: T | readonly T[] | undefined): readonly T[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly T[]) : [value as T];
}
