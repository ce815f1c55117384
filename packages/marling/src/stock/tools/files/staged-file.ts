// A file is written beside its place and put there in one step: a crash leaves the old file or the new one, whole.

import { randomBytes } from "node:crypto";
import { access, constants, rename, unlink } from "node:fs/promises";
import type { ConfinedFolder } from "./confined-folder.ts";
import { FileRefusal, refusalOf } from "./file-refusal.ts";

const PREFIX = ".marling-";
const SUFFIX = ".tmp";

/** Whether a name is that of a file that is being written, or that a crash left behind. */
export function isStagedName(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith(SUFFIX);
}

export interface StagedFile {
  /** Puts the file in its place. */
  commit(): Promise<void>;
  /** Takes it away again; nothing happens after a commit. */
  discard(): Promise<void>;
}

export interface StageTarget {
  readonly folder: ConfinedFolder;
  readonly name: string;
  /** The mode of the file that is replaced. */
  readonly mode?: number;
}

/** Writes the bytes beside the target, on the disk and not yet in their place. */
export async function stageFile(target: StageTarget, bytes: Uint8Array): Promise<StagedFile> {
  const { folder, name } = target;
  const path = folder.pathOf(name);
  const temporary = `${PREFIX}${randomBytes(8).toString("hex")}${SUFFIX}`;
  let isThere = true;
  const discard = async (): Promise<void> => {
    if (!isThere) return;
    isThere = false;
    await unlink(folder.at(temporary)).catch(() => undefined); // It is gone, or so is its folder.
  };
  try {
    await writeNew(target, temporary, bytes);
  } catch (thrown) {
    await discard();
    throw refusalOf(thrown, path);
  }
  const commit = async (): Promise<void> => {
    try {
      await folder.check();
      await rename(folder.at(temporary), folder.at(name));
      isThere = false;
      await folder.sync();
    } catch (thrown) {
      throw refusalOf(thrown, path);
    }
  };
  return { commit, discard };
}

/**
 * Refuses to replace a file that nobody or at least not this process may write to: putting a new one in its place would get
 * around that. A file without any right to write is refused to root as well.
 */
export async function checkWritable(folder: ConfinedFolder, name: string): Promise<void> {
  const stats = await folder.lookup(name);
  const isLocked = stats !== undefined && (stats.mode & 0o222n) === 0n;
  const isFine = await access(folder.at(name), constants.W_OK).then(
    () => true,
    () => false,
  );
  if (isLocked || !isFine)
    throw new FileRefusal("permission_denied", `${folder.pathOf(name)}: the file is read-only.`);
}

async function writeNew(target: StageTarget, temporary: string, bytes: Uint8Array): Promise<void> {
  const { folder, mode } = target;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const handle = await folder.openHandle(temporary, flags, mode ?? 0o666);
  try {
    if (mode !== undefined) await handle.chmod(mode);
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
