// Inputs as rows: in the inbox while they are pending, among the withdrawn when nobody shall take them, and in the commit
// that settled them from then on. Finds them by sequence, key and turn id, wherever they are.

import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { isJsonObject, type Json } from "../../model/json.ts";
import type { InboxRow } from "../contract.ts";
import { findSettling, lastCommit, readSettled } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import {
  decodeState,
  derivedTurnId,
  derivedTurnPrefix,
  encodeState,
  type InputState,
  inboxRow,
  namesOf,
} from "./input-codec.ts";
import { findName, type Place, putName } from "./name-rows.ts";
import { sumOf, sumOfRow } from "./row-sum.ts";
import type { SessionKey } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";
import { lastWithdrawn, readWithdrawn } from "./withdrawn-rows.ts";

/** A pending input with everything that is kept of it. */
export interface PendingInput {
  readonly row: InboxRow;
  readonly state: InputState;
}

/** Sequences have 32 bits of a row's key. */
const LARGEST = 4294967295;
const COLUMNS = "at >> 32 AS no, at & 4294967295 AS n, names, submitted, input, progress, plan, state, sum";
const OF_SESSION = "at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";
const NEWEST = `SELECT at & 4294967295 AS n FROM inbox WHERE ${OF_SESSION} ORDER BY at DESC LIMIT 1`;
const ALL = `SELECT ${COLUMNS} FROM inbox WHERE ${OF_SESSION} ORDER BY at`;
const AT = `SELECT ${COLUMNS} FROM inbox WHERE at = ? << 32 | ?`;
const STEERED = `SELECT ${COLUMNS} FROM inbox INDEXED BY inbox_states WHERE state IS NOT NULL AND ${OF_SESSION} ORDER BY at`;
/** So many pending inputs of a session are remembered; a session with more is one whose inputs wait for others. */
const REMEMBERED = 16;
const FIRST = `${ALL} LIMIT 1`;
const FIRST_ROWS = `${ALL} LIMIT ${REMEMBERED + 1}`;

/** How many inputs a session has taken. */
export function countInputs(db: Connection, session: SessionKey): number {
  const known = db.memory.of(session.no);
  known.inputs ??= readCount(db, session);
  return known.inputs;
}

function readCount(db: Connection, session: SessionKey): number {
  const row = db.get(NEWEST, session.no);
  const pending = row === undefined ? 0 : db.integer(row, "n");
  const counted = lastCommit(db, session)?.manifest.inputs ?? 0;
  return Math.max(pending, counted, lastWithdrawn(db, session.no));
}

/** The pending inputs of a session, in order. */
export function readPending(db: Connection, session: SessionKey): readonly PendingInput[] {
  const rows = knownInbox(db, session.no)?.values() ?? allOf(db, ALL, session.no);
  return [...rows].map((row) => decodePending(db, session, row));
}

/** Those of them that have a state. Does not look at the others. */
export function readSteered(db: Connection, session: SessionKey): readonly PendingInput[] {
  const known = knownInbox(db, session.no);
  const rows = known === undefined ? allOf(db, STEERED, session.no) : [...known.values()].filter(hasState);
  return rows.map((row) => decodePending(db, session, row));
}

/** The pending input that comes first: its sequence and its state. */
export function readFirst(
  db: Connection,
  session: SessionKey,
): { readonly sequence: number; readonly state: InputState } | undefined {
  const [row] = allOf(db, FIRST, session.no);
  if (row === undefined) return undefined;
  return { sequence: db.integer(row, "n"), state: stateOf(db, session, row) };
}

/** The turn ids of the pending inputs of a session. */
export function readTurns(db: Connection, session: SessionKey): readonly TurnId[] {
  return allOf(db, ALL, session.no).map((row) => {
    const sequence = db.integer(row, "n");
    const names = row.names === null ? {} : db.json(row, "names", session.id);
    return inboxRow(session.id, sequence, { names, submitted: null, input: null }).turnId;
  });
}

/** A pending input by its id. */
export function readInput(db: Connection, session: SessionKey, inputId: InputId): PendingInput | undefined {
  const sequence = sequenceOf(session.id, inputId);
  return sequence === undefined ? undefined : readAt(db, session, sequence);
}

