// The declared states of a session: scopes for the kernel to open, and the deltas that effects left behind.
//   SC1  the delta of a settled scope is returned and kept for `takeDeltas`, unless the scope was given a list of its own.
//   SC2  `commit` makes the working values the committed ones; `rollback` goes back to them; both forget kept deltas.
//   SC3  a plugin without declared state has no scope: `undefined` goes through every method at no cost.

import type { StateDelta } from "./durable.ts";
import type { PluginState } from "./plugin-state.ts";
import { enterScope, type ScopeMode, type StateScope } from "./state-scope.ts";

export interface OpenScope {
  readonly pluginId: string;
  readonly mode: ScopeMode;
  /** What reads see: values of the running turn (the default), or those of the last commit. */
  readonly sees?: "working" | "committed";
}

export interface DraftedEffect<T> extends Omit<OpenScope, "pluginId"> {
  readonly pluginIds: readonly string[];
  /** By default every effect that does not throw has succeeded. */
  hasSucceeded?(value: T): boolean;
  /** Nobody waits for the effect any more. */
  readonly signal?: AbortSignal | undefined;
  /** Where the deltas go; by default the session keeps them for `takeDeltas`. */
  readonly deltas?: StateDelta[] | undefined;
}

export class StateScopes {
  readonly #states: ReadonlyMap<string, PluginState>;
  #deltas: StateDelta[] = [];

  constructor(states: readonly PluginState[]) {
    this.#states = new Map(states.map((state) => [state.pluginId, state]));
  }

  /** The plugins that declared state. */
  get pluginIds(): readonly string[] {
    return [...this.#states.keys()];
  }

  /** Begins the draft of an effect; nothing for a plugin that declared no state. */
  openScope({ pluginId, mode, sees }: OpenScope): StateScope | undefined {
    return this.#states.get(pluginId)?.open(mode, sees);
  }

  runInScope<T>(scope: StateScope | undefined, run: () => T): T {
    return scope === undefined ? run() : enterScope(scope, run);
  }

  /** Applies a draft. Throws `stale_scope` for a scope that has ended, and what a change throws when it is made again. */
  settle(scope: StateScope | undefined, deltas: StateDelta[] = this.#deltas): StateDelta | undefined {
    const delta = scope?.owner.settle(scope);
    this.keep(delta, deltas);
    return delta;
  }

  /** Puts a delta where the effect that made it wants it. */
  keep(delta: StateDelta | undefined, deltas: StateDelta[] = this.#deltas): void {
    if (delta !== undefined) deltas.push(delta);
  }

  /**
   * Runs an effect in drafts of the states of some plugins. The drafts are applied, all or none, when the effect
   * succeeds. They are dropped when it throws, when `hasSucceeded` says that it did not, and as soon as `signal` aborts.
   */
  async runEffect<T>(effect: DraftedEffect<T>, run: () => T | Promise<T>): Promise<T> {
    const { hasSucceeded, signal } = effect;
    const opened = this.#openAll(effect);
    const close = (): void => {
      for (const scope of opened) scope.close();
    };
    signal?.addEventListener("abort", close, { once: true });
    const inside = opened.reduce((inner, scope) => () => enterScope(scope, inner), run);
    try {
      const value = await inside();
      if (signal?.aborted === true || hasSucceeded?.(value) === false) return value;
      const ready = opened.map((scope) => scope.owner.prepare(scope));
      for (const apply of ready) this.keep(apply(), effect.deltas);
      return value;
    } finally {
      signal?.removeEventListener("abort", close);
      close();
    }
  }

  /** Forgets a draft and ends its scope. */
  drop(scope: StateScope | undefined): void {
    scope?.close();
  }

  /** What settled since the last call, oldest first. */
  takeDeltas(): readonly StateDelta[] {
    const taken = this.#deltas;
    this.#deltas = [];
    return taken;
  }

  /** Takes over a recorded delta; one of a plugin that is gone changes nothing. */
  applyDelta(delta: StateDelta): void {
    this.#states.get(delta.pluginId)?.apply(delta);
  }

  commit(): void {
    for (const state of this.#states.values()) state.commit();
    this.#deltas = [];
  }

  rollback(): void {
    for (const state of this.#states.values()) state.rollback();
    this.#deltas = [];
  }

  #openAll({
    pluginIds,
    mode,
    sees,
  }: Pick<DraftedEffect<never>, "pluginIds" | "mode" | "sees">): readonly StateScope[] {
    return pluginIds.flatMap((pluginId) => this.#states.get(pluginId)?.open(mode, sees) ?? []);
  }
}
