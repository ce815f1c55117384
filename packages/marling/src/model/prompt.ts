// The parts a system prompt is made of: plain data that plugins, hosts and policies write. Rendering is in prompt/.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "./json.ts";

export const PROMPT_SLOTS = [
  "intro",
  "execution",
  "guidance",
  "project_instructions",
  "runtime_context",
  "environment",
] as const;
export type PromptSlot = (typeof PROMPT_SLOTS)[number];

/** Texts that marling writes itself. */
export const PROMPT_BUILTINS = ["main_intro", "execution_instructions", "core_guidance"] as const;
export type PromptBuiltin = (typeof PROMPT_BUILTINS)[number];

/** A piece of prompt for one slot. Lower priorities come first; a gate keeps it only while one of its tools is there. */
export interface PromptContribution {
  readonly slot: PromptSlot;
  readonly title?: string;
  readonly priority?: number;
  readonly gate?: { readonly tools: readonly string[] };
  readonly content: string;
}

export type PromptEntry =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "builtin"; readonly name: PromptBuiltin }
  | { readonly kind: "slot"; readonly slot: PromptSlot };

export interface PromptSection {
  readonly title?: string;
  readonly entries: readonly PromptEntry[];
}

export interface PromptTemplate {
  readonly sections: readonly PromptSection[];
}

/** Changes to the prompt by one party: a template of its own, and per slot what it adds or puts in place of the rest. */
export interface PromptLayer {
  readonly template?: PromptTemplate;
  readonly slots?: { readonly [S in PromptSlot]?: PromptSlotLayer };
}

export interface PromptSlotLayer {
  /** Drops everything that earlier layers put into the slot. */
  readonly reset?: boolean;
  readonly contributions?: readonly PromptContribution[];
}

/** Reads a contribution; a blank title counts as none, members of other names are left out. */
export function decodePromptContribution(raw: unknown, where = "contribution"): PromptContribution {
  const json = decodeObject(decodeJson(raw, where), where);
  const { title, priority, gate, content } = json;
  if (typeof content !== "string") throw refuse(`${where}.content`, "a string", content);
  if (priority !== undefined && !Number.isSafeInteger(priority)) {
    throw refuse(`${where}.priority`, "a whole number", priority);
  }
  const named = decodeTitle(title, `${where}.title`);
  return Object.freeze({
    slot: decodeSlot(json.slot, `${where}.slot`),
    ...(named === undefined ? {} : { title: named }),
    ...(priority === undefined ? {} : { priority: priority as number }),
    ...(gate === undefined ? {} : { gate: decodeGate(gate, `${where}.gate`) }),
    content,
  });
}

/** Reads a layer. A contribution in a layer may leave its slot out; one that names another slot is refused. */
export function decodePromptLayer(raw: unknown, where = "prompt"): PromptLayer {
  const { template, slots } = decodeMembers(decodeJson(raw, where), ["template", "slots"], where);
  return Object.freeze({
    ...(template === undefined ? {} : { template: decodeTemplate(template, `${where}.template`) }),
    ...(slots === undefined ? {} : { slots: decodeSlots(slots, `${where}.slots`) }),
  });
}

/** Whether a layer changes nothing. */
export function isEmptyLayer(layer: PromptLayer): boolean {
  if (layer.template !== undefined) return false;
  return Object.values(layer.slots ?? {}).every(
    ({ reset, contributions }) => reset !== true && (contributions ?? []).length === 0,
  );
}

function decodeSlots(raw: Json, where: string): NonNullable<PromptLayer["slots"]> {
  const entries = Object.entries(decodeObject(raw, where)).map(([name, layer]) => {
    const slot = decodeSlot(name, where);
    return [slot, decodeSlotLayer(layer, slot, `${where}.${slot}`)] as const;
  });
  return Object.freeze(Object.fromEntries(entries));
}

