// Removes what nothing names any more.
//   VR1  what may be about to be named, or asked for, stays for a while.
//   VR2  a blob is named by its address anywhere in a text of a session, an input, a journal, a wait, a trigger or a component.
//        Texts are searched as they were before they were shortened; references of texts to strings of others hide
//        nothing, because each string is written out once.
//   VR4  a damaged file is refused before anything is removed. Rows of older versions get their checksums.
//   VR3  one row is looked at at a time, and a bounded number of blobs: memory does not depend on the size of the store.

import type { VacuumReport, VacuumRequest } from "../contract.ts";
import { blobsBehind, blobsNamedIn, deleteBlob, expirePuts } from "./blob-rows.ts";
import { checkFile } from "./check-file.ts";
import { deleteUnheld } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import { deliveryTexts, expireOccurrences } from "./delivery-rows.ts";
import type { SqlRow } from "./driver.ts";
import { isOfTurn } from "./input-codec.ts";
import { readTurns } from "./input-rows.ts";
import { readEntry } from "./journal-rows.ts";
import { type SessionRow, sessionByNumber } from "./session-rows.ts";
import { restoreText } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";
import { sumRows } from "./summed-tables.ts";
import { subscriptionTexts } from "./trigger-rows.ts";
import { expireWaits } from "./wait-rows.ts";
import { expireWithdrawn } from "./withdrawn-rows.ts";

/** A table whose rows have keys of sessions, and its texts. */
interface TextTable {
  readonly table: string;
  readonly columns: readonly string[];
}

const TABLES: readonly TextTable[] = [
  { table: "commits", columns: ["manifest", "settled", "nodes"] },
  { table: "inbox", columns: ["names", "submitted", "input", "progress", "plan", "state"] },
  { table: "withdrawn", columns: ["settled"] },
  { table: "journal", columns: ["entry", "outcome"] },
];

/** So many blobs are looked for at once. */
const BLOBS_AT_ONCE = 50_000;

/** Removes rows that are not needed; what is remembered of rows is void then. */
export function vacuumRows(db: Connection, { now, keepMs }: VacuumRequest): Omit<VacuumReport, "bytes"> {
  const until = now - keepMs;
  checkFile(db);
  sumRows(db);
  const journal = vacuumJournal(db);
  const inputs = expireWithdrawn(db, until);
  const waits = expireWaits(db, until);
  const occurrences = expireOccurrences(db, until);
  const components = deleteUnheld(db);
  const blobs = vacuumBlobs(db, until);
  return { journal, inputs, waits, occurrences, components, blobs };
}

/** Removes the records of turns that have no pending input. */
function vacuumJournal(db: Connection): number {
  let count = 0;
  let known: { readonly session: SessionRow; readonly turns: readonly string[] } | undefined;
  for (const row of rowsOf(db, { table: "journal", columns: ["entry", "outcome", "sum"] })) {
    const no = db.integer(row, "no");
    if (known?.session.no !== no) {
      const session = sessionOf(db, no);
      known = { session, turns: readTurns(db, session) };
    }
    const { turnId, steps } = readEntry(db, row, known.session);
    if (known.turns.some((turn) => isOfTurn(turnId, turn))) continue;
    db.run("DELETE FROM journal WHERE at = ? << 32 | ?", no, db.integer(row, "n"));
    count += steps.length;
  }
  return count;
}

/** Removes blobs that nothing names, except those that were put lately. */
function vacuumBlobs(db: Connection, until: number): number {
  expirePuts(db, until);
  let count = 0;
  let digests = blobsBehind(db, "", BLOBS_AT_ONCE);
  while (digests.length > 0) {
    const unnamed = new Set(digests);
    for (const text of textsOf(db)) {
      for (const digest of blobsNamedIn(text)) unnamed.delete(digest);
      if (unnamed.size === 0) break;
    }
    for (const digest of unnamed) deleteBlob(db, digest);
    count += unnamed.size;
    digests = blobsBehind(db, digests.at(-1) ?? "", BLOBS_AT_ONCE);
  }
  return count;
}

/** Everything that can name a blob, as it was before it was shortened. */
function* textsOf(db: Connection): Iterable<string> {
  let session: SessionRow | undefined;
  for (const table of TABLES) {
    for (const row of rowsOf(db, table)) {
      const no = db.integer(row, "no");
      if (session?.no !== no) session = sessionOf(db, no);
      for (const column of table.columns) {
        if (row[column] !== null) yield restoreText(db.text(row, column), session.id);
      }
    }
  }
  yield* waitTexts(db);
  yield* subscriptionTexts(db);
  yield* deliveryTexts(db);
  yield* componentTexts(db);
}

/** The rows of a table in the order of their keys, each read when the one before was looked at. */
function* rowsOf(db: Connection, { table, columns }: TextTable): Iterable<SqlRow> {
  const sql = `SELECT at >> 32 AS no, at & 4294967295 AS n, ${columns.join(", ")} FROM ${table} WHERE at > ? << 32 | ? ORDER BY at LIMIT 1`;
  let row = db.get(sql, 0, 0);
  while (row !== undefined) {
    yield row;
    row = db.get(sql, db.integer(row, "no"), db.integer(row, "n"));
  }
}

function* waitTexts(db: Connection): Iterable<string> {
  const sql = "SELECT no, session, turn, name, resolution FROM waits WHERE no > ? ORDER BY no LIMIT 1";
  let row = db.get(sql, 0);
  while (row !== undefined) {
    const { id } = sessionOf(db, db.integer(row, "session"));
    for (const column of ["turn", "name", "resolution"]) {
      if (row[column] !== null) yield restoreText(db.text(row, column), id);
    }
    row = db.get(sql, db.integer(row, "no"));
  }
}

function* componentTexts(db: Connection): Iterable<string> {
  const sql = "SELECT digest, body FROM components WHERE digest > ? ORDER BY digest LIMIT 1";
  let row = db.get(sql, new Uint8Array());
  while (row !== undefined) {
    yield db.text(row, "body");
    row = db.get(sql, db.bytes(row, "digest"));
  }
}

function sessionOf(db: Connection, no: number): SessionRow {
  const session = sessionByNumber(db, no);
  if (session === undefined) throw damaged(db.path, `expected session number ${no}, found none`);
  return session;
}
