// Answers that follow a schema: the schema goes to the model, and what comes back is checked.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json, type JsonObject } from "../model/json.ts";
import type { TurnOutcome } from "../model/turn.ts";
import type { Schema } from "../tool/contract.ts";
import { compileSchema, mismatchText } from "../tool/schema.ts";

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
      const found = outcome.value === undefined ? parseAnswer(outcome.text) : outcome.value;
      const checked = await compiled.validate(found);
      if (checked.ok) return checked.value;
      const { path } = checked;
      const message = `answer: expected a value that follows the output schema, found a mismatch: ${mismatchText(checked)}`;
      throw new MarlingError("invalid_output", message, { details: { path, found } });
    },
  };
}

const FENCED = /```(?:json)?[^\S\n]*\n([\s\S]*?)\n[^\S\n]*```/;

/** JSON as models write it: bare, or in a fenced block. What is neither stays text, which a schema may still take. */
function parseAnswer(text: string): Json {
  const fenced = FENCED.exec(text)?.[1];
  const candidates = fenced === undefined ? [text] : [text, fenced];
  for (const candidate of candidates) {
    const parsed = parseJson(candidate);
    if (parsed !== undefined) return parsed.value;
  }
  return text;
}

function parseJson(text: string): { readonly value: Json } | undefined {
  try {
    return { value: decodeJson(JSON.parse(text), "answer") };
  } catch {
    return undefined; // not JSON: the caller has another way to read it
  }
}
