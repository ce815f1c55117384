// Subscriptions, and when their ticks are due.
//   TS1  names of sources and topics are JSON texts: text that is not well-formed keeps its identity.
//   TS2  a tick is taken by whoever moves its due time; nobody else does anything for it.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId } from "../../model/ids.ts";
import { jsonEqual } from "../../model/json.ts";
import type {
  NewSubscription,
  StoredSubscription,
  SubscriptionPage,
  SubscriptionQuery,
  Tick,
} from "../../model/trigger-store.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { type SummedRow, sumOf } from "./row-sum.ts";
import { ensureSession, knownSession, sessionByNumber } from "./session-rows.ts";
import { damaged } from "./sqlite-fault.ts";

const COLUMNS = "id, session, source, topic, definition, enabled, created_at, due, carried, sum";
const BY_ID = `SELECT ${COLUMNS} FROM subscriptions WHERE id = ?`;

/** Makes a subscription, or returns the one that is there. */
export function insertSubscription(
  db: Connection,
  wanted: NewSubscription,
): { readonly isNew: boolean; readonly subscription: StoredSubscription } {
  const { subscriptionId, sessionId, source, topic, definition, createdAt, due } = wanted;
  const session = ensureSession(db, sessionId);
  const known = readSubscription(db, subscriptionId);
  if (known !== undefined) {
    if (known.sessionId !== sessionId || !jsonEqual(known.definition, definition))
      throw otherDefinition(subscriptionId);
    return { isNew: false, subscription: known };
  }
  putSubscription(db, {
    id: subscriptionId,
    session: session.no,
    source: JSON.stringify(source),
    topic: topic === undefined ? null : JSON.stringify(topic),
    definition: JSON.stringify(definition),
    enabled: 1,
    created_at: createdAt,
    due: due ?? null,
    carried: null,
  });
  return { isNew: true, subscription: { ...wanted, isEnabled: true } };
}

export function readSubscription(db: Connection, subscriptionId: string): StoredSubscription | undefined {
  const row = db.get(BY_ID, subscriptionId);
  return row === undefined ? undefined : decodeSubscription(db, row);
}

/** A page in the order of ids. */
export function listSubscriptions(db: Connection, query: SubscriptionQuery): SubscriptionPage {
  const { sessionId, source, limit = 100, cursor = "" } = query;
  const session = sessionId === undefined ? undefined : knownSession(db, sessionId);
  if (sessionId !== undefined && session === undefined) return { items: [] };
  const rows = db.all(
    `SELECT ${COLUMNS} FROM subscriptions WHERE id > ?1 AND (?2 IS NULL OR session = ?2) AND (?3 IS NULL OR source = ?3) ORDER BY id LIMIT ?4`,
    cursor,
    session?.no ?? null,
    source === undefined ? null : JSON.stringify(source),
    limit + 1,
  );
  const items = rows.slice(0, limit).map((row) => decodeSubscription(db, row));
  const last = items.at(-1);
  return rows.length > limit && last !== undefined ? { items, cursor: last.subscriptionId } : { items };
}

/** The enabled subscriptions that an occurrence is for. */
export function matchingSubscriptions(
  db: Connection,
  { source, topic }: { readonly source: string; readonly topic?: string },
): readonly StoredSubscription[] {
  const rows = db.all(
    `SELECT ${COLUMNS} FROM subscriptions WHERE source = ? AND enabled = 1 AND (topic IS NULL OR topic = ?) ORDER BY created_at, id`,
    JSON.stringify(source),
    topic === undefined ? null : JSON.stringify(topic),
  );
  return rows.map((row) => decodeSubscription(db, row));
}

/** Turns a subscription on or off. */
export function enableSubscription(
  db: Connection,
  subscriptionId: string,
  { isEnabled, due }: { readonly isEnabled: boolean; readonly due?: number },
): StoredSubscription | undefined {
  const row = rowOf(db, subscriptionId);
  if (row === undefined) return undefined;
  putSubscription(db, { ...row, enabled: isEnabled ? 1 : 0, due: due ?? row.due });
  return readSubscription(db, subscriptionId);
}

