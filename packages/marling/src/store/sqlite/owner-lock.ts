// Whoever opens a store owns its file for that moment: looks at it, makes it, brings it up to date.
//   OL1  the lock is on an empty file beside the database, `<path>-owner`. It is waited for without blocking the process.
//   OL2  the file stays when the lock is released: removing it would let two processes lock two files of one name. It
//        goes when the file beside it turned out to be no store: under its lock, and whoever waited for it locks the
//        file that is there then (LF4).

import { existsSync } from "node:fs";
import { MarlingError } from "../../base/errors.ts";
import { modeOf } from "./database-file.ts";
import type { SqliteDriver } from "./driver.ts";
import { type FileLock, lockFile } from "./lock-file.ts";
import { isBusy, sqliteFault } from "./sqlite-fault.ts";
import { whenFree } from "./when-free.ts";

export interface OwnerLock extends Pick<FileLock, "release"> {
  /** Releases the lock, and removes its file if that was made for it. */
  undo(): void;
}

/** Takes the lock of the store at `path`; `store_busy` when others have it for longer than `limitMs`. */
export async function takeOwnerLock(driver: SqliteDriver, path: string, limitMs: number): Promise<OwnerLock> {
  const file = `${path}-owner`;
  const wasThere = existsSync(file);
  const { release, remove } = await lockOf(driver, { path, file, limitMs });
  return { release, undo: wasThere ? release : remove };
}

async function lockOf(
  driver: SqliteDriver,
  { path, file, limitMs }: { readonly path: string; readonly file: string; readonly limitMs: number },
): Promise<FileLock> {
  try {
    return await whenFree(() => lockFile(driver, file, modeOf(path)), limitMs);
  } catch (thrown) {
    throw isBusy(thrown) ? stillOwned(path, limitMs, thrown) : sqliteFault(thrown, file);
  }
}

function stillOwned(path: string, limitMs: number, cause: unknown): MarlingError {
  const problem = `expected to be able to open it within ${limitMs} ms, found another process at it: one that makes it, brings it up to date, or is of a version that shares it with nobody`;
  return new MarlingError("store_busy", `store ${path}: ${problem}`, { cause, details: { path } });
}
