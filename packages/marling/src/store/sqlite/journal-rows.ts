// Effects of turns that are not committed yet.
//   JR1  a key of a turn has at most one `started` and one `done` record, the first of each; nothing follows `done`.
//   JR2  records are read in the order in which they were written.
//   JR3  which keys are there is remembered per session (row-memory.ts): what is not there is not looked for.

import type { EffectKey, TurnId } from "../../model/ids.ts";
import type { JournalRecord } from "../../model/journal.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import type { JournalKeys } from "./row-memory.ts";
import type { SessionRow } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";

const OF_SESSION = "FROM journal WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";
const RECORDS = `SELECT entry, outcome ${OF_SESSION} ORDER BY at`;
const ENTRIES = `SELECT at & 4294967295 AS n, entry ${OF_SESSION} ORDER BY at`;
const DELETE_ALL = `DELETE ${OF_SESSION}`;

export class JournalRows {
  readonly #db: Connection;

  constructor(db: Connection) {
    this.#db = db;
  }

  append(session: SessionRow, record: JournalRecord): void {
    const known = this.#keysOf(session);
    const turn = turnOf(known, record.turnId);
    const before = turn.get(record.key);
    if (before === "done" || before === record.status) return;
    known.last += 1;
    turn.set(record.key, record.status);
    this.#db.run(
      "INSERT INTO journal (at, entry, outcome) VALUES (? << 32 | ?, ?, ?)",
      session.no,
      known.last,
      shortenText(JSON.stringify([record.turnId, record.key, record.status]), session.id),
      record.outcome === undefined ? null : shortenText(JSON.stringify(record.outcome), session.id),
    );
  }

  read(session: SessionRow, turnId: TurnId): readonly JournalRecord[] {
    if (!this.#keysOf(session).statuses.has(turnId)) return [];
    const rows = this.#db.all(RECORDS, session.no);
    return rows.map((row) => this.#decode(session, row)).filter((record) => record.turnId === turnId);
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
    for (const row of this.#db.all(ENTRIES, session.no)) {
      if (!gone.includes(this.#decode(session, row).turnId)) continue;
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
    for (const row of this.#db.all(ENTRIES, session.no)) {
      const { turnId, key, status } = this.#decode(session, row);
      turnOf(keys, turnId).set(key, status);
      keys.last = this.#db.integer(row, "n");
    }
    return keys;
  }

  #decode(session: SessionRow, row: SqlRow): JournalRecord {
    const entry = this.#db.json(row, "entry", session.id);
    const [turnId, key, status] = entry as [TurnId, EffectKey, JournalRecord["status"]]; // written by `append`
    const step = { sessionId: session.id, turnId, key, status };
    return typeof row.outcome === "string"
      ? { ...step, outcome: this.#db.json(row, "outcome", session.id) }
      : step;
  }
}

function turnOf({ statuses }: JournalKeys, turnId: TurnId): Map<string, JournalRecord["status"]> {
  const known = statuses.get(turnId);
  if (known !== undefined) return known;
  const turn = new Map<string, JournalRecord["status"]>();
  statuses.set(turnId, turn);
  return turn;
}
