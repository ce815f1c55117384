// What happens to the inputs of a session: they are admitted, delivered, withdrawn, cancelled, put to sleep and settled.
//   IN1  sequences of a session count from 1 and have no holes; ids derive from them.
//   IN2  a key and a turn id name one input each; content decides between "the same again" and a conflict.
//   IN3  an input moves into the commit that settles it, with its report, and so do those that joined its turn; the
//        inbox is as large as what is pending.
//   IN4  a checkpoint that has taken inputs takes no others.
//   IN5  what a turn took and did not join is free again when the turn is settled.

import { MarlingError } from "../../base/errors.ts";
import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { jsonEqual } from "../../model/json.ts";
import type {
  Admission,
  CancelStatus,
  DeliverRequest,
  InboxRow,
  NewInput,
  ParkRequest,
  SessionCommit,
  Withdrawal,
  WithdrawOutcome,
} from "../contract.ts";
import type { Connection } from "./connection.ts";
import { inputIdOf, isOfTurn, type ParkedTurn, type SettledInputs } from "./input-codec.ts";
import {
  countInputs,
  deleteInput,
  freeTurnId,
  inputById,
  inputByKey,
  inputByTurn,
  insertInput,
  nameInput,
  type PendingInput,
  readFirst,
  readInput,
  readPending,
  readSteered,
  writeProgress,
  writeState,
} from "./input-rows.ts";
import { deleteNames, putName } from "./name-rows.ts";
import { decodeSession, ensureSession, type SessionKey } from "./session-rows.ts";
import { hasEndedWait } from "./wait-rows.ts";
import { deleteWithdrawn, insertWithdrawn, readWithdrawn } from "./withdrawn-rows.ts";

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
  session: SessionKey,
  input: Omit<NewInput, "input">,
): InboxRow | undefined {
  const { key, turnId } = input;
  const byKey = key === undefined ? undefined : inputByKey(db, session, key);
  const row = byKey ?? (turnId === undefined ? undefined : inputByTurn(db, session, turnId));
  if (row === undefined) return undefined;
  const hasNames = (turnId ?? row.turnId) === row.turnId && (key ?? row.key) === row.key;
  if (!hasNames || !jsonEqual(row.submitted, input.submitted)) throw keyConflict(input, row);
  return row;
}

/** The inputs of a session that no commit has settled, in order; all of them, or those that are to be delivered so. */
export function pendingInputs(
  db: Connection,
  session: SessionKey,
  deliver?: InboxRow["deliver"],
): readonly InboxRow[] {
  if (deliver === undefined) return readPending(db, session).map(({ row }) => row);
  return readSteered(db, session).flatMap(({ row }) => (row.deliver === deliver ? [row] : []));
}

/** The sessions that have such inputs. */
export function sessionsWithInputs(db: Connection): readonly SessionId[] {
  const rows = db.all("SELECT * FROM sessions WHERE no IN (SELECT DISTINCT at >> 32 FROM inbox) ORDER BY no");
  return rows.map((row) => decodeSession(db, row).id);
}

/** Gives a checkpoint its inputs: those that it took before, else all that nobody has taken. */
export function deliverInputs(
  db: Connection,
  session: SessionKey,
  request: DeliverRequest,
): readonly InboxRow[] {
  const { turnId, key, isReplay } = request;
  const steered = readSteered(db, session);
  const taken = steered.filter(({ state: { claimed } }) => claimed?.turnId === turnId && claimed.key === key);
  if (isReplay || taken.length > 0) return taken.map(({ row }) => row);
  const claimed = { turnId, key };
  return steered
    .filter((input) => isFree(input) && !isOfTurn(turnId, input.row.turnId))
    .map(({ row, state }) => {
      writeState(db, session, { sequence: row.sequence, state: { ...state, claimed } });
      return { ...row, claimed };
    });
}

/** Takes inputs out of the inbox that no turn has, or is; outcomes are in the order of the request. */
export function withdrawInputs(
  db: Connection,
  session: SessionKey,
  withdrawals: readonly Withdrawal[],
  options: { readonly isLeased: boolean; readonly now: number },
): readonly WithdrawOutcome[] {
  const { isLeased, now } = options;
  const running = isLeased ? readFirst(db, session)?.sequence : undefined;
  return withdrawals.map(({ inputId, report }) => {
    const input = readInput(db, session, inputId);
    if (input === undefined) return { inputId, status: formerStatus(db, session, inputId) };
    if (hasBegun(input) || input.state.claimed !== undefined || input.row.sequence === running)
      return { inputId, status: "already_claimed" };
    deleteInput(db, session.no, input.row.sequence);
    insertWithdrawn(db, input.row, { session, report, now });
    return { inputId, status: "cancelled" };
  });
}

