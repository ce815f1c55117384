// Values that arrive from outside, in memory.
//   MW1  a wait takes the first value that any of its keys brings, and none once it is over.
//   MW2  a key opens one wait, and only for its kind.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId, TurnId } from "../../model/ids.ts";
import { decodeJson } from "../../model/json.ts";
import type { NewWait, Resolution, ResolveStatus, WaitKind, WaitName, WaitRow } from "../contract.ts";

interface Wait {
  row: WaitRow;
  readonly keyHashes: Set<string>;
  overAt: number | undefined;
}

export class WaitTable {
  readonly #sessions = new Map<SessionId, Map<TurnId, Map<string, Wait>>>();
  readonly #byKey = new Map<string, Wait>();

  create({ sessionId, turnId, name, kind, keyHash }: NewWait): void {
    const turn = this.#turn(sessionId, turnId);
    const row: WaitRow = { sessionId, turnId, name, kind, isOver: false };
    const wait = turn.get(name) ?? { row, keyHashes: new Set(), overAt: undefined };
    if (wait.row.kind !== kind)
      throw new MarlingError(
        "invalid_input",
        `session ${sessionId}: wait ${name} of turn ${turnId}: expected a key for its kind ${wait.row.kind}, found one for ${kind}`,
        { details: { sessionId, turnId, name } },
      );
    turn.set(name, wait);
    if (this.#byKey.has(keyHash)) return;
    wait.keyHashes.add(keyHash);
    this.#byKey.set(keyHash, wait);
  }

  read(sessionId: SessionId, turnId: TurnId): readonly WaitRow[] {
    return [...this.#waitsOf(sessionId, turnId)].map(({ row }) => row);
  }

  resolve(
    keyHash: string,
    kind: WaitKind,
    resolution: Resolution,
  ): { readonly status: ResolveStatus } & Partial<WaitName> {
    const wait = this.#byKey.get(keyHash);
    if (wait === undefined || wait.row.kind !== kind) return { status: "unknown" };
    const { sessionId, turnId, name } = wait.row;
    if (isSettled(wait)) return { status: "already_resolved", sessionId, turnId, name };
    const kept = decodeJson(resolution, `resolution of ${name}`) as unknown as Resolution; // a copy of one
    wait.row = { ...wait.row, resolution: kept };
    return { status: "resolved", sessionId, turnId, name };
  }

  /** Ends a wait that has no value. */
  end({ sessionId, turnId, name }: WaitName, at: number): WaitRow | undefined {
    const wait = this.#sessions.get(sessionId)?.get(turnId)?.get(name);
    if (wait !== undefined && !isSettled(wait)) finish(wait, at);
    return wait?.row;
  }

  /** Ends all waits of a turn, those with a value too: nobody will ask for it. */
  endAll(sessionId: SessionId, turnId: TurnId, at: number): void {
    for (const wait of this.#waitsOf(sessionId, turnId)) if (!wait.row.isOver) finish(wait, at);
  }

  /** Whether a wait has a value or is over. One that is not known is neither. */
  isSettled({ sessionId, turnId, name }: WaitName): boolean {
    const wait = this.#sessions.get(sessionId)?.get(turnId)?.get(name);
    return wait !== undefined && isSettled(wait);
  }

  delete(sessionId: SessionId): void {
    for (const turn of this.#sessions.get(sessionId)?.values() ?? [])
      for (const wait of turn.values()) this.#dropKeys(wait);
    this.#sessions.delete(sessionId);
  }

  /** Removes waits that were over at this time, or before; returns how many. */
  vacuum(overBy: number): number {
    let removed = 0;
    for (const [sessionId, turns] of this.#sessions) {
      for (const [turnId, waits] of turns) {
        removed += this.#vacuumTurn(waits, overBy);
        if (waits.size === 0) turns.delete(turnId);
      }
      if (turns.size === 0) this.#sessions.delete(sessionId);
    }
    return removed;
  }

  *rows(): Iterable<WaitRow> {
    for (const turns of this.#sessions.values())
      for (const waits of turns.values()) for (const { row } of waits.values()) yield row;
  }

  #vacuumTurn(waits: Map<string, Wait>, overBy: number): number {
    let removed = 0;
    for (const [name, wait] of waits) {
      if (wait.overAt === undefined || wait.overAt > overBy) continue;
      this.#dropKeys(wait);
      waits.delete(name);
      removed += 1;
    }
    return removed;
  }

  #dropKeys({ keyHashes }: Wait): void {
    for (const keyHash of keyHashes) this.#byKey.delete(keyHash);
  }

  #waitsOf(sessionId: SessionId, turnId: TurnId): Iterable<Wait> {
    return this.#sessions.get(sessionId)?.get(turnId)?.values() ?? [];
  }

  #turn(sessionId: SessionId, turnId: TurnId): Map<string, Wait> {
    const session = this.#sessions.get(sessionId) ?? new Map<TurnId, Map<string, Wait>>();
    this.#sessions.set(sessionId, session);
    const turn = session.get(turnId) ?? new Map<string, Wait>();
    session.set(turnId, turn);
    return turn;
  }
}

function isSettled({ row }: Wait): boolean {
  return row.isOver || row.resolution !== undefined;
}

function finish(wait: Wait, at: number): void {
  wait.row = { ...wait.row, isOver: true };
  wait.overAt = at;
}
