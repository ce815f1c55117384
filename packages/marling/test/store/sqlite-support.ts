// Folders, drivers and child processes for the tests of the SQLite store.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { onTestFinished } from "vitest";
import { MarlingError } from "../../src/base/errors.ts";
import type { Store } from "../../src/store/contract.ts";
import {
  loadDriver,
  type SqliteDatabase,
  type SqliteDriver,
  type SqliteStatement,
  type SqlRow,
} from "../../src/store/sqlite/driver.ts";
import { SUMMED } from "../../src/store/sqlite/row-sum.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { UNSUMMED } from "../../src/store/sqlite/summed-tables.ts";

/** A folder that is gone after the test. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-sqlite-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export interface Opened {
  readonly store: Store;
  readonly path: string;
  reopen(): Promise<Store>;
}

/** A store on a file of its own, closed after the test. */
export function opened(): Opened {
  const path = join(temporaryFolder(), "store.db");
  let store = sqliteStore({ path });
  onTestFinished(() => store.close());
  const reopen = async (): Promise<Store> => {
    await store.close();
    store = sqliteStore({ path });
    return store;
  };
  return { store, path, reopen };
}

/** Runs SQL on a file that no store has open. */
export async function query(path: string, sql: string): Promise<readonly SqlRow[]> {
  const { DatabaseSync } = await loadDriver();
  const database = new DatabaseSync(path);
  try {
    const rows = database.prepare(sql).all();
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return rows;
  } finally {
    database.close();
  }
}

/** Runs SQL on a file as a version would have that knew no checksums. */
export async function queryAsOlder(path: string, ...statements: readonly string[]): Promise<void> {
  for (const sql of statements) await query(path, sql);
  for (const table of Object.keys(SUMMED)) await query(path, `UPDATE ${table} SET sum = NULL`);
  await query(path, `INSERT OR REPLACE INTO meta (name, value) VALUES ('${UNSUMMED}', '')`);
}

export function bytesOf(path: string): string {
  return readFileSync(path).toString("hex");
}

/** The code and the message of a refusal. */
export async function refusal(
  promise: Promise<unknown>,
): Promise<{ readonly code: string; readonly message: string }> {
  try {
    await promise;
  } catch (thrown) {
    if (!MarlingError.is(thrown)) throw thrown;
    return { code: thrown.code, message: thrown.message };
  }
  throw new Error("expected a refusal, found none");
}

export interface Tap {
  /** Told of every SQL text before it runs, with its values; what it throws is thrown in its place. */
  before?: (sql: string, values: readonly unknown[], database: SqliteDatabase) => void;
  /** Told of every row that a statement has read. */
  read?: (sql: string, row: SqlRow) => void;
  /** Told of every SQL text that is run, whether it reads or writes. */
  run?: (sql: string) => void;
  /** Told of every SQL text that is made ready to be run. */
  prepared?: (sql: string) => void;
}

/** The real driver with a tap on what it is asked to do. */
export async function tappedDriver(tap: Tap): Promise<SqliteDriver> {
  const { DatabaseSync } = await loadDriver();
  class Tapped implements SqliteDatabase {
    readonly #database: SqliteDatabase;

    constructor(path: string) {
      this.#database = new DatabaseSync(path);
    }

    exec(sql: string): void {
      tap.before?.(sql, [], this.#database);
      tap.run?.(sql);
      this.#database.exec(sql);
    }

    prepare(sql: string): SqliteStatement {
      tap.prepared?.(sql);
      const statement = this.#database.prepare(sql);
      const database = this.#database;
      return {
        run: (...values) => {
          tap.before?.(sql, values, database);
          tap.run?.(sql);
          return statement.run(...values);
        },
        get: (...values) => {
          tap.run?.(sql);
          const row = statement.get(...values);
          if (row !== undefined) tap.read?.(sql, row);
          return row;
        },
        all: (...values) => {
          tap.run?.(sql);
          const rows = statement.all(...values);
          for (const row of rows) tap.read?.(sql, row);
          return rows;
        },
      };
    }

    close(): void {
      this.#database.close();
    }
  }
  return { DatabaseSync: Tapped };
}

/** An error as SQLite's driver throws it. */
export function sqliteError(errcode: number, message: string): Error {
  return Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode });
}

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** Compiles `sqlite-child.ts` for plain Node, below node_modules, where packages are found. Returns the file. */
export async function buildChild(): Promise<{ readonly file: string; remove(): void }> {
  const folder = mkdtempSync(join(root, "node_modules", ".marling-child-"));
  await build({
    configFile: false,
    root,
    logLevel: "silent",
    build: {
      ssr: fileURLToPath(new URL("sqlite-child.ts", import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      rolldownOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
  return { file: join(folder, "child.mjs"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

export interface Child {
  /** Lines that the child has printed. */
  readonly lines: readonly string[];
  /** Resolves when the child has printed this many lines; rejects when it ends before. */
  printed(count: number): Promise<void>;
  /** Ends the child as a crash does, and waits for its end. */
  kill(): Promise<void>;
}

export function startChild(file: string, ...args: readonly string[]): Child {
  const child = spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  const notify = (): void => {
    for (const check of waiting) check();
  };
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const parts = (text + chunk.toString()).split("\n");
    text = parts.pop() ?? "";
    lines.push(...parts);
    notify();
  });
  const errors: string[] = [];
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk.toString()));
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  child.on("close", notify);
  onTestFinished(() => end(child, ended));
  const printed = (count: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (lines.length >= count) resolve();
        else if (child.exitCode !== null) reject(new Error(`the child ended: ${errors.join("")}`));
        else return;
        waiting.delete(check);
      };
      waiting.add(check);
      check();
    });
  return { lines, printed, kill: () => end(child, ended) };
}

async function end(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  await ended;
}

/** How many rows of a table a row stands for: commits may be read many as one, which says which they are. */
export function rowsIn({ revisions }: { readonly [column: string]: unknown }): number {
  if (revisions === null) return 0;
  return typeof revisions === "string" ? revisions.split(",").length : 1;
}
