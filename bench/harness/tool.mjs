// The one tool that every adapter offers. For S6 it writes down when it begins and ends, and hangs in one call.

import { appendFileSync } from "node:fs";

const LEDGER = process.env.BENCH_LEDGER;
const HANGS_IN = process.env.BENCH_HANGS_IN;
const FOR_EVER_MS = 100_000_000;

export const INSTRUCTIONS =
  "You are a careful assistant. Use the add tool for every sum, then answer in plain words.";

export const ADD = {
  name: "add",
  description: "Adds two numbers and returns their sum.",
  schema: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
    additionalProperties: false,
  },
};

export async function add({ a, b }) {
  if (LEDGER === undefined) return a + b;
  appendFileSync(LEDGER, `begin ${a},${b}\n`);
  if (HANGS_IN === `${a},${b}`) await new Promise((resolve) => setTimeout(resolve, FOR_EVER_MS));
  appendFileSync(LEDGER, `end ${a},${b}\n`);
  return a + b;
}
