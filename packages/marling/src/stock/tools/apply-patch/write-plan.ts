// Writes what was planned: first everything beside its place, then everything into its place.
//   WP1  nothing is put in its place before all of it is on the disk and all files are still as they were.
//   WP2  when that fails, what was made for it is taken away again.

import { rmdir, unlink } from "node:fs/promises";
import type { ConfinedRoot } from "../files/confined-folder.ts";
import { FileRefusal, refusalOf } from "../files/file-refusal.ts";
import { atPlace, locate, type Place } from "../files/locate.ts";
import { checkWritable, type StagedFile, stageFile } from "../files/staged-file.ts";
import { checkUnchanged } from "../files/text-file.ts";
import type { PlannedFile } from "./patch-plan.ts";

/** Writes all files of a plan. */
export async function writePlan(root: ConfinedRoot, files: readonly PlannedFile[]): Promise<void> {
  const writing = new PlanWriting(root);
  try {
    for (const file of files) await writing.stage(file);
    await writing.commit();
  } finally {
    await writing.close();
  }
}

interface Step {
  readonly file: PlannedFile;
  readonly place: Exclude<Place, { kind: "missing" | "folder" }>;
  /** Nothing for a file that goes away. */
  readonly staged: StagedFile | undefined;
}

class PlanWriting {
  readonly #root: ConfinedRoot;
  readonly #steps: Step[] = [];
  readonly #made: string[] = [];
  #committed = 0;

  constructor(root: ConfinedRoot) {
    this.#root = root;
  }

  async stage(file: PlannedFile): Promise<void> {
    const place = await locate(this.#root, file.path, { makeFolders: file.after !== undefined });
    if (place.kind === "missing") throw changed(file.path);
    if (place.kind === "free") this.#made.push(...place.made);
    try {
      if (place.kind === "folder") throw changed(file.path);
      this.#steps.push({ file, place, staged: await stagedFor(file, place) });
    } catch (thrown) {
      await place.folder.close();
      throw thrown;
    }
  }

  /** New content first, so that a crash on the way leaves a moved file twice and never not at all. */
  async commit(): Promise<void> {
    for (const { file, place } of this.#steps) await checkAsPlanned(file, place);
    const ordered = [...this.#steps].sort(
      (a, b) => Number(a.staged === undefined) - Number(b.staged === undefined),
    );
    for (const step of ordered) {
      try {
        await finish(step);
      } catch (thrown) {
        throw this.#committed === 0 ? thrown : halfWritten(ordered, this.#committed, thrown);
      }
      this.#committed += 1;
    }
  }

  async close(): Promise<void> {
    for (const { place, staged } of this.#steps) {
      await staged?.discard();
      await place.folder.close();
    }
    if (this.#committed > 0) return;
    for (const path of this.#made.reverse()) await removeFolder(this.#root, path);
  }
}

async function stagedFor(file: PlannedFile, place: Step["place"]): Promise<StagedFile | undefined> {
  await checkAsPlanned(file, place);
  const { folder, name } = place;
  if (file.before !== undefined) await checkWritable(folder, name);
  if (file.after === undefined) return undefined;
  const mode = file.mode ?? file.before?.mode;
  return stageFile(
    { folder, name, ...(mode === undefined ? {} : { mode }) },
    Buffer.from(file.after, "utf8"),
  );
}

async function checkAsPlanned(file: PlannedFile, { folder, name }: Step["place"]): Promise<void> {
  if (file.before !== undefined) return checkUnchanged(folder, name, file.before.version);
  if ((await folder.lookup(name)) !== undefined) throw changed(file.path);
}

async function finish({ place, staged }: Step): Promise<void> {
  if (staged !== undefined) return staged.commit();
  const { folder, name, path } = place;
  await folder.check();
  await unlink(folder.at(name)).catch((thrown: unknown) => {
    throw refusalOf(thrown, path);
  });
  await folder.sync();
}

/** Best effort: a folder that somebody uses by now is not empty and stays. */
async function removeFolder(root: ConfinedRoot, path: string): Promise<void> {
  await atPlace(root, path, async (place) => {
    if (place.kind === "found" && place.stats.isDirectory()) await rmdir(place.folder.at(place.name));
  }).catch(() => undefined);
}

function changed(path: string): FileRefusal {
  return new FileRefusal(
    "file_changed",
    `Nothing was written. ${path}: somebody else changed what is there meanwhile. Read it again.`,
  );
}

function halfWritten(steps: readonly Step[], committed: number, cause: unknown): FileRefusal {
  const names = (some: readonly Step[]): string => some.map(({ file }) => file.path).join(", ");
  const why = cause instanceof Error ? ` ${cause.message}` : "";
  return new FileRefusal(
    "io_failed",
    `The patch was written in part, each file whole. Done: ${names(steps.slice(0, committed))}. ` +
      `Not done: ${names(steps.slice(committed))}.${why}`,
    { cause },
  );
}