export function insertInput(db: Connection, session: SessionKey, row: InboxRow): void {
  const { sequence: n } = row;
  const { no, id } = session;
  const submittedText = JSON.stringify(row.submitted);
  const isAsSubmitted = hasSameMembers(row.submitted, row.input);
  const texts = [
    JSON.stringify(namesOf(row)),
    submittedText,
    isAsSubmitted ? submittedText : JSON.stringify(row.input),
  ] as const;
  const names = texts[0] === "{}" ? null : shortenText(texts[0], id);
  const submitted = shortenText(texts[1], id);
  const input = texts[2] === texts[1] ? null : shortenText(texts[2], id);
  const plan = row.plan === undefined ? null : JSON.stringify(row.plan);
  const state = stateText(session, row.deliver === undefined ? {} : { deliver: row.deliver });
  const stored = { no, n, names, submitted, input, progress: null, plan, state };
  const sum = sumOf("inbox", stored);
  db.run(
    "INSERT INTO inbox (at, names, submitted, input, plan, state, sum) VALUES (? << 32 | ?, ?, ?, ?, ?, ?, ?)",
    no,
    n,
    names,
    submitted,
    input,
    plan,
    state,
    sum,
  );
  const known = db.memory.of(no);
  known.inputs = n;
  if (known.inbox instanceof Map) known.inbox.set(n, { ...stored, sum, plain: texts[1] });
  if (known.inbox instanceof Map && known.inbox.size > REMEMBERED) known.inbox = null;
  nameInput(db, row, { no, place: { kind: "inbox", sequence: n } });
}

/** Whether two objects have the very same values as members; then they have the same text. */
function hasSameMembers(one: Json, other: Json): boolean {
  if (!isJsonObject(one) || !isJsonObject(other)) return one === other;
  const [names, others] = [Object.keys(one), Object.keys(other)];
  return (
    names.length === others.length &&
    names.every((name, index) => name === others[index] && one[name] === other[name])
  );
}

export function deleteInput(db: Connection, no: number, sequence: number): void {
  db.run("DELETE FROM inbox WHERE at = ? << 32 | ?", no, sequence);
  const known = db.memory.of(no);
  if (known.inbox instanceof Map) known.inbox.delete(sequence);
  else known.inbox = undefined;
}

/** Replaces the state of a pending input. */
export function writeState(
  db: Connection,
  session: SessionKey,
  { sequence, state }: { readonly sequence: number; readonly state: InputState },
): void {
  write(db, session.no, { sequence, column: "state", text: stateText(session, state) });
}

/** Keeps where the turn of a pending input goes on from. */
export function writeProgress(
  db: Connection,
  session: SessionKey,
  { sequence, progress }: { readonly sequence: number; readonly progress: Json },
): void {
  const text = shortenText(JSON.stringify(progress), session.id);
  write(db, session.no, { sequence, column: "progress", text });
}

/** Writes one column of a pending input; its row is read again when it is asked for. */
function write(
  db: Connection,
  no: number,
  cell: {
    readonly sequence: number;
    readonly column: "state" | "progress";
    readonly text: string | null;
  },
): void {
  const { sequence, column, text } = cell;
  const row = rowAt(db, no, sequence);
  if (row === undefined) return;
  const sum = sumOfRow("inbox", { ...row, [column]: text });
  db.run(`UPDATE inbox SET ${column} = ?, sum = ? WHERE at = ? << 32 | ?`, text, sum, no, sequence);
  db.memory.of(no).inbox = undefined;
}

/** Makes an input known by its key, and by its turn id where that does not say the sequence. */
export function nameInput(
  db: Connection,
  row: InboxRow,
  { no, place }: { readonly no: number; readonly place: Place },
): void {
  const { key, turnId } = namesOf(row);
  if (key !== undefined) putName(db, no, { kind: "key", name: key, place });
  if (turnId !== undefined) putName(db, no, { kind: "turn", name: turnId, place });
}

/** The input with a key, wherever it is. */
export function inputByKey(db: Connection, session: SessionKey, key: string): InboxRow | undefined {
  const place = findName(db, session.no, { kind: "key", name: key });
  return inputsAt(db, session, place).find((row) => row.key === key);
}

/** The input with a turn id, wherever it is. */
export function inputByTurn(db: Connection, session: SessionKey, turnId: string): InboxRow | undefined {
  const place = findName(db, session.no, { kind: "turn", name: turnId });
  const sequence = place === undefined ? numberBehind(derivedTurnPrefix(session.id), turnId) : undefined;
  const found = sequence === undefined ? place : placeOf(db, session, sequence);
  return inputsAt(db, session, found).find((row) => row.turnId === turnId);
}

/** An input by its sequence, wherever it is. */
export function inputBySequence(db: Connection, session: SessionKey, sequence: number): InboxRow | undefined {
  return inputsAt(db, session, placeOf(db, session, sequence)).find((row) => row.sequence === sequence);
}

