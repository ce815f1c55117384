// The registry as a value. Each operation of the registry is a function from one version to the next.

import { MarlingError } from "../base/errors.ts";
import type { ToolKey, ToolManifest, ToolState, ToolStateEntry } from "./contract.ts";
import { findSource, reconcile } from "./reconcile.ts";
import { type RegisteredSource, type SourceMap, withoutSource, withSource } from "./tool-source.ts";
import { type EntryMap, exportEntries, makeOrphan, makeState, type ToolEntry } from "./tool-state.ts";

/** All that an operation replaces. */
export interface RegistryVersion {
  readonly sources: SourceMap;
  readonly entries: EntryMap;
  readonly generation: number;
  /** The source that has the tools it shares with others. */
  readonly preferred: string | undefined;
}

export const EMPTY_VERSION: RegistryVersion = Object.freeze({
  sources: new Map(),
  entries: new Map(),
  generation: 0,
  preferred: undefined,
});

const NAMES = new WeakMap<EntryMap, ReadonlyMap<string, string>>();

export function entryOf({ entries }: RegistryVersion, key: ToolKey): ToolEntry | undefined {
  if ("id" in key) return entries.get(key.id);
  const ids = NAMES.get(entries) ?? new Map([...entries].map(([id, { state }]) => [state.manifest.name, id]));
  NAMES.set(entries, ids);
  const id = ids.get(key.name);
  return id === undefined ? undefined : entries.get(id);
}

/** Reads the sources again; the generation moves only when the tools did. */
export function rebuilt(version: RegistryVersion): RegistryVersion {
  const next = restored(version, exportEntries(version.generation, version.entries));
  const isSame = next.generation === version.generation && sameBindings(next.entries, version.entries);
  return isSame ? version : next;
}

/** Takes over a state for the tools that are there now. */
export function restored(version: RegistryVersion, { generation, tools }: ToolState): RegistryVersion {
  const { entries, changed } = reconcile({ ...version, mode: "live", tools });
  return { ...version, entries, generation: changed ? following(generation) : generation };
}

/** Takes over a state of this very generation as it is. */
export function applied(version: RegistryVersion, { generation, tools }: ToolState): RegistryVersion {
  if (generation !== version.generation) {
    const message = `tool state: expected generation ${version.generation}, found ${generation}`;
    throw new MarlingError("generation_mismatch", message, {
      details: { expected: version.generation, found: generation },
    });
  }
  const { entries } = reconcile({ ...version, mode: "snapshot", tools });
  return { ...version, entries, generation: following(generation) };
}

export function withSources(
  version: RegistryVersion,
  sources: readonly RegisteredSource[],
  options: { readonly preferred?: boolean } = {},
): RegistryVersion {
  const others = sources.some(({ id }) => id === version.preferred) ? undefined : version.preferred;
  return rebuilt({
    ...version,
    sources: sources.reduce(withSource, version.sources),
    preferred: options.preferred === true ? sources[0]?.id : others,
  });
}

/** Drops a source with its tools and their settings. */
export function withoutSourceOf(version: RegistryVersion, id: string): RegistryVersion {
  const { sources, entries, generation, preferred } = version;
  if (!sources.has(id)) {
    const known = [...sources.keys()].join(", ") || "none";
    throw new MarlingError(
      "unknown_tool_source",
      `tools: expected one of the sources ${known}, found ${id}`,
      { details: { source: id } },
    );
  }
  return {
    sources: withoutSource(sources, id),
    entries: new Map([...entries].filter(([, entry]) => entry.sourceId !== id)),
    generation: following(generation),
    preferred: preferred === id ? undefined : preferred,
  };
}

/** Keeps a tool that a source resolves without advertising it; the same version when no source does. */
export function withUnadvertised(version: RegistryVersion, key: ToolKey): RegistryVersion {
  const found = findSource(version.sources, key, version);
  if (found === undefined) return version;
  const { manifest, sourceId } = found;
  if (version.entries.has(manifest.id)) return rebuilt(version); // Known under another name: it was renamed.
  const rival = entryOf(version, { name: manifest.name });
  if (rival?.sourceId !== undefined) throw taken(manifest, rival.sourceId);
  const kept = [...version.entries].filter(([, entry]) => entry !== rival);
  const added: [string, ToolEntry] = [manifest.id, { state: makeState(manifest, {}), sourceId }];
  const entries = new Map([...kept, added].sort(([a], [b]) => (a < b ? -1 : 1)));
  return { ...version, entries, generation: following(version.generation) };
}

export type ToolSettings = Pick<ToolStateEntry, "member" | "availability">;

/** Changes the settings of tools by name, all or none. */
export function withSettings(
  version: RegistryVersion,
  names: readonly string[],
  settings: (state: ToolStateEntry) => ToolSettings,
): RegistryVersion {
  const entries = new Map(version.entries);
  for (const name of names) {
    const entry = entryOf(version, { name });
    if (entry === undefined) {
      throw new MarlingError("unknown_tool", `tools: expected a known tool, found ${name}`, {
        details: { tool: name },
      });
    }
    const { manifest, orphaned } = entry.state;
    const state = makeState(manifest, settings(entry.state));
    entries.set(manifest.id, { ...entry, state: orphaned === true ? makeOrphan(state) : state });
  }
  return { ...version, entries, generation: following(version.generation) };
}

function sameBindings(a: EntryMap, b: EntryMap): boolean {
  return [...a].every(([id, { sourceId }]) => b.get(id)?.sourceId === sourceId);
}

function following(generation: number): number {
  if (generation < Number.MAX_SAFE_INTEGER) return generation + 1;
  throw new MarlingError(
    "generation_overflow",
    `tools: expected a generation below ${Number.MAX_SAFE_INTEGER}, found ${generation}`,
  );
}

function taken({ name, id }: ToolManifest, sourceId: string): MarlingError {
  const message = `tools: expected the name ${name} to be free for the id ${id}, found a tool of the source ${sourceId}`;
  return new MarlingError("duplicate_tool", message, { details: { tool: name } });
}
