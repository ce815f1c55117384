// Manifests as they enter: providers are foreign code, and what they advertise is stored and shown.

import { MarlingError } from "../base/errors.ts";
import { toolId } from "../model/ids.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { AVAILABILITY_TIERS } from "./availability.ts";
import type { ToolManifest } from "./contract.ts";

/** Timers of the system cannot be longer. */
export const LONGEST_TIMEOUT_MS = 2_147_483_647;

const DECODED = new WeakSet<object>();

/** Reads a manifest into frozen JSON; one that was read before is passed on. Throws `invalid_tool` naming tool and field. */
export function decodeManifest(raw: unknown, where: string): ToolManifest {
  if (isDecoded(raw)) return raw;
  const manifest = decodeMembers(raw, where);
  const place = `${where}: tool ${JSON.stringify(manifest.name ?? manifest.id ?? "")}`;
  for (const [field, read] of Object.entries(FIELDS)) {
    const expected = read(manifest[field]);
    if (expected !== undefined)
      throw refuse(`${place}: ${field}`, `${expected}, found ${JSON.stringify(manifest[field])}`);
  }
  DECODED.add(manifest);
  return manifest as unknown as ToolManifest; // Codec: every field of the manifest was read above.
}

function isDecoded(raw: unknown): raw is ToolManifest {
  return typeof raw === "object" && raw !== null && DECODED.has(raw);
}

function decodeMembers(raw: unknown, where: string): JsonObject {
  try {
    const json = decodeJson(raw, where);
    if (isJsonObject(json)) return json;
  } catch (cause) {
    throw new MarlingError("invalid_tool", `${where}: expected a manifest of plain JSON: ${String(cause)}`, {
      cause,
    });
  }
  throw refuse(where, "a manifest with id, name and description");
}

/** Each field with what it must be; nothing when it is that. */
const FIELDS: { readonly [K in keyof ToolManifest]-?: (value: Json | undefined) => string | undefined } = {
  id: (value) => (isId(value) ? undefined : "a non-blank string without control characters"),
  name: (value) => (isId(value) ? undefined : "a non-blank string without control characters"),
  description: (value) => (typeof value === "string" ? undefined : "a string"),
  compactContract: optional("a string", (value) => typeof value === "string"),
  activation: optional("always or internal", (value) => value === "always" || value === "internal"),
  bindings: optional("an object", isJsonObject),
  argumentProjection: optional("{ kind: materialize } or { kind: preserve_refs, field }", isProjection),
  retry: optional(
    "{ attempts, delayMs?, maxDelayMs? } with attempts of at least 1 and delays of at least 0",
    isRetry,
  ),
  replay: optional(
    "safe, idempotent or unsafe",
    (value) => value === "safe" || value === "idempotent" || value === "unsafe",
  ),
  timeoutMs: optional(
    `a positive number of milliseconds up to ${LONGEST_TIMEOUT_MS}`,
    (value) => typeof value === "number" && value > 0 && value <= LONGEST_TIMEOUT_MS,
  ),
  availability: optional(`one of ${AVAILABILITY_TIERS.join(", ")}`, (value) =>
    AVAILABILITY_TIERS.some((tier) => tier === value),
  ),
  discovery: optional("{ namespace?, aliases? }", isDiscovery),
  execution: optional("parallel or serial", (value) => value === "parallel" || value === "serial"),
  pathArgs: optional(
    "an array of names",
    (value) => Array.isArray(value) && value.every((name) => typeof name === "string"),
  ),
  isOrchestrating: optional("a boolean", (value) => typeof value === "boolean"),
};

function optional(
  expected: string,
  accepts: (value: Json) => boolean,
): (value: Json | undefined) => string | undefined {
  return (value) => (value === undefined || accepts(value) ? undefined : expected);
}

function isId(value: Json | undefined): boolean {
  try {
    return toolId(value) === value;
  } catch {
    return false; // The caller names the field and what it found.
  }
}

function isProjection(value: Json): boolean {
  if (!isJsonObject(value)) return false;
  return value.kind === "materialize" || (value.kind === "preserve_refs" && typeof value.field === "string");
}

function isRetry(value: Json): boolean {
  if (!isJsonObject(value)) return false;
  const { attempts, delayMs = 0, maxDelayMs = 0 } = value;
  return Number.isInteger(attempts) && Number(attempts) >= 1 && isDelay(delayMs) && isDelay(maxDelayMs);
}

function isDelay(value: Json): boolean {
  return typeof value === "number" && value >= 0;
}

function isDiscovery(value: Json): boolean {
  if (!isJsonObject(value)) return false;
  const { namespace = "", aliases = [] } = value;
  return (
    typeof namespace === "string" &&
    Array.isArray(aliases) &&
    aliases.every((alias) => typeof alias === "string")
  );
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_tool", `${where}: expected ${expected}`, { details: { where } });
}
