// Outcomes that a fault left in the memory of this process.
//   JE12 outcomes that could not be written stay in memory when a fault ends the run. A later run in this process has them,
//        unless another process has recorded something of the turn meanwhile. An effect whose mark could not be written has
//        not begun: under the next lease it is not a cut one.

import { keepNewest } from "../base/keep-newest.ts";
import type { EffectKey } from "../model/ids.ts";
import { type JournalRecord, RECOVERY_MARK } from "../model/journal.ts";
import { type Json, jsonEqual } from "../model/json.ts";
import type { TurnName } from "./contract.ts";

/** Turns whose unwritten outcomes are kept; of more, those that were left last. */
const MOST_LEFT = 64;

export class LeftJournals {
  readonly #left = new Map<string, LeftJournal>();

  of(turn: TurnName): LeftJournal | undefined {
    return this.#left.size === 0 ? undefined : this.#left.get(nameOf(turn));
  }

  /** Keeps what a run left of a turn, in the place of what an earlier one did. */
  put(turn: TurnName, left: LeftJournal | undefined): void {
    if (left !== undefined) keepNewest(this.#left, [nameOf(turn), left], MOST_LEFT);
    else if (this.#left.size > 0) this.#left.delete(nameOf(turn));
  }
}

function nameOf({ sessionId, turnId }: TurnName): string {
  return JSON.stringify([sessionId, turnId]);
}

/** The unwritten records of a turn whose run a fault ended. Plain JSON. */
export interface LeftJournal {
  readonly lease: number | undefined;
  readonly started: readonly EffectKey[];
  /** Effects that were marked, perhaps in the store, and never begun. */
  readonly unbegun: readonly EffectKey[];
  readonly outcomes: ReadonlyMap<EffectKey, Json>;
  /** Records that the store may not have. */
  readonly unwritten: readonly JournalRecord[];
}

export interface OpenedRecords {
  readonly known: readonly JournalRecord[];
  /** Those among them that the store does not have. */
  readonly unwritten: readonly JournalRecord[];
}

/** The records of a turn with those that only this process has, unless others have recorded more meanwhile. */
export function withLeft(
  stored: readonly JournalRecord[],
  left: LeftJournal | undefined,
  lease: number | undefined,
): OpenedRecords {
  if (left === undefined) return { known: stored, unwritten: [] };
  const isOwn = ({ key, status, outcome }: JournalRecord): boolean =>
    status === "done" ? jsonEqual(left.outcomes.get(key), outcome) : left.started.includes(key);
  const isOthers = (record: JournalRecord): boolean =>
    !record.key.startsWith(RECOVERY_MARK) && !isOwn(record);
  if (stored.some(isOthers)) return { known: stored, unwritten: [] };
  const has = ({ key, status }: JournalRecord): boolean =>
    stored.some((record) => record.key === key && (record.status === status || record.status === "done"));
  const unwritten = left.unwritten.filter((record) => !has(record));
  const isSucceeded = left.lease !== undefined && lease !== undefined && lease <= left.lease + 1; // Nobody had it since.
  const isBegun = ({ key, status }: JournalRecord): boolean =>
    status === "done" || !isSucceeded || !left.unbegun.includes(key);
  return { known: [...stored, ...unwritten].filter(isBegun), unwritten };
}
