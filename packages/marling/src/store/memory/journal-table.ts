// Effects of turns that are not committed yet, in memory.
//   MJ1  a key of a turn has at most one `started` and one `done` record, the first of each; nothing follows `done`.

import type { EffectKey, SessionId, TurnId } from "../../model/ids.ts";
import type { JournalRecord } from "../../model/journal.ts";
import { decodeJson } from "../../model/json.ts";

interface TurnJournal {
  readonly records: JournalRecord[];
  /** What the newest record of a key says. */
  readonly statuses: Map<EffectKey, JournalRecord["status"]>;
}

export class JournalTable {
  readonly #sessions = new Map<SessionId, Map<TurnId, TurnJournal>>();

  /** Writes a record that was not written before. Nothing is looked at that could refuse it. */
  append(record: JournalRecord): void {
    const { records, statuses } = this.#turn(record);
    const before = statuses.get(record.key);
    if (before === "done" || before === record.status) return;
    statuses.set(record.key, record.status);
    records.push(record);
  }

  read(sessionId: SessionId, turnId: TurnId): readonly JournalRecord[] {
    return [...(this.#sessions.get(sessionId)?.get(turnId)?.records ?? [])];
  }

  forget(sessionId: SessionId, turns: readonly TurnId[]): void {
    const session = this.#sessions.get(sessionId);
    for (const turnId of turns) session?.delete(turnId);
  }

  delete(sessionId: SessionId): void {
    this.#sessions.delete(sessionId);
  }

  /** Removes the journals of turns that are not needed; returns how many records that were. */
  vacuum(isNeeded: (sessionId: SessionId, turnId: TurnId) => boolean): number {
    let removed = 0;
    for (const [sessionId, turns] of this.#sessions) {
      for (const [turnId, { records }] of turns) {
        if (isNeeded(sessionId, turnId)) continue;
        removed += records.length;
        turns.delete(turnId);
      }
      if (turns.size === 0) this.#sessions.delete(sessionId);
    }
    return removed;
  }

  *records(): Iterable<JournalRecord> {
    for (const turns of this.#sessions.values()) for (const { records } of turns.values()) yield* records;
  }

  #turn({ sessionId, turnId }: JournalRecord): TurnJournal {
    const session = this.#sessions.get(sessionId) ?? new Map<TurnId, TurnJournal>();
    this.#sessions.set(sessionId, session);
    const turn = session.get(turnId) ?? { records: [], statuses: new Map() };
    session.set(turnId, turn);
    return turn;
  }
}

/** A record as it is kept: whoever gave it may go on with what is theirs. */
export function copiedRecord(record: JournalRecord): JournalRecord {
  const { sessionId, turnId, key, status, outcome } = record;
  const step = { sessionId, turnId, key, status };
  return outcome === undefined ? step : { ...step, outcome: decodeJson(outcome, `outcome of ${key}`) };
}
