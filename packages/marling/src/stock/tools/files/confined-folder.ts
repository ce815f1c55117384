// The only door to the disk: folders and files below a root, opened one name at a time and never through a link.
//   CF1  a name is opened relative to the descriptor of its folder, without following links; what a link says is read and
//        walked by the same rules, so that a link leads only to what is below the root.
//   CF2  what was opened is compared with the root again, by the real path of the descriptor.
//   CF3  only folders and regular files are opened; nothing waits for a pipe or wakes a device.
// Where the system has no /proc/self/fd, a name is opened by its path, and the path is compared with what was opened.

import { type BigIntStats, existsSync, realpathSync, statSync } from "node:fs";
import { constants, type FileHandle, lstat, open, readlink, realpath } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { MarlingError } from "../../../index.ts";
import { FileRefusal, refusalOf, systemCode } from "./file-refusal.ts";

const NO_LINK = constants.O_NOFOLLOW ?? 0;
const NO_WAIT = constants.O_NONBLOCK ?? 0;
const FOLDER = constants.O_DIRECTORY ?? 0;
const DESCRIPTORS = "/proc/self/fd";

/** How names are opened: relative to descriptors, or by path with a check afterwards. */
export type OpenBy = "descriptor" | "path";

/** A root that exists. */
export interface ConfinedRoot {
  /** The real path. */
  readonly path: string;
  /** As the host wrote it, absolute. */
  readonly given: string;
  readonly openBy: OpenBy;
  /** What of it may be reached, relative to it; without it everything. */
  readonly reach?: readonly string[];
  /** What of it nobody reaches, relative to it. */
  readonly denied: readonly string[];
}

/** Whether a path is one that nobody reaches, or below one. */
export function isDenied({ denied }: ConfinedRoot, path: string): boolean {
  return denied.some((above) => path === above || path.startsWith(`${above}/`));
}

/** The root as a session may reach it. */
export function within(root: ConfinedRoot, reach: readonly string[] | undefined): ConfinedRoot {
  return reach === undefined ? root : { ...root, reach };
}

/** Reads the root of a host. Throws `invalid_options` when it is no folder. */
export function confinedRoot(
  root: unknown,
  where: string,
  options: { readonly openBy?: OpenBy; readonly denied?: unknown } = {},
): ConfinedRoot {
  const shown = typeof root === "string" ? JSON.stringify(root) : typeof root;
  const refuse = (cause?: unknown): MarlingError =>
    new MarlingError("invalid_options", `${where}: root: expected the path of a folder, found ${shown}`, {
      cause,
      details: { where },
    });
  if (typeof root !== "string" || root === "" || root.includes("\0")) throw refuse();
  try {
    const path = realpathSync(resolve(root));
    if (!statSync(path).isDirectory()) throw refuse();
    const denied = deniedPaths(options.denied ?? [], where);
    return Object.freeze({ path, given: resolve(root), openBy: options.openBy ?? supported(), denied });
  } catch (thrown) {
    throw MarlingError.is(thrown) ? thrown : refuse(thrown);
  }
}

function deniedPaths(denied: unknown, where: string): readonly string[] {
  const isPlain = (path: unknown): path is string =>
    typeof path === "string" && /^[^/\\\0]/.test(path) && !path.split("/").some(isStep);
  if (Array.isArray(denied) && denied.every(isPlain)) return Object.freeze([...denied]);
  const message = `${where}: denied: expected a list of paths below the root, such as "build/cache", found something else`;
  throw new MarlingError("invalid_options", message, { details: { where } });
}

function isStep(name: string): boolean {
  return name === "" || name === "." || name === "..";
}

function supported(): OpenBy {
  return process.platform === "linux" && existsSync(DESCRIPTORS) ? "descriptor" : "path";
}

/** A folder below the root that is held open. Whoever has it closes it. */
export class ConfinedFolder {
  readonly root: ConfinedRoot;
  readonly segments: readonly string[];
  readonly #handle: FileHandle;

  private constructor(root: ConfinedRoot, segments: readonly string[], handle: FileHandle) {
    this.root = root;
    this.segments = segments;
    this.#handle = handle;
  }

  static async openRoot(root: ConfinedRoot): Promise<ConfinedFolder> {
    return ConfinedFolder.#open(root, [], root.path);
  }

