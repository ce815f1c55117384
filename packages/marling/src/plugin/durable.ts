// Declared plugin state, as plugins see it. The machinery is in plugin-state.ts and state-scopes.ts.
//   D1  what a hook writes goes into a draft of its effect; the draft is applied when the effect succeeds and dropped
//       when it throws, times out, is cancelled or is reset.
//   D2  a write after its scope has ended throws `stale_scope`.
//   D3  tools run at once, so they may only `update` with a pure function; it is applied when the tool settles.
//   D4  values are JSON, checked against the schema, and frozen.

import type { Json, JsonObject } from "../model/json.ts";
import type { Schema } from "../tool/contract.ts";

/** What a fork of the session begins with: a copy, the initial value, or what the function makes of the value. */
export type ForkPolicy<T> = "copy" | "reset" | ((value: T) => T);

export interface DurableOptions<T> {
  /** Names the state within its plugin; needed only when there are several. */
  readonly name?: string;
  readonly version: number;
  initial(): T;
  readonly schema?: Schema<T>;
  /** Turns a value of an older version into one of this version. */
  migrate?(value: Json, from: number): T;
  readonly fork?: ForkPolicy<T>;
}

export interface DurableState<T> {
  /** The value as the running code sees it: with its own writes, before the effect settles. */
  get(): T;
  set(value: T): void;
  /** Contract: `change` is pure; it may be applied again to a value that moved meanwhile. */
  update(change: (value: T) => T): void;
}

/** What one effect did to the state of one plugin: whole values by name. Plain JSON, recorded with the effect. */
export type StateDelta = {
  readonly pluginId: string;
  /** Moves by one with every delta of the plugin; of two deltas for one name, the higher one holds. */
  readonly sequence: number;
  readonly cells: JsonObject;
};
