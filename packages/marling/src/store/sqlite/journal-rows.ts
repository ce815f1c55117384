// Effects of turns that are not committed yet.
//   JR1  a key of a turn has at most one `started` and one `done` record, the first of each; nothing follows `done`.
//   JR2  records are read in the order in which they were written.
//   JR3  which keys are there is remembered per session, and dropped when a write was undone, when another store has
//        written, and when rows were removed behind its back.

import type { EffectKey, TurnId } from "../../model/ids.ts";
import type { JournalRecord } from "../../model/journal.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import type { SessionRow } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";

interface KnownKeys {
  /** What the newest record of a key says, by turn and key. */
  readonly statuses: Map<string, Map<string, JournalRecord["status"]>>;
  last: number;
}

const OF_SESSION = "FROM journal WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";

export class JournalRows {
  readonly #db: Connection;
  readonly #known = new Map<number, KnownKeys>();

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
    const rows = this.#db.all(`SELECT entry, outcome ${OF_SESSION} ORDER BY at`, session.no);
    return rows.map((row) => this.#decode(session, row)).filter((record) => record.turnId === turnId);
  }

  /** Removes the records of turns. */
  forget(session: SessionRow, turns: readonly TurnId[]): void {
    const known = this.#keysOf(session);
    const gone = turns.filter((turnId) => known.statuses.has(turnId));
    for (const turnId of gone) known.statuses.delete(turnId);
    if (known.statuses.size === 0) this.#known.delete(session.no);
    if (gone.length === 0) return;
    if (known.statuses.size === 0) {
      this.deleteAll(session.no);
      return;
    }
    for (const row of this.#db.all(`SELECT at & 4294967295 AS n, entry ${OF_SESSION}`, session.no)) {
      if (!gone.includes(this.#decode(session, row).turnId)) continue;
      this.#db.run("DELETE FROM journal WHERE at = ? << 32 | ?", session.no, this.#db.integer(row, "n"));
    }
  }

  deleteAll(no: number): void {
    this.#known.delete(no);
    this.#db.run(`DELETE ${OF_SESSION}`, no);
  }

  /** Drops what is remembered of the rows. */
  reset(): void {
    this.#known.clear();
  }

  #keysOf(session: SessionRow): KnownKeys {
    const known = this.#known.get(session.no);
    if (known !== undefined) return known;
    const keys: KnownKeys = { statuses: new Map(), last: 0 };
    for (const row of this.#db.all(
      `SELECT at & 4294967295 AS n, entry ${OF_SESSION} ORDER BY at`,
      session.no,
    )) {
      const { turnId, key, status } = this.#decode(session, row);
      turnOf(keys, turnId).set(key, status);
      keys.last = this.#db.integer(row, "n");
    }
    this.#known.set(session.no, keys);
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

function turnOf({ statuses }: KnownKeys, turnId: TurnId): Map<string, JournalRecord["status"]> {
  const known = statuses.get(turnId);
  if (known !== undefined) return known;
  const turn = new Map<string, JournalRecord["status"]>();
  statuses.set(turnId, turn);
  return turn;
}
