// What was admitted to one session, in memory.
//   MI1  rows are replaced, never changed: whoever was handed one keeps what it was.
//   MI2  sequences count on over rows that were removed.

import { MarlingError } from "../../base/errors.ts";
import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { decodeJson, type Json, jsonEqual } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type {
  CancelStatus,
  DeliverRequest,
  InboxRow,
  NewInput,
  ParkRequest,
  SessionCommit,
  Withdrawal,
  WithdrawOutcome,
} from "../contract.ts";

/** Whether a wait of a turn has a value or is over. */
type IsSettled = (turnId: TurnId, name: string) => boolean;

export class Inbox {
  readonly #sessionId: SessionId;
  readonly #rows = new Map<InputId, InboxRow>();
  readonly #byKey = new Map<string, InputId>();
  readonly #byTurn = new Map<TurnId, InputId>();
  /** In the order of their sequences. */
  readonly #pending = new Set<InputId>();
  /** When inputs were withdrawn. */
  readonly #withdrawn = new Map<InputId, number>();
  #sequence = 0;

  constructor(sessionId: SessionId) {
    this.#sessionId = sessionId;
  }

  /** The sequence of the newest input. */
  get sequence(): number {
    return this.#sequence;
  }

  get hasPending(): boolean {
    return this.#pending.size > 0;
  }

  /** The row with the input's key or turn id. Throws when that row is of another input. */
  find(input: Omit<NewInput, "input">): InboxRow | undefined {
    const byKey = input.key === undefined ? undefined : this.#byKey.get(input.key);
    const byTurn = input.turnId === undefined ? undefined : this.#byTurn.get(input.turnId);
    const inputId = byKey ?? byTurn;
    const row = inputId === undefined ? undefined : this.#rows.get(inputId);
    if (row !== undefined && !isSame(row, input)) throw keyConflict(input, row);
    return row;
  }

  admit(input: NewInput): { readonly status: "accepted" | "duplicate"; readonly row: InboxRow } {
    const known = this.find(input);
    if (known !== undefined) return { status: "duplicate", row: known };
    this.#sequence += 1;
    const sequence = this.#sequence;
    const turnId = input.turnId ?? this.#freeTurnId(sequence);
    const row: InboxRow = {
      ...input,
      turnId,
      inputId: `${this.#sessionId}:input:${sequence}` as InputId, // ids derive from sequences
      sequence,
    };
    this.#rows.set(row.inputId, row);
    this.#pending.add(row.inputId);
    this.#byTurn.set(turnId, row.inputId);
    if (input.key !== undefined) this.#byKey.set(input.key, row.inputId);
    return { status: "accepted", row };
  }

