// Drafts of the states of several plugins that are applied together or not at all.

import type { StateDelta } from "./durable.ts";
import { hookFailed } from "./hook-error.ts";
import type { HookName } from "./hooks.ts";
import type { PluginState } from "./plugin-state.ts";
import type { StateScope } from "./state-scope.ts";
import type { StateScopes } from "./state-scopes.ts";

export type Drafts = ReadonlyMap<PluginState, StateScope>;

export interface SettleOptions {
  readonly scopes: StateScopes;
  readonly hook: HookName;
  /** Where the deltas go; by default the session keeps them for `takeDeltas`. */
  readonly deltas?: StateDelta[] | undefined;
}

/** What the phases of one hook draft one after the other, such as those of one stream, until it counts or is given up. */
export class HeldDrafts {
  readonly #options: SettleOptions;
  #drafts = new Map<PluginState, StateScope>();

  constructor(options: SettleOptions) {
    this.#options = options;
  }

  /** The scope that phases of a plugin draft on top of. */
  of(state: PluginState): StateScope {
    const known = this.#drafts.get(state);
    if (known !== undefined) return known;
    const scope = state.open("sequential");
    this.#drafts.set(state, scope);
    return scope;
  }

  /** Applies what was drafted. What is drafted next begins anew. */
  settle(): void {
    settleAll(this.#take(), this.#options);
  }

  /** Forgets what was drafted. What is drafted next begins anew. */
  drop(): void {
    dropAll(this.#take());
  }

  #take(): Drafts {
    const drafts = this.#drafts;
    this.#drafts = new Map();
    return drafts;
  }
}

/** Applies drafts: all of them, or none when a change cannot be made. */
export function settleAll(drafts: Drafts, { scopes, hook, deltas }: SettleOptions): void {
  const ready = [...drafts].map(([state, scope]) => {
    try {
      return state.prepare(scope);
    } catch (thrown) {
      dropAll(drafts);
      throw hookFailed({ pluginId: state.pluginId, hook }, thrown);
    }
  });
  for (const apply of ready) scopes.keep(apply(), deltas);
}

export function dropAll(drafts: Drafts | undefined): void {
  for (const scope of drafts?.values() ?? []) scope.close();
}
