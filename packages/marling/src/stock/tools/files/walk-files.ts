// Walks the tree below a folder, in the order of the paths, through descriptors only.
//   WF1  links are listed and never walked; pipes, sockets and devices are not listed at all.
//   WF2  a walk ends at the limit of visits and says so.
//   WF3  what cannot be opened is passed over and counted: a tree that changes is no failure.

import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { ConfinedFolder, isDenied } from "./confined-folder.ts";
import { FileRefusal } from "./file-refusal.ts";
import { type IgnoreScope, isIgnored, parseIgnoreRules } from "./ignore-rules.ts";
import { readStart } from "./read-start.ts";
import { isStagedName } from "./staged-file.ts";

const MAX_DEPTH = 100;
const IGNORE_FILE = ".gitignore";
const IGNORE_BYTES = 256 * 1024;

export interface WalkOptions {
  readonly signal: AbortSignal;
  readonly visits: number;
  /** Rules that always hold, beside those of .gitignore files. */
  readonly always: readonly IgnoreScope[];
  readonly usesGitignore: boolean;
  /** Whether to look into a folder; paths are from the root. */
  enters(segments: readonly string[]): boolean;
}

export interface WalkEntry {
  readonly kind: "file" | "folder" | "link";
  /** From the root. */
  readonly segments: readonly string[];
  readonly name: string;
  /** Open while the walk stands at this entry. */
  readonly folder: ConfinedFolder;
}

/** What a walk came to; complete once it has ended. */
export interface WalkReport {
  visits: number;
  isCut: boolean;
  unreadable: number;
}

/** Yields what is below a folder. The folder stays the caller's. */
export async function* walkFiles(
  start: ConfinedFolder,
  options: WalkOptions,
  report: WalkReport,
): AsyncGenerator<WalkEntry, void, void> {
  const scopes = [...options.always, ...(await scopesAbove(start, options))];
  yield* walkFolder(start, { options, report, scopes });
}

interface WalkState {
  readonly options: WalkOptions;
  readonly report: WalkReport;
  readonly scopes: readonly IgnoreScope[];
}

async function* walkFolder(
  folder: ConfinedFolder,
  { options, report, scopes: above }: WalkState,
): AsyncGenerator<WalkEntry, void, void> {
  const scopes = options.usesGitignore ? [...above, ...(await scopeOf(folder))] : above;
  for (const entry of await entriesOf(folder, { options, report })) {
    options.signal.throwIfAborted();
    if (report.visits >= options.visits) {
      report.isCut = true;
      return;
    }
    report.visits += 1;
    const isFolder = entry.kind === "folder";
    if (isIgnored(scopes, entry.segments, { isFolder })) continue;
    yield entry;
    if (!isFolder || !options.enters(entry.segments)) continue;
    if (entry.segments.length >= MAX_DEPTH) report.isCut = true;
    else yield* walkBelow(entry, { options, report, scopes });
  }
}

async function* walkBelow(entry: WalkEntry, state: WalkState): AsyncGenerator<WalkEntry, void, void> {
  let below: ConfinedFolder;
  try {
    below = await entry.folder.openFolder(entry.name);
  } catch (thrown) {
    if (!(thrown instanceof FileRefusal)) throw thrown;
    state.report.unreadable += 1;
    return;
  }
  try {
    yield* walkFolder(below, state);
  } finally {
    await below.close();
  }
}

/** The entries of a folder in order. Of a folder with more than one walk may visit, some. */
async function entriesOf(
  folder: ConfinedFolder,
  { options, report }: Pick<WalkState, "options" | "report">,
): Promise<readonly WalkEntry[]> {
  const entries: WalkEntry[] = [];
  let read = 0;
  try {
    for await (const entry of await opendir(folder.place)) {
      read += 1;
      if (read > options.visits) break;
      const kind = kindOf(entry);
      const { name } = entry;
      if (kind === undefined || name === ".git" || isStagedName(name)) continue;
      if (isDenied(folder.root, folder.pathOf(name))) continue;
      entries.push({ kind, name, folder, segments: [...folder.segments, name] });
    }
  } catch {
    report.unreadable += 1; // What was read before is still there.
  }
  if (read > options.visits) report.isCut = true;
  return entries.sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
}

function kindOf(entry: Dirent): WalkEntry["kind"] | undefined {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "folder";
  return entry.isSymbolicLink() ? "link" : undefined;
}

/** With it, the order of the walk is the order of the whole paths. */
function sortKey({ kind, name }: WalkEntry): string {
  return kind === "folder" ? `${name}/` : name;
}

/** The rules of the folders from the root down to the parent of where a walk starts. */
async function scopesAbove(start: ConfinedFolder, options: WalkOptions): Promise<readonly IgnoreScope[]> {
  if (!options.usesGitignore || start.segments.length === 0) return [];
  const scopes: IgnoreScope[] = [];
  let folder = await ConfinedFolder.openRoot(start.root);
  try {
    for (const name of start.segments) {
      scopes.push(...(await scopeOf(folder)));
      const next = await folder.openFolder(name);
      await folder.close();
      folder = next;
    }
  } finally {
    await folder.close();
  }
  return scopes;
}

async function scopeOf(folder: ConfinedFolder): Promise<readonly IgnoreScope[]> {
  const bytes = await readStart(folder, { name: IGNORE_FILE, bytes: IGNORE_BYTES }).catch(() => undefined);
  if (bytes === undefined) return [];
  return [{ depth: folder.segments.length, rules: parseIgnoreRules(bytes.toString("utf8")) }];
}
