// The text of a file after its hunks. Lines of context stay as the file has them, ends included.

import type { RefusalReason } from "../files/file-refusal.ts";
import { bareLine, lineEnd, splitLines } from "../files/split-lines.ts";
import type { Hunk } from "./patch-change.ts";
import { oldLines, placeHunk } from "./place-hunk.ts";

const BYTE_ORDER_MARK = "\uFEFF";

export interface HunkRefusal {
  readonly hunk: number;
  readonly reason: RefusalReason;
  readonly message: string;
}

export type HunksApplied =
  | { readonly kind: "applied"; readonly text: string }
  | { readonly kind: "refused"; readonly refusals: readonly HunkRefusal[] };

/** Applies all hunks or none. Every hunk is tried, so that all that do not fit are told at once. */
export function applyHunks(text: string, hunks: readonly Hunk[]): HunksApplied {
  const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : "";
  const lines = splitLines(text.slice(mark.length));
  const bare = lines.map(bareLine);
  const end = lineEnd(text);
  const refusals: HunkRefusal[] = [];
  const result: string[] = [];
  let done = 0;
  for (const hunk of hunks) {
    const place = placeHunk(bare, hunk, done);
    if (place.kind === "refused") {
      refusals.push({ hunk: hunk.number, reason: place.reason, message: place.message });
      continue;
    }
    result.push(...lines.slice(done, place.start), ...newLines(hunk, lines.slice(place.start), end));
    done = place.start + oldLines(hunk).length;
  }
  if (refusals.length > 0) return { kind: "refused", refusals };
  result.push(...lines.slice(done));
  return { kind: "applied", text: mark + joined(result, end) };
}

function newLines(hunk: Hunk, there: readonly string[], end: string): readonly string[] {
  let old = 0;
  return hunk.lines.flatMap(({ kind, text, hasNoEnd }) => {
    if (kind === "added") return [hasNoEnd ? text : text + end];
    old += 1;
    return kind === "removed" ? [] : [there[old - 1] ?? text];
  });
}

/** Only the last line may be without an end. */
function joined(lines: readonly string[], end: string): string {
  return lines
    .map((line, at) => (at < lines.length - 1 && !line.endsWith("\n") ? line + end : line))
    .join("");
}
