// Plain unified diffs, with or without the lines of git around them.

import { FileRefusal } from "../files/file-refusal.ts";
import type { Hunk, HunkLine, PatchChange } from "./patch-change.ts";

const NOWHERE = "/dev/null";
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const GIT = /^diff --git a\/(.*) b\/(.*)$/;

interface Section {
  before?: string;
  after?: string;
  renameFrom?: string;
  renameTo?: string;
  isNew: boolean;
  isGone: boolean;
  /** Whether its own `---` line was read. */
  isNamed: boolean;
  hunks: Hunk[];
}

/** Reads the sections of a diff. Text before the first one is passed over. */
export function parseUnified(lines: readonly string[]): readonly PatchChange[] {
  const sections: Section[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const current = sections.at(-1);
    if (line.startsWith("diff --git ")) sections.push(gitSection(line));
    else if (startsFile(lines, at)) {
      const section = current === undefined || current.isNamed ? emptySection() : current;
      if (section !== current) sections.push(section);
      nameSection(section, line, lines[at + 1] ?? "");
      at += 1;
    } else if (HUNK.test(line)) {
      if (current === undefined) throw unexpected(at + 1, "--- and +++ lines before a hunk", line);
      const end = hunkEnd(lines, at + 1);
      current.hunks.push(parseHunk(lines, { start: at, end, number: current.hunks.length + 1 }));
      at = end - 1;
    } else if (current !== undefined) readGitLine(current, line, at + 1);
    at += 1;
  }
  return sections.map(changeOf);
}

function emptySection(): Section {
  return { isNew: false, isGone: false, isNamed: false, hunks: [] };
}

function gitSection(line: string): Section {
  const [, before, after] = GIT.exec(line) ?? [];
  return {
    ...emptySection(),
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  };
}

function startsFile(lines: readonly string[], at: number): boolean {
  return (lines[at]?.startsWith("--- ") ?? false) && (lines[at + 1]?.startsWith("+++ ") ?? false);
}

/** Prefixes are those of git only when both sides have them. */
function nameSection(section: Section, beforeLine: string, afterLine: string): void {
  const name = (line: string): string => (line.slice(4).split("\t")[0] ?? "").trim();
  const before = name(beforeLine);
  const after = name(afterLine);
  const fits = (path: string, prefix: string): boolean => path === NOWHERE || path.startsWith(prefix);
  const isPrefixed = fits(before, "a/") && fits(after, "b/");
  const plain = (path: string): string => (isPrefixed && path !== NOWHERE ? path.slice(2) : path);
  section.isNamed = true;
  section.isNew ||= before === NOWHERE;
  section.isGone ||= after === NOWHERE;
  if (before !== NOWHERE) section.before = plain(before);
  if (after !== NOWHERE) section.after = plain(after);
}

function readGitLine(section: Section, line: string, number: number): void {
  if (line.startsWith("new file mode ")) section.isNew = true;
  else if (line.startsWith("deleted file mode ")) section.isGone = true;
  else if (line.startsWith("rename from ")) section.renameFrom = line.slice("rename from ".length);
  else if (line.startsWith("rename to ")) section.renameTo = line.slice("rename to ".length);
  else if (line.startsWith("GIT binary patch") || line.startsWith("Binary files "))
    throw unexpected(number, "changes of text", line);
  else if (/^[ +-]/.test(line) && section.isNamed && section.hunks.length === 0)
    throw unexpected(number, "a hunk that begins with @@ -line,count +line,count @@", line);
}

/** Counts of models are often wrong, so a hunk ends where something else begins. */
function hunkEnd(lines: readonly string[], from: number): number {
  let at = from;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const isSignature = line === "-- " && at >= lines.length - 4;
    const isBlankEnd = line === "" && lines.slice(at).every((rest) => rest === "");
    if (isSignature || isBlankEnd || !/^(?:[ +\\-]|$)/.test(line)) return at;
    if (startsFile(lines, at) && (lines[at + 2]?.startsWith("@@") ?? false)) return at;
    at += 1;
  }
  return at;
}

function parseHunk(
  lines: readonly string[],
  { start, end, number }: { readonly start: number; readonly end: number; readonly number: number },
): Hunk {
  const [, line = "0", count = "1"] = HUNK.exec(lines[start] ?? "") ?? [];
  // Of an empty range, the line is the one before it.
  const hint = count === "0" ? Number(line) + 1 : Number(line);
  const parsed: HunkLine[] = [];
  for (const text of trimmedBody(lines.slice(start + 1, end))) {
    const last = parsed.at(-1);
    if (!text.startsWith("\\")) parsed.push(hunkLine(text));
    else if (last !== undefined) parsed[parsed.length - 1] = { ...last, hasNoEnd: true };
  }
  return { number, headers: [], hint, lines: parsed };
}

/** Blank lines between two files belong to neither. */
function trimmedBody(lines: readonly string[]): readonly string[] {
  let end = lines.length;
  while (end > 0 && lines[end - 1] === "") end -= 1;
  return lines.slice(0, end);
}

function hunkLine(line: string): HunkLine {
  const text = line.slice(1);
  if (line.startsWith("+")) return { kind: "added", text };
  return { kind: line.startsWith("-") ? "removed" : "same", text };
}

function changeOf(section: Section): PatchChange {
  const { isNew, isGone, hunks } = section;
  const before = section.renameFrom ?? section.before;
  const after = section.renameTo ?? section.after;
  if (isNew && after !== undefined) return { kind: "add", path: after, content: contentOf(hunks, after) };
  if (isGone && before !== undefined) return { kind: "delete", path: before, hunks };
  if (before === undefined || after === undefined)
    throw new FileRefusal("invalid_patch", "patch: expected a path in every --- and +++ line, found none.");
  if (hunks.length === 0 && before === after)
    throw new FileRefusal("invalid_patch", `patch: expected changes of ${after}, found none.`);
  return { kind: "update", path: before, hunks, ...(before === after ? {} : { moveTo: after }) };
}

function contentOf(hunks: readonly Hunk[], path: string): string {
  return hunks
    .flatMap(({ lines }) => lines)
    .map(({ kind, text, hasNoEnd }) => {
      if (kind !== "added")
        throw new FileRefusal("invalid_patch", `patch: expected only added lines in the new file ${path}.`);
      return hasNoEnd ? text : `${text}\n`;
    })
    .join("");
}

function unexpected(number: number, expected: string, found: string): FileRefusal {
  return new FileRefusal(
    "invalid_patch",
    `patch line ${number}: expected ${expected}, found ${JSON.stringify(found.slice(0, 200))}.`,
  );
}
