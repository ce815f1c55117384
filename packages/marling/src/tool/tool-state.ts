// The registry's tools as entries, and as the plain state that sessions keep.
//   TR3  a state names no source and no policy: it can be applied to any registry, under any authority.
//   TR4  defaults are left out, so that equal registries export equal states.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject, jsonEqual } from "../model/json.ts";
import { AVAILABILITY_TIERS, effectiveTier, isAvailabilityTier } from "./availability.ts";
import type { AvailabilityTier, ToolManifest, ToolState, ToolStateEntry } from "./contract.ts";
import { decodeManifest } from "./manifest.ts";
import { refuseSharedNames } from "./tool-source.ts";

/** A tool in the registry: its state, and the source it is bound to. An orphan has none. */
export interface ToolEntry {
  readonly state: ToolStateEntry;
  readonly sourceId: string | undefined;
}

/** Entries by tool id, in the order of the ids. */
export type EntryMap = ReadonlyMap<string, ToolEntry>;

const OWN_STATES = new WeakSet<object>();

export function exportEntries(generation: number, entries: EntryMap): ToolState {
  const tools = Object.fromEntries([...entries].map(([id, entry]) => [id, entry.state]));
  const state = Object.freeze({ generation, tools: Object.freeze(tools) });
  OWN_STATES.add(state);
  return state;
}

/** Reads a state; one that a registry exported is passed on. Throws `invalid_tool_state` naming the tool. */
export function decodeToolState(raw: unknown): ToolState {
  if (isOwnState(raw)) return raw;
  const json = decodeRaw(raw);
  const { generation, tools } = json;
  if (!isGeneration(generation)) throw refuse("generation", "a whole number of at least 0", generation);
  if (!isJsonObject(tools)) throw refuse("tools", "an object", tools);
  const entries = Object.entries(tools).map(([id, entry]) => [id, decodeEntry(id, entry)] as const);
  try {
    refuseSharedNames(
      entries.map(([, { manifest }]) => manifest),
      "tool state",
    );
  } catch (cause) {
    throw new MarlingError("invalid_tool_state", messageOf(cause), { cause });
  }
  return { generation, tools: Object.fromEntries(entries) };
}

/** A state with defaults left out; the known object when nothing differs. */
export function makeState(
  manifest: ToolManifest,
  saved: Pick<ToolStateEntry, "member" | "availability">,
  known?: ToolStateEntry,
): ToolStateEntry {
  const next: ToolStateEntry = Object.freeze({
    manifest,
    ...(saved.member === false ? { member: false } : {}),
    ...(saved.availability === undefined ? {} : { availability: saved.availability }),
  });
  return known !== undefined && isSameState(known, next) ? known : next;
}

export function makeOrphan(saved: ToolStateEntry): ToolStateEntry {
  return saved.orphaned === true ? saved : Object.freeze({ ...saved, orphaned: true });
}

export function isSameState(a: ToolStateEntry, b: ToolStateEntry): boolean {
  if (a === b) return true;
  if (a.member !== b.member || a.orphaned !== b.orphaned || a.availability !== b.availability) return false;
  return a.manifest === b.manifest || jsonEqual(plain(a.manifest), plain(b.manifest));
}

/** The manifest as it holds: with the tier that an override gave it. */
export function effectiveManifest({ manifest, availability }: ToolStateEntry): ToolManifest {
  if (availability === undefined || availability === manifest.availability) return manifest;
  return Object.freeze({ ...manifest, availability });
}

export function tierOf({ manifest, availability }: ToolStateEntry): AvailabilityTier {
  return effectiveTier(manifest, availability);
}

function isOwnState(raw: unknown): raw is ToolState {
  return typeof raw === "object" && raw !== null && OWN_STATES.has(raw);
}

function decodeRaw(raw: unknown): JsonObject {
  try {
    const json = decodeJson(raw, "tool state");
    if (isJsonObject(json)) return json;
  } catch (cause) {
    throw new MarlingError("invalid_tool_state", messageOf(cause), { cause });
  }
  throw refuse("", "an object with `generation` and `tools`", undefined);
}

function decodeEntry(id: string, raw: Json): ToolStateEntry {
  const where = `tools.${id}`;
  if (!isJsonObject(raw)) throw refuse(where, "an object with a `manifest`", raw);
  const { manifest: rawManifest, orphaned = false, member = true, availability } = raw;
  const manifest = decodeStateManifest(rawManifest, where);
  if (manifest.id !== id) throw refuse(`${where}.manifest.id`, `${id}, the key of the entry`, manifest.id);
  if (typeof orphaned !== "boolean") throw refuse(`${where}.orphaned`, "a boolean", orphaned);
  if (typeof member !== "boolean") throw refuse(`${where}.member`, "a boolean", member);
  if (availability !== undefined && !isAvailabilityTier(availability)) {
    throw refuse(`${where}.availability`, `one of ${AVAILABILITY_TIERS.join(", ")}`, availability);
  }
  const state = makeState(manifest, {
    ...(member ? {} : { member }),
    ...(availability === undefined ? {} : { availability }),
  });
  return orphaned ? makeOrphan(state) : state;
}

function decodeStateManifest(raw: Json | undefined, where: string): ToolManifest {
  try {
    return decodeManifest(raw, `tool state: ${where}`);
  } catch (cause) {
    throw new MarlingError("invalid_tool_state", messageOf(cause), { cause });
  }
}

function isGeneration(value: Json | undefined): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function plain(manifest: ToolManifest): Json {
  return manifest as unknown as JsonObject; // Codec: a manifest is frozen JSON since `decodeManifest`.
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const place = where === "" ? "tool state" : `tool state: ${where}`;
  const shown = found === undefined ? "nothing" : JSON.stringify(found);
  return new MarlingError("invalid_tool_state", `${place}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}
