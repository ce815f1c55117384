// One open database with its prepared statements, and readers for what its columns hold.

import type { SessionId } from "../../model/ids.ts";
import type { Json } from "../../model/json.ts";
import type { SqliteDatabase, SqliteStatement, SqlRow, SqlValue } from "./driver.ts";
import { restoreText } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";

export class Connection {
  readonly path: string;
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();

  constructor(database: SqliteDatabase, path: string) {
    this.#database = database;
    this.path = path;
  }

  exec(sql: string): void {
    this.#database.exec(sql);
  }

  /** Runs a statement and returns how many rows it changed. */
  run(sql: string, ...values: readonly SqlValue[]): number {
    return Number(this.#prepared(sql).run(...values).changes);
  }

  get(sql: string, ...values: readonly SqlValue[]): SqlRow | undefined {
    return this.#prepared(sql).get(...values);
  }

  all(sql: string, ...values: readonly SqlValue[]): readonly SqlRow[] {
    return this.#prepared(sql).all(...values);
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
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

  /** The JSON of a column; of a column with texts of a session, that session is named. */
  json(row: SqlRow, column: string, session?: SessionId): Json {
    const text = this.text(row, column);
    try {
      return JSON.parse(session === undefined ? text : restoreText(text, session));
    } catch (cause) {
      throw damaged(this.path, `column ${column}: expected JSON, found other text`, { cause });
    }
  }

  #prepared(sql: string): SqliteStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const statement = this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}
