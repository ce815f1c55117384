// One open database with its prepared statements, and readers for what its columns hold.
//   CN1  a file that is shared is attached to a connection of its own and detached when it is closed: that ends every
//        handle and lock on it at once. Closing alone does not, in a driver that keeps its statements until they are
//        collected.
//   CN2  reads of several statements see one state of the file, whatever others write meanwhile.
//   CN3  a row whose checksum is wrong is `store_corrupt`. One without a checksum is read where the file may have such rows.

import type { SessionId } from "../../model/ids.ts";
import type { Json } from "../../model/json.ts";
import type { SqliteDatabase, SqliteStatement, SqlRow, SqlValue } from "./driver.ts";
import { RowMemory } from "./row-memory.ts";
import { type SummedTable, sumOfRow, type TextPlace, withoutSum } from "./row-sum.ts";
import { restoreText } from "./session-text.ts";
import { damaged, isBusy } from "./sqlite-fault.ts";

/** How a connection calls the file that is attached to it. */
const ATTACHED = "store";
/** From this length on a value counts as a large one, and from so many bytes of them on a transaction does. */
const LARGE_VALUE = 64 * 1024;
const LARGE_BYTES = 1024 * 1024;
/** Ends a read that is to be answered from memory and cannot. */
const NOT_REMEMBERED = new Error("expected to remember the rows of a read, found that they must be read");

export class Connection {
  readonly path: string;
  /** What statements call the database that settings are of. */
  readonly schema: string;
  /** What is remembered of rows of the file, as the newest transaction found or left them. */
  readonly memory: RowMemory = new RowMemory();
  /** Commits of sessions that were written since the log was written back here. */
  commitsInLog = 0;
  /** The file may have rows of an older version, which have no checksum. */
  mayLackSums = false;
  readonly #versionSql: string;
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();
  #isFromMemory = false;
  #logPages = 0;
  /** Bytes of large values since the last commit. */
  #largeBytes = 0;

  /** With `isAttached`, the file at `path` is attached to the database; else it is the database. */
  constructor(
    database: SqliteDatabase,
    path: string,
    { isAttached = false }: { readonly isAttached?: boolean } = {},
  ) {
    this.#database = database;
    this.path = path;
    this.schema = isAttached ? ATTACHED : "main";
    this.#versionSql = `PRAGMA ${this.schema}.data_version`;
    if (isAttached) database.prepare(`ATTACH ? AS ${ATTACHED}`).run(path);
  }

  exec(sql: string): void {
    this.#database.exec(sql);
  }

  /** A large transaction was committed since the log was written back here. */
  get isLogLarge(): boolean {
    return this.commitsInLog === Number.POSITIVE_INFINITY;
  }

  /** How many pages the log has when SQLite writes it back with a commit. */
  setLogLimit(pages: number): void {
    this.#logPages = pages;
    this.exec(`PRAGMA wal_autocheckpoint = ${pages}`);
  }

