// Snapshots of plugins: a small record each, and named blobs.
//   SN1  a snapshot shares nothing with the plugin that wrote it: blobs are copied in and out.
//   SN2  of blobs with one name, the first is read.

import { MarlingError } from "../base/errors.ts";
import { decodeJsonObject, isJsonObject, type Json, type JsonObject } from "../model/json.ts";

export interface SnapshotMeta {
  readonly pluginId: string;
  readonly pluginVersion: string;
  readonly revision: number;
  readonly state?: Json;
  /** Declared state, by name. */
  readonly durable?: { readonly [name: string]: { readonly version: number; readonly value: Json } };
}

export interface SnapshotWriter {
  writeBlob(name: string, data: Uint8Array): void;
}

export interface SnapshotReader {
  /** The first blob with the name, if there is one. */
  readBlob(name: string): Uint8Array | undefined;
}

export interface SnapshotArtifact {
  readonly name: string;
  readonly data: Uint8Array;
}

export interface SnapshotEntry {
  readonly meta: SnapshotMeta;
  readonly artifacts: readonly SnapshotArtifact[];
}

export interface PluginSessionSnapshot {
  readonly plugins: { readonly [pluginId: string]: SnapshotEntry };
}

/** Collects the blobs of one plugin, in the order they are written. */
export class BlobWriter implements SnapshotWriter {
  readonly #where: string;
  readonly #artifacts: SnapshotArtifact[] = [];

  constructor(where: string) {
    this.#where = where;
  }

  writeBlob(name: string, data: Uint8Array): void {
    if (typeof name !== "string" || !(data instanceof Uint8Array)) {
      throw new MarlingError("snapshot_failed", `${this.#where}: writeBlob: expected a name and bytes`, {
        details: { where: this.#where },
      });
    }
    this.#artifacts.push(Object.freeze({ name, data: data.slice() }));
  }

  finish(): readonly SnapshotArtifact[] {
    return Object.freeze([...this.#artifacts]);
  }
}

export class BlobReader implements SnapshotReader {
  readonly #artifacts: readonly SnapshotArtifact[];

  constructor(artifacts: readonly SnapshotArtifact[]) {
    this.#artifacts = artifacts;
  }

  readBlob(name: string): Uint8Array | undefined {
    return this.#artifacts.find((artifact) => artifact.name === name)?.data.slice();
  }
}

export const EMPTY_READER: SnapshotReader = Object.freeze({ readBlob: () => undefined });

/** A snapshot as plain JSON, blobs in base64. */
export function encodePluginSnapshot(snapshot: PluginSessionSnapshot): JsonObject {
  const plugins = Object.entries(snapshot.plugins).map(([id, { meta, artifacts }]) => {
    const blobs = artifacts.map(({ name, data }) => ({ name, base64: Buffer.from(data).toString("base64") }));
    return [id, { meta: { ...meta }, artifacts: blobs }] as const;
  });
  return decodeJsonObject({ plugins: Object.fromEntries(plugins) }, "plugin snapshot");
}

/** A snapshot back from JSON. Throws `invalid_snapshot` naming the plugin. */
export function decodePluginSnapshot(raw: unknown): PluginSessionSnapshot {
  const { plugins } = decodeJsonObject(raw, "plugin snapshot");
  if (!isJsonObject(plugins)) throw refuse("plugins", "an object by plugin id");
  const entries = Object.entries(plugins).map(([id, entry]) => [id, decodeEntry(entry, id)] as const);
  return Object.freeze({ plugins: Object.freeze(Object.fromEntries(entries)) });
}

function decodeEntry(raw: Json, id: string): SnapshotEntry {
  const meta = isJsonObject(raw) ? raw.meta : undefined;
  const artifacts = isJsonObject(raw) ? raw.artifacts : undefined;
  if (!isJsonObject(meta) || !Array.isArray(artifacts))
    throw refuse(id, "an entry with `meta` and `artifacts`");
  if (typeof meta.pluginVersion !== "string" || typeof meta.revision !== "number")
    throw refuse(`${id}.meta`, "a version and a revision");
  return Object.freeze({
    meta: meta as unknown as SnapshotMeta,
    artifacts: Object.freeze(artifacts.map((item: Json) => decodeArtifact(item, id))),
  });
}

function decodeArtifact(raw: Json, id: string): SnapshotArtifact {
  const { name, base64 } = isJsonObject(raw) ? raw : {};
  if (typeof name !== "string" || typeof base64 !== "string")
    throw refuse(`${id}.artifacts`, "blobs with `name` and `base64`");
  return Object.freeze({ name, data: new Uint8Array(Buffer.from(base64, "base64")) });
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_snapshot", `plugin snapshot: ${where}: expected ${expected}`, {
    details: { where },
  });
}
