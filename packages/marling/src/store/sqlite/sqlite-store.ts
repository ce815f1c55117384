// The embedded store: one SQLite file, shared by any number of stores in any number of processes.
//   SQ1  what a call acknowledged is in the file: it survives the end of the process, and with durability "power" the
//        loss of power.
//   SQ2  bytes written per turn depend on what the turn adds, never on the history.
//   SQ3  the file is opened by the first call; when that fails, the next call tries again.
//   SQ4  a write that names a lease is checked against it in its own transaction.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId, TurnId } from "../../model/ids.ts";
import type { JournalRecord, JournalStore } from "../../model/journal.ts";
import type { DeliveryName, TriggerStore } from "../../model/trigger-store.ts";
import type {
  Admission,
  BlobStore,
  CancelStatus,
  Claim,
  CommitResult,
  DeliverRequest,
  ForkRequest,
  InboxRow,
  Lease,
  LeaseRequest,
  LoadOptions,
  NewInput,
  NewWait,
  ParkRequest,
  SessionCommit,
  SessionFilter,
  SessionPage,
  Store,
  StoredSession,
  VacuumReport,
  VacuumRequest,
  WaitName,
  WaitRow,
  WaitStore,
  Withdrawal,
  WithdrawOutcome,
} from "../contract.ts";
import { BlobPuts, blobDigest, blobRef, insertBlob, readBlob } from "./blob-rows.ts";
import { lastRevision, readNodes } from "./commit-rows.ts";
import { commitSession, prepareCommit } from "./commit-session.ts";
import { deleteSession } from "./delete-session.ts";
import { settleDelivery } from "./delivery-rows.ts";
import { loadDriver, type SqliteDriver } from "./driver.ts";
import { forkSession } from "./fork-session.ts";
import {
  admitInput,
  cancelTurn,
  deliverInputs,
  findDuplicate,
  parkTurn,
  pendingInputs,
  sessionsWithInputs,
  withdrawInputs,
} from "./inbox-rows.ts";
import { checkLease, claimLease, hasHolder, releaseLease, renewLease } from "./lease-rows.ts";
import { listSessions } from "./list-sessions.ts";
import { loadSession } from "./load-session.ts";
import { IN_MEMORY, openDatabase } from "./open-database.ts";
import { closedStore, OpenStore, type StoreParts } from "./open-store.ts";
import { announcedCommit } from "./outbox-rows.ts";
import { ensureSession, findSession, knownSession, type SessionRow } from "./session-rows.ts";
import { sqliteTriggers } from "./sqlite-triggers.ts";
import { vacuumRows } from "./vacuum-rows.ts";
import { createWait, endWait, readWaits, resolveWait } from "./wait-rows.ts";
import { resumableSessions, workableSessions } from "./work-rows.ts";

export interface SqliteStoreOptions {
  /** The database file, made when it is not there, in a folder that is; `:memory:` for one that lives with the process. */
  readonly path: string;
  /** What an acknowledged write survives: the end of the process (default), or the loss of power, at the cost of a sync. */
  readonly durability?: "process" | "power";
}

/** Chosen by tests and measurements only. */
export interface SqliteInternals {
  readonly pageSize?: number;
  readonly busyLimitMs?: number;
  readonly commitsInLog?: number;
  readonly loadDriver?: () => Promise<SqliteDriver>;
}

/** Measured (bench/store-bytes.mjs): a small page costs the fewest bytes, and large values hardly more time. */
const PAGE_SIZE = 512;
const BUSY_LIMIT_MS = 5000;

/**
 * A store in one SQLite file. Opens it on first use and has it open until `close`; others may have it open too, in this
 * process or another. Writes that arrive in one tick share a transaction.
 */
export function sqliteStore(options: SqliteStoreOptions): Store {
  return openSqliteStore(options, {});
}

export function openSqliteStore(options: SqliteStoreOptions, internals: SqliteInternals): Store {
  return new SqliteStore(decodeOptions(options), internals);
}

class SqliteStore implements Store {
  readonly isDurable: boolean;
  readonly blobs: BlobStore;
  readonly journal: JournalStore;
  readonly waits: WaitStore;
  readonly triggers: TriggerStore;
  readonly #options: Required<SqliteStoreOptions>;
  readonly #internals: SqliteInternals;
  #opening: Promise<OpenStore> | undefined;
  #store: OpenStore | undefined;
  readonly #puts = new BlobPuts();
  #isClosed = false;

