// The four runners. A hook is run by the runner of its kind; using another does not compile.
//   P1  collect: all handlers get the same frozen context, one after the other in order; answers are concatenated with
//       their owners; the first failure ends the phase and nothing of it is returned.
//   P2  waterfall: each handler gets what the one before left, as the same frozen context where that left it as it was.
//   P3  first: the first answer ends the search.
//   P4  notify: in order, the first failure ends it; `session.on_event` starts all at once and isolates failures.
//   P5  a hook without handlers costs nothing: no promise, no object.

import { type Clock, systemClock } from "../base/clock.ts";
import { isPromise } from "../base/deferred.ts";
import type { TurnIssue } from "../model/turn.ts";
import { type HookSite, issueOf } from "./hook-error.ts";
import { HookLimit } from "./hook-limit.ts";
import { type HookCall, HookPhase, type HookRunOptions, type HookWatcher } from "./hook-phase.ts";
import { readItem, readItems } from "./hook-result.ts";
import { type HookTable, limitedTable, type PluginOwned, type RegisteredHook } from "./hook-table.ts";
import {
  type Awaitable,
  HOOKS,
  type HookContext,
  type HookItem,
  type HookName,
  type HookNameOf,
} from "./hooks.ts";
import type { StateScopes } from "./state-scopes.ts";

export type { HookRunOptions } from "./hook-phase.ts";
export type { PluginOwned } from "./hook-table.ts";

/** How values flow through a waterfall: the context of each step, and what an answer makes of the flow. */
export interface Flow<K extends HookNameOf<"waterfall">, F> {
  readonly start: F;
  context(current: F): HookContext<K>;
  /** The second argument of the handlers, where the hook has one. */
  argument?(current: F): unknown;
  next(current: F, item: HookItem<K> | undefined, pluginId: string): F;
  /** True when the rest is not asked. */
  isDone?(current: F): boolean;
}

export interface HookRunnerOptions {
  readonly hookTimeoutMs: number;
  readonly clock?: Clock;
}

const NO_ISSUES: readonly TurnIssue[] = Object.freeze([]);
const NONE: readonly never[] = Object.freeze([]);
const NO_OPTIONS: HookRunOptions = Object.freeze({});

export class HookRunner {
  /** The time limit of the session's hooks; services that wait for an effect pause it. */
  readonly limit: HookLimit;
  /** Called with what a handler threw, before it becomes a failure of its hook. */
  onThrown: ((thrown: unknown) => void) | undefined;
  readonly #all: HookTable;
  #table: HookTable;
  readonly #scopes: StateScopes;
  #watcher: HookWatcher | undefined;

  constructor(table: HookTable, scopes: StateScopes, options: HookRunnerOptions) {
    this.#all = table;
    this.#table = table;
    this.#scopes = scopes;
    this.limit = new HookLimit(options.hookTimeoutMs, options.clock ?? systemClock);
  }

  /** From now on somebody is told of every handler. */
  watch(watcher: HookWatcher): void {
    this.#watcher = watcher;
  }

  /** Hooks of a turn are those of the plugins that `takesPart` names, until it is called without. Inputs and events concern all. */
  limitTurn(takesPart?: (pluginId: string) => boolean): void {
    this.#table = takesPart === undefined ? this.#all : limitedTable(this.#all, takesPart);
  }

  has(hook: HookName): boolean {
    return this.#table[hook].length > 0;
  }

  collect<K extends HookNameOf<"collect">>(
    hook: K,
    ctx: HookContext<K>,
    options: HookRunOptions = NO_OPTIONS,
  ): Awaitable<readonly PluginOwned<HookItem<K>>[]> {
    const entries = this.#table[hook];
    if (entries.length === 0) return NONE;
    return this.#collectFrom(entries, hook, ctx, options);
  }

