// All rows of tables that have checksums, for whoever looks at a whole file: the check of an opening, and `vacuum`, which
// gives rows of older versions theirs.
//   SM1  some rows are read at a time: memory does not depend on the size of the file.

import { sumCommits } from "./commit-sums.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow, SqlValue } from "./driver.ts";
import { SUMMED, type SummedTable, sumOfRow } from "./row-sum.ts";

/** Tables whose rows have keys of sessions: number and sequence are one integer there. */
const AT: ReadonlySet<SummedTable> = new Set(["inbox", "withdrawn", "journal", "outbox"]);
/** Tables whose key has two columns. */
const PAIRS: ReadonlySet<SummedTable> = new Set([...AT, "names"]);
const TOGETHER = 500;

/** The table `meta` says with this name that the file may have rows without a checksum. */
export const UNSUMMED = "unsummed";

const TABLES = Object.keys(SUMMED) as readonly SummedTable[];

/** Compares every row of these tables with its checksum. */
export function checkRows(db: Connection): void {
  for (const table of TABLES) for (const row of rowsOf(db, table)) db.summed(table, row);
}

/** Gives a checksum to every row that has none. */
export function sumRows(db: Connection): void {
  if (!db.mayLackSums) return;
  for (const table of TABLES) {
    const sql = `UPDATE ${table} SET sum = ? WHERE ${keyOf(table)} = ${valuesOf(table)}`;
    for (const row of rowsOf(db, table))
      if (row.sum === null) db.run(sql, sumOfRow(table, row), ...keyValues(table, row));
  }
  sumCommits(db);
  db.run("DELETE FROM meta WHERE name = ?", UNSUMMED);
}

function* rowsOf(db: Connection, table: SummedTable): Iterable<SqlRow> {
  const columns = SUMMED[table].filter((column) => !AT.has(table) || (column !== "no" && column !== "n"));
  const selected = [...(AT.has(table) ? ["at >> 32 AS no", "at & 4294967295 AS n"] : []), ...columns, "sum"];
  const from = `SELECT ${selected.join(", ")} FROM ${table}`;
  const order = `ORDER BY ${AT.has(table) ? "at" : keyColumns(table).join(", ")} LIMIT ${TOGETHER}`;
  const behind = `${from} WHERE ${keyOf(table)} > ${valuesOf(table)} ${order}`;
  for (let rows = db.all(`${from} ${order}`); ; ) {
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < TOGETHER) return;
    rows = db.all(behind, ...keyValues(table, last));
  }
}

function keyColumns(table: SummedTable): readonly string[] {
  return SUMMED[table].slice(0, PAIRS.has(table) ? 2 : 1);
}

function keyOf(table: SummedTable): string {
  return AT.has(table) ? "at" : `(${keyColumns(table).join(", ")})`;
}

function valuesOf(table: SummedTable): string {
  if (AT.has(table)) return "? << 32 | ?";
  return PAIRS.has(table) ? "(?, ?)" : "(?)";
}

function keyValues(table: SummedTable, row: SqlRow): readonly SqlValue[] {
  return keyColumns(table).map((column) => row[column] ?? null);
}
