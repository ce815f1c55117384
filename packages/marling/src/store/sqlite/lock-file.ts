// Locks on empty files, which are there for nothing else.
//   LF1  a lock is a lock of SQLite: it ends with its process, however that ends.
//   LF2  it leaves no file behind but the one that is locked: SQLite keeps its journal in memory.
//   LF3  nobody but SQLite opens such a file: on POSIX, closing any other handle of it drops the lock.
//   LF4  a lock counts when the path still leads to the locked file after locking: the file may have been removed, and made
//        again, while it was waited for.
//   LF5  a file is removed only under its lock, by a process that has checked LF4. In doubt it stays.
//   LF6  a file has the mode that it is given, that of the database beside it.

import { type BigIntStats, chmodSync, rmSync, statSync } from "node:fs";
import type { SqliteDatabase, SqliteDriver } from "./driver.ts";

export interface FileLock {
  release(): void;
  /** Removes the file and releases its lock. */
  remove(): void;
}

const IN_MEMORY_JOURNAL = "PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY";

/** Takes the lock of a file, which is made when it is not there; throws SQLite's "busy" when somebody has it. */
export function lockFile(driver: SqliteDriver, file: string, mode: number): FileLock {
  const before = ensureFile(driver, file, mode);
  const database = new driver.DatabaseSync(file);
  try {
    database.exec(`${IN_MEMORY_JOURNAL}; BEGIN EXCLUSIVE`);
    if (!isSame(before, statOf(file))) throw removedMeanwhile();
  } catch (thrown) {
    database.close();
    throw thrown;
  }
  const remove = (): void => {
    if (isSame(before, statOf(file))) removeFile(file);
    database.close();
  };
  return { release: () => database.close(), remove };
}

/** Whether somebody has the lock of a file. Those who ask at once do not take each other for one who has it. */
export function isLocked({ DatabaseSync }: SqliteDriver, file: string): boolean {
  let database: SqliteDatabase | undefined;
  try {
    database = new DatabaseSync(file);
    database.exec("PRAGMA busy_timeout = 0; SELECT 1 FROM sqlite_schema");
    return false;
  } catch {
    return true; // also when it cannot be told: whoever has it then keeps it
  } finally {
    database?.close();
  }
}

/** Removes a file that nobody has locked. Its lock is one that does not stop `isLocked` of others. */
export function removeUnlocked({ DatabaseSync }: SqliteDriver, file: string): void {
  const before = statOf(file);
  if (before === undefined) return;
  let database: SqliteDatabase | undefined;
  try {
    database = new DatabaseSync(file);
    database.exec(`${IN_MEMORY_JOURNAL}; BEGIN IMMEDIATE`);
    if (isSame(before, statOf(file))) removeFile(file);
  } catch {
    // Somebody has its lock: it stays.
  } finally {
    database?.close();
  }
}

/** Makes a file that is not there, and gives it its mode. SQLite makes it, for LF3. */
function ensureFile({ DatabaseSync }: SqliteDriver, file: string, mode: number): BigIntStats | undefined {
  if (statOf(file) === undefined) new DatabaseSync(file).close();
  const found = statOf(file);
  if (found === undefined || (Number(found.mode) & 0o777) === mode) return found;
  try {
    chmodSync(file, mode);
  } catch {
    // It is another user's, who has given it the mode that the database had then.
  }
  return found;
}

function removeFile(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // Somebody looks at it, where that forbids removing it; it is without a lock, so the next one to find it does.
  }
}

function statOf(file: string): BigIntStats | undefined {
  return statSync(file, { bigint: true, throwIfNoEntry: false });
}

/** Numbers of files are used again; with the time of birth they are not. */
function isSame(known: BigIntStats | undefined, found: BigIntStats | undefined): boolean {
  if (known === undefined || found === undefined) return false;
  return known.ino === found.ino && known.dev === found.dev && known.birthtimeNs === found.birthtimeNs;
}

/** As SQLite says that somebody has the lock: whoever waits for it tries again. */
function removedMeanwhile(): Error {
  return Object.assign(new Error("database is locked"), { errcode: 5 });
}