function decodeSlotLayer(raw: Json, slot: PromptSlot, where: string): PromptSlotLayer {
  const { reset, contributions } = decodeMembers(raw, ["reset", "contributions"], where);
  if (reset !== undefined && typeof reset !== "boolean") throw refuse(`${where}.reset`, "a boolean", reset);
  const given = decodeArray(contributions ?? [], `${where}.contributions`).map((item, index) => {
    const place = `${where}.contributions[${index}]`;
    const contribution = decodePromptContribution({ slot, ...decodeObject(item, place) }, place);
    if (contribution.slot !== slot)
      throw refuse(`${place}.slot`, `the slot ${slot} that it stands in`, contribution.slot);
    return contribution;
  });
  return Object.freeze({
    ...(reset === true ? { reset } : {}),
    ...(contributions === undefined ? {} : { contributions: Object.freeze(given) }),
  });
}

function decodeTemplate(raw: Json, where: string): PromptTemplate {
  const { sections } = decodeMembers(raw, ["sections"], where);
  const decoded = decodeArray(sections, `${where}.sections`).map((section, index) =>
    decodeSection(section, `${where}.sections[${index}]`),
  );
  return Object.freeze({ sections: Object.freeze(decoded) });
}

function decodeSection(raw: Json, where: string): PromptSection {
  const { title, entries } = decodeMembers(raw, ["title", "entries"], where);
  const named = decodeTitle(title, `${where}.title`);
  const decoded = decodeArray(entries, `${where}.entries`).map((entry, index) =>
    decodeEntry(entry, `${where}.entries[${index}]`),
  );
  return Object.freeze({ ...(named === undefined ? {} : { title: named }), entries: Object.freeze(decoded) });
}

function decodeEntry(raw: Json, where: string): PromptEntry {
  const { kind, text, name, slot } = decodeObject(raw, where);
  if (kind === "slot") return Object.freeze({ kind, slot: decodeSlot(slot, `${where}.slot`) });
  if (kind === "text") {
    if (typeof text !== "string") throw refuse(`${where}.text`, "a string", text);
    return Object.freeze({ kind, text });
  }
  if (kind !== "builtin") throw refuse(`${where}.kind`, "one of text, builtin, slot", kind);
  const builtin = PROMPT_BUILTINS.find((known) => known === name);
  if (builtin === undefined) throw refuse(`${where}.name`, `one of ${PROMPT_BUILTINS.join(", ")}`, name);
  return Object.freeze({ kind, name: builtin });
}

function decodeGate(raw: Json, where: string): { readonly tools: readonly string[] } {
  const tools = decodeArray(decodeObject(raw, where).tools, `${where}.tools`).map((tool, index) => {
    if (typeof tool !== "string") throw refuse(`${where}.tools[${index}]`, "the name of a tool", tool);
    return tool;
  });
  return Object.freeze({ tools: Object.freeze(tools) });
}

function decodeSlot(raw: Json | undefined, where: string): PromptSlot {
  const slot = PROMPT_SLOTS.find((known) => known === raw);
  if (slot === undefined) throw refuse(where, `one of ${PROMPT_SLOTS.join(", ")}`, raw);
  return slot;
}

function decodeTitle(raw: Json | undefined, where: string): string | undefined {
  if (raw !== undefined && typeof raw !== "string") throw refuse(where, "a string", raw);
  return raw?.trim() === "" ? undefined : raw;
}

function decodeObject(raw: Json, where: string): JsonObject {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  return raw;
}

/** An object with these members and no others, so that a misspelt one is not taken for an absent one. */
function decodeMembers(raw: Json, names: readonly string[], where: string): JsonObject {
  const json = decodeObject(raw, where);
  const unknown = Object.keys(json).find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw refuse(`${where}.${unknown}`, `only the members ${names.join(", ")}`, json[unknown]);
  return json;
}

function decodeArray(raw: Json | undefined, where: string): readonly Json[] {
  if (!Array.isArray(raw)) throw refuse(where, "an array", raw);
  return raw;
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const message = `${where}: expected ${expected}, found ${found === undefined ? "nothing" : JSON.stringify(found)}`;
  return new MarlingError("invalid_prompt", message, { details: { where } });
}