export function deleteSubscription(db: Connection, subscriptionId: string): boolean {
  return db.run("DELETE FROM subscriptions WHERE id = ?", subscriptionId) > 0;
}

/** Moves the due time from the one that a tick was planned for; false when it has moved already. */
export function advanceTick(db: Connection, { subscriptionId, due, next, carried }: Tick): boolean {
  const row = rowOf(db, subscriptionId);
  if (row === undefined || row.enabled !== 1 || row.due !== due) return false;
  const text = carried === undefined ? null : JSON.stringify(carried);
  putSubscription(db, { ...row, due: next ?? null, carried: text });
  return true;
}

/** Enabled subscriptions whose tick is due, the longest due first. */
export function dueSubscriptions(db: Connection, now: number, limit: number): readonly StoredSubscription[] {
  const sql = `SELECT ${COLUMNS} FROM subscriptions WHERE enabled = 1 AND due <= ? ORDER BY due, id LIMIT ?`;
  return db.all(sql, now, limit).map((row) => decodeSubscription(db, row));
}

export function nextDue(db: Connection): number | undefined {
  const sql = `SELECT ${COLUMNS} FROM subscriptions WHERE enabled = 1 AND due IS NOT NULL ORDER BY due LIMIT 1`;
  const row = db.get(sql);
  return row === undefined ? undefined : db.integer(db.summed("subscriptions", row), "due");
}

/** Texts of subscriptions, which may name blobs. */
export function* subscriptionTexts(db: Connection): Iterable<string> {
  const sql = `SELECT ${COLUMNS} FROM subscriptions WHERE id > ? ORDER BY id LIMIT 1`;
  for (let row = db.get(sql, ""); row !== undefined; row = db.get(sql, db.text(row, "id")))
    yield db.text(db.summed("subscriptions", row), "definition");
}

/** The id of the session that a row is of. */
export function sessionIdOf(db: Connection, row: SqlRow): SessionId {
  const session = sessionByNumber(db, db.integer(row, "session"));
  if (session === undefined) throw damaged(db.path, "expected the session of a subscription, found none");
  return session.id;
}

/** The values of a subscription, after a look at its checksum. */
function rowOf(db: Connection, subscriptionId: string): SubscriptionRow | undefined {
  const row = db.get(BY_ID, subscriptionId);
  return row === undefined ? undefined : (db.summed("subscriptions", row) as unknown as SubscriptionRow); // all columns
}

type SubscriptionRow = SummedRow<"subscriptions">;

function putSubscription(db: Connection, row: SubscriptionRow): void {
  db.run(
    `INSERT OR REPLACE INTO subscriptions (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.session,
    row.source,
    row.topic,
    row.definition,
    row.enabled,
    row.created_at,
    row.due,
    row.carried,
    sumOf("subscriptions", row),
  );
}

function decodeSubscription(db: Connection, row: SqlRow): StoredSubscription {
  return {
    subscriptionId: db.text(db.summed("subscriptions", row), "id"),
    sessionId: sessionIdOf(db, row),
    source: String(db.json(row, "source")),
    ...(row.topic === null ? {} : { topic: String(db.json(row, "topic")) }),
    definition: db.json(row, "definition"),
    createdAt: db.integer(row, "created_at"),
    ...(row.due === null ? {} : { due: db.integer(row, "due") }),
    isEnabled: row.enabled === 1,
    ...(row.carried === null ? {} : { carried: db.json(row, "carried") }),
  };
}

function otherDefinition(subscriptionId: string): MarlingError {
  const message = `subscription ${subscriptionId}: expected the definition that it was made with, found another one`;
  return new MarlingError("idempotency_conflict", message, { details: { subscriptionId } });
}
