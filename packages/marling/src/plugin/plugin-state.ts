// The declared state of one plugin in one session.
//   PS1  a value has one working and one committed version; scopes draft on top of the working one.
//   PS2  settling a scope applies its whole draft or none of it; where the base moved meanwhile, the changes are made
//        again on the new base.
//   PS4  whoever drives a turn applies everything recorded of it before the first new write: of two deltas for one value the
//        one with the higher sequence holds, and it was made on the other.
//   PS3  the revision moves whenever the working values do, and never shows two different contents: undoing moves it too.

import { MarlingError } from "../base/errors.ts";
import { type Json, type JsonObject, jsonEqual } from "../model/json.ts";
import type { DurableOptions, DurableState, StateDelta } from "./durable.ts";
import { checkDurableOptions, StateCell, type StoredCell } from "./state-cell.ts";
import { type CellDraft, currentScope, type ScopeMode, StateScope } from "./state-scope.ts";

export type StoredState = { readonly [name: string]: StoredCell };

const DEFAULT_NAME = "state";

export class PluginState {
  readonly pluginId: string;
  readonly #cells = new Map<string, StateCell>();
  readonly #stored: StoredState;
  readonly #isFork: boolean;
  #revision = 0;
  /** The revision at the last commit or rollback. */
  #base = 0;
  #isSealed = false;

  constructor(
    pluginId: string,
    from: { readonly stored?: StoredState | undefined; readonly isFork?: boolean } = {},
  ) {
    this.pluginId = pluginId;
    this.#stored = from.stored ?? {};
    this.#isFork = from.isFork === true;
  }

