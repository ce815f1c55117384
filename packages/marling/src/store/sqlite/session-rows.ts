// Sessions by id and by number. An id that was used stays for ever, deleted or not.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId } from "../../model/ids.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";

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

const COLUMNS = "no, id, status, parent, base, base_revision";
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
  db.run("INSERT INTO sessions (id, status) VALUES (?, ?)", id, status);
  const session = findSession(db, id);
  if (session === undefined) throw new Error(`session ${id} is not there after it was inserted`);
  return session;
}

/** Makes the session of an id, which may be announced, one whose commits begin behind one of another session. */
export function putFork(db: Connection, id: SessionId, base: CommitPoint): SessionRow {
  const sql = `INSERT INTO sessions (id, status, base, base_revision) VALUES (?, 'live', ?, ?) ON CONFLICT (id)
    DO UPDATE SET status = 'live', base = excluded.base, base_revision = excluded.base_revision RETURNING ${COLUMNS}`;
  const row = db.get(sql, id, base.no, base.revision);
  if (row === undefined) throw new Error(`session ${id} is not there after it was inserted`);
  const session = decodeSession(db, row);
  db.memory.setSession(session);
  return session;
}

/** Marks a session as one that has commits. Costs nothing when it is one already. */
export function reviseSession(db: Connection, session: SessionRow, parent: string | null): void {
  if (session.status === "live" && session.parent === parent) return;
  db.memory.dropSession(session.id);
  db.run("UPDATE sessions SET status = 'live', parent = ? WHERE no = ?", parent, session.no);
}

/** Retires the id of a session. */
export function retireSession(db: Connection, { no, id }: SessionKey): void {
  db.memory.dropSession(id);
  db.run("UPDATE sessions SET status = 'deleted', parent = NULL WHERE no = ?", no);
}

export function setBase(db: Connection, no: number, base: CommitPoint | undefined): void {
  const sql = "UPDATE sessions SET base = ?, base_revision = ? WHERE no = ?";
  db.memory.dropSessions();
  db.run(sql, base?.no ?? null, base?.revision ?? null, no);
}

/** The newest commit of a session that a fork reads. */
export function lastSharedRevision(db: Connection, no: number): number | undefined {
  const row = db.get("SELECT max(base_revision) AS revision FROM sessions WHERE base = ?", no);
  return row === undefined || row.revision === null ? undefined : db.integer(row, "revision");
}

function decodeSession(db: Connection, row: SqlRow): SessionRow {
  const { base } = row;
  return {
    no: db.integer(row, "no"),
    id: db.text(row, "id") as SessionId, // was checked before it was stored
    status: db.text(row, "status") as SessionStatus, // written by this file only
    parent: row.parent === null ? null : db.text(row, "parent"),
    base:
      base === null ? undefined : { no: db.integer(row, "base"), revision: db.integer(row, "base_revision") },
  };
}
