// The embedded store: one SQLite file, owned by one process at a time.
//   SQ1  what a call acknowledged is in the file: it survives the end of the process, and with durability "power" the
//        loss of power.
//   SQ2  bytes written per turn depend on what the turn adds, never on the history.
//   SQ3  the file is opened by the first call; when that fails, the next call tries again.
// Sharing a file between processes comes later: a second process is refused with `store_in_use`.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId, TurnId } from "../../model/ids.ts";
import type { JournalRecord, JournalStore } from "../../model/journal.ts";
import type {
  BlobStore,
  CommitResult,
  ForkRequest,
  InboxRow,
  NewInput,
  SessionCommit,
  SessionFilter,
  SessionPage,
  Store,
  StoredSession,
} from "../contract.ts";
import { blobDigest, blobRef, insertBlob, readBlob } from "./blob-rows.ts";
import { type CommitParts, commitSession, prepareCommit } from "./commit-session.ts";
import type { Connection } from "./connection.ts";
import { deleteSession } from "./delete-session.ts";
import { loadDriver, type SqliteDriver } from "./driver.ts";
import { forkSession } from "./fork-session.ts";
import { HeadImages } from "./head-images.ts";
import {
  type Admission,
  admitInput,
  findDuplicate,
  pendingInputs,
  sessionsWithInputs,
} from "./inbox-rows.ts";
import { JournalRows } from "./journal-rows.ts";
import { listSessions } from "./list-sessions.ts";
import { loadSession } from "./load-session.ts";
import { IN_MEMORY, openDatabase } from "./open-database.ts";
import { ensureSession, findSession, knownSession } from "./session-rows.ts";
import { sqliteFault } from "./sqlite-fault.ts";
import { WriteQueue } from "./write-queue.ts";

export interface SqliteStoreOptions {
  /** The database file, made when it is not there, in a folder that is; `:memory:` for one that lives with the process. */
  readonly path: string;
  /** What an acknowledged write survives: the end of the process (default), or the loss of power, at the cost of a sync. */
  readonly durability?: "process" | "power";
}

/** What only tests and measurements choose. */
export interface SqliteInternals {
  readonly pageSize?: number;
  readonly busyLimitMs?: number;
  readonly loadDriver?: () => Promise<SqliteDriver>;
}

/** Measured (bench/store-bytes.mjs): a small page costs the fewest bytes, and large values hardly more time. */
const PAGE_SIZE = 512;
const BUSY_LIMIT_MS = 5000;

/**
 * A store in one SQLite file. Opens it on first use and owns it until `close`: another store on the same file is refused
 * with `store_in_use`. Writes that arrive in one tick share a transaction.
 */
export function sqliteStore(options: SqliteStoreOptions): Store {
  return openSqliteStore(options, {});
}

export function openSqliteStore(options: SqliteStoreOptions, internals: SqliteInternals): Store {
  return new SqliteStore(decodeOptions(options), internals);
}

interface OpenStore extends CommitParts {
  readonly db: Connection;
  readonly queue: WriteQueue;
  close(): void;
}

class SqliteStore implements Store {
  readonly isDurable: boolean;
  readonly blobs: BlobStore;
  readonly journal: JournalStore;
  readonly #options: Required<SqliteStoreOptions>;
  readonly #internals: SqliteInternals;
  #opening: Promise<OpenStore> | undefined;
  #isClosed = false;

  constructor(options: Required<SqliteStoreOptions>, internals: SqliteInternals) {
    this.#options = options;
    this.#internals = internals;
    this.isDurable = options.path !== IN_MEMORY;
    this.blobs = Object.freeze({
      put: (bytes: Uint8Array) => this.#putBlob(bytes),
      get: (ref: string) => this.#read(({ db }) => readBlob(db, ref)),
    });
    this.journal = Object.freeze({
      append: (records: readonly JournalRecord[]) => this.#appendRecords(records),
      read: (sessionId: SessionId, turnId: TurnId) => this.#readRecords(sessionId, turnId),
    });
  }