  /** Commits. Of a large transaction the log is written back later: both together block the process for too long. */
  commit(): void {
    const isLarge = this.#largeBytes >= LARGE_BYTES && this.#logPages > 0;
    this.#largeBytes = 0;
    if (isLarge) this.exec("PRAGMA wal_autocheckpoint = 0");
    try {
      this.exec("COMMIT");
    } finally {
      if (isLarge) this.setLogLimit(this.#logPages);
    }
    if (isLarge) this.commitsInLog = Number.POSITIVE_INFINITY; // It is written back as soon as callers were told.
  }

  /** Runs a statement and returns how many rows it changed. */
  run(sql: string, ...values: readonly SqlValue[]): number {
    for (const value of values)
      if ((typeof value === "string" || value instanceof Uint8Array) && value.length > LARGE_VALUE)
        this.#largeBytes += value.length;
    return Number(this.#prepared(sql).run(...values).changes);
  }

  get(sql: string, ...values: readonly SqlValue[]): SqlRow | undefined {
    return this.#prepared(sql).get(...values);
  }

  all(sql: string, ...values: readonly SqlValue[]): readonly SqlRow[] {
    return this.#prepared(sql).all(...values);
  }

  /** What a read comes to without a look at the file; nothing when it needs one. */
  remembered<T>(read: () => T): { readonly value: T } | undefined {
    this.#isFromMemory = true;
    try {
      return { value: read() };
    } catch (thrown) {
      if (thrown === NOT_REMEMBERED) return undefined;
      throw thrown;
    } finally {
      this.#isFromMemory = false;
    }
  }

  /** Reads from one state of the file. */
  snapshot<T>(read: () => T): T {
    this.run("BEGIN");
    try {
      return read();
    } finally {
      this.#endSnapshot();
    }
  }

  /** Moves when another connection has written. */
  dataVersion(): number {
    const row = this.get(this.#versionSql);
    if (row === undefined) throw damaged(this.path, "setting data_version: expected a number, found nothing");
    return this.integer(row, "data_version");
  }

  /** How large the database is, whether it is in the file or in the log. */
  size(): number {
    return this.#number("page_count") * this.#number("page_size");
  }

  freePages(): number {
    return this.#number("freelist_count");
  }

  /** Writes the log back into the file, as far as others let it: what comes next begins a new one. */
  writeBack(): void {
    this.commitsInLog = 0;
    this.exec(`PRAGMA ${this.schema}.wal_checkpoint(PASSIVE)`);
  }

  /** Writes the log back into the file and empties it, as far as others let it. */
  checkpoint(): void {
    try {
      this.exec(`PRAGMA ${this.schema}.wal_checkpoint(TRUNCATE)`);
    } catch (thrown) {
      if (!isBusy(thrown)) throw thrown;
    }
  }

  close(): void {
    this.#statements.clear();
    try {
      if (this.schema === ATTACHED) this.exec(`DETACH ${ATTACHED}`);
    } finally {
      this.#database.close();
    }
  }

  text(row: SqlRow, column: string): string {
    const value = row[column];
    if (typeof value === "string") return value;
    throw damaged(this.path, `column ${column}: expected text, found ${typeof value}`);
  }

  integer(row: SqlRow, column: string): number {
    const value = row[column];
    if (typeof value === "number" && Number.isSafeInteger(value)) return value;
    throw damaged(this.path, `column ${column}: expected a whole number, found ${typeof value}`);
  }

  bytes(row: SqlRow, column: string): Uint8Array {
    const value = row[column];
    if (value instanceof Uint8Array) return value;
    throw damaged(this.path, `column ${column}: expected bytes, found ${typeof value}`);
  }

  /** A row with all its values, after a look at its checksum. */
  summed(table: SummedTable, row: SqlRow): SqlRow {
    const { sum } = row;
    if (sum === null && this.mayLackSums) return row;
    if (sum === sumOfRow(table, row)) return row;
    throw damaged(this.path, `table ${table}: expected the row that was written, found a damaged one`);
  }

  /** A text of a commit without its checksum, after a look at that. */
  commitText(stored: string, place: TextPlace): string {
    const { text, isRight = this.mayLackSums } = withoutSum(stored, place);
    if (isRight) return text;
    const where = `column ${place.column} of commit ${place.revision}`;
    throw damaged(this.path, `${where}: expected the text that was written, found a damaged one`);
  }

  /** The JSON of a column; of a column with texts of a session, that session is named. */
  json(row: SqlRow, column: string, session?: SessionId): Json {
    return this.parsed(this.text(row, column), column, session);
  }

  /** The JSON of a text of a column. */
  parsed(text: string, column: string, session?: SessionId): Json {
    try {
      return JSON.parse(session === undefined ? text : restoreText(text, session));
    } catch (cause) {
      throw damaged(this.path, `column ${column}: expected JSON, found other text`, { cause });
    }
  }

  /** The JSON of several texts of a column, parsed as one. */
  parsedTogether(texts: readonly string[], column: string, session: SessionId): readonly Json[] {
    const values = this.parsed(`[${texts.join(",")}]`, column, session);
    if (Array.isArray(values) && values.length === texts.length) return values;
    throw damaged(this.path, `column ${column}: expected JSON, found other text`);
  }

  #number(setting: string): number {
    const row = this.get(`PRAGMA ${this.schema}.${setting}`);
    if (row === undefined) throw damaged(this.path, `setting ${setting}: expected a number, found nothing`);
    return this.integer(row, setting);
  }

  #endSnapshot(): void {
    try {
      this.run("END");
    } catch {
      // There is no transaction left to end: SQLite ended it with the error that brought us here.
    }
  }

  #prepared(sql: string): SqliteStatement {
    if (this.#isFromMemory) throw NOT_REMEMBERED;
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}
