// What model calls cost, and the ledger that sums it by source and model.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json } from "./json.ts";

/**
 * Tokens of model calls in five buckets. `input` excludes what was read from or written to the provider's cache;
 * `reasoning` is a part of `output`, not an addition to it.
 */
export interface TokenUsage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly reasoning: number;
}

/** What one source spent on one model. */
export interface UsageEntry {
  readonly source: string;
  readonly model: string;
  readonly usage: TokenUsage;
}

export const NO_USAGE: TokenUsage = Object.freeze({
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  reasoning: 0,
});

const BUCKETS = Object.keys(NO_USAGE) as readonly (keyof TokenUsage)[];

/** Reads what a provider or a store reports; a bucket that is not there counts as 0, members of other names are left out. */
export function decodeUsage(raw: unknown, where = "usage"): TokenUsage {
  const json = decodeJson(raw, where);
  if (!isJsonObject(json)) throw refuse(where, "an object", json);
  const usage = { ...NO_USAGE };
  for (const bucket of BUCKETS) {
    const count = json[bucket] ?? 0;
    if (!isCount(count)) throw refuse(`${where}.${bucket}`, "a whole number from 0", count);
    usage[bucket] = count;
  }
  return Object.freeze(usage);
}

/** Reads an entry of a ledger. */
export function decodeUsageEntry(raw: unknown, where = "usage entry"): UsageEntry {
  const json = decodeJson(raw, where);
  if (!isJsonObject(json)) throw refuse(where, "an object", json);
  const { source, model } = json;
  if (typeof source !== "string" || source === "")
    throw refuse(`${where}.source`, "the name of a source", source);
  if (typeof model !== "string" || model === "") throw refuse(`${where}.model`, "the name of a model", model);
  return Object.freeze({ source, model, usage: decodeUsage(json.usage ?? null, `${where}.usage`) });
}

export function addUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    reasoning: a.reasoning + b.reasoning,
  };
}

/** Everything that was paid for; reasoning is inside `output` already. */
export function totalTokens(usage: TokenUsage): number {
  return usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
}

export function isNoUsage(usage: TokenUsage): boolean {
  return totalTokens(usage) === 0 && usage.reasoning === 0;
}

/** Adds an entry to a ledger, summing what has the same source and model; nothing spent leaves no entry. */
export function addToLedger(ledger: readonly UsageEntry[], entry: UsageEntry): readonly UsageEntry[] {
  if (isNoUsage(entry.usage)) return ledger;
  const index = ledger.findIndex((known) => known.source === entry.source && known.model === entry.model);
  const known = ledger[index];
  if (known === undefined) return [...ledger, entry];
  return ledger.with(index, { ...known, usage: addUsage(known.usage, entry.usage) });
}

function isCount(value: Json): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const message = `${where}: expected ${expected}, found ${JSON.stringify(found)}`;
  return new MarlingError("invalid_usage", message, { details: { where } });
}