  load(sessionId: SessionId): Promise<StoredSession | undefined> {
    return this.#read(({ db }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? undefined : loadSession(db, session);
    });
  }

  async commit(commit: SessionCommit): Promise<CommitResult> {
    const prepared = prepareCommit(commit);
    return this.#write((store) => commitSession(store.db, prepared, store));
  }

  admit(input: NewInput): Promise<Admission> {
    return this.#write(({ db }) => admitInput(db, input));
  }

  find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined> {
    return this.#read(({ db }) => {
      const session = knownSession(db, input.sessionId);
      return session === undefined ? undefined : findDuplicate(db, session, input);
    });
  }

  pending(sessionId: SessionId): Promise<readonly InboxRow[]> {
    return this.#read(({ db }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? [] : pendingInputs(db, session);
    });
  }

  unsettled(): Promise<readonly SessionId[]> {
    return this.#read(({ db }) => sessionsWithInputs(db));
  }

  list(filter: SessionFilter): Promise<SessionPage> {
    return this.#read(({ db }) => listSessions(db, filter));
  }

  exists(sessionId: SessionId): Promise<boolean> {
    return this.#read(({ db }) => findSession(db, sessionId)?.status === "live");
  }

  delete(sessionId: SessionId): Promise<void> {
    return this.#write((store) => deleteSession(store.db, sessionId, store));
  }

  fork(request: ForkRequest): Promise<StoredSession> {
    return this.#write(({ db }) => forkSession(db, request));
  }

  /** Finishes what was asked for, writes the log back into the file and lets the file go. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const store = await this.#opening?.catch(() => undefined);
    await store?.queue.idle();
    try {
      store?.close();
    } catch (thrown) {
      throw sqliteFault(thrown, this.#options.path);
    }
  }

  async #putBlob(bytes: Uint8Array): Promise<string> {
    const copy = bytes.slice();
    const digest = blobDigest(copy);
    await this.#write(({ db }) => insertBlob(db, digest, copy));
    return blobRef(digest);
  }

  async #appendRecords(records: readonly JournalRecord[]): Promise<void> {
    if (records.length === 0) return;
    await this.#write(({ db, journal }) => {
      for (const record of records) journal.append(ensureSession(db, record.sessionId), record);
    });
  }

  #readRecords(sessionId: SessionId, turnId: TurnId): Promise<readonly JournalRecord[]> {
    return this.#read(({ db, journal }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? [] : journal.read(session, turnId);
    });
  }

  async #read<T>(read: (store: OpenStore) => T): Promise<T> {
    const store = await this.#opened();
    try {
      return read(store);
    } catch (thrown) {
      throw sqliteFault(thrown, this.#options.path);
    }
  }

  async #write<T>(write: (store: OpenStore) => T): Promise<T> {
    const store = await this.#opened();
    return store.queue.write(() => write(store));
  }

  #opened(): Promise<OpenStore> {
    if (this.#isClosed) {
      throw new MarlingError(
        "runtime_closed",
        `store ${this.#options.path}: expected an open store, found a closed one`,
      );
    }
    this.#opening ??= this.#open().catch((thrown: unknown) => {
      this.#opening = undefined;
      throw thrown;
    });
    return this.#opening;
  }

  async #open(): Promise<OpenStore> {
    const { pageSize = PAGE_SIZE, busyLimitMs = BUSY_LIMIT_MS } = this.#internals;
    const driver = await (this.#internals.loadDriver ?? loadDriver)();
    const { db, close } = openDatabase(driver, { ...this.#options, pageSize });
    const images = new HeadImages(db);
    const journal = new JournalRows(db);
    const onUndone = (): void => {
      images.reset();
      journal.reset();
    };
    return { db, images, journal, queue: new WriteQueue(db, { busyLimitMs, onUndone }), close };
  }
}

function decodeOptions(options: SqliteStoreOptions): Required<SqliteStoreOptions> {
  const { path, durability = "process", ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw refuse(unknown, "only `path` and `durability`");
  if (typeof path !== "string" || path === "") throw refuse("path", "the path of a file, or :memory:");
  if (durability !== "process" && durability !== "power") throw refuse("durability", "process or power");
  return { path, durability };
}

function refuse(option: string, expected: string): MarlingError {
  return new MarlingError("invalid_options", `sqliteStore: option ${option}: expected ${expected}`, {
    details: { option },
  });
}
