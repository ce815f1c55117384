// Commits that listeners are still to be told of.

import type { TurnId } from "../../model/ids.ts";
import type { Announcement } from "../contract.ts";
import type { Connection } from "./connection.ts";
import { sumOf } from "./row-sum.ts";
import type { SessionKey } from "./session-rows.ts";
import { shortenText } from "./session-text.ts";

const OF_SESSION = "FROM outbox WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";

/** Keeps that a commit is to be announced under a turn. */
export function announceCommit(
  db: Connection,
  session: SessionKey,
  { revision, turnId }: Announcement,
): void {
  const text = shortenText(JSON.stringify(turnId), session.id);
  const sum = sumOf("outbox", { no: session.no, n: revision, turn: text });
  db.run("INSERT INTO outbox (at, turn, sum) VALUES (? << 32 | ?, ?, ?)", session.no, revision, text, sum);
}

/** Forgets a commit that was announced. */
export function announcedCommit(db: Connection, session: SessionKey, revision: number): void {
  db.run("DELETE FROM outbox WHERE at = ? << 32 | ?", session.no, revision);
}

/** The commits that were to be announced and have not been, oldest first. */
export function unannounced(db: Connection, session: SessionKey): readonly Announcement[] {
  const columns = "at >> 32 AS no, at & 4294967295 AS n, turn, sum";
  return db.all(`SELECT ${columns} ${OF_SESSION} ORDER BY at`, session.no).map((row) => ({
    revision: db.integer(db.summed("outbox", row), "n"),
    turnId: String(db.json(row, "turn", session.id)) as TurnId, // as it was committed
  }));
}

export function deleteOutbox(db: Connection, no: number): void {
  db.run(`DELETE ${OF_SESSION}`, no);
}
