// Plugins whose hooks, projectors, operations and tools have a boundary before and after each call.

import type { Plugin, PluginParts } from "../../plugin/index.ts";
import { memberNames } from "./member-names.ts";
import { type Tools, type ToolWatch, watchedTools } from "./watched-tools.ts";

/** How the members of a part are watched. `calls`: every function in it, however deep. */
type Watching = "calls" | "tools" | "operations" | "nothing";

/** One row per part of a plugin; a part without a row does not compile. */
const PARTS: { readonly [K in keyof PluginParts]-?: Watching } = {
  tools: "tools",
  operations: "operations",
  prompt: "calls",
  toolCatalog: "calls",
  turn: "calls",
  toolCalls: "calls",
  toolResults: "calls",
  input: "calls",
  model: "calls",
  approval: "calls",
  recovery: "calls",
  output: "calls",
  session: "calls",
  context: "calls",
  execution: "calls",
  snapshot: "calls",
  restore: "calls",
  ready: "calls",
  dispose: "calls",
  background: "calls",
  monitors: "nothing", // data
  triggers: "nothing", // data
  revision: "nothing", // asked all the time, and pure
  protocol: "nothing", // pure, but for what it does by effects
};

export function watchedPlugin(plugin: Plugin, watch: ToolWatch): Plugin {
  return Object.freeze<Plugin>({
    ...plugin,
    decodeOptions: (raw) => plugin.decodeOptions(raw),
    build: (ctx) => watchedParts(plugin.build(ctx), plugin.id, watch),
  });
}

function watchedParts(parts: PluginParts, pluginId: string, watch: ToolWatch): PluginParts {
  const watched = Object.entries(parts).map(([name, part]: [string, unknown]) => {
    const watching = Object.hasOwn(PARTS, name) ? PARTS[name as keyof PluginParts] : "nothing";
    if (part === undefined) return [name, part];
    const path = `hook ${pluginId} ${name}`;
    if (watching === "tools") return [name, watchedTools(part as Tools, watch)];
    if (watching === "operations") return [name, watchedOperations(part as object, path, watch)];
    return [name, watching === "calls" ? watchedCalls(part, { path, watch, owner: parts }) : part];
  });
  return Object.fromEntries(watched);
}

/** Only handlers: what else an operation has are schemas. */
function watchedOperations(kinds: object, path: string, watch: ToolWatch): object {
  const watchOne = (name: string, operation: { readonly handler: unknown }): object => ({
    ...operation,
    handler: watchedCalls(operation.handler, { path: `${path} ${name}`, watch, owner: operation }),
  });
  const kindsOf = Object.entries(kinds).map(([kind, operations]) => {
    const entries = Object.entries((operations ?? {}) as Record<string, { readonly handler: unknown }>);
    return [kind, Object.fromEntries(entries.map(([name, one]) => [name, watchOne(name, one)]))];
  });
  return Object.fromEntries(kindsOf);
}

function watchedCalls(
  member: unknown,
  { path, watch, owner }: { readonly path: string; readonly watch: ToolWatch; readonly owner: object },
): unknown {
  if (typeof member === "function")
    return (...args: readonly unknown[]) =>
      watch.boundaries.around(path, () => Reflect.apply(member, owner, args));
  if (Array.isArray(member)) return member.map((one) => watchedCalls(one, { path, watch, owner: member }));
  if (typeof member !== "object" || member === null) return member;
  const members = member as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    memberNames(member).map((name) => [
      name,
      watchedCalls(members[name], { path: `${path}.${name}`, watch, owner: member }),
    ]),
  );
}