  constructor(options: Required<SqliteStoreOptions>, internals: SqliteInternals) {
    this.#options = options;
    this.#internals = internals;
    this.isDurable = options.path !== IN_MEMORY;
    this.blobs = Object.freeze<BlobStore>({
      ref: (bytes) => blobRef(blobDigest(bytes)),
      put: (bytes) => this.#putBlob(bytes),
      get: (ref) => this.#read(({ db }) => readBlob(db, ref)),
    });
    this.journal = Object.freeze<JournalStore>({
      append: (records, lease) => this.#appendRecords(records, lease),
      read: (sessionId, turnId) => this.#readRecords(sessionId, turnId),
    });
    this.waits = Object.freeze<WaitStore>({
      create: (wait) => this.#createWait(wait),
      read: (sessionId, turnId) => this.#readWaits(sessionId, turnId),
      resolve: (keyHash, kind, resolution) =>
        this.#write(({ db }) => resolveWait(db, keyHash, kind, resolution)),
      end: (wait) => this.#endWait(wait),
    });
    this.triggers = sqliteTriggers({
      read: (read) => this.#read(read),
      write: (write) => this.#write(write),
    });
  }

  async load(sessionId: SessionId, options: LoadOptions = {}): Promise<StoredSession | undefined> {
    const open = await this.#opened();
    return open.read(({ db, images }) => {
      const session = knownSession(db, sessionId);
      const loaded = session === undefined ? undefined : loadSession(db, session, { ...options, images });
      if (session === undefined || loaded?.from === undefined) return loaded?.stored;
      const before = loaded.from;
      return { ...loaded.stored, earlier: () => open.readNow((now) => readNodes(now, session, { before })) };
    });
  }

