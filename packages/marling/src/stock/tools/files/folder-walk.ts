// What `list_files`, `glob` and `grep` share: a folder that a model named, walked within the limits.

import type { ConfinedFolder } from "./confined-folder.ts";
import { FileRefusal } from "./file-refusal.ts";
import { atPlace, type Place } from "./locate.ts";
import type { FileToolSetup } from "./tool-setup.ts";
import { type WalkEntry, type WalkReport, walkFiles } from "./walk-files.ts";

export interface FolderWalkOptions {
  readonly signal: AbortSignal;
  readonly includeIgnored: boolean;
  /** Whether to look into a folder; names are from where the walk starts. */
  enters(below: readonly string[]): boolean;
}

export interface FolderWalk {
  readonly path: string;
  readonly entries: AsyncIterable<WalkEntry>;
  readonly report: WalkReport;
  /** The names of an entry from where the walk starts. */
  below(entry: WalkEntry): readonly string[];
}

/** Opens the folder at a path and gives a walk of it to `use`. Refuses what is no folder. */
export async function withFolder<T>(
  setup: FileToolSetup,
  path: string,
  use: (folder: ConfinedFolder) => Promise<T>,
): Promise<T> {
  return atPlace(setup.root, path, (place) => inFolder(place, use));
}

/** Gives the folder at a place to `use`. */
export async function inFolder<T>(place: Place, use: (folder: ConfinedFolder) => Promise<T>): Promise<T> {
  const { path } = place;
  if (place.kind === "folder") return use(place.folder);
  if (place.kind !== "found") throw new FileRefusal("not_found", `${path}: there is no folder of this name.`);
  if (!place.stats.isDirectory())
    throw new FileRefusal("not_a_directory", `${path}: expected a folder, found something else.`);
  const folder = await place.folder.openFolder(place.name);
  try {
    return await use(folder);
  } finally {
    await folder.close();
  }
}

/** A walk of a folder by the rules of the setup. */
export function folderWalk(
  folder: ConfinedFolder,
  setup: FileToolSetup,
  options: FolderWalkOptions,
): FolderWalk {
  const report: WalkReport = { visits: 0, isCut: false, unreadable: 0 };
  const depth = folder.segments.length;
  const entries = walkFiles(
    folder,
    {
      signal: options.signal,
      visits: setup.limits.visits,
      always: [{ depth: 0, rules: setup.ignore }],
      usesGitignore: setup.usesGitignore && !options.includeIgnored,
      enters: (segments) => options.enters(segments.slice(depth)),
    },
    report,
  );
  return { path: folder.pathOf(), entries, report, below: ({ segments }) => segments.slice(depth) };
}

/** What a reader must know about a walk that did not see everything. */
export function walkRemarks(report: WalkReport): readonly string[] {
  const cut = report.isCut
    ? [`(Stopped after ${report.visits} files and folders: name a smaller folder.)`]
    : [];
  const { unreadable } = report;
  return unreadable === 0 ? cut : [...cut, `(${unreadable} folders or files could not be read.)`];
}
