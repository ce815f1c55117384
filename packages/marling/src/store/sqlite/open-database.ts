// Opens a database file, or makes one.
//   OD1  a file that is not ours, is damaged or is of a newer version is left as it is.
//   OD2  the file is looked at, made and brought up to date under the owner's lock, and looked into only when no store
//        has it open: on POSIX, closing a handle of a file drops the locks that the same process has on it.
//   OD3  a new file is made under another name and put in place when it is whole.
//   OD4  a file of an older version is brought up to date in one transaction.
//   OD6  a file is checked before it is used (check-file.ts).
//   OD5  who has the file open is alive for others from before it opens the file until after it has closed it.

import { chmodSync, closeSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { MarlingError } from "../../base/errors.ts";
import { checkOpenedFile, checkTrees } from "./check-file.ts";
import { Connection } from "./connection.ts";
import { databasePath, inspectFile, modeOf } from "./database-file.ts";
import type { SqliteDriver } from "./driver.ts";
import { aloneAlive, announceLive, isOpenElsewhere, type Liveness } from "./liveness.ts";
import { APPLICATION_ID, MIGRATIONS, VERSION } from "./migrations.ts";
import { takeOwnerLock } from "./owner-lock.ts";
import { abandon, type FileGuard, NO_FILE, SameFile } from "./same-file.ts";
import { damaged, sqliteFault } from "./sqlite-fault.ts";
import { UNSUMMED } from "./summed-tables.ts";
import { whenFree } from "./when-free.ts";

export interface OpenOptions {
  readonly path: string;
  readonly durability: "process" | "power";
  readonly pageSize: number;
  /** How long opening waits for others. */
  readonly busyLimitMs: number;
}

export interface OpenDatabase {
  readonly db: Connection;
  readonly liveness: Liveness;
  readonly guard: FileGuard;
  close(): void;
}

export const IN_MEMORY = ":memory:";

/** Rows of earlier versions have no checksums. */
const SUMMED_SINCE = 3;
/** The log is written back into the file when it has this size, if that was not done before: see open-store.ts. */
const LOG_BYTES = 1024 * 1024;
/** How long SQLite itself waits for a lock; longer waiting must not block the process. */
const BUSY_TIMEOUT_MS = 5;
const SETTINGS = `PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_spill = OFF`;

export async function openDatabase(driver: SqliteDriver, options: OpenOptions): Promise<OpenDatabase> {
  if (options.path === IN_MEMORY) return openInMemory(driver, options);
  const path = databasePath(options.path);
  const lock = await takeOwnerLock(driver, path, options.busyLimitMs);
  try {
    const isOpen = isOpenElsewhere(driver, path);
    if (inspectFile(path, { isOpen }) !== "ours") createFile(driver, path, options);
    const opened = await openFile(driver, path, options);
    lock.release();
    return opened;
  } catch (thrown) {
    const fault = sqliteFault(thrown, path);
    if (fault.code === "store_foreign") lock.undo();
    else lock.release();
    throw fault;
  }
}

/** The version of a file; refuses one that this code does not know. */
export function versionOf(db: Connection): number {
  const row = db.get("SELECT value FROM meta WHERE name = 'version'");
  const version = row === undefined ? Number.NaN : Number(db.text(row, "value"));
  if (!Number.isSafeInteger(version))
    throw damaged(db.path, "expected the version of the store in table meta, found none");
  if (version <= VERSION) return version;
  throw new MarlingError(
    "unsupported_version",
    `store ${db.path}: expected at most version ${VERSION}, found ${version}: it was written by a newer marling`,
    {
      details: { path: db.path, version },
    },
  );
}

function openInMemory(driver: SqliteDriver, options: OpenOptions): OpenDatabase {
  const db = new Connection(new driver.DatabaseSync(IN_MEMORY), IN_MEMORY);
  createTables(db, options);
  db.exec("PRAGMA temp_store = MEMORY");
  return { db, liveness: aloneAlive(), guard: NO_FILE, close: () => db.close() };
}

async function openFile(driver: SqliteDriver, path: string, options: OpenOptions): Promise<OpenDatabase> {
  const liveness = announceLive(driver, path);
  try {
    const db = await whenFree(() => attachFile(driver, path), options.busyLimitMs);
    try {
      await whenFree(() => prepareFile(driver, db, options), options.busyLimitMs);
    } catch (thrown) {
      db.close();
      throw thrown;
    }
    const guard = new SameFile(path, () => checkAnew(driver, path));
    return { db, liveness, guard, close: () => closeFile(driver, { db, liveness, guard }) };
  } catch (thrown) {
    liveness.release();
    throw thrown;
  }
}

function attachFile({ DatabaseSync }: SqliteDriver, path: string): Connection {
  const database = new DatabaseSync(IN_MEMORY);
  try {
    database.exec(SETTINGS);
    return new Connection(database, path, { isAttached: true });
  } catch (thrown) {
    database.close();
    throw thrown;
  }
}

function prepareFile(driver: SqliteDriver, db: Connection, { durability }: OpenOptions): void {
  const version = versionOf(db);
  if (version < VERSION) {
    requireOlder(db);
    migrateFile(driver, db.path, version);
  }
  db.mayLackSums = db.get("SELECT 1 FROM meta WHERE name = ?", UNSUMMED) !== undefined;
  const { schema } = db;
  const row = db.get(`PRAGMA ${schema}.page_size`);
  const pageSize = row === undefined ? 4096 : db.integer(row, "page_size");
  db.exec(`
    PRAGMA ${schema}.journal_mode = WAL;
    PRAGMA ${schema}.synchronous = ${durability === "power" ? "FULL" : "NORMAL"};
  `);
  db.setLogLimit(Math.floor(LOG_BYTES / pageSize));
  checkOpenedFile(db);
}

/** Refuses a file that says an older version than its tables have: what it says is damaged. */
function requireOlder(db: Connection): void {
  const row = db.get(`SELECT sql FROM ${db.schema}.sqlite_schema WHERE name = 'sessions'`);
  if (row === undefined || !db.text(row, "sql").includes("sum INTEGER")) return;
  throw damaged(db.path, "expected the version of the store in table meta, found an older one");
}

function closeFile(driver: SqliteDriver, { db, liveness, guard }: Omit<OpenDatabase, "close">): void {
  try {
    if (guard.isSound()) close(db);
    else if (guard.hasOwnLog() && !isOpenElsewhere(driver, db.path, liveness.instance)) db.close();
    else abandon(db);
  } finally {
    liveness.release();
  }
}

function close(db: Connection): void {
  try {
    db.checkpoint();
  } finally {
    db.close();
  }
}

/** Looks at the trees of a file that is open, as they are in the file. */
function checkAnew(driver: SqliteDriver, path: string): void {
  const db = attachFile(driver, path);
  try {
    checkTrees(db);
  } finally {
    db.close();
  }
}

/** On a connection of its own: the tables are made in the file, whatever is attached to what. */
function migrateFile({ DatabaseSync }: SqliteDriver, path: string, version: number): void {
  const db = new Connection(new DatabaseSync(path), path);
  try {
    db.exec(SETTINGS);
    migrate(db, version);
  } finally {
    db.close();
  }
}

/** Prepares no statements, so that closing the connection ends it in every driver. */
function migrate(db: Connection, version: number): void {
  const steps = MIGRATIONS.filter((migration) => migration.version > version);
  db.exec("BEGIN IMMEDIATE");
  try {
    for (const { sql } of steps) db.exec(sql);
    db.exec(`INSERT OR REPLACE INTO meta (name, value) VALUES ('version', '${VERSION}')`);
    if (version > 0 && version < SUMMED_SINCE)
      db.exec(`INSERT OR REPLACE INTO meta (name, value) VALUES ('${UNSUMMED}', '')`);
    db.exec("COMMIT");
  } catch (thrown) {
    db.exec("ROLLBACK");
    throw thrown;
  }
}

function createTables(db: Connection, { pageSize }: OpenOptions): void {
  db.exec(`PRAGMA page_size = ${pageSize}; PRAGMA application_id = ${APPLICATION_ID}`);
  migrate(db, 0);
}

/** Under the owner's lock, so that what lies under the other name is from a creation that was cut short. */
function createFile(driver: SqliteDriver, path: string, options: OpenOptions): void {
  const draft = `${path}-new`;
  for (const file of [draft, `${draft}-journal`]) rmSync(file, { force: true });
  closeSync(openSync(draft, "wx", modeOf(path)));
  const db = new Connection(new driver.DatabaseSync(draft), draft);
  try {
    createTables(db, options);
  } finally {
    db.close();
  }
  chmodSync(draft, modeOf(path));
  renameSync(draft, path);
  syncFolder(dirname(path));
}

/** Makes the new name last. Folders cannot be opened everywhere; there the system takes care of it. */
function syncFolder(folder: string): void {
  if (process.platform === "win32") return;
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
