// The synchronous SQLite that Node brings along, or the package with the same surface where Node has none.
// Loaded when a store is opened, never by an import.

export type SqlValue = null | number | bigint | string | Uint8Array;
export type SqlRow = Readonly<Record<string, SqlValue>>;

export interface SqliteStatement {
  run(...values: readonly SqlValue[]): { readonly changes: number | bigint };
  get(...values: readonly SqlValue[]): SqlRow | undefined;
  all(...values: readonly SqlValue[]): readonly SqlRow[];
}

export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

export interface SqliteDriver {
  readonly DatabaseSync: new (path: string) => SqliteDatabase;
}

/** The driver of this process: `node:sqlite` from Node 22.13, `@photostructure/sqlite` before. */
export async function loadDriver(): Promise<SqliteDriver> {
  // The types of Node 20 know neither module; both have the surface declared above.
  const builtin = process.getBuiltinModule("node:sqlite") as SqliteDriver | undefined;
  return builtin ?? ((await import("@photostructure/sqlite")) as unknown as SqliteDriver);
}
