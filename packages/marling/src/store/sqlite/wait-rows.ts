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
import { sumOf, sumOfRow } from "./row-sum.ts";
import { type SessionKey, sessionByNumber } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";

const COLUMNS = "no, session, turn, name, kind, resolution, over_at, sum";
const BY_NAME = `SELECT ${COLUMNS} FROM waits WHERE session = ? AND turn = ? AND name = ?`;
const OF_TURN = `SELECT ${COLUMNS} FROM waits WHERE session = ? AND turn = ? ORDER BY no`;
const BY_NUMBER = `SELECT ${COLUMNS} FROM waits WHERE no = ?`;
const KEY = "SELECT hash, wait, sum FROM wait_keys WHERE hash = ?";

/** Makes a wait known, or gives one that is known another key. */
export function createWait(db: Connection, session: SessionKey, wait: NewWait): void {
  const [turn, name] = [idText(session, wait.turnId), idText(session, wait.name)];
  const known = found(db, BY_NAME, session.no, turn, name);
  if (known !== undefined && known.kind !== wait.kind) throw kindConflict(wait, db.text(known, "kind"));
  const no = known === undefined ? insertWait(db, session, { turn, name, kind: wait.kind }) : known.no;
  const key = { hash: hashBytes(wait.keyHash), wait: no as number };
  const sql = "INSERT OR IGNORE INTO wait_keys (hash, wait, sum) VALUES (?, ?, ?)";
  db.run(sql, key.hash, key.wait, sumOf("wait_keys", key));
}

/** Returns the number of the new wait. */
function insertWait(
  db: Connection,
  session: SessionKey,
  wait: { readonly turn: string; readonly name: string; readonly kind: WaitKind },
): number {
  const last = db.get("SELECT max(no) AS last FROM waits");
  const no = last === undefined || last.last === null ? 1 : db.integer(last, "last") + 1;
  const { turn, name, kind } = wait;
  const row = { no, session: session.no, turn, name, kind, resolution: null, over_at: null };
  const sql = "INSERT INTO waits (no, session, turn, name, kind, sum) VALUES (?, ?, ?, ?, ?, ?)";
  db.run(sql, no, session.no, turn, name, kind, sumOf("waits", row));
  db.memory.of(session.no).hasWaits = true;
  return no;
}

/** Writes what ended a wait. */
function writeEnd(db: Connection, row: SqlRow, end: { readonly [column: string]: string | number }): void {
  const ended = { ...row, ...end };
  const sql = "UPDATE waits SET resolution = ?, over_at = ?, sum = ? WHERE no = ?";
  db.run(
    sql,
    ended.resolution ?? null,
    ended.over_at ?? null,
    sumOfRow("waits", ended),
    db.integer(row, "no"),
  );
}

/** The wait that a statement finds. */
function found(db: Connection, sql: string, ...values: readonly (string | number)[]): SqlRow | undefined {
  const row = db.get(sql, ...values);
  return row === undefined ? undefined : db.summed("waits", row);
}

/** The wait that a key is for. */
function waitOfKey(db: Connection, keyHash: string): SqlRow | undefined {
  const key = db.get(KEY, hashBytes(keyHash));
  return key === undefined
    ? undefined
    : found(db, BY_NUMBER, db.integer(db.summed("wait_keys", key), "wait"));
}

/** The waits of a turn, in the order in which they were made. */
export function readWaits(db: Connection, session: SessionKey, turnId: TurnId): readonly WaitRow[] {
  const rows = db.all(OF_TURN, session.no, idText(session, turnId));
  return rows.map((row) => decodeWait(db, session, db.summed("waits", row)));
}

/** Brings a value to the wait of a key of this kind; the first one wins. */
export function resolveWait(
  db: Connection,
  keyHash: string,
  kind: WaitKind,
  resolution: Resolution,
): { readonly status: ResolveStatus } & Partial<WaitName> {
  const row = waitOfKey(db, keyHash);
  if (row === undefined || row.kind !== kind) return { status: "unknown" };
  const session = sessionByNumber(db, db.integer(row, "session"));
  if (session === undefined) throw damaged(db.path, "waits: expected the session of a wait, found none");
  const { sessionId, turnId, name } = decodeWait(db, session, row);
  if (row.resolution !== null || row.over_at !== null)
    return { status: "already_resolved", sessionId, turnId, name };
  const text = shortenText(JSON.stringify(resolution), session.id);
  writeEnd(db, row, { resolution: text });
  return { status: "resolved", sessionId, turnId, name };
}

/** Ends a wait unless a value came first; returns it as it is then. */
export function endWait(
  db: Connection,
  session: SessionKey,
  wait: Pick<WaitName, "turnId" | "name">,
  now: number,
): WaitRow | undefined {
  const row = found(db, BY_NAME, session.no, idText(session, wait.turnId), idText(session, wait.name));
  if (row === undefined) return undefined;
  const known = decodeWait(db, session, row);
  if (known.resolution !== undefined || known.isOver) return known;
  writeEnd(db, row, { over_at: now });
  return { ...known, isOver: true };
}

/** Ends the waits of turns, those that have a value too: nobody reads it any more. */
export function endWaitsOf(db: Connection, session: SessionKey, turns: readonly TurnId[], now: number): void {
  const known = db.memory.of(session.no);
  known.hasWaits ??= db.get("SELECT 1 FROM waits WHERE session = ? LIMIT 1", session.no) !== undefined;
  if (!known.hasWaits) return;
  for (const turnId of turns)
    for (const row of db.all(OF_TURN, session.no, idText(session, turnId)))
      if (db.summed("waits", row).over_at === null) writeEnd(db, row, { over_at: now });
}

/** Whether one of the waits that a turn sleeps for has a value or is over. */
export function hasEndedWait(db: Connection, session: SessionKey, { turnId, names }: ParkedTurn): boolean {
  const turn = idText(session, turnId);
  return names.some((name) => {
    const row = found(db, BY_NAME, session.no, turn, idText(session, name));
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
