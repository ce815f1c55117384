// Where a text that is not in a file almost is: what helps a model to correct itself.

import { bareLine, splitLines } from "./split-lines.ts";

const MAX_LINES = 10_000;
const MAX_BLOCK = 200;
const MAX_LENGTH = 300;
const COMPARED = 120;
const SHOWN = 3;
const MIN_LIKENESS = 0.5;

/** Sentences on where the wanted lines are but for white space, or on the lines most like the first one. */
export function nearestLines(text: string, wanted: string): string {
  const lines = splitLines(text).slice(0, MAX_LINES).map(bareLine);
  const block = splitLines(wanted).map(bareLine);
  const at = blockStart(lines, block);
  if (at !== -1) {
    const shown = lines
      .slice(at, at + Math.min(block.length, 10))
      .map((line, index) => shownLine(line, at + index));
    return `The same text with other white space is at lines ${at + 1}-${at + block.length}:\n${shown.join("\n")}`;
  }
  const first = block.find((line) => line.trim() !== "") ?? "";
  const like = mostLike(lines, first);
  if (like.length === 0) return "No line is like its first line.";
  return `The lines most like its first line:\n${like.map(({ line, index }) => shownLine(line, index)).join("\n")}`;
}

function shownLine(line: string, index: number): string {
  return `${String(index + 1).padStart(6)}\t${line.slice(0, MAX_LENGTH)}`;
}

function blockStart(lines: readonly string[], block: readonly string[]): number {
  const plain = (line: string): string => line.replace(/\s+/g, " ").trim();
  const wanted = block.map(plain);
  if (block.length > MAX_BLOCK || wanted.every((line) => line === "")) return -1;
  const have = lines.map(plain);
  return have.findIndex((_, start) => wanted.every((line, offset) => have[start + offset] === line));
}

interface Like {
  readonly line: string;
  readonly index: number;
  readonly likeness: number;
}

function mostLike(lines: readonly string[], wanted: string): readonly Like[] {
  const pairs = pairsOf(wanted);
  return lines
    .map((line, index) => ({ line, index, likeness: likeness(pairsOf(line), pairs) }))
    .filter((one) => one.likeness >= MIN_LIKENESS)
    .sort((a, b) => b.likeness - a.likeness || a.index - b.index)
    .slice(0, SHOWN);
}

function pairsOf(line: string): ReadonlySet<string> {
  const text = line.replace(/\s+/g, " ").trim().slice(0, COMPARED);
  return new Set(Array.from({ length: Math.max(0, text.length - 1) }, (_, at) => text.slice(at, at + 2)));
}

/** The share of neighbouring characters that two lines have in common. */
function likeness(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let common = 0;
  for (const pair of a) if (b.has(pair)) common += 1;
  return (2 * common) / (a.size + b.size);
}
