// Sessions by id and by number. An id that was used stays for ever, deleted or not.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId } from "../../model/ids.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { sumOf } from "./row-sum.ts";

/** `announced`: it has inputs or a journal, but no commit yet. */
export type SessionStatus = "announced" | "live" | "deleted";

/** A commit, by the session that made it and its revision there. */
export interface CommitPoint {
  readonly no: number;
  readonly revision: number;
}

/** A session as its rows know it. */
export interface SessionKey {
  readonly no: number;
  readonly id: SessionId;
}

export interface SessionRow extends SessionKey {
  readonly status: SessionStatus;
  readonly parent: string | null;
  /** Where a fork leaves the history that it shares. */
  readonly base: CommitPoint | undefined;
}

const COLUMNS = "no, id, status, parent, base, base_revision, sum";
const BY_ID = `SELECT ${COLUMNS} FROM sessions WHERE id = ?`;
const BY_NUMBER = `SELECT ${COLUMNS} FROM sessions WHERE no = ?`;

/** The session of an id that was ever used, deleted ones too. */
export function findSession(db: Connection, id: SessionId): SessionRow | undefined {
  const known = db.memory.session(id);
  if (known !== undefined) return known;
  const row = db.get(BY_ID, id);
  if (row === undefined) return undefined;
  const session = decodeSession(db, row);
  db.memory.setSession(session);
  return session;
}

export function sessionByNumber(db: Connection, no: number): SessionRow | undefined {
  const row = db.get(BY_NUMBER, no);
  return row === undefined ? undefined : decodeSession(db, row);
}

/** The session of an id, unless it was deleted. */
export function knownSession(db: Connection, id: SessionId): SessionRow | undefined {
  const session = findSession(db, id);
  if (session?.status !== "deleted") return session;
  throw new MarlingError("session_deleted", `session ${id}: expected a live id, found one that was deleted`, {
    details: { sessionId: id },
  });
}

/** The session of an id; a new one is announced. */
export function ensureSession(db: Connection, id: SessionId): SessionRow {
  return knownSession(db, id) ?? insertSession(db, id, "announced");
}

export function insertSession(db: Connection, id: SessionId, status: SessionStatus): SessionRow {
  return putSession(db, { no: nextNumber(db), id, status, parent: null, base: undefined });
}

/** Makes the session of an id, which may be announced, one whose commits begin behind one of another session. */
export function putFork(db: Connection, id: SessionId, base: CommitPoint): SessionRow {
  const known = findSession(db, id);
  const { no, parent } = known ?? { no: nextNumber(db), parent: null };
  return putSession(db, { no, id, status: "live", parent, base });
}

/** Marks a session as one that has commits. Costs nothing when it is one already. */
export function reviseSession(db: Connection, session: SessionRow, parent: string | null): void {
  if (session.status === "live" && session.parent === parent) return;
  putSession(db, { ...session, status: "live", parent });
}

/** Retires the id of a session. */
export function retireSession(db: Connection, session: SessionRow): void {
  putSession(db, { ...session, status: "deleted", parent: null });
}

export function setBase(db: Connection, session: SessionRow, base: CommitPoint | undefined): void {
  putSession(db, { ...session, base });
}

/** The session of a row with all its values. */
export function decodeSession(db: Connection, row: SqlRow): SessionRow {
  const { base } = db.summed("sessions", row);
  return {
    no: db.integer(row, "no"),
    id: db.text(row, "id") as SessionId, // was checked before it was stored
    status: db.text(row, "status") as SessionStatus, // written by this file only
    parent: row.parent === null ? null : db.text(row, "parent"),
    base:
      base === null ? undefined : { no: db.integer(row, "base"), revision: db.integer(row, "base_revision") },
  };
}

/** The newest commit of a session that a fork reads. */
export function lastSharedRevision(db: Connection, no: number): number | undefined {
  const row = db.get("SELECT max(base_revision) AS revision FROM sessions WHERE base = ?", no);
  return row === undefined || row.revision === null ? undefined : db.integer(row, "revision");
}

/** Sessions are never removed, so that their numbers have no holes. */
function nextNumber(db: Connection): number {
  const row = db.get("SELECT max(no) AS last FROM sessions");
  return row === undefined || row.last === null ? 1 : db.integer(row, "last") + 1;
}

/** Writes a session, new or not, and remembers it. */
function putSession(db: Connection, session: SessionRow): SessionRow {
  const { no, id, status, parent } = session;
  const [base, base_revision] = [session.base?.no ?? null, session.base?.revision ?? null];
  const sum = sumOf("sessions", { no, id, status, parent, base, base_revision });
  const values = "status = excluded.status, parent = excluded.parent, base = excluded.base";
  db.run(
    `INSERT INTO sessions (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (no) DO UPDATE SET ${values}, base_revision = excluded.base_revision, sum = excluded.sum`,
    no,
    id,
    status,
    parent,
    base,
    base_revision,
    sum,
  );
  db.memory.setSession(session);
  return session;
}
