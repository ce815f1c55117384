// Instruction files of a directory and those above it, up to a root.
//   PI1  a file is used only if the directory that holds it is trusted.
//   PI2  a file that really is outside the root, by a link or otherwise, is not read.
//   PI3  of one directory the first name that is there counts; what is nearer comes later.
//   PI4  a file is read again only when it is another one or has changed.

import { constants } from "node:fs";
import { lstat, open, realpath, stat } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { headOf } from "../cut-text.ts";

export interface InstructionRequest {
  readonly directory: string;
  /** Without it: the nearest directory above that has a `.git`, or the directory itself. */
  readonly root: string | undefined;
  readonly names: readonly string[];
  readonly trusted: boolean | readonly string[];
  readonly maxFileChars: number;
}

export interface InstructionFile {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

export interface Instructions {
  /** The farthest first. */
  readonly files: readonly InstructionFile[];
  /** Files that are there and were not used, and why. */
  readonly refused: readonly { readonly path: string; readonly reason: "not_trusted" | "outside_root" }[];
}

/** What was read before, by real path. */
export type InstructionCache = Map<string, { readonly mark: string; readonly text: string }>;

export async function readInstructions(
  request: InstructionRequest,
  cache: InstructionCache,
): Promise<Instructions> {
  const directory = await realpath(request.directory);
  const root = request.root === undefined ? await projectRoot(directory) : await realpath(request.root);
  const trusted = await trustedPaths(request.trusted);
  const files: InstructionFile[] = [];
  const refused: Instructions["refused"][number][] = [];
  for (const folder of between(root, directory)) {
    const found = await firstOf(folder, request.names);
    if (found === undefined) continue;
    const path = relative(root, found) || found;
    if (trusted !== true && !trusted.some((trust) => isInside(trust, folder))) {
      refused.push({ path, reason: "not_trusted" });
      continue;
    }
    const text = await readInside(root, found, { cache, maxFileChars: request.maxFileChars });
    if (text === undefined) refused.push({ path, reason: "outside_root" });
    else if (text.trim() !== "") files.push({ path, text });
  }
  return { files, refused };
}

async function projectRoot(directory: string): Promise<string> {
  for (let folder = directory; ; folder = dirname(folder)) {
    if (await isThere(join(folder, ".git"))) return folder;
    if (dirname(folder) === folder) return directory;
  }
}

/** The directories from the root down; a directory that is not below the root stands alone. */
function between(root: string, directory: string): readonly string[] {
  if (!isInside(root, directory)) return [];
  const folders = [directory];
  for (let folder = directory; folder !== root; folder = dirname(folder)) folders.unshift(dirname(folder));
  return folders;
}

async function trustedPaths(trusted: boolean | readonly string[]): Promise<true | readonly string[]> {
  if (trusted === true) return true;
  const paths = (trusted || []).map((path) => realpath(path).catch(() => undefined));
  return (await Promise.all(paths)).filter((path) => path !== undefined);
}

async function firstOf(folder: string, names: readonly string[]): Promise<string | undefined> {
  for (const name of names) if (await isThere(join(folder, name))) return join(folder, name);
  return undefined;
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : `${root}${sep}`);
}

interface ReadOptions {
  readonly cache: InstructionCache;
  readonly maxFileChars: number;
}

/** The text of a file that really is inside the root: what was opened is compared with what the real path names. */
async function readInside(
  root: string,
  path: string,
  { cache, maxFileChars }: ReadOptions,
): Promise<string | undefined> {
  const real = await realpath(path).catch(() => undefined);
  if (real === undefined || !isInside(root, real)) return undefined;
  const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    () => undefined,
  );
  if (file === undefined) return undefined;
  try {
    const opened = await file.stat();
    const named = await stat(real);
    const again = await realpath(path);
    if (!opened.isFile() || again !== real || opened.ino !== named.ino || opened.dev !== named.dev)
      return undefined;
    const mark = `${opened.dev}:${opened.ino}:${opened.size}:${opened.mtimeMs}`;
    const known = cache.get(real);
    if (known?.mark === mark) return known.text;
    const bytes = Buffer.alloc(Math.min(opened.size, maxFileChars * 4));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    const text = cut(bytes.subarray(0, bytesRead).toString("utf8"), maxFileChars);
    cache.set(real, { mark, text });
    return text;
  } finally {
    await file.close();
  }
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${headOf(text, length)}\n[the rest of the file is left out]`;
}