  get isEmpty(): boolean {
    return this.#cells.size === 0;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Declares a value. It is loaded from the snapshot at once, so that `build` and `ready` see it. */
  declare<T>(options: DurableOptions<T>): DurableState<T> {
    const { pluginId } = this;
    if (this.#isSealed) {
      throw new MarlingError(
        "invalid_plugin",
        `plugin ${pluginId}: durable: state is declared in build and nowhere else`,
        { details: { pluginId, member: "durable" } },
      );
    }
    checkDurableOptions(options, pluginId);
    const name = options.name ?? DEFAULT_NAME;
    if (this.#cells.has(name)) {
      throw new MarlingError(
        "duplicate_state",
        `plugin ${pluginId}: state ${name} is declared twice; give each a name of its own`,
        { details: { pluginId, state: name } },
      );
    }
    const cell = new StateCell(pluginId, name, options as DurableOptions<unknown>);
    this.#load(cell, this.#stored);
    this.#cells.set(name, cell);
    return this.#handle<T>(cell);
  }

  /** No more declarations: `build` is over. */
  seal(): void {
    this.#isSealed = true;
  }

  open(mode: ScopeMode, sees: "working" | "committed" = "working"): StateScope {
    return new StateScope(this, { mode, sees });
  }

  /** A scope whose draft goes on from that of another one of this state, and is settled into it. */
  openUnder(under: StateScope): StateScope {
    return new StateScope(this, { mode: under.mode, under });
  }

  /** Applies the draft of a scope and ends it; the delta is what changed, if anything did. */
  settle(scope: StateScope): StateDelta | undefined {
    return this.prepare(scope)();
  }

  /** Ends a scope and works out what its draft comes to; nothing changes before the returned function is called. */
  prepare(scope: StateScope): () => StateDelta | undefined {
    if (!scope.isOpen) throw staleScope(this.pluginId, "its effect has ended");
    scope.close();
    const { under } = scope;
    if (under !== undefined) return () => settleInto(under, scope);
    const values = [...scope.drafts].map(([cell, draft]) => [cell, rebased(cell, draft)] as const);
    return () => this.#apply(values.filter(([cell, value]) => !jsonEqual(value, cell.working)));
  }

  /**
   * Takes over what an earlier run recorded. Deltas may arrive in any order; names that are gone are left out. Deltas
   * that follow on the last commit lead to the revision they led to then, whatever order effects that ran at once are
   * replayed in; for others the revision moves as for any change.
   */
  apply(delta: StateDelta): void {
    let isMoved = false;
    for (const [name, value] of Object.entries(delta.cells)) {
      const cell = this.#cells.get(name);
      if (cell === undefined || cell.sequence >= delta.sequence) continue;
      isMoved ||= !jsonEqual(cell.working, value);
      cell.working = value;
      cell.sequence = delta.sequence;
    }
    if (delta.sequence > this.#base) this.#revision = Math.max(this.#revision, delta.sequence);
    else if (isMoved) this.#revision += 1;
  }

  commit(): void {
    for (const cell of this.#cells.values()) cell.reset(cell.working);
    this.#base = this.#revision;
  }

  rollback(): void {
    let isMoved = false;
    for (const cell of this.#cells.values()) {
      isMoved ||= cell.working !== cell.committed;
      cell.reset(cell.committed);
    }
    if (isMoved) this.#revision += 1;
    this.#base = this.#revision;
  }

  /** The working values, as a snapshot keeps them. */
  store(): StoredState {
    const stored: { [name: string]: StoredCell } = {};
    for (const { name, version, working } of this.#cells.values())
      stored[name] = Object.freeze({ version, value: working });
    return Object.freeze(stored);
  }

  /** What `restore` would put in place, worked out before anything is. */
  decode(stored: StoredState): ReadonlyMap<StateCell, Json> {
    return new Map([...this.#cells.values()].map((cell) => [cell, cell.load(cellIn(stored, cell.name))]));
  }

  restore(values: ReadonlyMap<StateCell, Json>): void {
    let isMoved = false;
    for (const [cell, value] of values) {
      isMoved ||= !jsonEqual(cell.working, value);
      cell.reset(value);
    }
    if (isMoved) this.#revision += 1;
  }

  #apply(changed: readonly (readonly [StateCell, Json])[]): StateDelta | undefined {
    if (changed.length === 0) return undefined;
    this.#revision += 1;
    const cells: { [name: string]: Json } = {};
    for (const [cell, value] of changed) {
      cell.working = value;
      cell.sequence = this.#revision;
      cells[cell.name] = value;
    }
    return Object.freeze({ pluginId: this.pluginId, sequence: this.#revision, cells: Object.freeze(cells) });
  }

  #load(cell: StateCell, stored: StoredState): void {
    const kept = cellIn(stored, cell.name);
    const value = cell.load(kept);
    const own = this.#isFork && kept !== undefined ? cell.forked(value) : value;
    if (own !== value) this.#revision += 1;
    cell.reset(own);
  }

  #handle<T>(cell: StateCell): DurableState<T> {
    // A cell holds JSON that its schema accepted: T is what the plugin declared that to be.
    return Object.freeze({
      get: (): T => this.#read(cell) as T,
      set: (value: T): void => this.#set(cell, value),
      update: (change: (value: T) => T): void => this.#update(cell, (value) => change(value as T)),
    });
  }

  #read(cell: StateCell): Json {
    const scope = currentScope(this);
    if (scope === undefined || !scope.isOpen) return cell.working;
    const draft = scope.draftOf(cell);
    if (draft !== undefined) return draft.value;
    return scope.sees === "committed" ? cell.committed : cell.working;
  }

  #set(cell: StateCell, value: unknown): void {
    const scope = this.#writable(cell);
    if (scope.mode === "concurrent") {
      throw readOnly(
        cell,
        "set is not possible in a tool, because tools run at once: use update(fn) with a pure function of the value",
      );
    }
    const checked = cell.check(value);
    this.#draft(scope, cell, () => checked);
  }

  #update(cell: StateCell, change: (value: Json) => unknown): void {
    const scope = this.#writable(cell);
    this.#draft(scope, cell, (value) => cell.check(change(value)));
  }

  #writable(cell: StateCell): StateScope {
    const scope = currentScope(this);
    if (scope === undefined) {
      throw staleScope(
        this.pluginId,
        "no effect of this plugin is running: write in a hook, a tool, a command or a task",
      );
    }
    if (!scope.isOpen)
      throw staleScope(this.pluginId, "its effect has ended; await what writes before the hook returns");
    if (scope.mode === "read_only") throw readOnly(cell, "queries only read: write in a command or a task");
    return scope;
  }

  #draft(scope: StateScope, cell: StateCell, change: (value: Json) => Json): void {
    const draft = scope.drafts.get(cell);
    if (draft === undefined) {
      const below = scope.under?.draftOf(cell);
      const base = below === undefined ? cell.working : below.value;
      scope.drafts.set(cell, { base, value: change(base), changes: [change] });
      return;
    }
    draft.value = change(draft.value);
    draft.changes.push(change);
  }
}

function cellIn(stored: StoredState, name: string): StoredCell | undefined {
  return Object.hasOwn(stored, name) ? stored[name] : undefined;
}

function settleInto(under: StateScope, { drafts }: StateScope): undefined {
  if (under.isOpen) for (const [cell, draft] of drafts) under.take(cell, draft);
}

/** The value of a draft on the cell as it is now. */
function rebased(cell: StateCell, draft: CellDraft): Json {
  if (draft.base === cell.working) return draft.value;
  return draft.changes.reduce((value, change) => change(value), cell.working);
}

function staleScope(pluginId: string, reason: string): MarlingError {
  return new MarlingError("stale_scope", `plugin ${pluginId}: state cannot be written here: ${reason}`, {
    details: { pluginId },
  });
}

function readOnly(cell: StateCell, reason: string): MarlingError {
  const { pluginId, name } = cell;
  return new MarlingError("state_read_only", `plugin ${pluginId}: state ${name}: ${reason}`, {
    details: { pluginId, state: name },
  });
}

/** Reads the declared values of a snapshot entry. */
export function decodeStoredState(raw: JsonObject, where: string): StoredState {
  for (const [name, cell] of Object.entries(raw)) {
    const version = (cell as { readonly version?: unknown } | null)?.version;
    if (typeof version !== "number" || (cell as { readonly value?: unknown }).value === undefined) {
      throw new MarlingError(
        "invalid_snapshot",
        `${where}.${name}: expected an object with version and value`,
        { details: { where } },
      );
    }
  }
  return raw as unknown as StoredState;
}
