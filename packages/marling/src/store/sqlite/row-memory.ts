// What is remembered of the rows of sessions, so that nothing is read again that a turn has read or written before.
//   RM1  it is dropped when another store has written and when a write was undone: see open-store.ts.
//   RM2  a member that is missing was not read. Whoever writes rows keeps what is remembered of them in step, or drops it.
//   RM3  nothing of it is handed out that a caller could change.
//   RM4  it is bounded: of so many sessions, and of each no more than a turn needs.

import { keepNewest } from "../../base/keep-newest.ts";
import type { JournalRecord } from "../../model/journal.ts";
import type { SqlRow } from "./driver.ts";
import type { SessionRow } from "./session-rows.ts";

/** Who may write to a session. */
export interface LeaseRow {
  readonly generation: number;
  readonly holder: LeaseHolder | undefined;
}

export interface LeaseHolder {
  readonly owner: string;
  readonly incarnation: string;
  readonly instance: string;
  readonly expiresAt: number;
}

/** Which records a session has. */
export interface JournalKeys {
  /** What the newest record of a key says, by turn and key. */
  readonly statuses: Map<string, Map<string, JournalRecord["status"]>>;
  last: number;
}

export interface KnownRows {
  lease?: LeaseRow | undefined;
  /** Of the newest commit; 0 when there is none. */
  revision?: number | undefined;
  /** How many inputs the session has taken. */
  inputs?: number | undefined;
  /** All pending inputs by sequence, in order; null when they are too many to be remembered. */
  inbox?: Map<number, SqlRow> | null | undefined;
  journal?: JournalKeys | undefined;
  hasNames?: boolean | undefined;
  hasWaits?: boolean | undefined;
}

/** Of so many sessions something is remembered. */
const REMEMBERED = 1000;

export class RowMemory {
  readonly #sessions = new Map<string, SessionRow>();
  readonly #rows = new Map<number, KnownRows>();
  /** When bytes were put, by address. */
  readonly #puts = new Map<string, number>();

  /** What is known of the rows of a session; there to be completed. */
  of(no: number): KnownRows {
    const known = this.#rows.get(no);
    if (known !== undefined) return known;
    const rows: KnownRows = {};
    keep(this.#rows, no, rows);
    return rows;
  }

  session(id: string): SessionRow | undefined {
    return this.#sessions.get(id);
  }

  setSession(session: SessionRow): void {
    keep(this.#sessions, session.id, session);
  }

  dropRows(no: number): void {
    this.#rows.delete(no);
  }

  putTime(ref: string): number | undefined {
    return this.#puts.get(ref);
  }

  setPutTime(ref: string, at: number): void {
    keep(this.#puts, ref, at);
  }

  reset(): void {
    this.#sessions.clear();
    this.#rows.clear();
    this.#puts.clear();
  }
}

/** Adds to what is remembered; what was added longest ago makes room. */
export function keep<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  keepNewest(map, [key, value], REMEMBERED);
}
