// One algorithm for every rebuild of the registry: what sources offer now, joined with what a state remembers.
//   TR5  live mode begins with everything that is advertised; snapshot mode with nothing but the state.
//   TR6  a remembered tool is bound by id; what nobody has is an orphan in live mode and an error in snapshot mode.
//   TR7  an orphan whose name a bound tool has taken is dropped, and its settings with it.
//   TR8  two sources with one id or one name are an error, unless one of them is preferred: then it has the tool.
//   TR9  nothing is changed here: the result is built aside and adopted by the registry as a whole.

import { MarlingError } from "../base/errors.ts";
import type { ToolKey, ToolManifest, ToolState, ToolStateEntry } from "./contract.ts";
import type { SourceMap } from "./tool-source.ts";
import { type EntryMap, isSameState, makeOrphan, makeState, type ToolEntry } from "./tool-state.ts";

export interface ReconcileInput {
  readonly mode: "live" | "snapshot";
  readonly sources: SourceMap;
  readonly tools: ToolState["tools"];
  readonly preferred: string | undefined;
}

export interface Reconciled {
  readonly entries: EntryMap;
  /** Whether the result exports differently from the state it began with. */
  readonly changed: boolean;
}

export function reconcile(input: ReconcileInput): Reconciled {
  const surface = new Surface(input.preferred);
  if (input.mode === "live") placeAdvertised(surface, input);
  const unbound = bindRemembered(surface, input);
  for (const [id, saved] of unbound) placeOrphan(surface, { id, saved, mode: input.mode });
  const entries = surface.entries();
  return { entries, changed: isChanged(entries, input.tools) };
}

/** The one source that has a tool: none, the only one, or the preferred of several. */
export function findSource(
  sources: SourceMap,
  key: ToolKey,
  options: { readonly preferred: string | undefined },
): { readonly manifest: ToolManifest; readonly sourceId: string } | undefined {
  const found = [...sources.values()].flatMap((source) => {
    const manifest = source.resolve(key);
    return manifest === undefined ? [] : [{ manifest, sourceId: source.id }];
  });
  const favoured = found.find(({ sourceId }) => sourceId === options.preferred);
  if (found.length < 2 || favoured !== undefined) return favoured ?? found[0];
  const asked = "id" in key ? `the id ${key.id}` : `the name ${key.name}`;
  const names = found.map(({ sourceId }) => sourceId).join(", ");
  throw new MarlingError(
    "ambiguous_tool",
    `tools: expected one source with ${asked}, found ${found.length}: ${names}`,
    {
      details: { tool: "id" in key ? key.id : key.name },
    },
  );
}

/** Tools under construction: unique by id and by name. */
class Surface {
  readonly #preferred: string | undefined;
  readonly #byId = new Map<string, ToolEntry>();
  readonly #idByName = new Map<string, string>();

  constructor(preferred: string | undefined) {
    this.#preferred = preferred;
  }

  get(id: string): ToolEntry | undefined {
    return this.#byId.get(id);
  }

  named(name: string): ToolEntry | undefined {
    const id = this.#idByName.get(name);
    return id === undefined ? undefined : this.#byId.get(id);
  }

  /** Adds a tool. TR8 decides when its id or its name is taken. */
  place(entry: ToolEntry): void {
    const { id, name } = entry.state.manifest;
    for (const rival of [this.get(id), this.named(name)]) {
      if (rival === undefined) continue;
      if (rival.sourceId === this.#preferred && this.#preferred !== undefined) return;
      if (entry.sourceId !== this.#preferred || this.#preferred === undefined) throw clash(entry, rival);
      this.#remove(rival);
    }
    this.replace(entry);
  }

  replace(entry: ToolEntry): void {
    const { id, name } = entry.state.manifest;
    this.#byId.set(id, entry);
    this.#idByName.set(name, id);
  }

  entries(): EntryMap {
    return new Map([...this.#byId].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #remove({ state: { manifest } }: ToolEntry): void {
    this.#byId.delete(manifest.id);
    this.#idByName.delete(manifest.name);
  }
}

function placeAdvertised(surface: Surface, { sources, tools }: ReconcileInput): void {
  for (const source of sources.values()) {
    for (const [id, manifest] of source.advertised()) {
      const saved = Object.hasOwn(tools, id) ? tools[id] : undefined;
      surface.place({ state: makeState(manifest, saved ?? {}, saved), sourceId: source.id });
    }
  }
}

/** Binds what the state remembers and returns what no source has. */
function bindRemembered(
  surface: Surface,
  input: ReconcileInput,
): readonly (readonly [string, ToolStateEntry])[] {
  const { mode, sources, tools, preferred } = input;
  return Object.entries(tools).filter(([id, saved]) => {
    if (surface.get(id) !== undefined) return false;
    const found = findSource(sources, { id }, { preferred });
    if (found === undefined) return true;
    const { manifest, sourceId } = found;
    const isRenewed = mode === "live" && surface.named(manifest.name)?.sourceId === sourceId;
    if (!isRenewed) surface.place({ state: makeState(manifest, saved, saved), sourceId });
    return false;
  });
}

function placeOrphan(
  surface: Surface,
  {
    id,
    saved,
    mode,
  }: { readonly id: string; readonly saved: ToolStateEntry; readonly mode: ReconcileInput["mode"] },
): void {
  const { name } = saved.manifest;
  if (mode === "snapshot" && saved.orphaned !== true) {
    throw new MarlingError(
      "unknown_tool",
      `tool state: expected a source with the id ${id} (${name}), found none`,
      {
        details: { tool: name },
      },
    );
  }
  if (mode === "live" && surface.named(name) !== undefined) return;
  surface.place({ state: makeOrphan(saved), sourceId: undefined });
}

function isChanged(entries: EntryMap, tools: ToolState["tools"]): boolean {
  if (entries.size !== Object.keys(tools).length) return true;
  return [...entries].some(([id, { state }]) => {
    const known = Object.hasOwn(tools, id) ? tools[id] : undefined;
    return known === undefined || !isSameState(known, state);
  });
}

function clash(entry: ToolEntry, rival: ToolEntry): MarlingError {
  const { id, name } = entry.state.manifest;
  const shared = rival.state.manifest.id === id ? `id ${id}` : `name ${name}`;
  const offered = [rival, entry].map(({ sourceId }) => sourceId ?? "an orphan").join(" and ");
  return new MarlingError(
    "duplicate_tool",
    `tools: expected one tool with the ${shared}, found two: ${offered}`,
    {
      details: { tool: name },
    },
  );
}
