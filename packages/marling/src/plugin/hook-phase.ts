// One phase: handlers of one hook that succeed or fail together.
//   HP1  a handler that answers at once costs no promise; the phase waits only for those that return one.
//   HP2  handlers of one plugin share the phase's draft of its state; all drafts are applied when the phase succeeds
//        and dropped when it fails.
//   HP3  the probe's end is told whatever happens.

import { isPromise } from "../base/deferred.ts";
import type { StateDelta } from "./durable.ts";
import { dropAll, type HeldDrafts, settleAll } from "./held-drafts.ts";
import { type HookSite, hookFailed, hookMustBeSynchronous, hookTimeout } from "./hook-error.ts";
import type { HookLimit } from "./hook-limit.ts";
import type { RegisteredHook } from "./hook-table.ts";
import { type Awaitable, HOOKS, type HookName } from "./hooks.ts";
import type { PluginState } from "./plugin-state.ts";
import { hookPhaseName, type PhaseProbe } from "./probe.ts";
import { enterScope, type StateScope } from "./state-scope.ts";
import type { StateScopes } from "./state-scopes.ts";

/** What a caller may give to a phase. */
export interface HookRunOptions {
  readonly probe?: PhaseProbe | undefined;
  /** The limit that holds in the place of the session's. */
  readonly limit?: HookLimit | undefined;
  /** Where the phase's state deltas go; by default the session keeps them for `takeDeltas`. */
  readonly deltas?: StateDelta[] | undefined;
  /** Holds what the phase drafts until that counts or is given up, with what phases before it drafted. */
  readonly held?: HeldDrafts | undefined;
}

/** Told of every handler that runs. Contract: synchronous, never throws; what `began` returns is called once. */
export interface HookWatcher {
  began(site: HookSite): (failed?: { readonly thrown: unknown }) => void;
}

/** What handlers are called with. */
export interface HookCall {
  readonly ctx: object;
  /** The second argument, where the hook has one. */
  readonly argument?: unknown;
}

export interface HookPhaseInit {
  readonly hook: HookName;
  readonly scopes: StateScopes;
  readonly limit: HookLimit;
  /** The name in the probe; absent for phases that no probe is told of. */
  readonly probed: string | undefined;
  readonly watcher: HookWatcher | undefined;
  /** Called with what a handler threw. */
  readonly onThrown: ((thrown: unknown) => void) | undefined;
  readonly options: HookRunOptions;
}

export class HookPhase {
  readonly #init: HookPhaseInit;
  #drafts: Map<PluginState, StateScope> | undefined;

  constructor(init: HookPhaseInit) {
    this.#init = init;
  }

  /** Runs one handler and reads its answer; every failure names plugin and hook. */
  ask<T>(entry: RegisteredHook, call: HookCall, read: (raw: unknown, site: HookSite) => T): Awaitable<T> {
    const { watcher } = this.#init;
    return watcher === undefined
      ? this.#ask(entry, call, read)
      : watched(watcher.began(entry.site), () => this.#ask(entry, call, read));
  }

  /** Applies what the handlers drafted: all of it, or nothing when a change cannot be made. */
  settle(): void {
    if (this.#drafts === undefined) return;
    const { scopes, hook, options } = this.#init;
    settleAll(this.#drafts, { scopes, hook, deltas: options.deltas });
  }

  drop(): void {
    dropAll(this.#drafts);
  }

  #ask<T>(entry: RegisteredHook, call: HookCall, read: (raw: unknown, site: HookSite) => T): Awaitable<T> {
    const { site } = entry;
    this.#begin(site);
    let returned: unknown;
    try {
      returned = this.#enter(entry, call);
    } catch (thrown) {
      this.#end(site);
      throw this.#failed(site, thrown);
    }
    if (isPromise(returned)) return this.#wait(site, returned, read);
    this.#end(site);
    return read(returned, site);
  }

  #enter(entry: RegisteredHook, { ctx, argument }: HookCall): unknown {
    const { state } = entry;
    if (state === undefined) return entry.call(ctx, argument);
    return enterScope(this.#draftOf(state), () => entry.call(ctx, argument));
  }

  #draftOf(state: PluginState): StateScope {
    this.#drafts ??= new Map();
    const known = this.#drafts.get(state);
    if (known !== undefined) return known;
    const { held } = this.#init.options;
    const scope = held === undefined ? state.open("sequential") : state.openUnder(held.of(state));
    this.#drafts.set(state, scope);
    return scope;
  }

  #wait<T>(
    site: HookSite,
    promise: PromiseLike<unknown>,
    read: (raw: unknown, site: HookSite) => T,
  ): Promise<T> {
    const { hook, limit } = this.#init;
    if (HOOKS[hook].isSynchronous === true) {
      promise.then(undefined, () => {});
      this.#end(site);
      throw hookMustBeSynchronous(site);
    }
    const answer = Promise.resolve(promise).catch((thrown: unknown) => {
      throw this.#failed(site, thrown);
    });
    return limit
      .race(answer, () => hookTimeout(site, limit.limitMs))
      .then((raw) => read(raw, site))
      .finally(() => this.#end(site));
  }

  #failed(site: HookSite, thrown: unknown): Error {
    this.#init.onThrown?.(thrown);
    return hookFailed(site, thrown);
  }

  #begin(site: HookSite): void {
    const { probed, options } = this.#init;
    if (probed !== undefined) options.probe?.beginNamed(hookPhaseName(probed, site.pluginId));
  }

  #end(site: HookSite): void {
    const { probed, options } = this.#init;
    if (probed !== undefined) options.probe?.endNamed(hookPhaseName(probed, site.pluginId));
  }
}

/** One handler, with its end told whatever it is. */
function watched<T>(ended: ReturnType<HookWatcher["began"]>, ask: () => Awaitable<T>): Awaitable<T> {
  try {
    const answer = ask();
    if (!isPromise(answer)) {
      ended();
      return answer;
    }
    answer.then(
      () => ended(),
      (thrown: unknown) => ended({ thrown }),
    );
    return answer;
  } catch (thrown) {
    ended({ thrown });
    throw thrown;
  }
}
