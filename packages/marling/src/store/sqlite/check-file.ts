// Looks at a file before anything of it is served. Checksums find a row that is damaged when it is read; a row that can no
// longer be found, because the tree above it or its key is damaged, is found here alone.
//   CF1  a file of up to `CHECKED_BYTES` is checked by every store that opens it: the trees (integrity_check), the rows
//        that are looked up by their keys, and that sessions have all their commits. Contents of commits, components and
//        blobs are compared with their checksums when they are read.
//   CF2  a larger file is checked by `vacuum` alone, so that opening one does not take seconds.

import { checkCommits } from "./commit-sums.ts";
import type { Connection } from "./connection.ts";
import { damaged } from "./sqlite-fault.ts";
import { checkRows } from "./summed-tables.ts";

/** Measured: a file of this size is checked in about 0.2 s. */
const CHECKED_BYTES = 64 * 1024 * 1024;

/** Throws `store_corrupt` for a file that is damaged, as far as one of its size is looked at. */
export function checkOpenedFile(db: Connection): void {
  if (db.size() <= CHECKED_BYTES) checkFile(db);
}

/** As `checkOpenedFile`, for a file of any size. */
export function checkFile(db: Connection): void {
  checkTrees(db);
  checkRows(db);
  checkCommits(db);
}

/** Whether the trees of a file are whole, as SQLite says. */
export function checkTrees(db: Connection): void {
  const row = db.get(`PRAGMA ${db.schema}.integrity_check(1)`);
  const found = row === undefined ? "nothing" : String(Object.values(row)[0]);
  if (found !== "ok") throw damaged(db.path, `expected an intact database, found a damaged one: ${found}`);
}
