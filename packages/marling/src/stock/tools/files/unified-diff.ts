// Writes what changed in a file as a unified diff.

import { diffLines, type LineChange } from "./diff-lines.ts";
import type { FileLimits } from "./file-limits.ts";
import { cutText } from "./read-lines.ts";
import { splitLines } from "./split-lines.ts";

const CONTEXT = 3;
const SIGN: Readonly<Record<LineChange["kind"], string>> = { same: " ", removed: "-", added: "+" };

export interface DiffTexts {
  /** Nothing for a file that is new. */
  readonly before: string | undefined;
  /** Nothing for a file that is gone. */
  readonly after: string | undefined;
}

/** How much of a diff is shown. */
export interface DiffBounds {
  readonly lines: number;
  readonly bytes: number;
  readonly lineLength: number;
}

/** The bounds that the limits of a host set. */
export function diffBounds({ diffLines: lines, readBytes: bytes, lineLength }: FileLimits): DiffBounds {
  return { lines, bytes, lineLength };
}

export interface DiffOptions {
  readonly path: string;
  /** The path of the file before, when it was moved. */
  readonly from?: string;
  readonly bounds: DiffBounds;
}

/** A unified diff with three lines of context; empty when nothing changed. */
export function unifiedDiff({ before, after }: DiffTexts, options: DiffOptions): string {
  const { path, from = path, bounds } = options;
  const changes = diffLines(splitLines(before ?? ""), splitLines(after ?? ""));
  const body = hunksOf(changes).flatMap(hunkLines);
  const isMoved = from !== path;
  if (body.length === 0 && !isMoved && before !== undefined && after !== undefined) return "";
  const header = [
    before === undefined ? "--- /dev/null" : `--- a/${from}`,
    after === undefined ? "+++ /dev/null" : `+++ b/${path}`,
  ];
  const shown = withinBounds(body, bounds);
  const rest = body.length - shown.length;
  return [...header, ...shown, ...(rest > 0 ? [`... ${rest} more lines of the diff`] : [])].join("\n");
}

function withinBounds(body: readonly string[], bounds: DiffBounds): readonly string[] {
  const shown: string[] = [];
  let bytes = 0;
  for (const line of body.slice(0, bounds.lines)) {
    const cut = cutText(line, bounds.lineLength);
    bytes += Buffer.byteLength(cut) + 1;
    if (bytes > bounds.bytes && shown.length > 0) break;
    shown.push(cut.length < line.length ? `${cut} [cut]` : cut);
  }
  return shown;
}

interface Hunk {
  readonly beforeStart: number;
  readonly afterStart: number;
  readonly changes: readonly LineChange[];
}

function hunksOf(changes: readonly LineChange[]): readonly Hunk[] {
  const hunks: Hunk[] = [];
  let before = 0;
  let after = 0;
  let counted = 0;
  for (const [start, end] of rangesOf(changes)) {
    for (; counted < start; counted += 1) {
      if (changes[counted]?.kind !== "added") before += 1;
      if (changes[counted]?.kind !== "removed") after += 1;
    }
    hunks.push({ beforeStart: before, afterStart: after, changes: changes.slice(start, end) });
  }
  return hunks;
}

/** Where changes are, with the lines around them; those that touch are one. */
function rangesOf(changes: readonly LineChange[]): readonly (readonly [number, number])[] {
  const ranges: [number, number][] = [];
  changes.forEach(({ kind }, at) => {
    if (kind === "same") return;
    const start = Math.max(0, at - CONTEXT);
    const end = Math.min(changes.length, at + CONTEXT + 1);
    const last = ranges.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = end;
    else ranges.push([start, end]);
  });
  return ranges;
}

function hunkLines({ beforeStart, afterStart, changes }: Hunk): readonly string[] {
  const before = changes.filter(({ kind }) => kind !== "added").length;
  const after = changes.filter(({ kind }) => kind !== "removed").length;
  const range = (start: number, count: number): string => `${count === 0 ? start : start + 1},${count}`;
  return [
    `@@ -${range(beforeStart, before)} +${range(afterStart, after)} @@`,
    ...changes.flatMap(({ kind, line }) => {
      if (line.endsWith("\n")) return [SIGN[kind] + line.replace(/\r?\n$/, "")];
      return [SIGN[kind] + line, "\\ No newline at end of file"];
    }),
  ];
}
