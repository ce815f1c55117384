// Inputs of sessions: in the inbox until a commit settles them, and in that commit from then on.
//   IN1  sequences of a session count from 1 and have no holes; ids derive from them.
//   IN2  a key and a turn id name one input each; content decides between "the same again" and a conflict.
//   IN3  an input moves into the commit that settles it, with its report; the inbox is as large as what is pending.

import { MarlingError } from "../../base/errors.ts";
import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { jsonEqual } from "../../model/json.ts";
import type { InboxRow, NewInput, SessionCommit } from "../contract.ts";
import { findSettling, lastCommit, readSettled } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { derivedTurnId, derivedTurnPrefix, inboxRow, inputIdOf, namesOf } from "./input-codec.ts";
import { deleteNames, findName, type Place, putName } from "./name-rows.ts";
import { ensureSession, type SessionKey, type SessionRow } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";

export interface Admission {
  readonly status: "accepted" | "duplicate";
  readonly row: InboxRow;
}

/** Sequences have 32 bits of a row's key. */
const LARGEST = 4294967295;
const COLUMNS = "at & 4294967295 AS n, names, submitted, input, progress";
const OF_SESSION = "FROM inbox WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";

/** Puts an input into the inbox of its session, unless it is there. */
export function admitInput(db: Connection, input: NewInput): Admission {
  const session = ensureSession(db, input.sessionId);
  const known = findDuplicate(db, session, input);
  if (known !== undefined) return { status: "duplicate", row: known };
  const sequence = countInputs(db, session) + 1;
  const turnId = input.turnId ?? freeTurnId(db, session, sequence);
  const row: InboxRow = { ...input, turnId, inputId: inputIdOf(session.id, sequence), sequence };
  insertInput(db, session, row);
  return { status: "accepted", row };
}

/** The row with the input's key or turn id; throws when that row is of another input. */
export function findDuplicate(
  db: Connection,
  session: SessionRow,
  input: Omit<NewInput, "input">,
): InboxRow | undefined {
  const { key, turnId } = input;
  const byKey = key === undefined ? undefined : findName(db, session.no, { kind: "key", name: key });
  const place = byKey ?? (turnId === undefined ? undefined : findTurn(db, session, turnId));
  const row = place === undefined ? undefined : inputAt(db, session, place);
  if (row === undefined) return undefined;
  const hasNames = (turnId ?? row.turnId) === row.turnId && (key ?? row.key) === row.key;
  if (!hasNames || !jsonEqual(row.submitted, input.submitted)) throw keyConflict(input, row);
  return row;
}

/** How many inputs a session has taken. */
export function countInputs(db: Connection, session: SessionKey): number {
  const row = db.get(`SELECT at & 4294967295 AS n ${OF_SESSION} ORDER BY at DESC LIMIT 1`, session.no);
  const counted = lastCommit(db, session)?.manifest.inputs ?? 0;
  return row === undefined ? counted : Math.max(counted, db.integer(row, "n"));
}

/** The inputs of a session that no commit has settled, in order. */
export function pendingInputs(db: Connection, session: SessionRow): readonly InboxRow[] {
  return db
    .all(`SELECT ${COLUMNS} ${OF_SESSION} ORDER BY at`, session.no)
    .map((row) => decodeInput(db, session, row));
}

/** The sessions that have such inputs. */
export function sessionsWithInputs(db: Connection): readonly SessionId[] {
  const rows = db.all(
    "SELECT id FROM sessions WHERE no IN (SELECT DISTINCT at >> 32 FROM inbox) ORDER BY no",
  );
  return rows.map((row) => db.text(row, "id") as SessionId); // was checked before it was stored
}

/** Takes an input out of the inbox for the commit that settles it; `undefined` when it is not there. */
export function settleInput(
  db: Connection,
  session: SessionRow,
  { inputId, revision }: { readonly inputId: InputId; readonly revision: number },
): InboxRow | undefined {
  const sequence = sequenceOf(session.id, inputId);
  const row = sequence === undefined ? undefined : inputAt(db, session, { kind: "inbox", sequence });
  if (row === undefined) return undefined;
  db.run("DELETE FROM inbox WHERE at = ? << 32 | ?", session.no, row.sequence);
  nameInput(db, row, { no: session.no, place: { kind: "commit", revision } });
  return row;
}

/** Keeps where the turn of a pending input goes on from. */
export function advanceInput(
  db: Connection,
  session: SessionRow,
  { inputId, progress }: NonNullable<SessionCommit["advances"]>,
): void {
  const sequence = sequenceOf(session.id, inputId);
  if (sequence === undefined) return;
  const sql = "UPDATE inbox SET progress = ? WHERE at = ? << 32 | ?";
  db.run(sql, shortenText(JSON.stringify(progress), session.id), session.no, sequence);
}