/** An input by its id, wherever it is. */
export function inputById(db: Connection, session: SessionKey, inputId: InputId): InboxRow | undefined {
  const sequence = sequenceOf(session.id, inputId);
  return sequence === undefined ? undefined : inputBySequence(db, session, sequence);
}

/** The commit that settled the turn. Turn ids that were given have a name; those that were derived say their sequence. */
export function findTurnCommit(db: Connection, session: SessionKey, turnId: string): number | undefined {
  const named = findName(db, session.no, { kind: "turn", name: turnId });
  if (named !== undefined) return named.kind === "commit" ? named.revision : undefined;
  const sequence = numberBehind(derivedTurnPrefix(session.id), turnId);
  const place = sequence === undefined ? undefined : placeOf(db, session, sequence);
  if (place?.kind !== "commit") return undefined;
  return inputsAt(db, session, place).some((row) => row.turnId === turnId) ? place.revision : undefined;
}

/** The turn id of an input that came without one; never one that was given to an earlier turn. */
export function freeTurnId(db: Connection, session: SessionKey, sequence: number): TurnId {
  const derived = derivedTurnId(session.id, sequence);
  let name: string = derived;
  for (let number = 2; findName(db, session.no, { kind: "turn", name }) !== undefined; number += 1) {
    name = `${derived}.${number}`;
  }
  return name as TurnId; // made here
}

function placeOf(db: Connection, session: SessionKey, sequence: number): Place | undefined {
  const isPending = rowAt(db, session.no, sequence) !== undefined;
  if (isPending || readWithdrawn(db, session, sequence) !== undefined) return { kind: "inbox", sequence };
  const joined = findName(db, session.no, { kind: "joined", name: String(sequence) });
  if (joined !== undefined) return joined;
  const revision = findSettling(db, session.no, sequence);
  return revision === undefined ? undefined : { kind: "commit", revision };
}

/** The inputs at a place: of a commit, the one that it settled and those that joined its turn. */
function inputsAt(db: Connection, session: SessionKey, place: Place | undefined): readonly InboxRow[] {
  if (place === undefined) return [];
  if (place.kind === "commit") return readSettled(db, session, place.revision);
  const { sequence } = place;
  const row = readAt(db, session, sequence)?.row ?? readWithdrawn(db, session, sequence);
  return row === undefined ? [] : [row];
}

function readAt(db: Connection, session: SessionKey, sequence: number): PendingInput | undefined {
  const row = rowAt(db, session.no, sequence);
  return row === undefined ? undefined : decodePending(db, session, row);
}

function rowAt(db: Connection, no: number, sequence: number): SqlRow | undefined {
  const known = knownInbox(db, no);
  if (known !== undefined) return known.get(sequence);
  const row = db.get(AT, no, sequence);
  return row === undefined ? undefined : db.summed("inbox", row);
}

/** The inbox of a session, unless it is too large to be remembered. */
function knownInbox(db: Connection, no: number): ReadonlyMap<number, SqlRow> | undefined {
  const known = db.memory.of(no);
  if (known.inbox === undefined) {
    const rows = allOf(db, FIRST_ROWS, no);
    known.inbox = rows.length > REMEMBERED ? null : new Map(rows.map((row) => [db.integer(row, "n"), row]));
  }
  return known.inbox ?? undefined;
}

/** The rows of a session that a statement finds. */
function allOf(db: Connection, sql: string, no: number): readonly SqlRow[] {
  const rows = db.all(sql, no);
  for (const row of rows) db.summed("inbox", row);
  return rows;
}

function hasState({ state }: SqlRow): boolean {
  return state !== null;
}

function decodePending(db: Connection, session: SessionKey, row: SqlRow): PendingInput {
  const submitted =
    typeof row.plain === "string" ? (JSON.parse(row.plain) as Json) : db.json(row, "submitted", session.id);
  const state = stateOf(db, session, row);
  const decoded = inboxRow(session.id, db.integer(row, "n"), {
    names: row.names === null ? {} : db.json(row, "names", session.id),
    submitted,
    input: row.input === null ? submitted : db.json(row, "input", session.id),
    ...(row.progress === null ? {} : { progress: db.json(row, "progress", session.id) }),
    ...(row.plan === null ? {} : { plan: db.json(row, "plan") }),
    state,
  });
  return { row: decoded, state };
}

function stateOf(db: Connection, session: SessionKey, row: SqlRow): InputState {
  return row.state === null ? {} : decodeState(db.json(row, "state", session.id));
}

function stateText(session: SessionKey, state: InputState): string | null {
  const text = encodeState(state);
  return text === undefined ? null : shortenText(text, session.id);
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