  pending(deliver?: InboxRow["deliver"]): readonly InboxRow[] {
    const rows = [...this.#pending].map((inputId) => this.#rows.get(inputId) as InboxRow);
    return deliver === undefined ? rows : rows.filter((row) => row.deliver === deliver);
  }

  *rows(): Iterable<InboxRow> {
    yield* this.#rows.values();
  }

  /** Whether a pending input is the one that this turn, or this part of a turn, is of. */
  isRunning(turnId: TurnId): boolean {
    return this.pending().some((row) => row.turnId === turnId || turnId.startsWith(`${row.turnId}:`));
  }

  /** Whether there is something to do for the first pending input. */
  isWorkable(now: number, isSettled: IsSettled): boolean {
    const [inputId] = this.#pending;
    const row = inputId === undefined ? undefined : this.#rows.get(inputId);
    if (row === undefined) return false;
    if (row.parked === undefined || row.cancel !== undefined) return true;
    if (row.parked.due !== null && row.parked.due <= now) return true;
    return row.parked.names.some((name) => isSettled(row.turnId, name));
  }

  /** Refuses to settle an input whose turn was asked to end by anything but that end. */
  refuseCancelled(settles: SessionCommit["settles"]): void {
    const row = settles === undefined ? undefined : this.#pendingRow(settles.inputId);
    if (settles === undefined || row?.cancel === undefined) return;
    const { outcome } = settles.report;
    if (outcome.kind === "stopped" && outcome.reason === "cancelled") return;
    throw new MarlingError(
      "turn_cancelled",
      `session ${this.#sessionId}: turn ${row.turnId} was asked to end: ${row.cancel.reason}; expected a report that it was cancelled, found ${outcome.kind}`,
      { details: { sessionId: this.#sessionId, inputId: row.inputId, reason: row.cancel.reason } },
    );
  }

  /** What a commit says about the inputs that it is about. */
  bringFurther({ settles, joins = [], advances }: SessionCommit): void {
    if (settles !== undefined) this.#settle(settles, joins);
    else if (advances !== undefined) this.#advance(advances);
  }

  deliver({ turnId, key, isReplay }: DeliverRequest): readonly InboxRow[] {
    const pending = this.pending();
    const taken = pending.filter(({ claimed }) => claimed?.turnId === turnId && claimed.key === key);
    if (taken.length > 0 || isReplay) return taken;
    const free = pending.filter(
      (row) => row.deliver === "active_turn" && row.claimed === undefined && row.turnId !== turnId,
    );
    return free.map((row) => this.#replace({ ...row, claimed: { turnId, key } }));
  }

  withdraw(
    { inputId, report }: Withdrawal,
    { isHeld, at }: { readonly isHeld: boolean; readonly at: number },
  ): WithdrawOutcome {
    const row = this.#rows.get(inputId);
    if (row === undefined) return { inputId, status: "unknown" };
    if (this.#withdrawn.has(inputId)) return { inputId, status: "already_cancelled" };
    if (!this.#pending.has(inputId)) return { inputId, status: "already_completed" };
    const [first] = this.#pending;
    const isTaken = row.claimed !== undefined || row.parked !== undefined || row.progress !== undefined;
    if (isTaken || (isHeld && first === inputId)) return { inputId, status: "already_claimed" };
    this.#finish(row, copied(report));
    this.#withdrawn.set(inputId, at);
    return { inputId, status: "cancelled" };
  }

  cancel(turnId: TurnId, reason: string): CancelStatus {
    const inputId = this.#byTurn.get(turnId);
    if (inputId === undefined) return "unknown";
    const row = this.#pendingRow(inputId);
    if (row === undefined) return "completed";
    if (row.cancel !== undefined) return "already_requested";
    this.#replace({ ...row, cancel: { reason } });
    return "requested";
  }

  park({ turnId, names, due }: ParkRequest, isSettled: IsSettled): "parked" | "ready" {
    const inputId = this.#byTurn.get(turnId);
    const row = inputId === undefined ? undefined : this.#pendingRow(inputId);
    if (row === undefined || row.cancel !== undefined) return "ready";
    if (names.some((name) => isSettled(turnId, name))) return "ready";
    this.#replace({ ...row, parked: { names: [...names], due } });
    return "parked";
  }

  /** Removes inputs that were withdrawn at this time, or before; returns how many. */
  vacuum(withdrawnBy: number): number {
    let removed = 0;
    for (const [inputId, at] of this.#withdrawn) {
      const row = this.#rows.get(inputId);
      if (at > withdrawnBy || row === undefined) continue;
      this.#rows.delete(inputId);
      this.#withdrawn.delete(inputId);
      this.#byTurn.delete(row.turnId);
      if (row.key !== undefined) this.#byKey.delete(row.key);
      removed += 1;
    }
    return removed;
  }

  #settle({ inputId, report }: NonNullable<SessionCommit["settles"]>, joins: readonly InputId[]): void {
    const row = this.#pendingRow(inputId);
    if (row === undefined) return;
    const kept = copied(report);
    for (const other of this.pending()) {
      if (other.claimed?.turnId !== row.turnId || other.inputId === inputId) continue;
      const { claimed: _claimed, ...free } = other;
      if (joins.includes(other.inputId)) this.#finish(other, kept);
      else this.#replace(free);
    }
    this.#finish(row, kept);
  }

  #advance({ inputId, progress }: { readonly inputId: InputId; readonly progress: Json }): void {
    const row = this.#pendingRow(inputId);
    if (row === undefined) return;
    const { parked: _parked, ...awake } = row;
    this.#replace({ ...awake, progress });
  }

  #finish(row: InboxRow, report: TurnReport): void {
    const { parked: _parked, plan: _plan, cancel: _cancel, ...settled } = row;
    this.#pending.delete(row.inputId);
    this.#replace({ ...settled, report });
  }

  #replace(row: InboxRow): InboxRow {
    this.#rows.set(row.inputId, row);
    return row;
  }

  #pendingRow(inputId: InputId): InboxRow | undefined {
    return this.#pending.has(inputId) ? this.#rows.get(inputId) : undefined;
  }

  /** A derived id; one that somebody gave to an earlier turn is left alone. */
  #freeTurnId(sequence: number): TurnId {
    const derived = `${this.#sessionId}:turn:${sequence}`;
    let turnId = derived as TurnId; // ids derive from sequences
    for (let number = 2; this.#byTurn.has(turnId); number += 1) turnId = `${derived}.${number}` as TurnId;
    return turnId;
  }
}

/** Two inputs of one commit are checked against each other, too: neither is in the inbox yet. */
export function refuseRivals(inputs: readonly NewInput[]): void {
  const byName = new Map<string, NewInput>();
  for (const input of inputs) {
    for (const name of namesOf(input)) {
      const rival = byName.get(name);
      if (rival !== undefined && !jsonEqual(rival.submitted, input.submitted))
        throw keyConflict(input, rival);
      byName.set(name, input);
    }
  }
}

function namesOf({ sessionId, key, turnId }: NewInput): readonly string[] {
  return [
    ...(key === undefined ? [] : [JSON.stringify([sessionId, "key", key])]),
    ...(turnId === undefined ? [] : [JSON.stringify([sessionId, "turn", turnId])]),
  ];
}

/** The same input: the same content, and no other turn id than the row has. */
function isSame(
  row: InboxRow,
  { submitted, turnId = row.turnId, key = row.key }: Omit<NewInput, "input">,
): boolean {
  return row.turnId === turnId && row.key === key && jsonEqual(row.submitted, submitted);
}

function copied(report: TurnReport): TurnReport {
  return decodeJson(report, "report") as unknown as TurnReport; // a copy of one
}

function keyConflict(input: Omit<NewInput, "input">, known: NewInput | InboxRow): MarlingError {
  const name = input.key === undefined ? `turn id ${input.turnId}` : `key ${input.key}`;
  const message = `session ${input.sessionId}: ${name} was used before with other content`;
  const details = "inputId" in known ? { inputId: known.inputId, turnId: known.turnId } : {};
  return new MarlingError("idempotency_conflict", message, { details });
}