/** Keeps with an input that its turn was asked to end; the first reason stays. */
export function cancelTurn(
  db: Connection,
  session: SessionKey,
  { turnId, reason }: { readonly turnId: TurnId; readonly reason: string },
): CancelStatus {
  const row = inputByTurn(db, session, turnId);
  if (row === undefined) return "unknown";
  const input = readInput(db, session, row.inputId);
  if (input === undefined) return "completed";
  if (input.state.cancel !== undefined) return "already_requested";
  writeState(db, session, { sequence: row.sequence, state: { ...input.state, cancel: { reason } } });
  return "requested";
}

/** Puts a turn to sleep unless it has something to do; does not touch the lease. */
export function parkTurn(db: Connection, session: SessionKey, request: ParkRequest): "parked" | "ready" {
  const { turnId, names, due } = request;
  const input = inputOfTurn(db, session, turnId);
  const parked: ParkedTurn = { turnId, names, due };
  if (input === undefined || input.state.cancel !== undefined || hasEndedWait(db, session, parked))
    return "ready";
  writeState(db, session, { sequence: input.row.sequence, state: { ...input.state, parked } });
  return "parked";
}

/** Whether the first pending input of a session is parked and has nothing to do yet. */
export function isAsleep(db: Connection, session: SessionKey, now: number): boolean {
  const { parked, cancel } = readFirst(db, session)?.state ?? {};
  if (parked === undefined || cancel !== undefined) return false;
  if (parked.due !== null && parked.due <= now) return false;
  return !hasEndedWait(db, session, parked);
}

/** Takes a pending input out of the inbox for the commit that settles it, with those that joined it. */
export function settleInput(
  db: Connection,
  session: SessionKey,
  { row: settled, joins, revision }: Settlement,
): SettledInputs {
  const place = { kind: "commit", revision } as const;
  const taken = readSteered(db, session).filter(({ state: { claimed } }) => {
    return claimed !== undefined && isOfTurn(claimed.turnId, settled.turnId);
  });
  const joined = taken.filter(({ row }) => joins.includes(row.inputId)).map(({ row }) => row);
  for (const row of [settled, ...joined]) {
    deleteInput(db, session.no, row.sequence);
    nameInput(db, row, { no: session.no, place });
  }
  for (const { sequence } of joined)
    putName(db, session.no, { kind: "joined", name: String(sequence), place });
  for (const { row, state } of taken) {
    if (joined.includes(row)) continue;
    const { claimed: _claimed, ...free } = state;
    writeState(db, session, { sequence: row.sequence, state: free });
  }
  return { row: settled, joined };
}

/** Keeps where the turn of a pending input goes on from, awake. */
export function advanceInput(
  db: Connection,
  session: SessionKey,
  { inputId, progress }: NonNullable<SessionCommit["advances"]>,
): void {
  const input = readInput(db, session, inputId);
  if (input === undefined) return;
  const { sequence } = input.row;
  writeProgress(db, session, { sequence, progress });
  const { parked, ...awake } = input.state;
  if (parked !== undefined) writeState(db, session, { sequence, state: awake });
}

export function deleteInputs(db: Connection, no: number): void {
  db.run("DELETE FROM inbox WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295", no);
  db.memory.dropRows(no);
  deleteWithdrawn(db, no);
  deleteNames(db, no);
}

/** What a commit does to the inbox. */
interface Settlement {
  readonly row: InboxRow;
  readonly joins: readonly InputId[];
  readonly revision: number;
}

/** It waits for a turn to join: no checkpoint has it, and it is not a turn itself by now. */
function isFree(input: PendingInput): boolean {
  const { deliver, claimed } = input.state;
  return deliver === "active_turn" && claimed === undefined && !hasBegun(input);
}

/** Its turn has committed a part, or sleeps. */
function hasBegun({ row, state }: PendingInput): boolean {
  return row.progress !== undefined || state.parked !== undefined;
}

function formerStatus(db: Connection, session: SessionKey, inputId: InputId): WithdrawOutcome["status"] {
  const row = inputById(db, session, inputId);
  if (row === undefined) return "unknown";
  const isWithdrawn = readWithdrawn(db, session, row.sequence) !== undefined;
  return isWithdrawn ? "already_cancelled" : "already_completed";
}

/** The pending input that a turn, or a part of a turn, is of. */
function inputOfTurn(db: Connection, session: SessionKey, turnId: TurnId): PendingInput | undefined {
  const row = inputByTurn(db, session, turnId);
  if (row !== undefined) return readInput(db, session, row.inputId);
  return readPending(db, session)
    .filter((input) => isOfTurn(turnId, input.row.turnId))
    .toSorted((one, other) => other.row.turnId.length - one.row.turnId.length)[0];
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
