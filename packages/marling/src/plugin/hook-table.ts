// The handlers of a session: one list per hook, each handler with its owner.

import type { HookSite } from "./hook-error.ts";
import type { HookName } from "./hooks.ts";
import type { PluginState } from "./plugin-state.ts";

/** A value that came out of a plugin, with the id of that plugin. */
export type PluginOwned<T> = { readonly pluginId: string; readonly value: T };

/** A handler as runners call it. What it returns is checked by the decoder of its hook. */
export interface RegisteredHook {
  readonly pluginId: string;
  /** What its failures are told with. */
  readonly site: HookSite;
  /** The plugin's declared state, if it has any. */
  readonly state: PluginState | undefined;
  /** Only hooks on the context carry one; 0 elsewhere. */
  readonly priority: number;
  readonly call: (ctx: object, current: unknown) => unknown;
}

export type HookTable = { readonly [K in HookName]: readonly RegisteredHook[] };

/** Hooks that belong to no turn. */
const OUTSIDE_TURNS: ReadonlySet<HookName> = new Set<HookName>(["input.before", "session.on_event"]);

/** The table with only the handlers of some plugins in the hooks of turns. */
export function limitedTable(table: HookTable, takesPart: (pluginId: string) => boolean): HookTable {
  const hooks = Object.entries(table) as [HookName, readonly RegisteredHook[]][];
  const limited = hooks.map(([hook, entries]) => [
    hook,
    OUTSIDE_TURNS.has(hook) ? entries : entries.filter(({ pluginId }) => takesPart(pluginId)),
  ]);
  return Object.freeze(Object.fromEntries(limited)) as HookTable;
}
