// Values that arrive from outside, once.
//   WR1  a wait is known by session, turn and name; its keys are known by their hashes only.
//   WR2  a key opens the wait that it was made for first, and only for its kind.
//   WR3  the first value is kept; a wait that is over takes none.
//   WR4  a wait that is over, with its keys, stays until it expires, so that whoever comes late is told so.

import { MarlingError } from "../../base/errors.ts";
import type { TurnId } from "../../model/ids.ts";
import type { NewWait, Resolution, ResolveStatus, WaitKind, WaitName, WaitRow } from "../contract.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import type { ParkedTurn } from "./input-codec.ts";
import { type SessionKey, sessionByNumber } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";

const COLUMNS = "no, turn, name, kind, resolution, over_at";
const BY_NAME = `SELECT ${COLUMNS} FROM waits WHERE session = ? AND turn = ? AND name = ?`;
const BY_HASH = `SELECT session, ${COLUMNS} FROM wait_keys JOIN waits ON no = wait WHERE hash = ?`;

/** Makes a wait known, or gives one that is known another key. */
export function createWait(db: Connection, session: SessionKey, wait: NewWait): void {
  const texts = [idText(session, wait.turnId), idText(session, wait.name)] as const;
  db.run(
    "INSERT OR IGNORE INTO waits (session, turn, name, kind) VALUES (?, ?, ?, ?)",
    session.no,
    ...texts,
    wait.kind,
  );
  db.memory.of(session.no).hasWaits = true;
  const row = db.get(BY_NAME, session.no, ...texts);
  if (row === undefined) throw new Error(`wait ${wait.name} is not there after it was inserted`);
  if (row.kind !== wait.kind) throw kindConflict(wait, db.text(row, "kind"));
  const no = db.integer(row, "no");
  db.run("INSERT OR IGNORE INTO wait_keys (hash, wait) VALUES (?, ?)", hashBytes(wait.keyHash), no);
}

/** The waits of a turn, in the order in which they were made. */
export function readWaits(db: Connection, session: SessionKey, turnId: TurnId): readonly WaitRow[] {
  const sql = `SELECT ${COLUMNS} FROM waits WHERE session = ? AND turn = ? ORDER BY no`;
  return db.all(sql, session.no, idText(session, turnId)).map((row) => decodeWait(db, session, row));
}

/** Brings a value to the wait of a key of this kind; the first one wins. */
export function resolveWait(
  db: Connection,
  keyHash: string,
  kind: WaitKind,
  resolution: Resolution,
): { readonly status: ResolveStatus } & Partial<WaitName> {
  const row = db.get(BY_HASH, hashBytes(keyHash));
  if (row === undefined || row.kind !== kind) return { status: "unknown" };
  const session = sessionByNumber(db, db.integer(row, "session"));
  if (session === undefined) throw damaged(db.path, "waits: expected the session of a wait, found none");
  const { sessionId, turnId, name } = decodeWait(db, session, row);
  if (row.resolution !== null || row.over_at !== null)
    return { status: "already_resolved", sessionId, turnId, name };
  const text = shortenText(JSON.stringify(resolution), session.id);
  db.run("UPDATE waits SET resolution = ? WHERE no = ?", text, db.integer(row, "no"));
  return { status: "resolved", sessionId, turnId, name };
}

/** Ends a wait unless a value came first; returns it as it is then. */
export function endWait(
  db: Connection,
  session: SessionKey,
  wait: Pick<WaitName, "turnId" | "name">,
  now: number,
): WaitRow | undefined {
  const row = db.get(BY_NAME, session.no, idText(session, wait.turnId), idText(session, wait.name));
  if (row === undefined) return undefined;
  const found = decodeWait(db, session, row);
  if (found.resolution !== undefined || found.isOver) return found;
  db.run("UPDATE waits SET over_at = ? WHERE no = ?", now, db.integer(row, "no"));
  return { ...found, isOver: true };
}

/** Ends the waits of turns, those that have a value too: nobody reads it any more. */
export function endWaitsOf(db: Connection, session: SessionKey, turns: readonly TurnId[], now: number): void {
  const known = db.memory.of(session.no);
  known.hasWaits ??= db.get("SELECT 1 FROM waits WHERE session = ? LIMIT 1", session.no) !== undefined;
  if (!known.hasWaits) return;
  const sql = "UPDATE waits SET over_at = ? WHERE session = ? AND turn = ? AND over_at IS NULL";
  for (const turnId of turns) db.run(sql, now, session.no, idText(session, turnId));
}

/** Whether one of the waits that a turn sleeps for has a value or is over. */
export function hasEndedWait(db: Connection, session: SessionKey, { turnId, names }: ParkedTurn): boolean {
  const turn = idText(session, turnId);
  return names.some((name) => {
    const row = db.get(BY_NAME, session.no, turn, idText(session, name));
    return row !== undefined && (row.resolution !== null || row.over_at !== null);
  });
}

export function deleteWaits(db: Connection, no: number): void {
  db.run("DELETE FROM wait_keys WHERE wait IN (SELECT no FROM waits WHERE session = ?)", no);
  db.run("DELETE FROM waits WHERE session = ?", no);
}

/** Removes waits that were over at a time, with their keys; returns how many. */
export function expireWaits(db: Connection, until: number): number {
  db.run("DELETE FROM wait_keys WHERE wait IN (SELECT no FROM waits WHERE over_at <= ?)", until);
  return db.run("DELETE FROM waits WHERE over_at <= ?", until);
}

function decodeWait(db: Connection, session: SessionKey, row: SqlRow): WaitRow {
  const resolution = row.resolution === null ? undefined : db.json(row, "resolution", session.id);
  return {
    sessionId: session.id,
    turnId: String(db.json(row, "turn", session.id)) as TurnId, // was checked before it was stored
    name: String(db.json(row, "name", session.id)),
    kind: db.text(row, "kind") as WaitKind, // written by `createWait`
    ...(resolution === undefined ? {} : { resolution: resolution as Resolution }), // written by `resolveWait`
    isOver: row.over_at !== null,
  };
}

/** Names as JSON: text that is not well-formed keeps its identity. */
function idText(session: SessionKey, name: string): string {
  return shortenText(JSON.stringify(name), session.id);
}

function hashBytes(keyHash: string): Uint8Array {
  if (/^[0-9a-f]{64}$/.test(keyHash)) return Buffer.from(keyHash, "hex");
  return new TextEncoder().encode(keyHash);
}

function kindConflict({ sessionId, turnId, name, kind }: NewWait, found: string): MarlingError {
  return new MarlingError(
    "invalid_input",
    `session ${sessionId}, turn ${turnId}, wait ${name}: expected another key of kind ${found}, found ${kind}`,
    { details: { sessionId, turnId, name } },
  );
}
