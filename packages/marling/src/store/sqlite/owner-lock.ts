// One process owns a store at a time. Sharing a file between processes comes later; until then a second one is told so.
//   OL1  the lock is a lock of SQLite on an empty file beside the database, `<path>-owner`: it ends with its process,
//        however that ends. Nobody else may open that file; on POSIX, closing any other handle of it drops the lock.
//   OL2  the file stays when the lock of a store is released: removing it would let two processes lock two files of one
//        name. It goes when the file beside it turned out to be no store.

import { existsSync, rmSync } from "node:fs";
import { MarlingError } from "../../base/errors.ts";
import type { SqliteDatabase, SqliteDriver } from "./driver.ts";
import { isBusy, sqliteFault } from "./sqlite-fault.ts";

export interface OwnerLock {
  release(): void;
  /** Releases the lock, and removes its file if that was made for it. */
  undo(): void;
}

/** Takes the lock of the store at `path`; `store_in_use` when another store has it, in this process or another. */
export function takeOwnerLock({ DatabaseSync }: SqliteDriver, path: string): OwnerLock {
  const file = `${path}-owner`;
  const wasThere = existsSync(file);
  let database: SqliteDatabase | undefined;
  try {
    database = new DatabaseSync(file);
    database.exec("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE");
  } catch (thrown) {
    database?.close();
    if (!isBusy(thrown)) throw sqliteFault(thrown, file);
    throw new MarlingError(
      "store_in_use",
      `store ${path}: expected a file that no process uses, found one that another store has open`,
      {
        cause: thrown,
        details: { path },
      },
    );
  }
  const held = database;
  const release = (): void => held.close();
  const undo = (): void => {
    if (!wasThere) rmSync(file, { force: true });
    release();
  };
  return { release, undo };
}
