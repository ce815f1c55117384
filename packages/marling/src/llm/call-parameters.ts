// The parameters of a call, by the names that every adapter knows them under.
//   LA16  parameters of unknown names or types are left out with a warning.

import type { Json, JsonObject } from "../model/json.ts";

/** Parameters by the names that both specifications give them. */
export interface CallParameters {
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly stopSequences?: readonly string[];
  readonly seed?: number;
  /** How much a model reasons, from `none` to `max`; specification v4 only. */
  readonly reasoning?: string;
}

/** The names that parameters may have, and what each must be. */
const PARAMETERS: { readonly [K in keyof Required<CallParameters>]: (value: Json) => boolean } = {
  maxOutputTokens: isNumber,
  temperature: isNumber,
  topP: isNumber,
  topK: isNumber,
  presencePenalty: isNumber,
  frequencyPenalty: isNumber,
  seed: isNumber,
  stopSequences: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  reasoning: (value) => typeof value === "string",
};

export function knownParameters(parameters: JsonObject): CallParameters {
  return Object.fromEntries(Object.entries(parameters).filter(([name, value]) => isKnown(name, value)));
}

/** The parameters that no model knows, or that are of the wrong type. */
export function unknownParameters(parameters: JsonObject): readonly string[] {
  return Object.keys(parameters).filter((name) => !isKnown(name, parameters[name] as Json));
}

function isKnown(name: string, value: Json): boolean {
  return Object.hasOwn(PARAMETERS, name) && PARAMETERS[name as keyof CallParameters](value);
}

function isNumber(value: Json): boolean {
  return typeof value === "number";
}
