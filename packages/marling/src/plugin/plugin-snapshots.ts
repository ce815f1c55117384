// Snapshots of the plugins of a session. Plugins that the host added by itself have no part in them.

import { revisionFingerprint } from "./fingerprint.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import type { PluginSessionSnapshot, SnapshotEntry } from "./snapshot.ts";

export class PluginSnapshots {
  readonly #instances: readonly PluginInstance[];
  /** Those whose revision moves by itself; all move with a restore. */
  readonly #moving: readonly PluginInstance[];
  #fingerprint: { readonly revisions: readonly number[]; readonly value: bigint } | undefined;

  constructor(instances: readonly PluginInstance[]) {
    this.#instances = instances.filter(({ isImplicit }) => !isImplicit);
    this.#moving = this.#instances.filter(({ canMove }) => canMove);
  }

  /** All plugins in build order; one that fails fails the snapshot. */
  take(): PluginSessionSnapshot {
    const entries = this.#instances.map((instance) => [instance.id, instance.snapshot()] as const);
    return Object.freeze({ plugins: Object.freeze(Object.fromEntries(entries)) });
  }

  isCurrent(previous: PluginSessionSnapshot | undefined): boolean {
    if (previous === undefined || Object.keys(previous.plugins).length !== this.#instances.length)
      return false;
    return this.#instances.every(({ id, version, revision }) => {
      const meta = entryOf(previous, id)?.meta;
      return meta?.pluginVersion === version && meta.revision === revision;
    });
  }

  /** Asked for several times in a turn: nothing is made where nothing moved. */
  fingerprint(): bigint {
    const known = this.#fingerprint;
    if (known !== undefined && this.#isAt(known.revisions)) return known.value;
    const revisions = this.#moving.map(({ revision }) => revision);
    const value = revisionFingerprint(this.#instances);
    this.#fingerprint = { revisions, value };
    return value;
  }

  #isAt(revisions: readonly number[]): boolean {
    for (let index = 0; index < revisions.length; index += 1)
      if (this.#moving[index]?.revision !== revisions[index]) return false;
    return true;
  }

  /** Everything that can be found out beforehand is found out before the first plugin changes. */
  restore(snapshot: PluginSessionSnapshot): void {
    const restores = this.#instances.map((instance) =>
      instance.prepareRestore(entryOf(snapshot, instance.id)),
    );
    try {
      for (const restore of restores) restore();
    } finally {
      this.#fingerprint = undefined;
    }
  }
}

/** The part of a plugin in a snapshot, if it has one. */
export function entryOf(snapshot: PluginSessionSnapshot | undefined, id: string): SnapshotEntry | undefined {
  return snapshot !== undefined && Object.hasOwn(snapshot.plugins, id) ? snapshot.plugins[id] : undefined;
}
