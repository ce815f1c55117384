// Inputs that were withdrawn: no turn takes them any more, but whoever asks is told so until they expire.
//   WD1  sequences that were used are never used again: the newest of a session leaves a row without a text behind.

import type { InboxRow, Withdrawal } from "../contract.ts";
import { lastCommit } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { decodeSettled, encodeSettled, namesOf } from "./input-codec.ts";
import { deleteName } from "./name-rows.ts";
import { sumOf } from "./row-sum.ts";
import { type SessionKey, sessionByNumber } from "./session-rows.ts";
import { restoreText, shortenText } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";

const COLUMNS = "at >> 32 AS no, at & 4294967295 AS n, settled, over_at, sum";
const OF_SESSION = "FROM withdrawn WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";

export function insertWithdrawn(
  db: Connection,
  row: InboxRow,
  {
    session,
    report,
    now,
  }: Pick<Withdrawal, "report"> & { readonly session: SessionKey; readonly now: number },
): void {
  const settled = shortenText(encodeSettled({ row, joined: [] }, report, []), session.id);
  const sum = sumOf("withdrawn", { no: session.no, n: row.sequence, settled, over_at: now });
  db.run(
    "INSERT INTO withdrawn (at, settled, over_at, sum) VALUES (? << 32 | ?, ?, ?, ?)",
    session.no,
    row.sequence,
    settled,
    now,
    sum,
  );
}

/** An input that was withdrawn and has not expired. */
export function readWithdrawn(db: Connection, session: SessionKey, sequence: number): InboxRow | undefined {
  const row = db.get(`SELECT ${COLUMNS} FROM withdrawn WHERE at = ? << 32 | ?`, session.no, sequence);
  if (row !== undefined) db.summed("withdrawn", row);
  return row === undefined || row.settled === null ? undefined : decode(db, row, { session, sequence });
}

/** The largest sequence among them, 0 when there is none. */
export function lastWithdrawn(db: Connection, no: number): number {
  const row = db.get(`SELECT at & 4294967295 AS n ${OF_SESSION} ORDER BY at DESC LIMIT 1`, no);
  return row === undefined ? 0 : db.integer(row, "n");
}

export function deleteWithdrawn(db: Connection, no: number): void {
  db.run(`DELETE ${OF_SESSION}`, no);
}

/** Removes those that were withdrawn until a time, with their names; returns how many. */
export function expireWithdrawn(db: Connection, until: number): number {
  const sql = `SELECT ${COLUMNS} FROM withdrawn WHERE at > ? << 32 | ? AND over_at <= ? AND settled IS NOT NULL ORDER BY at LIMIT 1`;
  let count = 0;
  let row = db.get(sql, 0, 0, until);
  while (row !== undefined) {
    expire(db, db.summed("withdrawn", row));
    count += 1;
    row = db.get(sql, db.integer(row, "no"), db.integer(row, "n"), until);
  }
  db.run(`DELETE FROM withdrawn WHERE settled IS NULL AND (${newerIn("withdrawn")} OR ${newerIn("inbox")})`);
  return count;
}

/** Whether a table has a newer input of the same session. */
function newerIn(table: "withdrawn" | "inbox"): string {
  const isNewer = "newer.at > withdrawn.at AND newer.at <= withdrawn.at | 4294967295";
  return `EXISTS (SELECT 1 FROM ${table} AS newer WHERE ${isNewer})`;
}

function expire(db: Connection, row: SqlRow): void {
  const no = db.integer(row, "no");
  const sequence = db.integer(row, "n");
  const session = sessionByNumber(db, no);
  if (session === undefined) throw damaged(db.path, `expected session number ${no}, found none`);
  const { key, turnId } = namesOf(decode(db, row, { session, sequence }));
  if (key !== undefined) deleteName(db, no, { kind: "key", name: key });
  if (turnId !== undefined) deleteName(db, no, { kind: "turn", name: turnId });
  const isCounted = (lastCommit(db, session)?.manifest.inputs ?? 0) >= sequence;
  if (isCounted) db.run("DELETE FROM withdrawn WHERE at = ? << 32 | ?", no, sequence);
  else {
    const sum = sumOf("withdrawn", { no, n: sequence, settled: null, over_at: db.integer(row, "over_at") });
    db.run("UPDATE withdrawn SET settled = NULL, sum = ? WHERE at = ? << 32 | ?", sum, no, sequence);
  }
}

function decode(
  db: Connection,
  row: SqlRow,
  { session, sequence }: { readonly session: SessionKey; readonly sequence: number },
): InboxRow {
  const text = restoreText(db.text(row, "settled"), session.id);
  try {
    const [input] = decodeSettled(session.id, text, { sequence, strings: [] });
    if (input !== undefined) return input;
  } catch (cause) {
    throw damaged(db.path, `session ${session.id}, input ${sequence}: expected a withdrawn input`, { cause });
  }
  throw damaged(db.path, `session ${session.id}, input ${sequence}: expected a withdrawn input, found none`);
}
