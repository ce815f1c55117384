// Which effect a write to plugin state belongs to. User code is given no scope; it is found by the state it writes.
//   SS1  the scopes of the running code form a list, innermost first; a write belongs to the first scope of its owner,
//        so that sessions inside sessions keep their states apart.
//   SS3  a scope under another one goes on from its draft, and settles into it: what several phases draft is kept apart
//        until all of it counts or none does.
//   SS2  only plugins with declared state enter a scope: others cost nothing.

import { AsyncLocalStorage } from "node:async_hooks";
import type { Json } from "../model/json.ts";
import type { PluginState } from "./plugin-state.ts";
import type { StateCell } from "./state-cell.ts";

/** `sequential` may write as it likes, `concurrent` only by functions of the value, `read_only` not at all. */
export type ScopeMode = "sequential" | "concurrent" | "read_only";

/** What a scope did to one cell: the value as the scope sees it, and how to get there from another base. */
export interface CellDraft {
  base: Json;
  value: Json;
  readonly changes: ((value: Json) => Json)[];
}

/** The draft of one effect for one plugin. */
export class StateScope {
  readonly owner: PluginState;
  readonly mode: ScopeMode;
  /** What reads see where nothing was drafted. */
  readonly sees: "working" | "committed";
  /** The scope whose draft this one goes on from. */
  readonly under: StateScope | undefined;
  readonly drafts: Map<StateCell, CellDraft> = new Map();
  #isOpen = true;

  constructor(
    owner: PluginState,
    options: {
      readonly mode: ScopeMode;
      readonly sees?: "working" | "committed";
      readonly under?: StateScope | undefined;
    },
  ) {
    this.owner = owner;
    this.mode = options.mode;
    this.sees = options.sees ?? "working";
    this.under = options.under;
  }

  /** What was drafted for a cell, here or before. */
  draftOf(cell: StateCell): CellDraft | undefined {
    return this.drafts.get(cell) ?? this.under?.draftOf(cell);
  }

  /** Goes on with a draft from where another one, made on top of it, left a cell. */
  take(cell: StateCell, { base, value, changes }: CellDraft): void {
    const before = this.drafts.get(cell);
    if (before === undefined) this.drafts.set(cell, { base, value, changes });
    else {
      before.value = value;
      before.changes.push(...changes);
    }
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Ends the scope; later writes are stale. */
  close(): void {
    this.#isOpen = false;
  }
}

interface ScopeLink {
  readonly scope: StateScope;
  readonly parent: ScopeLink | undefined;
}

const links = new AsyncLocalStorage<ScopeLink>();

/** Runs code in a scope; what it starts and does not wait for stays attributed to the scope. */
export function enterScope<T>(scope: StateScope, run: () => T): T {
  return links.run({ scope, parent: links.getStore() }, run);
}

/** The innermost scope of a plugin's state around the running code. */
export function currentScope(owner: PluginState): StateScope | undefined {
  let link = links.getStore();
  while (link !== undefined && link.scope.owner !== owner) link = link.parent;
  return link?.scope;
}
