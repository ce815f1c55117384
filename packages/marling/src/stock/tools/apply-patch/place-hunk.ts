// Where a hunk belongs in a file: its old lines as they are, then without regard to white space at the ends of lines.
//   PH1  a hunk is placed only where all its old lines are, and after the hunk before it.
//   PH2  of several places, the line number of the patch or the header decides; without either the hunk is refused.

import { FileRefusal, type RefusalReason } from "../files/file-refusal.ts";
import type { Hunk } from "./patch-change.ts";

export type HunkPlace =
  | { readonly kind: "placed"; readonly start: number }
  | { readonly kind: "refused"; readonly reason: RefusalReason; readonly message: string };

type Compare = (line: string, wanted: string) => boolean;

/** From strict to lenient. */
const COMPARISONS: readonly Compare[] = [
  (line, wanted) => line === wanted,
  (line, wanted) => line.trimEnd() === wanted.trimEnd(),
  (line, wanted) => line.trim() === wanted.trim(),
];
const SHOWN = 8;
/** Steps after which a hunk made to take for ever is given up. */
const MAX_COMPARED = 5_000_000;
const MAX_TOLD = 100;
const MAX_LOOKED = 20_000;

/** Places a hunk in the lines of a file, which have no ends, from a line on. */
export function placeHunk(lines: readonly string[], hunk: Hunk, from: number): HunkPlace {
  const old = oldLines(hunk);
  let start = from;
  for (const header of hunk.headers) {
    const at = headerLine(lines, header, start);
    if (at === -1)
      return refused("no_match", `expected the line ${quote(header)} after line ${start}, found none.`);
    start = at + 1;
  }
  if (old.length === 0) return { kind: "placed", start: insertionPoint(lines, hunk, start) };
  // A header may be repeated as the first line of the hunk.
  const starts = hunk.headers.length > 0 ? [start, start - 1] : [start];
  for (const compare of COMPARISONS)
    for (const first of starts) {
      const places = placesOf(lines, { old, from: first, compare, isAtEnd: hunk.isAtEnd === true });
      const place = choose(places, hunk);
      if (place !== undefined) return place;
    }
  return refused("no_match", mismatch(lines, old, start));
}

/** The lines that a hunk says are there now. */
export function oldLines({ lines }: Hunk): readonly string[] {
  return lines.filter(({ kind }) => kind !== "added").map(({ text }) => text);
}

function headerLine(lines: readonly string[], header: string, from: number): number {
  const lenient: Compare = (line, wanted) => line.includes(wanted.trim());
  for (const compare of [...COMPARISONS, lenient]) {
    const at = lines.findIndex((line, index) => index >= from && compare(line, header));
    if (at !== -1) return at;
  }
  return -1;
}

function insertionPoint(lines: readonly string[], { hint, headers }: Hunk, start: number): number {
  if (hint !== undefined) return Math.max(start, Math.min(lines.length, hint - 1));
  return headers.length > 0 ? start : lines.length;
}

interface Wanted {
  readonly old: readonly string[];
  readonly from: number;
  readonly compare: Compare;
  readonly isAtEnd: boolean;
}

function placesOf(lines: readonly string[], { old, from, compare, isAtEnd }: Wanted): readonly number[] {
  const last = lines.length - old.length;
  const places: number[] = [];
  let compared = 0;
  for (let start = isAtEnd ? Math.max(from, last) : from; start <= last; start += 1) {
    const fitting = fittingLines(lines, start, { old, compare });
    if (fitting === old.length) places.push(start);
    compared += fitting;
    if (compared > MAX_COMPARED)
      throw new FileRefusal(
        "invalid_patch",
        `patch: expected hunks that can be told apart, found one of ${old.length} lines that almost fits too often.`,
      );
  }
  return places;
}

/** How many lines fit from a start on, until one does not. */
function fittingLines(
  lines: readonly string[],
  start: number,
  { old, compare }: Pick<Wanted, "old" | "compare">,
): number {
  const bad = old.findIndex((wanted, offset) => !compare(lines[start + offset] ?? "", wanted));
  return bad === -1 ? old.length : bad;
}

function choose(places: readonly number[], { hint, headers }: Hunk): HunkPlace | undefined {
  const [first] = places;
  if (first === undefined) return undefined;
  if (places.length === 1 || headers.length > 0) return { kind: "placed", start: first };
  if (hint === undefined) {
    const at = places.slice(0, 10).map((place) => place + 1);
    return refused(
      "ambiguous_match",
      `expected its lines once, found them at lines ${at.join(", ")}. Add lines around the change, or a line after @@.`,
    );
  }
  const distance = (place: number): number => Math.abs(place + 1 - hint);
  const nearest = places.reduce((best, place) => (distance(place) < distance(best) ? place : best), first);
  return { kind: "placed", start: nearest };
}

/** The place where most lines fit, and the first line that does not. */
function mismatch(lines: readonly string[], old: readonly string[], from: number): string {
  let best = { start: -1, fitting: 0 };
  const told = old.slice(0, MAX_TOLD);
  for (let start = from; start < Math.min(lines.length, from + MAX_LOOKED); start += 1) {
    const fitting = told.filter((wanted, offset) => lines[start + offset]?.trim() === wanted.trim()).length;
    if (fitting > best.fitting) best = { start, fitting };
  }
  const after = from > 0 ? ` after line ${from}` : "";
  if (best.start === -1)
    return `expected${after}:\n${shown(old)}\nfound no line of it in the file. Read the file again.`;
  const bad = old.findIndex((wanted, offset) => lines[best.start + offset]?.trim() !== wanted.trim());
  if (bad === -1)
    return `expected${after} at the end of the file:\n${shown(old)}\nfound it at line ${best.start + 1}.`;
  const found = lines[best.start + bad];
  const there = found === undefined ? "the end of the file" : quote(found);
  return (
    `expected${after}:\n${shown(old)}\nfound the nearest place at line ${best.start + 1}, but at line ${best.start + bad + 1} ` +
    `expected ${quote(old[bad] ?? "")} and found ${there}.`
  );
}

function shown(old: readonly string[]): string {
  const rest = old.length - SHOWN;
  const lines = old.slice(0, SHOWN).map((line) => `  ${line.slice(0, 200)}`);
  return [...lines, ...(rest > 0 ? [`  ... ${rest} more lines`] : [])].join("\n");
}

function quote(line: string): string {
  return JSON.stringify(line.slice(0, 200));
}

function refused(reason: RefusalReason, message: string): HunkPlace {
  return { kind: "refused", reason, message };
}
