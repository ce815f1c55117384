// One plugin in one session: what its `build` returned, and its state.
//   PI1  the revision is that of the low-level form plus that of declared state; right after a restore it is the
//        snapshot's, and it moves with either of them from there.
//   PI2  snapshot, restore and ready are synchronous; a promise from them is an error that says so.

import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson } from "../model/json.ts";
import type { RuntimeSessionHost } from "./host-services.ts";
import type { PluginParts } from "./plugin.ts";
import { decodeStoredState, type PluginState, type StoredState } from "./plugin-state.ts";
import { BlobReader, BlobWriter, EMPTY_READER, type SnapshotEntry, type SnapshotMeta } from "./snapshot.ts";
import { enterScope } from "./state-scope.ts";

export interface PluginInstanceInit {
  readonly id: string;
  readonly version: string;
  readonly parts: PluginParts;
  /** Declared state; absent when the plugin declared none. */
  readonly state: PluginState | undefined;
  /** Added by the host and without state: no part of snapshots and fingerprints. */
  readonly isImplicit: boolean;
}

export class PluginInstance {
  readonly id: string;
  readonly version: string;
  readonly parts: PluginParts;
  readonly state: PluginState | undefined;
  readonly isImplicit: boolean;
  #revisionOffset = 0;

  constructor(init: PluginInstanceInit) {
    this.id = init.id;
    this.version = init.version;
    this.parts = init.parts;
    this.state = init.state;
    this.isImplicit = init.isImplicit;
  }

  get revision(): number {
    return this.#revisionOffset + this.#ownRevision() + (this.state?.revision ?? 0);
  }

  /** Whether its revision can move without a restore. */
  get canMove(): boolean {
    return this.parts.revision !== undefined || this.state !== undefined;
  }

  ready(sessionId: string, binding: { readonly host: RuntimeSessionHost }): void {
    const { ready } = this.parts;
    if (ready !== undefined) {
      const ctx = Object.freeze({ sessionId, host: binding.host });
      this.#write("ready", "plugin_failed", () => ready(ctx));
    }
    this.state?.commit();
  }

  /** The plugin's record: its own and its declared state, and its blobs. Throws `snapshot_failed`. */
  snapshot(): SnapshotEntry {
    const { id: pluginId, version: pluginVersion, parts, state } = this;
    const writer = new BlobWriter(`plugin ${pluginId}: snapshot`);
    const own = this.#call("snapshot", "snapshot_failed", () => parts.snapshot?.(writer));
    const durable = state?.store();
    const meta = Object.freeze({
      pluginId,
      pluginVersion,
      revision: this.revision,
      ...(own === undefined
        ? {}
        : { state: this.#call("snapshot", "snapshot_failed", () => decodeJson(own, "state")) }),
      ...(durable === undefined ? {} : { durable }),
    });
    return Object.freeze({ meta, artifacts: writer.finish() });
  }

  /** What restoring the entry would make of declared state, worked out before anything changes. */
  prepareRestore(entry: SnapshotEntry | undefined): () => void {
    const { state } = this;
    const values = state?.decode(storedState(entry, this.id));
    return () => {
      if (state !== undefined && values !== undefined) state.restore(values);
      this.restoreOwn(entry, state?.revision ?? 0);
    };
  }

  /**
   * Hands the entry to the low-level form; without one, a record that says "begin anew".
   * `restored` is the revision of declared state that has the entry's values.
   */
  restoreOwn(entry: SnapshotEntry | undefined, restored: number): void {
    const { id: pluginId, version: pluginVersion, parts } = this;
    const meta: SnapshotMeta =
      entry?.meta ?? Object.freeze({ pluginId, pluginVersion, revision: this.revision });
    const reader = entry === undefined ? EMPTY_READER : new BlobReader(entry.artifacts);
    if (parts.restore !== undefined)
      this.#write("restore", "snapshot_failed", () => parts.restore?.(meta, reader));
    this.state?.commit();
    if (entry !== undefined) this.#revisionOffset = meta.revision - this.#ownRevision() - restored;
  }

  async dispose(): Promise<void> {
    await this.parts.dispose?.();
  }

  #ownRevision(): number {
    const { revision } = this.parts;
    if (revision === undefined) return 0;
    const value = this.#call("revision", "snapshot_failed", () => revision());
    if (Number.isSafeInteger(value) && value >= 0) return value;
    throw new MarlingError(
      "snapshot_failed",
      `plugin ${this.id}: revision: expected a whole number, found ${String(value)}`,
      {
        details: { pluginId: this.id },
      },
    );
  }

  /** Calls a callback that may write declared state; what it writes holds at once. */
  #write(member: string, code: "plugin_failed" | "snapshot_failed", call: () => unknown): void {
    const { state } = this;
    const scope = state?.open("sequential");
    if (state === undefined || scope === undefined) {
      this.#call(member, code, call);
      return;
    }
    try {
      enterScope(scope, () => this.#call(member, code, call));
      state.settle(scope);
    } finally {
      scope.close();
    }
  }

  #call<T>(member: string, code: "plugin_failed" | "snapshot_failed", call: () => T): T {
    let returned: T;
    try {
      returned = call();
    } catch (cause) {
      throw new MarlingError(code, `plugin ${this.id}: ${member} failed: ${messageOf(cause)}`, {
        cause,
        details: { pluginId: this.id, member },
      });
    }
    if (!isPromise(returned)) return returned;
    returned.then(undefined, () => {});
    const message = `plugin ${this.id}: ${member} returned a promise; expected it to be synchronous`;
    throw new MarlingError("hook_must_be_synchronous", message, { details: { pluginId: this.id, member } });
  }
}

/** The declared values in an entry. */
export function storedState(entry: SnapshotEntry | undefined, pluginId: string): StoredState {
  return decodeStoredState(entry?.meta.durable ?? {}, `snapshot of plugin ${pluginId}: durable`);
}