  revision(sessionId: SessionId): Promise<number> {
    return this.#read(({ db }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? 0 : lastRevision(db, session);
    });
  }

  async commit(commit: SessionCommit): Promise<CommitResult> {
    const prepared = prepareCommit(commit);
    if (prepared.isLarge) await new Promise(setImmediate); // It is not written in the same go.
    return this.#write((parts) => commitSession(parts.db, prepared, parts));
  }

  admit(input: NewInput, lease?: LeaseRequest, delivery?: DeliveryName): Promise<Admission> {
    return this.#write((parts) => {
      const admission = admitInput(parts.db, input);
      if (delivery !== undefined) settleDelivery(parts.db, delivery);
      if (lease === undefined || admission.row.report !== undefined) return admission;
      return { ...admission, claim: claimSession(parts, input.sessionId, lease) };
    });
  }

  find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined> {
    return this.#read(({ db }) => {
      const session = knownSession(db, input.sessionId);
      return session === undefined ? undefined : findDuplicate(db, session, input);
    });
  }

  pending(sessionId: SessionId, deliver?: InboxRow["deliver"]): Promise<readonly InboxRow[]> {
    return this.#read(({ db }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? [] : pendingInputs(db, session, deliver);
    });
  }

  unsettled(): Promise<readonly SessionId[]> {
    return this.#read(({ db }) => sessionsWithInputs(db));
  }

  workable(now: number): Promise<readonly SessionId[]> {
    return this.#read(({ db, leases }) => workableSessions(db, { now, isDead: leases.isDead }));
  }

  resumable(now: number): Promise<readonly SessionId[]> {
    return this.#read(({ db, leases }) => resumableSessions(db, { now, isDead: leases.isDead }));
  }

  claim(sessionId: SessionId, request: LeaseRequest): Promise<Claim> {
    return this.#write((parts) => claimSession(parts, sessionId, request));
  }

  async renew(leases: readonly Lease[], request: LeaseRequest): Promise<readonly SessionId[]> {
    if (leases.length === 0) return [];
    return this.#write(({ db }) =>
      leases
        .filter(({ sessionId, generation }) => {
          const session = findSession(db, sessionId);
          return session === undefined || !renewLease(db, session, { ...request, generation });
        })
        .map(({ sessionId }) => sessionId),
    );
  }

  release({ sessionId, generation }: Lease): Promise<void> {
    return this.#write(({ db }) => {
      const session = findSession(db, sessionId);
      if (session !== undefined) releaseLease(db, session, generation);
    });
  }

  deliver(request: DeliverRequest): Promise<readonly InboxRow[]> {
    return this.#write((parts) => {
      const session = leasedSession(parts, request.sessionId, request.generation);
      return deliverInputs(parts.db, session, request);
    });
  }

  withdraw(sessionId: SessionId, withdrawals: readonly Withdrawal[]): Promise<readonly WithdrawOutcome[]> {
    const now = Date.now();
    return this.#write(({ db }) => {
      const session = knownSession(db, sessionId);
      if (session === undefined) return withdrawals.map(({ inputId }) => ({ inputId, status: "unknown" }));
      return withdrawInputs(db, session, withdrawals, { isLeased: hasHolder(db, session), now });
    });
  }

  cancel(request: {
    readonly sessionId: SessionId;
    readonly turnId: TurnId;
    readonly reason: string;
  }): Promise<CancelStatus> {
    return this.#write(({ db }) => {
      const session = knownSession(db, request.sessionId);
      return session === undefined ? "unknown" : cancelTurn(db, session, request);
    });
  }

  park(request: ParkRequest): Promise<"parked" | "ready"> {
    return this.#write((parts) => {
      const session = leasedSession(parts, request.sessionId, request.generation);
      const status = parkTurn(parts.db, session, request);
      if (status === "parked") releaseLease(parts.db, session, request.generation);
      return status;
    });
  }

  announced(sessionId: SessionId, revision: number): Promise<void> {
    return this.#write(({ db }) => {
      const session = knownSession(db, sessionId);
      if (session !== undefined) announcedCommit(db, session, revision);
    });
  }

  async changes(): Promise<number> {
    return (await this.#opened()).changes();
  }

  async vacuum(request: VacuumRequest): Promise<VacuumReport> {
    const store = await this.#opened();
    const removed = await store.write(({ db, forget }) => {
      const counts = vacuumRows(db, request);
      forget();
      return counts;
    });
    return { ...removed, bytes: await store.shrink() };
  }

  list(filter: SessionFilter): Promise<SessionPage> {
    return this.#read(({ db }) => listSessions(db, filter));
  }

  exists(sessionId: SessionId): Promise<boolean> {
    return this.#read(({ db }) => findSession(db, sessionId)?.status === "live");
  }

  delete(sessionId: SessionId): Promise<void> {
    return this.#write((parts) => deleteSession(parts.db, sessionId, parts));
  }

  fork(request: ForkRequest): ReturnType<Store["fork"]> {
    return this.#write(({ db, images }) => forkSession(db, request, images));
  }

  /** Finishes what was asked for, writes the log back into the file and lets the file go. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const store = await this.#opening?.catch(() => undefined);
    await store?.close();
  }

  async #putBlob(given: Uint8Array): Promise<string> {
    const { digest, bytes } = this.#puts.copy(given);
    await this.#write(({ db }) => insertBlob(db, digest, bytes));
    return blobRef(digest);
  }

  #appendRecords(records: readonly JournalRecord[], lease?: number): Promise<void> {
    const first = records[0];
    if (first === undefined) return Promise.resolve();
    return this.#write((parts) => {
      parts.journal.append(leasedSession(parts, first.sessionId, lease), records);
    });
  }

  #readRecords(sessionId: SessionId, turnId: TurnId): Promise<readonly JournalRecord[]> {
    return this.#read(({ db, journal }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? [] : journal.read(session, turnId);
    });
  }

  #createWait(wait: NewWait): Promise<void> {
    return this.#write((parts) => {
      createWait(parts.db, leasedSession(parts, wait.sessionId, wait.lease), wait);
    });
  }

  #readWaits(sessionId: SessionId, turnId: TurnId): Promise<readonly WaitRow[]> {
    return this.#read(({ db }) => {
      const session = knownSession(db, sessionId);
      return session === undefined ? [] : readWaits(db, session, turnId);
    });
  }

  #endWait(wait: WaitName & { readonly lease?: number | undefined }): Promise<WaitRow | undefined> {
    const now = Date.now();
    return this.#write((parts) => {
      const session = leasedSession(parts, wait.sessionId, wait.lease);
      return endWait(parts.db, session, wait, now);
    });
  }

  #read<T>(read: (parts: StoreParts) => T): Promise<T> {
    return this.#use((store) => store.read(read));
  }

  #write<T>(write: (parts: StoreParts) => T): Promise<T> {
    return this.#use((store) => store.write(write));
  }

  /** At once where the store is open. */
  #use<T>(use: (store: OpenStore) => Promise<T>): Promise<T> {
    const store = this.#isClosed ? undefined : this.#store;
    return store === undefined ? this.#opened().then(use) : use(store);
  }

  #opened(): Promise<OpenStore> {
    if (this.#isClosed) return Promise.reject(closedStore(this.#options.path));
    this.#opening ??= this.#open().catch((thrown: unknown) => {
      this.#opening = undefined;
      throw thrown;
    });
    return this.#opening;
  }

  async #open(): Promise<OpenStore> {
    const { pageSize = PAGE_SIZE, busyLimitMs = BUSY_LIMIT_MS } = this.#internals;
    const driver = await (this.#internals.loadDriver ?? loadDriver)();
    const database = await openDatabase(driver, { ...this.#options, pageSize, busyLimitMs });
    this.#store = new OpenStore(database, { busyLimitMs, commitsInLog: this.#internals.commitsInLog });
    return this.#store;
  }
}

function claimSession({ db, leases }: StoreParts, sessionId: SessionId, request: LeaseRequest): Claim {
  return claimLease(db, ensureSession(db, sessionId), { request, context: leases });
}

/** The session that a write is for. A write that names a lease is refused when that is lost. */
function leasedSession({ db }: StoreParts, sessionId: SessionId, generation: number | undefined): SessionRow {
  const session = ensureSession(db, sessionId);
  if (generation !== undefined) checkLease(db, session, generation);
  return session;
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