  static async #open(
    root: ConfinedRoot,
    segments: readonly string[],
    place: string,
  ): Promise<ConfinedFolder> {
    const path = shownPath(segments);
    const handle = await open(place, constants.O_RDONLY | FOLDER | NO_LINK).catch((thrown: unknown) => {
      throw refusalOf(thrown, path);
    });
    const folder = new ConfinedFolder(root, segments, handle);
    await checkInside(handle, folder);
    return folder;
  }

  /** Where a name in this folder is, for the functions of the file system that do not follow links at the end. */
  at(name: string): string {
    if (this.root.openBy === "descriptor") return `${DESCRIPTORS}/${this.#handle.fd}/${name}`;
    return join(this.root.path, ...this.segments, name);
  }

  /** The folder itself, for reading its names. */
  get place(): string {
    return this.at("");
  }

  pathOf(name?: string): string {
    return shownPath(name === undefined ? this.segments : [...this.segments, name]);
  }

  /** What a name is, itself and not what it links to; nothing when there is none. */
  async lookup(name: string): Promise<BigIntStats | undefined> {
    try {
      return await lstat(this.at(name), { bigint: true });
    } catch (thrown) {
      if (systemCode(thrown) === "ENOENT") return undefined;
      throw refusalOf(thrown, this.pathOf(name));
    }
  }

  async openFolder(name: string): Promise<ConfinedFolder> {
    return ConfinedFolder.#open(this.root, [...this.segments, name], this.at(name));
  }

  /** Opens a regular file for reading. Anything else is refused before it is opened, and again when it is open. */
  async openFile(name: string): Promise<FileHandle> {
    const path = this.pathOf(name);
    checkRegular(await this.lookup(name), path);
    return this.openHandle(name, constants.O_RDONLY);
  }

  /** Opens or makes a regular file. Contract: the caller closes it. */
  async openHandle(name: string, flags: number, mode?: number): Promise<FileHandle> {
    const path = this.pathOf(name);
    const handle = await open(this.at(name), flags | NO_LINK | NO_WAIT, mode).catch((thrown: unknown) => {
      throw refusalOf(thrown, path);
    });
    await checkInside(handle, this, name);
    try {
      checkRegular(await handle.stat({ bigint: true }), path);
      return handle;
    } catch (thrown) {
      await handle.close();
      throw thrown;
    }
  }

  /** Makes what was changed in this folder survive a crash of the machine, where the system can. */
  async sync(): Promise<void> {
    await this.#handle.sync().catch(() => undefined); // Some file systems cannot: the names are then as safe as they get.
  }

  /** Refuses when the path of this folder leads elsewhere by now. */
  async check(): Promise<void> {
    if (!(await isInside(this.#handle, this))) throw movedRefusal(this.pathOf());
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Closes the handle when it is not below the root. */
async function checkInside(handle: FileHandle, folder: ConfinedFolder, name?: string): Promise<void> {
  const isFine = await isInside(handle, folder, name).catch(() => false);
  if (isFine) return;
  await handle.close();
  throw movedRefusal(folder.pathOf(name));
}

async function isInside(handle: FileHandle, folder: ConfinedFolder, name?: string): Promise<boolean> {
  const { root, segments } = folder;
  if (root.openBy === "descriptor") {
    const real = await readlink(`${DESCRIPTORS}/${handle.fd}`);
    return real === root.path || real.startsWith(withSeparator(root.path));
  }
  const path = join(root.path, ...segments, ...(name === undefined ? [] : [name]));
  const [real, found, held] = await Promise.all([
    realpath(path),
    lstat(path, { bigint: true }),
    handle.stat({ bigint: true }),
  ]);
  return real === path && found.ino === held.ino && found.dev === held.dev;
}

function movedRefusal(path: string): FileRefusal {
  return new FileRefusal(
    "path_outside_root",
    `${path}: expected something below the root, found that it was moved or became a link meanwhile.`,
  );
}

/** Refuses what is no regular file, and says what it is instead. */
export function checkRegular(stats: BigIntStats | undefined, path: string): void {
  if (stats === undefined) throw new FileRefusal("not_found", `${path}: there is no file of this name.`);
  if (stats.isFile()) return;
  throw new FileRefusal("not_a_file", `${path}: expected a file, found ${kindOf(stats)}.`);
}

function kindOf(stats: BigIntStats): string {
  if (stats.isDirectory()) return "a folder";
  if (stats.isSymbolicLink()) return "a link";
  if (stats.isFIFO()) return "a pipe";
  return stats.isSocket() ? "a socket" : "a device";
}

/** A path as the model reads it: relative to the root, with slashes. */
export function shownPath(segments: readonly string[]): string {
  return segments.length === 0 ? "." : segments.join("/");
}

export function withSeparator(path: string): string {
  return path.endsWith(sep) ? path : path + sep;
}
