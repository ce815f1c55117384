// Looks at a file before SQLite does, so that a file that is not ours is never touched.

import { accessSync, closeSync, constants, openSync, readSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { MarlingError, messageOf } from "../../base/errors.ts";
import { APPLICATION_ID } from "./migrations.ts";
import { damaged } from "./sqlite-fault.ts";

export type FileState = "absent" | "empty" | "ours";

const MAGIC = "SQLite format 3\0";
export const HEADER_BYTES = 100;
/** Conversations are nobody else's business. */
const OWN_ONLY = 0o600;

/** The mode of the database file, and of every file beside it. */
export function modeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? OWN_ONLY : stat.mode & 0o777;
}

/** The path of a database file as its own folder knows it; throws where no store can be. Opens nothing. */
export function databasePath(path: string): string {
  const real = realPath(resolve(path));
  const stat = statSync(real, { throwIfNoEntry: false });
  if (stat?.isFile() === false) throw refuse(`expected a file, found something else at ${real}`, path);
  requireWritable(dirname(real), "folder", path);
  if (stat !== undefined) requireWritable(real, "file", path);
  return real;
}

/**
 * What is at `path`; throws for a file that a store must not write to. One that a store has open is not looked into: that
 * store did, and on POSIX closing a handle of a file drops the locks that the same process has on it.
 */
export function inspectFile(path: string, { isOpen }: { readonly isOpen: boolean }): FileState {
  const stat = statSync(path, { throwIfNoEntry: false });
  const hasLog = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
  if (stat === undefined && hasLog)
    throw damaged(path, "expected a database beside its log, found the log alone");
  if (stat === undefined) return "absent";
  if (stat.size === 0 && !hasLog) return "empty";
  if (!isOpen) checkHeader(path, stat.size, hasLog);
  return "ours";
}

function realPath(path: string): string {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return realpathSync(path);
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true)
    return join(realpathSync(folder), basename(path));
  throw refuse(`expected a file in a folder that exists, found no folder ${folder}`, path);
}

function requireWritable(target: string, kind: "file" | "folder", path: string): void {
  try {
    accessSync(target, constants.R_OK | constants.W_OK);
  } catch (cause) {
    throw refuse(`expected a ${kind} that can be written, found ${target}: ${messageOf(cause)}`, path, cause);
  }
}

/** Offsets are those of the database file format: page size at 16, size in pages at 28, application id at 68. */
function checkHeader(path: string, size: number, hasLog: boolean): void {
  const header = readHeader(path);
  const magic = header.toString("latin1", 0, Math.min(size, MAGIC.length));
  if (magic !== MAGIC) throw foreign(path, "a file that is no database");
  if (size < HEADER_BYTES) throw damaged(path, `expected a whole database, found ${size} bytes`);
  const application = header.readUInt32BE(68);
  if (application !== APPLICATION_ID) {
    throw foreign(path, `a database of another application (id ${application})`);
  }
  const pageSize = header.readUInt16BE(16) === 1 ? 65536 : header.readUInt16BE(16);
  const expected = header.readUInt32BE(28) * pageSize;
  if (size < expected && !hasLog) {
    throw damaged(path, `expected a whole database of ${expected} bytes, found ${size}: it was cut off`);
  }
}

function readHeader(path: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  const file = openSync(path, "r");
  try {
    readSync(file, header, 0, HEADER_BYTES, 0);
  } finally {
    closeSync(file);
  }
  return header;
}

function foreign(path: string, found: string): MarlingError {
  return new MarlingError("store_foreign", `store ${path}: expected a store of marling, found ${found}`, {
    details: { path },
  });
}

function refuse(problem: string, path: string, cause?: unknown): MarlingError {
  return new MarlingError("invalid_options", `option path: ${problem}`, {
    cause,
    details: { option: "path", path },
  });
}
