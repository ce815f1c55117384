// A database that is open, with what is remembered of its rows, and the ways to use it.
//   OS1  what is remembered is void as soon as another store has written: whether one has is asked in every transaction.
//   OS2  a file that another store has brought to a version this code does not know is not used any longer.
//        Its leases are free for others from then on: the store is no longer alive for them.
//   OS3  what finds the file locked by others waits for it without blocking the process, and not for ever.
//   OS4  the log is written back when so many commits are in it, after those who wait for a commit were told of it: the pages
//        that every turn writes are written back once for all of them, however much a turn writes, and no few turns pay
//        for many.

import { MarlingError } from "../../base/errors.ts";
import type { CommitParts } from "./commit-session.ts";
import type { Connection } from "./connection.ts";
import { HeadImages } from "./head-images.ts";
import { JournalRows } from "./journal-rows.ts";
import type { LeaseContext } from "./lease-rows.ts";
import { type OpenDatabase, versionOf } from "./open-database.ts";
import { isBusy, sqliteFault } from "./sqlite-fault.ts";
import { whenFree } from "./when-free.ts";
import { WriteQueue } from "./write-queue.ts";

/** What reads and writes work on. */
export interface StoreParts extends CommitParts {
  readonly db: Connection;
  readonly leases: LeaseContext;
  /** Drops what is remembered of rows, after some were changed by others than the parts that remember. */
  forget(): void;
}

export interface OpenStoreOptions {
  /** How long what finds the file locked waits for it. */
  readonly busyLimitMs: number;
  /** How many commits are in the log when it is written back. */
  readonly commitsInLog?: number | undefined;
}

const COMMITS_IN_LOG = 50;

export class OpenStore {
  readonly #database: OpenDatabase;
  readonly #parts: StoreParts;
  readonly #queue: WriteQueue;
  readonly #busyLimitMs: number;
  /** As the newest transaction found it. */
  #dataVersion: number | undefined;
  #isClosed = false;

  constructor(database: OpenDatabase, { busyLimitMs, commitsInLog = COMMITS_IN_LOG }: OpenStoreOptions) {
    const { db, liveness, guard } = database;
    const images = new HeadImages(db);
    const journal = new JournalRows(db);
    const forget = (): void => {
      db.memory.reset();
      images.reset();
    };
    this.#database = database;
    this.#busyLimitMs = busyLimitMs;
    this.#parts = { db, images, journal, leases: liveness, forget };
    this.#queue = new WriteQueue(db, {
      busyLimitMs,
      onBegun: () => {
        guard.refuse();
        this.#refresh();
      },
      onCommitted: () => guard.check(),
      fault: (thrown) => this.#fault(thrown),
      onUndone: forget,
      onDone: () => {
        if (db.commitsInLog >= commitsInLog) setImmediate(this.#writeBack, commitsInLog).unref();
      },
    });
  }

  /** Reads from one state of the store. */
  read<T>(read: (parts: StoreParts) => T): Promise<T> {
    const fault = (thrown: unknown): Promise<never> => Promise.reject(this.#fault(thrown));
    try {
      const found = whenFree(() => this.#snapshot(read), this.#busyLimitMs);
      return found instanceof Promise ? found.catch(fault) : Promise.resolve(found);
    } catch (thrown) {
      return fault(thrown);
    }
  }

  /** Moves when another store has written. */
  changes(): Promise<number> {
    return this.read(() => this.#dataVersion ?? 0);
  }

  /** As `read`, at once: for what is asked for where nobody can wait. */
  readNow<T>(read: (db: Connection) => T): T {
    const { db } = this.#parts;
    if (this.#isClosed) throw closedStore(db.path);
    try {
      this.#database.guard.check();
      return db.snapshot(() => read(db));
    } catch (thrown) {
      throw this.#fault(thrown);
    }
  }

  write<T>(write: (parts: StoreParts) => T): Promise<T> {
    return this.#queue.write(() => write(this.#parts));
  }

  /** Gives pages that hold nothing back to the system; returns how many bytes. None when others are busy, or it is closed. */
  async shrink(): Promise<number> {
    try {
      return await whenFree(() => (this.#isClosed ? 0 : this.#vacuum()), this.#busyLimitMs);
    } catch (thrown) {
      if (isBusy(thrown)) return 0;
      throw sqliteFault(thrown, this.#parts.db.path);
    }
  }

  /** Finishes what was asked for, writes the log back into the file and lets the file go. */
  async close(): Promise<void> {
    await this.#queue.idle();
    this.#isClosed = true;
    try {
      this.#database.close();
    } catch (thrown) {
      throw sqliteFault(thrown, this.#parts.db.path);
    }
  }

  /** A failure of SQLite whose cause is that the file is another one, or was cut off, is told as that. */
  #fault(thrown: unknown): MarlingError {
    if (MarlingError.is(thrown)) return thrown;
    try {
      this.#database.guard.check();
    } catch (cause) {
      return sqliteFault(cause, this.#parts.db.path);
    }
    return sqliteFault(thrown, this.#parts.db.path);
  }

  #vacuum(): number {
    const { db } = this.#parts;
    const before = db.size();
    if (db.freePages() > 0) db.exec(`VACUUM ${db.schema}`);
    db.checkpoint();
    this.#database.guard.resize();
    return Math.max(0, before - db.size()); // others may have added to it meanwhile
  }

  readonly #writeBack = (commitsInLog: number): void => {
    const { db } = this.#parts;
    if (this.#isClosed || db.commitsInLog < commitsInLog) return; // It was done meanwhile.
    try {
      db.writeBack();
    } catch {
      // What is in the log is in the store; writing it back is tried again behind as many commits.
    }
  };

  /** The leases of a store that cannot use the file any longer are free for others: it is no longer alive for them. */
  #checkVersion(): void {
    try {
      versionOf(this.#parts.db);
    } catch (thrown) {
      this.#database.liveness.release();
      throw thrown;
    }
  }

  #snapshot<T>(read: (parts: StoreParts) => T): T {
    const { db } = this.#parts;
    if (this.#isClosed) throw closedStore(db.path); // meanwhile, while it waited
    const known = db.dataVersion() === this.#dataVersion ? db.remembered(() => read(this.#parts)) : undefined;
    if (known !== undefined) return known.value;
    this.#database.guard.check();
    return db.snapshot(() => {
      this.#refresh();
      return read(this.#parts);
    });
  }

  /** Inside a transaction, so that what is found holds until its end. */
  #refresh(): void {
    const { db } = this.#parts;
    const version = db.dataVersion();
    if (version === this.#dataVersion) return;
    this.#parts.forget();
    this.#checkVersion();
    this.#dataVersion = version;
  }
}

export function closedStore(path: string): MarlingError {
  return new MarlingError("runtime_closed", `store ${path}: expected an open store, found a closed one`);
}
