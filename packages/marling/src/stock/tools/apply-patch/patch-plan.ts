// What a patch makes of the files, worked out before anything is written.
//   PP1  every change is checked against the files as they are, and against the changes before it in the patch.
//   PP2  a file is known by its real path, so that two names of one file are one file.

import { type ConfinedRoot, checkRegular } from "../files/confined-folder.ts";
import type { FileLimits } from "../files/file-limits.ts";
import { FileRefusal, type RefusalReason } from "../files/file-refusal.ts";
import { atPlace, type Place } from "../files/locate.ts";
import { readTextFile, type TextFile } from "../files/text-file.ts";
import { applyHunks } from "./apply-hunks.ts";
import type { Hunk, PatchChange } from "./patch-change.ts";

const MAX_FILES = 200;
const SHOWN_REFUSALS = 5;

/** One file as it is and as it is to be. */
export interface PlannedFile {
  readonly path: string;
  /** What is there; nothing for a new file. */
  readonly before: TextFile | undefined;
  /** What is to be there; nothing for a file that goes away. */
  readonly after: string | undefined;
  readonly mode?: number;
  readonly movedFrom?: string;
}

/** Checks all changes of a patch. Throws one refusal that tells what does not fit. */
export async function planPatch(
  changes: readonly PatchChange[],
  setup: { readonly root: ConfinedRoot; readonly limits: FileLimits },
): Promise<readonly PlannedFile[]> {
  if (changes.length > MAX_FILES)
    throw new FileRefusal(
      "invalid_patch",
      `patch: expected at most ${MAX_FILES} files, found ${changes.length}.`,
    );
  const draft = new PatchDraft(setup.root, setup.limits);
  const refusals: FileRefusal[] = [];
  for (const change of changes) {
    try {
      await draft.apply(change);
    } catch (thrown) {
      if (!(thrown instanceof FileRefusal)) throw thrown;
      refusals.push(thrown);
    }
  }
  const [first] = refusals;
  if (first === undefined) return draft.files();
  const told = refusals.slice(0, SHOWN_REFUSALS).map(({ message }) => message);
  const more =
    refusals.length > told.length ? [`(${refusals.length - told.length} more files do not fit.)`] : [];
  throw new FileRefusal(first.reason, ["Nothing was written.", ...told, ...more].join("\n"));
}

class PatchDraft {
  readonly #root: ConfinedRoot;
  readonly #limits: FileLimits;
  readonly #files = new Map<string, PlannedFile>();

  constructor(root: ConfinedRoot, limits: FileLimits) {
    this.#root = root;
    this.#limits = limits;
  }

  files(): readonly PlannedFile[] {
    return [...this.#files.values()].filter(({ before, after }) => before?.text !== after);
  }

  async apply(change: PatchChange): Promise<void> {
    const isWhole = change.kind === "delete" && change.hunks.length === 0;
    const file = await this.#load(change.path, { isWhole });
    switch (change.kind) {
      case "add":
        return this.#put(free(file), { after: change.content });
      case "delete":
        return this.#delete(file, change.hunks);
      case "update":
        return this.#update(file, change);
    }
  }

  #delete(file: PlannedFile, hunks: readonly Hunk[]): void {
    const left = patched(file, hunks);
    if (hunks.length > 0 && left !== "")
      throw new FileRefusal(
        "no_match",
        `${file.path}: expected the patch to delete all lines, found some left.`,
      );
    this.#put(file, { after: undefined });
  }

  async #update(file: PlannedFile, change: Extract<PatchChange, { kind: "update" }>): Promise<void> {
    const after = patched(file, change.hunks);
    if (change.moveTo === undefined) return this.#put(file, { after });
    const target = await this.#load(change.moveTo);
    if (target.path === file.path) return this.#put(file, { after });
    const mode = file.mode ?? file.before?.mode;
    this.#put(free(target), { after, movedFrom: file.path, ...(mode === undefined ? {} : { mode }) });
    this.#put(file, { after: undefined });
  }

  #put(file: PlannedFile, next: Pick<PlannedFile, "after" | "mode" | "movedFrom">): void {
    const bytes = Buffer.byteLength(next.after ?? "");
    if (bytes > this.#limits.writeBytes)
      throw new FileRefusal(
        "file_too_large",
        `${file.path}: expected at most ${this.#limits.writeBytes} bytes after the patch, found ${bytes}.`,
      );
    this.#files.set(file.path, { ...file, ...next });
  }

  /** A file that goes away as a whole need not be text. */
  async #load(path: string, { isWhole = false } = {}): Promise<PlannedFile> {
    return atPlace(this.#root, path, async (place) => {
      const known = this.#files.get(place.path);
      if (known !== undefined) return known;
      const before = await readPlace(place, isWhole ? undefined : this.#limits);
      return { path: place.path, before, after: before?.text };
    });
  }
}

async function readPlace(place: Place, limits: FileLimits | undefined): Promise<TextFile | undefined> {
  if (place.kind === "folder")
    throw new FileRefusal("not_a_file", `${place.path}: expected a file, found a folder.`);
  if (place.kind !== "found") return undefined;
  checkRegular(place.stats, place.path);
  if (limits !== undefined) return readTextFile(place.folder, place.name, { maxBytes: limits.writeBytes });
  return { text: "", mode: Number(place.stats.mode & 0o7777n), version: place.stats };
}

function free(file: PlannedFile): PlannedFile {
  if (file.after === undefined) return file;
  throw new FileRefusal(
    "already_exists",
    `${file.path}: expected no file of this name, found one. Update it instead.`,
  );
}

function patched(file: PlannedFile, hunks: readonly Hunk[]): string {
  const { path, after } = file;
  if (after === undefined) throw new FileRefusal("not_found", `${path}: there is no file of this name.`);
  const applied = applyHunks(after, hunks);
  if (applied.kind === "applied") return applied.text;
  const { refusals } = applied;
  const reason: RefusalReason = refusals[0]?.reason ?? "no_match";
  const told = refusals.map(({ hunk, message }) => `${path}, hunk ${hunk} of ${hunks.length}: ${message}`);
  throw new FileRefusal(reason, told.slice(0, SHOWN_REFUSALS).join("\n"));
}
