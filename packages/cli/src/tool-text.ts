// Tool calls as people read them: the arguments in one line, the result in a few.

import type { Json, ToolOutput } from "marling";
import { oneLine, plainText } from "./plain-text.ts";

const MOST_LINES = 4;
const MOST_LINE = 2_000;

/** `path: "a.md", limit: 3`; a single text stands alone. */
export function argsText(args: Json): string {
  if (args === null || typeof args !== "object" || Array.isArray(args)) return valueText(args);
  const entries = Object.entries(args);
  const [only] = entries;
  if (entries.length === 1 && typeof only?.[1] === "string") return oneLine(only[1]).slice(0, MOST_LINE);
  return entries.map(([name, value]) => `${oneLine(name)}: ${valueText(value)}`).join(", ");
}

/** Every argument on a line of its own, whole: for somebody who has to decide about them. */
export function argsLines(args: Json): readonly string[] {
  if (args === null || typeof args !== "object" || Array.isArray(args)) return [valueText(args)];
  return Object.entries(args).flatMap(([name, value]) => {
    const lines = plainText(typeof value === "string" ? value : JSON.stringify(value)).split("\n");
    return lines.map((line, at) => (at === 0 ? `${oneLine(name)}: ${line}` : `  ${line}`));
  });
}

export interface ResultText {
  readonly isError: boolean;
  readonly lines: readonly string[];
}

/** The first lines of a result, and how many more there are. */
export function resultText({ outcome }: ToolOutput, most: number = MOST_LINES): ResultText {
  const isError = outcome.kind !== "success";
  const text = outcome.kind === "success" ? successText(outcome.value) : outcome.message;
  const lines = plainText(text).trimEnd().split("\n");
  const shown = lines.slice(0, most).map((line) => line.slice(0, MOST_LINE));
  const more = lines.length - shown.length;
  return { isError, lines: more > 0 ? [...shown, `… ${more} more ${more === 1 ? "line" : "lines"}`] : shown };
}

function successText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "done" : JSON.stringify(value);
}

function valueText(value: Json | undefined): string {
  return oneLine(JSON.stringify(value ?? null)).slice(0, MOST_LINE);
}
