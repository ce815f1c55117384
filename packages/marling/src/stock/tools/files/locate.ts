// From a path that a model wrote to a name in an open folder, step by step.
//   LO1  a path is read relative to the root; an absolute one must be below it.
//   LO3  where a path leads, links walked, is what a session may reach; so is every folder that is made on the way, but for
//        those above.
//   LO2  links are walked, never followed by the system: one that leads out of the root is refused wherever it stands.

import type { BigIntStats } from "node:fs";
import { mkdir, readlink } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";
import { ConfinedFolder, type ConfinedRoot, isDenied, shownPath, withSeparator } from "./confined-folder.ts";
import { FileRefusal, refusalOf, systemCode } from "./file-refusal.ts";

const MAX_LINKS = 40;
const MAX_PATH = 4_096;

/** Where a path leads. The folder is open and belongs to the caller. */
export type Place =
  | {
      readonly kind: "found";
      readonly path: string;
      readonly folder: ConfinedFolder;
      readonly name: string;
      readonly stats: BigIntStats;
    }
  /** The root, or a folder that a link ends in. */
  | { readonly kind: "folder"; readonly path: string; readonly folder: ConfinedFolder }
  | {
      readonly kind: "free";
      readonly path: string;
      readonly folder: ConfinedFolder;
      readonly name: string;
      /** The folders that were made on the way, outermost first. */
      readonly made: readonly string[];
    }
  /** A folder on the way does not exist. */
  | { readonly kind: "missing"; readonly path: string };

export interface LocateOptions {
  /** Makes the folders on the way. */
  readonly makeFolders?: boolean;
}

/** Walks to a path. Refuses what is outside the root. */
export async function locate(root: ConfinedRoot, path: string, options: LocateOptions = {}): Promise<Place> {
  const walk = new Walk(root, segmentsOf(root, path), options);
  try {
    const place = await walk.run();
    if (isReached(root, place.path)) return place;
    if (place.kind !== "missing") await place.folder.close();
    throw denied(root, place.path);
  } finally {
    await walk.close();
  }
}

/** Gives the place of a path to `use`, and closes its folder afterwards. */
export async function atPlace<T>(
  root: ConfinedRoot,
  path: string,
  use: (place: Place) => Promise<T>,
): Promise<T> {
  const place = await locate(root, path);
  try {
    return await use(place);
  } finally {
    if (place.kind !== "missing") await place.folder.close();
  }
}

function segmentsOf(root: ConfinedRoot, path: string): readonly string[] {
  if (path.includes("\0"))
    throw new FileRefusal("invalid_path", "path: expected no NUL character, found one.");
  if (path.length > MAX_PATH)
    throw new FileRefusal(
      "invalid_path",
      `path: expected at most ${MAX_PATH} characters, found ${path.length}.`,
    );
  const base = isAbsolute(path) && isBelow(root.given, resolve(path)) ? root.given : root.path;
  const inside = relativeTo(base, resolve(base, path));
  if (inside === undefined) throw outside(path);
  return inside;
}

function isBelow(base: string, path: string): boolean {
  return path === base || path.startsWith(withSeparator(base));
}

function relativeTo(base: string, path: string): readonly string[] | undefined {
  if (!isBelow(base, path)) return undefined;
  return relative(base, path)
    .split(sep)
    .filter((segment) => segment !== "");
}

function isReached({ reach }: ConfinedRoot, path: string): boolean {
  return reach === undefined || reach.some((above) => above === "." || isUnder(above, path));
}

function isUnder(above: string, path: string): boolean {
  return path === above || path.startsWith(`${above}/`);
}

function denied({ reach = [] }: ConfinedRoot, path: string): FileRefusal {
  const what = reach.length === 0 ? "no files at all" : `only these: ${reach.join(", ")}`;
  return new FileRefusal("path_denied", `${path}: out of reach. This session may reach ${what}.`);
}

function withheld(path: string): FileRefusal {
  return new FileRefusal("path_denied", `${path}: out of reach. The host keeps it to itself.`);
}