  /** The handlers of a collecting hook one by one, for callers that decide between them. */
  each<K extends HookNameOf<"collect">>(
    hook: K,
    options: HookRunOptions = NO_OPTIONS,
  ): readonly { readonly pluginId: string; ask(ctx: HookContext<K>): Awaitable<readonly HookItem<K>[]> }[] {
    return this.#table[hook].map((entry) => ({
      pluginId: entry.pluginId,
      ask: (ctx) => {
        const owned = this.#collectFrom([entry], hook, ctx, options);
        return isPromise(owned) ? owned.then(valuesOf<HookItem<K>>) : valuesOf<HookItem<K>>(owned);
      },
    }));
  }

  waterfall<K extends HookNameOf<"waterfall">, F>(
    hook: K,
    flow: Flow<K, F>,
    options: HookRunOptions = NO_OPTIONS,
  ): Awaitable<F> {
    const entries = this.#table[hook];
    if (entries.length === 0) return flow.start;
    const phase = this.#phase(hook, options);
    let current = flow.start;
    let call: HookCall | undefined; // with `current`
    const read = (raw: unknown, site: HookSite): HookItem<K> | undefined => readItem(hook, raw, site);
    const take = (answer: HookItem<K> | undefined, { pluginId }: RegisteredHook): boolean => {
      const next = flow.next(current, answer, pluginId);
      if (next !== current) call = undefined;
      current = next;
      return flow.isDone?.(current) === true;
    };
    const step = (entry: RegisteredHook): Awaitable<boolean> => {
      call ??= { ctx: Object.freeze(flow.context(current)), argument: flow.argument?.(current) };
      const item = phase.ask(entry, call, read);
      return isPromise(item) ? item.then((answer) => take(answer, entry)) : take(item, entry);
    };
    return concluded(phase, inOrder(entries, step, phase), () => current);
  }

  /** A waterfall whose handlers fail for themselves: a failure leaves the flow as it was and is returned as an issue. */
  isolatedWaterfall<K extends HookNameOf<"waterfall">, F>(
    hook: K,
    flow: Flow<K, F>,
    options: HookRunOptions = NO_OPTIONS,
  ): Awaitable<{ readonly result: F; readonly issues: readonly TurnIssue[] }> {
    const entries = this.#table[hook];
    let current = flow.start;
    const issues: TurnIssue[] = [];
    const step = (entry: RegisteredHook): Awaitable<boolean> => {
      const phase = this.#phase(hook, options);
      const before = current;
      const read = (raw: unknown, site: HookSite): HookItem<K> | undefined => readItem(hook, raw, site);
      const call = { ctx: Object.freeze(flow.context(before)), argument: flow.argument?.(before) };
      const asked = attempt(phase, () => phase.ask(entry, call, read));
      const take = (answer: Attempted<HookItem<K> | undefined>): boolean => {
        if (answer.ok) current = flow.next(before, answer.value, entry.pluginId);
        else issues.push(issueOf(entry.site, answer.thrown, "plugin"));
        return false;
      };
      return isPromise(asked) ? asked.then(take) : take(asked);
    };
    const walked = inOrder(entries, step);
    return isPromise(walked) ? walked.then(() => ({ result: current, issues })) : { result: current, issues };
  }

  /** The first answer that `accepts` takes, with its owner. */
  first<K extends HookNameOf<"first">>(
    hook: K,
    ctx: HookContext<K>,
    options: HookRunOptions & { accepts?(item: HookItem<K>): boolean } = NO_OPTIONS,
  ): Awaitable<PluginOwned<HookItem<K>> | undefined> {
    const entries = this.#table[hook];
    if (entries.length === 0) return undefined;
    const phase = this.#phase(hook, options);
    const call = { ctx: Object.freeze(ctx) };
    let answer: PluginOwned<HookItem<K>> | undefined;
    const step = (entry: RegisteredHook): Awaitable<boolean> => {
      const item = phase.ask(entry, call, (raw, site) => readItem(hook, raw, site));
      const take = (value: HookItem<K> | undefined): boolean => {
        if (value === undefined || options.accepts?.(value) === false) return false;
        answer = { pluginId: entry.pluginId, value };
        return true;
      };
      return isPromise(item) ? item.then(take) : take(item);
    };
    return concluded(phase, inOrder(entries, step, phase), () => answer);
  }

  /** Tells everyone. What is returned are failures of handlers that run at once, ordered by plugin id. */
  notify<K extends HookNameOf<"notify">>(
    hook: K,
    ctx: HookContext<K>,
    options: HookRunOptions = NO_OPTIONS,
  ): Awaitable<readonly TurnIssue[]> {
    const entries = this.#table[hook];
    if (entries.length === 0) return NO_ISSUES;
    if (HOOKS[hook].isConcurrent === true) return this.#tellAtOnce(hook, ctx, options);
    const call = { ctx: Object.freeze(ctx) };
    const phase = this.#phase(hook, options);
    const step = (entry: RegisteredHook): Awaitable<boolean> => {
      const told = phase.ask(entry, call, ignored);
      return isPromise(told) ? told.then(goOn) : false;
    };
    return concluded(phase, inOrder(entries, step, phase), () => NO_ISSUES);
  }

  #collectFrom<K extends HookNameOf<"collect">>(
    entries: readonly RegisteredHook[],
    hook: K,
    ctx: HookContext<K>,
    options: HookRunOptions,
  ): Awaitable<readonly PluginOwned<HookItem<K>>[]> {
    const phase = this.#phase(hook, options);
    const call = { ctx: Object.freeze(ctx) };
    const read = (raw: unknown, site: HookSite): readonly HookItem<K>[] => readItems(hook, raw, site);
    const collected: PluginOwned<HookItem<K>>[] = [];
    const step = (entry: RegisteredHook): Awaitable<boolean> => {
      const { pluginId } = entry;
      const items = phase.ask(entry, call, read);
      const take = (values: readonly HookItem<K>[]): boolean => {
        for (const value of values) collected.push({ pluginId, value });
        return false;
      };
      return isPromise(items) ? items.then(take) : take(items);
    };
    return concluded(phase, inOrder(entries, step, phase), () => collected);
  }

  #tellAtOnce<K extends HookNameOf<"notify">>(
    hook: K,
    ctx: HookContext<K>,
    options: HookRunOptions,
  ): Awaitable<readonly TurnIssue[]> {
    const call = { ctx: Object.freeze(ctx) };
    const told = this.#table[hook].map((entry) => {
      const phase = this.#phase(hook, options, phaseOf(hook, ctx));
      const answer = attempt(phase, () => phase.ask(entry, call, ignored));
      const report = (attempted: Attempted<void>): TurnIssue | undefined =>
        attempted.ok ? undefined : issueOf(entry.site, attempted.thrown, "lifecycle_hook_failed");
      return isPromise(answer) ? answer.then(report) : report(answer);
    });
    if (told.some(isPromise)) return Promise.all(told).then(sortedIssues);
    return sortedIssues(told as readonly (TurnIssue | undefined)[]);
  }

  #phase(hook: HookName, options: HookRunOptions, probed: string | undefined = probedPhase(hook)): HookPhase {
    return new HookPhase({
      hook,
      scopes: this.#scopes,
      limit: options.limit ?? this.limit,
      probed,
      watcher: this.#watcher,
      onThrown: this.onThrown,
      options,
    });
  }
}

