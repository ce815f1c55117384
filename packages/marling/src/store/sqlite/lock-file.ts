// Locks on empty files, which are there for nothing else.
//   LF1  a lock is a lock of SQLite: it ends with its process, however that ends.
//   LF2  it leaves no file behind but the one that is locked: SQLite keeps its journal in memory.
//   LF3  nobody but SQLite opens such a file: on POSIX, closing any other handle of it drops the lock.

import type { SqliteDatabase, SqliteDriver } from "./driver.ts";

export interface FileLock {
  release(): void;
}

/** Takes the lock of a file, which is made when it is not there; throws SQLite's "busy" when somebody has it. */
export function lockFile({ DatabaseSync }: SqliteDriver, file: string): FileLock {
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (thrown) {
    database.close();
    throw thrown;
  }
  return { release: () => database.close() };
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
