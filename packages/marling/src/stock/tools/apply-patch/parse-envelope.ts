// Patches between `*** Begin Patch` and `*** End Patch`.

import { FileRefusal } from "../files/file-refusal.ts";
import type { Hunk, HunkLine, PatchChange } from "./patch-change.ts";

const END = "*** End Patch";
const END_OF_FILE = "*** End of File";
const ADD = "*** Add File: ";
const DELETE = "*** Delete File: ";
const UPDATE = "*** Update File: ";
const MOVE = "*** Move to: ";

/** Reads the lines after `begin`, which is the line that opens the patch. */
export function parseEnvelope(lines: readonly string[], begin: number): readonly PatchChange[] {
  const end = lines.findLastIndex((line, at) => at > begin && line.trimEnd() === END);
  if (end === -1)
    throw new FileRefusal(
      "invalid_patch",
      `patch: expected ${END} as its last line, found none: the patch may be cut off. Send it again, whole.`,
    );
  const changes: PatchChange[] = [];
  let at = begin + 1;
  while (at < end) {
    const line = lines[at] ?? "";
    const next = sectionEnd(lines, at + 1, end);
    const body = { lines: lines.slice(at + 1, next), first: at + 2 };
    if (line.startsWith(ADD)) changes.push(addition(pathAfter(line, ADD, at), body));
    else if (line.startsWith(DELETE)) changes.push(deletion(pathAfter(line, DELETE, at), body));
    else if (line.startsWith(UPDATE)) changes.push(update(pathAfter(line, UPDATE, at), body));
    else if (line.trim() !== "") throw unexpected(at + 1, `${ADD}, ${DELETE} or ${UPDATE}`, line);
    at = line.trim() === "" ? at + 1 : next;
  }
  return changes;
}

interface Body {
  readonly lines: readonly string[];
  /** The number of its first line in the patch. */
  readonly first: number;
}

function sectionEnd(lines: readonly string[], from: number, end: number): number {
  for (let at = from; at < end; at += 1)
    if ([ADD, DELETE, UPDATE].some((header) => lines[at]?.startsWith(header))) return at;
  return end;
}

function pathAfter(line: string, header: string, at: number): string {
  const path = line.slice(header.length).trim();
  if (path === "") throw unexpected(at + 1, "a path", line);
  return path;
}

function addition(path: string, body: Body): PatchChange {
  const content = withoutBlankEnd(body.lines).map((line, at) => {
    if (!line.startsWith("+"))
      throw unexpected(body.first + at, `a line of ${path} that begins with +`, line);
    return `${line.slice(1)}\n`;
  });
  return { kind: "add", path, content: content.join("") };
}

function deletion(path: string, body: Body): PatchChange {
  const [line] = withoutBlankEnd(body.lines);
  if (line !== undefined) throw unexpected(body.first, `nothing after the deletion of ${path}`, line);
  return { kind: "delete", path, hunks: [] };
}

function update(path: string, body: Body): PatchChange {
  const [first = ""] = body.lines;
  const isMoved = first.startsWith(MOVE);
  const moveTo = isMoved ? pathAfter(first, MOVE, body.first - 1) : undefined;
  const rest = isMoved ? { lines: body.lines.slice(1), first: body.first + 1 } : body;
  const hunks = parseHunks(rest);
  if (hunks.length === 0 && moveTo === undefined) throw unexpected(body.first, `changes of ${path}`, "none");
  return { kind: "update", path, hunks, ...(moveTo === undefined ? {} : { moveTo }) };
}

interface HunkDraft {
  headers: string[];
  hint: number | undefined;
  isAtEnd: boolean;
  lines: HunkLine[];
}

function parseHunks(body: Body): readonly Hunk[] {
  const drafts: HunkDraft[] = [];
  withoutBlankEnd(body.lines).forEach((line, at) => {
    const last = drafts.at(-1);
    if (line.startsWith("@@")) {
      const isMore = last !== undefined && last.lines.length === 0;
      const draft = isMore ? last : emptyDraft();
      if (!isMore) drafts.push(draft);
      addHeader(draft, line);
    } else if (line.trim() === END_OF_FILE) {
      if (last === undefined) throw unexpected(body.first + at, "a hunk", line);
      last.isAtEnd = true;
    } else {
      const draft = last ?? emptyDraft();
      if (last === undefined) drafts.push(draft);
      draft.lines.push(hunkLine(line, body.first + at));
    }
  });
  return drafts.map(finished).filter(({ lines }) => lines.length > 0);
}

function emptyDraft(): HunkDraft {
  return { headers: [], hint: undefined, isAtEnd: false, lines: [] };
}

function addHeader(draft: HunkDraft, line: string): void {
  const numbers = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@/.exec(line);
  if (numbers !== null) draft.hint = Number(numbers[1]);
  else {
    const header = line.slice(2).replace(/^ /, "");
    if (header.trim() !== "") draft.headers.push(header);
  }
}

function finished({ headers, hint, isAtEnd, lines }: HunkDraft, index: number): Hunk {
  return {
    number: index + 1,
    headers,
    lines,
    ...(hint === undefined ? {} : { hint }),
    ...(isAtEnd ? { isAtEnd: true as const } : {}),
  };
}

/** A line without its sign is a line of context only when it is empty: editors strip the space. */
function hunkLine(line: string, number: number): HunkLine {
  if (line === "") return { kind: "same", text: "" };
  const text = line.slice(1);
  if (line.startsWith(" ")) return { kind: "same", text };
  if (line.startsWith("-")) return { kind: "removed", text };
  if (line.startsWith("+")) return { kind: "added", text };
  throw unexpected(number, "a line that begins with a space, + or -", line);
}

function withoutBlankEnd(lines: readonly string[]): readonly string[] {
  let end = lines.length;
  while (end > 0 && lines[end - 1] === "") end -= 1;
  return lines.slice(0, end);
}

function unexpected(number: number, expected: string, found: string): FileRefusal {
  return new FileRefusal(
    "invalid_patch",
    `patch line ${number}: expected ${expected}, found ${JSON.stringify(found.slice(0, 200))}.`,
  );
}