type Attempted<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly thrown: unknown };

/** Walks the handlers in order until one says so; a phase that fails is dropped. */
function inOrder(
  entries: readonly RegisteredHook[],
  step: (entry: RegisteredHook) => Awaitable<boolean>,
  phase?: HookPhase,
): Awaitable<void> {
  try {
    for (let index = 0; index < entries.length; index += 1) {
      const isDone = step(entries[index] as RegisteredHook);
      if (isPromise(isDone)) return theRest(entries.slice(index + 1), isDone, step).catch(dropping(phase));
      if (isDone) return;
    }
  } catch (thrown) {
    return dropping(phase)(thrown);
  }
}

async function theRest(
  entries: readonly RegisteredHook[],
  pending: PromiseLike<boolean>,
  step: (entry: RegisteredHook) => Awaitable<boolean>,
): Promise<void> {
  if (await pending) return;
  for (const entry of entries) {
    const isDone = step(entry);
    if (isPromise(isDone) ? await isDone : isDone) return;
  }
}

function dropping(phase: HookPhase | undefined): (thrown: unknown) => never {
  return (thrown) => {
    phase?.drop();
    throw thrown;
  };
}

/** The result of a phase whose handlers are done: their drafts are applied first. */
function concluded<T>(phase: HookPhase, walked: Awaitable<void>, result: () => T): Awaitable<T> {
  const conclude = (): T => {
    phase.settle();
    return result();
  };
  return isPromise(walked) ? walked.then(conclude) : conclude();
}

/** One handler as a phase of its own, whose failure is a value. */
function attempt<T>(phase: HookPhase, ask: () => Awaitable<T>): Awaitable<Attempted<T>> {
  const succeed = (value: T): Attempted<T> => {
    phase.settle();
    return { ok: true, value };
  };
  const fail = (thrown: unknown): Attempted<T> => {
    phase.drop();
    return { ok: false, thrown };
  };
  try {
    const answer = ask();
    return isPromise(answer) ? answer.then(succeed).catch(fail) : succeed(answer);
  } catch (thrown) {
    return fail(thrown);
  }
}

function sortedIssues(told: readonly (TurnIssue | undefined)[]): readonly TurnIssue[] {
  const issues = told.filter((issue) => issue !== undefined);
  return issues.sort((a, b) => compare(a.pluginId ?? "", b.pluginId ?? ""));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function valuesOf<T>(owned: readonly PluginOwned<T>[]): readonly T[] {
  return owned.map(({ value }) => value);
}

function ignored(_raw: unknown, _site: HookSite): void {}

function goOn(): boolean {
  return false;
}

/** The phase name of a hook that probes are told of. */
function probedPhase(hook: HookName): string | undefined {
  return HOOKS[hook].isProbed === true ? HOOKS[hook].phase : undefined;
}

/** Lifecycle events are phases by their own names. */
function phaseOf(hook: HookName, ctx: object): string | undefined {
  const kind = (ctx as { readonly kind?: unknown }).kind;
  return PROBED_EVENTS.find((probed) => probed === kind) ?? probedPhase(hook);
}

const PROBED_EVENTS: readonly string[] = [
  "turn_finalized",
  "turn_persisted",
  "session_restored",
  "session_config_changed",
];