/** An input by its sequence, wherever it is. */
export function inputBySequence(db: Connection, session: SessionRow, sequence: number): InboxRow | undefined {
  return inputAt(db, session, placeOf(db, session, sequence));
}

/** Where the input with a turn id is. Turn ids that were given have a name; those that were derived say their sequence. */
export function findTurn(db: Connection, session: SessionRow, turnId: string): Place | undefined {
  const named = findName(db, session.no, { kind: "turn", name: turnId });
  if (named !== undefined) return named;
  const sequence = numberBehind(derivedTurnPrefix(session.id), turnId);
  const place = sequence === undefined ? undefined : placeOf(db, session, sequence);
  return place !== undefined && inputAt(db, session, place)?.turnId === turnId ? place : undefined;
}

export function deleteInputs(db: Connection, no: number): void {
  db.run(`DELETE ${OF_SESSION}`, no);
  deleteNames(db, no);
}

function placeOf(db: Connection, session: SessionRow, sequence: number): Place | undefined {
  const isPending = db.get("SELECT 1 FROM inbox WHERE at = ? << 32 | ?", session.no, sequence) !== undefined;
  if (isPending) return { kind: "inbox", sequence };
  const revision = findSettling(db, session.no, sequence);
  return revision === undefined ? undefined : { kind: "commit", revision };
}

function inputAt(db: Connection, session: SessionRow, place: Place | undefined): InboxRow | undefined {
  if (place === undefined) return undefined;
  if (place.kind === "commit") return readSettled(db, session, place.revision);
  const row = db.get(`SELECT ${COLUMNS} FROM inbox WHERE at = ? << 32 | ?`, session.no, place.sequence);
  return row === undefined ? undefined : decodeInput(db, session, row);
}

/** The turn id of an input that came without one; never one that was given to an earlier turn. */
function freeTurnId(db: Connection, session: SessionRow, sequence: number): TurnId {
  const derived = derivedTurnId(session.id, sequence);
  let name: string = derived;
  for (let number = 2; findName(db, session.no, { kind: "turn", name }) !== undefined; number += 1) {
    name = `${derived}.${number}`;
  }
  return name as TurnId; // made here
}

function insertInput(db: Connection, session: SessionRow, row: InboxRow): void {
  const names = namesOf(row);
  const submitted = shortenText(JSON.stringify(row.submitted), session.id);
  const accepted = shortenText(JSON.stringify(row.input), session.id);
  db.run(
    "INSERT INTO inbox (at, names, submitted, input) VALUES (? << 32 | ?, ?, ?, ?)",
    session.no,
    row.sequence,
    Object.keys(names).length === 0 ? null : shortenText(JSON.stringify(names), session.id),
    submitted,
    accepted === submitted ? null : accepted,
  );
  nameInput(db, row, { no: session.no, place: { kind: "inbox", sequence: row.sequence } });
}

/** Makes an input known by its key, and by its turn id where that does not say the sequence. */
function nameInput(
  db: Connection,
  row: InboxRow,
  { no, place }: { readonly no: number; readonly place: Place },
): void {
  const { key, turnId } = namesOf(row);
  if (key !== undefined) putName(db, no, { kind: "key", name: key, place });
  if (turnId !== undefined) putName(db, no, { kind: "turn", name: turnId, place });
}

function decodeInput(db: Connection, session: SessionRow, row: SqlRow): InboxRow {
  const submitted = db.json(row, "submitted", session.id);
  return inboxRow(session.id, db.integer(row, "n"), {
    names: row.names === null ? {} : db.json(row, "names", session.id),
    submitted,
    input: row.input === null ? submitted : db.json(row, "input", session.id),
    ...(row.progress === null ? {} : { progress: db.json(row, "progress", session.id) }),
  });
}

function sequenceOf(session: SessionId, inputId: InputId): number | undefined {
  return numberBehind(`${session}:input:`, inputId);
}

/** The number that a text consists of behind a prefix. */
function numberBehind(prefix: string, text: string): number | undefined {
  const digits = text.startsWith(prefix) ? text.slice(prefix.length) : "";
  const number = /^[1-9][0-9]{0,9}$/.test(digits) ? Number(digits) : 0;
  return number > 0 && number <= LARGEST ? number : undefined;
}

function keyConflict(input: Omit<NewInput, "input">, known: InboxRow): MarlingError {
  const { sessionId, key, turnId } = input;
  const name = key === undefined ? `turn id ${turnId}` : `key ${key}`;
  return new MarlingError(
    "idempotency_conflict",
    `session ${sessionId}: ${name} was used before with other content`,
    { details: { inputId: known.inputId, turnId: known.turnId } },
  );
}
