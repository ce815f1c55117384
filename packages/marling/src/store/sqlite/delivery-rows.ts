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
  Tick,
} from "../../model/trigger-store.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { ensureSession } from "./session-rows.ts";
import { advanceTick, matchingSubscriptions, sessionIdOf } from "./trigger-rows.ts";

/** Writes an occurrence with one delivery for every subscription that matches it. */
export function acceptOccurrence(
  db: Connection,
  occurrence: NewOccurrence,
  tick: Tick | undefined,
): Acceptance {
  if (tick !== undefined && !advanceTick(db, tick)) return { status: "moved", deliveries: 0 };
  const { occurrenceId, source, topic, payload, at, acceptedAt } = occurrence;
  const digest = sha256Bytes(canonicalJson(payload));
  const known = db.get("SELECT digest FROM occurrences WHERE id = ?", occurrenceId);
  if (known !== undefined) {
    const isSame = Buffer.from(digest).equals(db.bytes(known, "digest"));
    if (!isSame && tick === undefined) throw otherPayload(occurrence);
    return { status: "duplicate", deliveries: 0 };
  }
  const wanted = matchingSubscriptions(db, occurrence);
  db.run(
    "INSERT INTO occurrences (id, source, topic, digest, payload, at, accepted_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    occurrenceId,
    JSON.stringify(source),
    topic === undefined ? null : JSON.stringify(topic),
    digest,
    wanted.length === 0 ? null : JSON.stringify(payload),
    at,
    acceptedAt,
  );
  for (const { subscriptionId, sessionId, definition } of wanted) {
    const { no } = ensureSession(db, sessionId);
    const sql = "INSERT INTO deliveries (occurrence, subscription, session, definition) VALUES (?, ?, ?, ?)";
    db.run(sql, occurrenceId, subscriptionId, no, JSON.stringify(definition));
  }
  return { status: "accepted", deliveries: wanted.length };
}

/** Deliveries that are still to be made, oldest first. */
export function readDeliveries(
  db: Connection,
  { after, limit }: { readonly after: number; readonly limit: number },
): readonly PendingDelivery[] {
  const rows = db.all(
    "SELECT no, occurrence, subscription, session, definition, source, topic, payload, at FROM deliveries JOIN occurrences ON id = occurrence WHERE no > ? ORDER BY no LIMIT ?",
    after,
    limit,
  );
  return rows.map((row) => decodeDelivery(db, row));
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
  const sql =
    "SELECT no, definition, payload FROM deliveries JOIN occurrences ON id = occurrence WHERE no > ? ORDER BY no LIMIT 1";
  for (let row = db.get(sql, 0); row !== undefined; row = db.get(sql, db.integer(row, "no"))) {
    yield db.text(row, "definition");
    if (row.payload !== null) yield db.text(row, "payload");
  }
}

function dropPayload(db: Connection, occurrenceId: string): void {
  db.run(
    "UPDATE occurrences SET payload = NULL WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE occurrence = ?1)",
    occurrenceId,
  );
}

function decodeDelivery(db: Connection, row: SqlRow): PendingDelivery {
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
