// What occurred, and to whom it is still to be delivered.
//   DR1  an occurrence and its deliveries are written by one transaction, once per id.
//   DR2  the payload of an occurrence goes with its last delivery; its digest stays until it expires, so that a late
//        duplicate is known.

import { sha256Bytes } from "../../base/digest.ts";
import { MarlingError } from "../../base/errors.ts";
import { canonicalJson } from "../../model/json.ts";
import type {
  Acceptance,
  DeliveryName,
  NewOccurrence,
  PendingDelivery,
  StoredSubscription,
  Tick,
} from "../../model/trigger-store.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { type SummedRow, sumOf } from "./row-sum.ts";
import { ensureSession } from "./session-rows.ts";
import { damaged } from "./sqlite-fault.ts";
import { advanceTick, matchingSubscriptions, sessionIdOf } from "./trigger-rows.ts";

const COLUMNS = "id, source, topic, digest, payload, at, accepted_at, sum";
const BY_ID = `SELECT ${COLUMNS} FROM occurrences WHERE id = ?`;
const BEHIND =
  "SELECT no, occurrence, subscription, session, definition, sum FROM deliveries WHERE no > ? ORDER BY no LIMIT ?";

/** Writes an occurrence with one delivery for every subscription that matches it. */
export function acceptOccurrence(
  db: Connection,
  occurrence: NewOccurrence,
  tick: Tick | undefined,
): Acceptance {
  if (tick !== undefined && !advanceTick(db, tick)) return { status: "moved", deliveries: 0 };
  const { occurrenceId, source, topic, payload, at, acceptedAt } = occurrence;
  const digest = sha256Bytes(canonicalJson(payload));
  const known = readOccurrence(db, occurrenceId);
  if (known !== undefined) {
    const isSame = Buffer.from(digest).equals(known.digest as Uint8Array); // was summed
    if (!isSame && tick === undefined) throw otherPayload(occurrence);
    return { status: "duplicate", deliveries: 0 };
  }
  const wanted = matchingSubscriptions(db, occurrence);
  putOccurrence(db, {
    id: occurrenceId,
    source: JSON.stringify(source),
    topic: topic === undefined ? null : JSON.stringify(topic),
    digest,
    payload: wanted.length === 0 ? null : JSON.stringify(payload),
    at,
    accepted_at: acceptedAt,
  });
  for (const subscription of wanted) insertDelivery(db, occurrenceId, subscription);
  return { status: "accepted", deliveries: wanted.length };
}

/** Deliveries that are still to be made, oldest first. */
export function readDeliveries(
  db: Connection,
  { after, limit }: { readonly after: number; readonly limit: number },
): readonly PendingDelivery[] {
  return db.all(BEHIND, after, limit).map((row) => decodeDelivery(db, row));
}

/** Takes a delivery out of those that are to be made. */
export function settleDelivery(db: Connection, { occurrenceId, subscriptionId }: DeliveryName): void {
  const sql = "DELETE FROM deliveries WHERE occurrence = ? AND subscription = ?";
  if (db.run(sql, occurrenceId, subscriptionId) > 0) dropPayload(db, occurrenceId);
}

/** Removes what a session subscribed to, and what was to be delivered to it. */
export function deleteTriggers(db: Connection, no: number): void {
  const open = db.all("SELECT DISTINCT occurrence FROM deliveries WHERE session = ?", no);
  db.run("DELETE FROM deliveries WHERE session = ?", no);
  db.run("DELETE FROM subscriptions WHERE session = ?", no);
  for (const row of open) dropPayload(db, db.text(row, "occurrence"));
}

/** Removes occurrences that were accepted until a time and are delivered; returns how many. */
export function expireOccurrences(db: Connection, until: number): number {
  const sql =
    "DELETE FROM occurrences WHERE accepted_at <= ? AND NOT EXISTS (SELECT 1 FROM deliveries WHERE occurrence = id)";
  return db.run(sql, until);
}

/** Texts of what is to be delivered, which may name blobs. */
export function* deliveryTexts(db: Connection): Iterable<string> {
  for (let row = db.get(BEHIND, 0, 1); row !== undefined; row = db.get(BEHIND, db.integer(row, "no"), 1)) {
    yield db.text(db.summed("deliveries", row), "definition");
    const { payload } = occurrenceOf(db, row);
    if (typeof payload === "string") yield payload;
  }
}

function dropPayload(db: Connection, occurrenceId: string): void {
  if (db.get("SELECT 1 FROM deliveries WHERE occurrence = ? LIMIT 1", occurrenceId) !== undefined) return;
  const row = readOccurrence(db, occurrenceId);
  if (row !== undefined) putOccurrence(db, { ...row, payload: null });
}

/** The values of an occurrence, after a look at its checksum. */
function readOccurrence(db: Connection, occurrenceId: string): OccurrenceRow | undefined {
  const row = db.get(BY_ID, occurrenceId);
  return row === undefined ? undefined : (db.summed("occurrences", row) as unknown as OccurrenceRow); // all columns
}

type OccurrenceRow = SummedRow<"occurrences">;

function putOccurrence(db: Connection, row: OccurrenceRow): void {
  db.run(
    `INSERT OR REPLACE INTO occurrences (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.source,
    row.topic,
    row.digest,
    row.payload,
    row.at,
    row.accepted_at,
    sumOf("occurrences", row),
  );
}

function insertDelivery(
  db: Connection,
  occurrence: string,
  { subscriptionId, sessionId, definition }: StoredSubscription,
): void {
  const last = db.get("SELECT max(no) AS last FROM deliveries");
  const row = {
    no: last === undefined || last.last === null ? 1 : db.integer(last, "last") + 1,
    occurrence,
    subscription: subscriptionId,
    session: ensureSession(db, sessionId).no,
    definition: JSON.stringify(definition),
  };
  const columns = "no, occurrence, subscription, session, definition, sum";
  db.run(
    `INSERT INTO deliveries (${columns}) VALUES (?, ?, ?, ?, ?, ?)`,
    row.no,
    occurrence,
    row.subscription,
    row.session,
    row.definition,
    sumOf("deliveries", row),
  );
}

/** What a delivery is of. */
function occurrenceOf(db: Connection, delivery: SqlRow): SqlRow {
  const id = db.text(delivery, "occurrence");
  const row = db.get(BY_ID, id);
  if (row === undefined) throw damaged(db.path, `delivery of ${id}: expected its occurrence, found none`);
  return db.summed("occurrences", row);
}

function decodeDelivery(db: Connection, delivery: SqlRow): PendingDelivery {
  const row = { ...occurrenceOf(db, delivery), ...db.summed("deliveries", delivery) };
  return {
    sequence: db.integer(row, "no"),
    occurrenceId: db.text(row, "occurrence"),
    subscriptionId: db.text(row, "subscription"),
    sessionId: sessionIdOf(db, row),
    source: String(db.json(row, "source")),
    ...(row.topic === null ? {} : { topic: String(db.json(row, "topic")) }),
    definition: db.json(row, "definition"),
    payload: db.json(row, "payload"),
    at: db.integer(row, "at"),
  };
}

function otherPayload({ source, occurrenceId }: NewOccurrence): MarlingError {
  const message = `occurrence ${occurrenceId} of ${source}: its key was used before with another payload`;
  return new MarlingError("idempotency_conflict", message, { details: { source, occurrenceId } });
}
