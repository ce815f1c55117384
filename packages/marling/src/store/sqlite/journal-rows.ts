// Effects of turns that are not committed yet.
//   JR1  a key of a turn has at most one `started` and one `done` record, the first of each; nothing follows `done`.
//   JR2  records are read in the order in which they were written.
//   JR3  which keys are there is remembered per session (row-memory.ts): what is not there is not looked for.
//   JR4  what is appended together is one row: the turn, then key, status and outcome of each record. Rows with one record,
//        and the outcome beside it, are of an earlier version.
//   JR5  rows are laid out so that the next one needs no page for the rest of this one: that is fewer bytes, and less time.

import type { EffectKey, TurnId } from "../../model/ids.ts";
import type { JournalRecord } from "../../model/journal.ts";
import type { Json } from "../../model/json.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import type { JournalKeys } from "./row-memory.ts";
import { sumOf } from "./row-sum.ts";
import type { SessionKey, SessionRow } from "./session-rows.ts";
import { damaged } from "./sqlite-fault.ts";

const OF_SESSION = "FROM journal WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";
const ROWS = `SELECT at >> 32 AS no, at & 4294967295 AS n, entry, outcome, sum ${OF_SESSION} ORDER BY at`;
const INSERT = "INSERT INTO journal (at, entry, sum) VALUES (? << 32 | ?, ?, ?)";
const DELETE_ALL = `DELETE ${OF_SESSION}`;

export class JournalRows {
  readonly #db: Connection;

  constructor(db: Connection) {
    this.#db = db;
  }

  append(session: SessionRow, records: readonly JournalRecord[]): void {
    const first = records[0]?.turnId;
    const isOther = ({ turnId }: JournalRecord): boolean => turnId !== first;
    if (first === undefined) return;
    if (!records.some(isOther)) this.#appendTo(session, first, records);
    else
      for (const turnId of new Set(records.map((record) => record.turnId)))
        this.#appendTo(
          session,
          turnId,
          records.filter((record) => record.turnId === turnId),
        );
  }

  #appendTo(session: SessionRow, turnId: TurnId, records: readonly JournalRecord[]): void {
    const known = this.#keysOf(session);
    const turn = turnOf(known, turnId);
    const isNew = ({ key, status }: JournalRecord): boolean => {
      const before = turn.get(key);
      if (before === "done" || before === status) return false;
      turn.set(key, status);
      return true;
    };
    const added = records.filter(isNew);
    if (added.length === 0) return;
    known.last += 1;
    const steps = added.map(({ key, status, outcome }) =>
      outcome === undefined ? [key, status] : [key, status, outcome],
    );
    const entry = onWholePages(JSON.stringify([turnId, ...steps])); // Not shortened: a journal does not stay.
    const { no } = session;
    const sum = sumOf("journal", { no, n: known.last, entry, outcome: null });
    this.#db.run(INSERT, no, known.last, entry, sum);
  }

  read(session: SessionRow, turnId: TurnId): readonly JournalRecord[] {
    if (!this.#keysOf(session).statuses.has(turnId)) return [];
    const rows = this.#db.all(ROWS, session.no);
    return rows.flatMap((row) => this.#decode(session, row)).filter((record) => record.turnId === turnId);
  }

  /** Removes the records of turns. */
  forget(session: SessionRow, turns: readonly TurnId[]): void {
    const known = this.#keysOf(session);
    const gone = turns.filter((turnId) => known.statuses.has(turnId));
    for (const turnId of gone) known.statuses.delete(turnId);
    if (gone.length === 0) return;
    if (known.statuses.size === 0) {
      this.deleteAll(session.no);
      return;
    }
    for (const row of this.#db.all(ROWS, session.no)) {
      if (!gone.includes(readEntry(this.#db, row, session).turnId)) continue;
      this.#db.run("DELETE FROM journal WHERE at = ? << 32 | ?", session.no, this.#db.integer(row, "n"));
    }
  }

  deleteAll(no: number): void {
    this.#db.run(DELETE_ALL, no);
    this.#db.memory.of(no).journal = { statuses: new Map(), last: 0 };
  }

  #keysOf(session: SessionRow): JournalKeys {
    const known = this.#db.memory.of(session.no);
    known.journal ??= this.#readKeys(session);
    return known.journal;
  }

  #readKeys(session: SessionRow): JournalKeys {
    const keys: JournalKeys = { statuses: new Map(), last: 0 };
    for (const row of this.#db.all(ROWS, session.no)) {
      for (const { turnId, key, status } of this.#decode(session, row)) turnOf(keys, turnId).set(key, status);
      keys.last = this.#db.integer(row, "n");
    }
    return keys;
  }

  #decode(session: SessionRow, row: SqlRow): readonly JournalRecord[] {
    const { turnId, steps } = readEntry(this.#db, row, session);
    return steps.map(([key, status, outcome]) => ({
      sessionId: session.id,
      turnId,
      key,
      status,
      ...(outcome === undefined ? {} : { outcome }),
    }));
  }
}

type Step = readonly [key: EffectKey, status: JournalRecord["status"], outcome?: Json];

/** What a row with all its values holds; see JR4. */
export function readEntry(
  db: Connection,
  row: SqlRow,
  session: SessionKey,
): { readonly turnId: TurnId; readonly steps: readonly Step[] } {
  const entry = db.json(db.summed("journal", row), "entry", session.id);
  const [turnId, ...steps] = Array.isArray(entry) ? (entry as readonly Json[]) : [];
  if (typeof turnId !== "string")
    throw damaged(db.path, "column entry: expected the turn of a record, found other JSON");
  const outcome = typeof row.outcome === "string" ? [db.json(row, "outcome", session.id)] : [];
  const isOneStep = typeof steps[0] === "string";
  return {
    turnId: turnId as TurnId, // written by `append`, as the steps were
    steps: (isOneStep ? [[...steps, ...outcome]] : steps) as unknown as readonly Step[],
  };
}

function turnOf({ statuses }: JournalKeys, turnId: TurnId): Map<string, JournalRecord["status"]> {
  const known = statuses.get(turnId);
  if (known !== undefined) return known;
  const turn = new Map<string, JournalRecord["status"]>();
  statuses.set(turnId, turn);
  return turn;
}

/**
 * How SQLite lays out a row on pages of 512 bytes: up to so many bytes of text lie beside other rows; of a longer one at
 * least so many do, with what does not fill pages of its own.
 */
const OWN_BYTES = 467;
const LEAST_BYTES = 29;
const PAGE_BYTES = 508;

/** JR5: a text with spaces behind it, where the rest that lies beside other rows would take more than half a page. */
function onWholePages(text: string): string {
  if (text.length <= OWN_BYTES) return text;
  const rest = (Buffer.byteLength(text) - LEAST_BYTES) % PAGE_BYTES;
  return rest <= PAGE_BYTES / 2 ? text : text + " ".repeat(PAGE_BYTES - rest);
}
