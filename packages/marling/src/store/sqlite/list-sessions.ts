import { MarlingError } from "../../base/errors.ts";
import type { SessionFilter, SessionPage, SessionSummary } from "../contract.ts";
import { lastCommit } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import { decodeSession } from "./session-rows.ts";

/** Sessions that have commits, by id. */
export function listSessions(
  db: Connection,
  { prefix = "", limit = 100, cursor = "" }: SessionFilter,
): SessionPage {
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new MarlingError(
      "invalid_input",
      `limit: expected a positive whole number, found ${String(limit)}`,
    );
  }
  const rows = db.all(
    "SELECT * FROM sessions WHERE id > ?1 AND id >= ?2 AND (?3 IS NULL OR id < ?3) AND status = 'live' ORDER BY id LIMIT ?4",
    cursor,
    prefix,
    endOf(prefix),
    limit + 1,
  );
  const items = rows.slice(0, limit).map((row): SessionSummary => {
    const { no, id, parent } = decodeSession(db, row);
    const last = lastCommit(db, { no, id });
    return {
      id,
      revision: last?.revision ?? 0,
      turnIndex: Number(last?.manifest.head.set.turnIndex ?? 0),
      ...(parent === null ? {} : { parentSessionId: parent }),
    };
  });
  const last = items.at(-1);
  return rows.length > limit && last !== undefined ? { items, cursor: last.id } : { items };
}

/** The first text behind all that begin with `prefix`, in the order of code points; `null` when there is none. */
function endOf(prefix: string): string | null {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  while (points.at(-1) === 0x10ffff) points.pop();
  const last = points.pop();
  if (last === undefined) return null;
  points.push(last === 0xd7ff ? 0xe000 : last + 1);
  return String.fromCodePoint(...points);
}
