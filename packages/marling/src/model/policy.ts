// What a session runs with. Names only: live objects such as models are resolved by the runtime each time.

import { MarlingError } from "../base/errors.ts";
import { decodeJsonObject, type Json } from "./json.ts";
import { decodePromptLayer, isEmptyLayer, type PromptLayer } from "./prompt.ts";

export interface SessionPolicy {
  /** A name in the runtime's `models`; `default` is the one given as `model`. */
  readonly model: string;
  /** The id that this model must have; without it, whatever the runtime has under the name will do. */
  readonly modelId?: string;
  readonly instructions?: string;
  /** Model calls per turn. */
  readonly maxTurns: number | "unbounded";
  readonly autonomous?: boolean;
  readonly prompt?: PromptLayer;
}

const FIELDS = ["model", "modelId", "instructions", "maxTurns", "autonomous", "prompt"] as const;

/** Reads a stored or patched policy; unknown members and live providers are refused by name. */
export function decodePolicy(raw: unknown, where = "policy"): SessionPolicy {
  const json = decodeJsonObject(withoutProvider(raw, where), where);
  const unknown = Object.keys(json).find((key) => !(FIELDS as readonly string[]).includes(key));
  if (unknown !== undefined)
    throw refuse(`${where}.${unknown}`, `only the members ${FIELDS.join(", ")}`, json[unknown]);
  const { model, modelId, instructions, maxTurns, autonomous } = json;
  if (typeof model !== "string" || model.trim() === "")
    throw refuse(`${where}.model`, "the name of a model", model);
  if (modelId !== undefined && typeof modelId !== "string")
    throw refuse(`${where}.modelId`, "a string", modelId);
  if (instructions !== undefined && typeof instructions !== "string") {
    throw refuse(`${where}.instructions`, "a string", instructions);
  }
  if (!isBudget(maxTurns))
    throw refuse(`${where}.maxTurns`, 'a positive whole number or "unbounded"', maxTurns);
  if (autonomous !== undefined && typeof autonomous !== "boolean") {
    throw refuse(`${where}.autonomous`, "a boolean", autonomous);
  }
  const prompt = json.prompt === undefined ? {} : decodePromptLayer(json.prompt, `${where}.prompt`);
  return Object.freeze({
    model,
    ...(modelId === undefined ? {} : { modelId }),
    ...(instructions === undefined ? {} : { instructions }),
    maxTurns,
    ...(autonomous === undefined ? {} : { autonomous }),
    ...(isEmptyLayer(prompt) ? {} : { prompt }),
  });
}

/** A provider is most often a live object, which is no JSON: it is refused for what it is, not for its shape. */
function withoutProvider(raw: unknown, where: string): unknown {
  if (typeof raw !== "object" || raw === null || !Object.hasOwn(raw, "provider")) return raw;
  const message = `${where}.provider: expected no provider object; name a model of the runtime in \`model\``;
  throw new MarlingError("invalid_policy", message, { details: { where: `${where}.provider` } });
}

export function isBudget(value: unknown): value is number | "unbounded" {
  return value === "unbounded" || (typeof value === "number" && Number.isInteger(value) && value > 0);
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const message = `${where}: expected ${expected}, found ${found === undefined ? "nothing" : JSON.stringify(found)}`;
  return new MarlingError("invalid_policy", message, { details: { where } });
}
