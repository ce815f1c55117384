// Answers that follow a schema: the schema goes to the model, and what comes back is checked.

import { MarlingError } from "../base/errors.ts";
import { type Json, type JsonObject, decodeJson } from "../model/json.ts";
import type { TurnOutcome } from "../model/turn.ts";
import type { Schema } from "../tool/contract.ts";
import { compileSchema } from "../tool/schema.ts";

export interface OutputReader {
  readonly jsonSchema: JsonObject | undefined;
  read(outcome: Extract<TurnOutcome, { kind: "finished" }>): Promise<unknown>;
}

/** Reads a turn's value: what a tool finished with, or the answer's text as JSON when a schema asks for that. */
export function outputReader(schema: Schema | undefined): OutputReader {
  if (schema === undefined) return { jsonSchema: undefined, read: async (outcome) => outcome.value };
  const compiled = compileSchema(schema, "output");
  return {
    jsonSchema: compiled.jsonSchema,
    read: async (outcome) => {
      const found = outcome.value ?? parseAnswer(outcome.text);
      const checked = await compiled.validate(found);
      if (checked.ok) return checked.value;
      throw new MarlingError("invalid_output", `answer${checked.path}: ${checked.reason}`, { details: { path: checked.path, found } });
    },
  };
}

/** JSON as models write it: bare, or in one fenced block. */
function parseAnswer(text: string): Json {
  const fenced = /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/.exec(text);
  const body = fenced?.[1] ?? text;
  try {
    return decodeJson(JSON.parse(body), "answer");
  } catch {
    return text; // not JSON: a schema for strings may still take it
  }
}