function outside(path: string): FileRefusal {
  return new FileRefusal(
    "path_outside_root",
    `${path}: expected a path below the root, found one that leads outside. Use a path relative to the root.`,
  );
}

class Walk {
  readonly #root: ConfinedRoot;
  readonly #options: LocateOptions;
  readonly #asked: string;
  #pending: string[];
  #open: ConfinedFolder[] = [];
  #made: string[] = [];
  #links = 0;

  constructor(root: ConfinedRoot, segments: readonly string[], options: LocateOptions) {
    this.#root = root;
    this.#options = options;
    this.#asked = shownPath(segments);
    this.#pending = [...segments];
  }

  async run(): Promise<Place> {
    this.#open.push(await ConfinedFolder.openRoot(this.#root));
    for (let name = this.#pending.shift(); name !== undefined; name = this.#pending.shift()) {
      const place = await this.#step(name);
      if (place !== undefined) return place;
    }
    const folder = this.#take();
    return { kind: "folder", path: folder.pathOf(), folder };
  }

  /** What was opened on the way and is not the result. */
  async close(): Promise<void> {
    for (const folder of this.#open.splice(0)) await folder.close();
  }

  async #step(name: string): Promise<Place | undefined> {
    if (name === "" || name === ".") return undefined;
    if (name === "..") return this.#up();
    const folder = this.#top();
    if (isDenied(this.#root, folder.pathOf(name))) throw withheld(folder.pathOf(name));
    const stats = await folder.lookup(name);
    if (stats?.isSymbolicLink()) return this.#walkLink(folder, name);
    const path = folder.pathOf(name);
    const isLast = this.#pending.length === 0;
    if (stats === undefined) {
      if (isLast) return { kind: "free", path, folder: this.#take(), name, made: this.#made };
      if (this.#options.makeFolders !== true)
        return { kind: "missing", path: [path, ...this.#pending].join("/") };
      await this.#make(folder, name);
    } else if (isLast) return { kind: "found", path, folder: this.#take(), name, stats };
    else if (!stats.isDirectory())
      throw new FileRefusal(
        "not_a_directory",
        `${this.#asked}: expected ${path} to be a folder, found a file.`,
      );
    this.#open.push(await folder.openFolder(name));
    return undefined;
  }

  async #up(): Promise<undefined> {
    if (this.#open.length === 1) throw outside(this.#asked);
    await this.#take().close();
    return undefined;
  }

  async #walkLink(folder: ConfinedFolder, name: string): Promise<undefined> {
    this.#links += 1;
    if (this.#links > MAX_LINKS)
      throw new FileRefusal(
        "invalid_path",
        `${this.#asked}: expected at most ${MAX_LINKS} links, found more.`,
      );
    const target = await readlink(folder.at(name)).catch((thrown: unknown) => {
      throw refusalOf(thrown, folder.pathOf(name));
    });
    if (!isAbsolute(target)) {
      this.#pending.unshift(...target.split(sep));
      return undefined;
    }
    const base = isBelow(this.#root.path, resolve(target)) ? this.#root.path : this.#root.given;
    const inside = relativeTo(base, resolve(target));
    if (inside === undefined) throw outside(this.#asked);
    for (const below of this.#open.splice(1)) await below.close();
    this.#pending.unshift(...inside);
    return undefined;
  }

  async #make(folder: ConfinedFolder, name: string): Promise<void> {
    const path = folder.pathOf(name);
    const isOnTheWay = this.#root.reach?.some((reached) => isUnder(path, reached)) ?? true;
    if (!isOnTheWay && !isReached(this.#root, path)) throw denied(this.#root, path);
    try {
      await mkdir(folder.at(name));
      this.#made.push(path);
    } catch (thrown) {
      if (systemCode(thrown) !== "EEXIST") throw refusalOf(thrown, path);
    }
  }

  #top(): ConfinedFolder {
    const folder = this.#open.at(-1);
    if (folder === undefined) throw outside(this.#asked);
    return folder;
  }

  #take(): ConfinedFolder {
    const folder = this.#top();
    this.#open.pop();
    return folder;
  }
}
