// Who may write to a session.
//   LR1  a lease without a row was never claimed; one without an incarnation is free.
//   LR2  generations of a session grow by one with every new holder and never go back.
//   LR3  rows are read and written in the transaction of the write that they guard.

import { MarlingError } from "../../base/errors.ts";
import type { Claim, Lease, LeaseRequest } from "../contract.ts";
import { lastRevision } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import { countInputs } from "./input-rows.ts";
import type { LeaseHolder, LeaseRow } from "./row-memory.ts";
import { sumOf } from "./row-sum.ts";
import type { SessionKey } from "./session-rows.ts";

const NOBODY = { owner: null, incarnation: null, instance: null, expires_at: null };
const RELEASE =
  "UPDATE leases SET owner = NULL, incarnation = NULL, instance = NULL, expires_at = NULL, sum = ? WHERE session = ? AND generation = ?";

/** The store that asks, and what it can prove of others. */
export interface LeaseContext {
  readonly instance: string;
  readonly isDead: (instance: string) => boolean;
}

/** Gives the lease of a session to whoever asks, unless somebody else has it who may be alive. */
export function claimLease(
  db: Connection,
  session: SessionKey,
  { request, context }: { readonly request: LeaseRequest; readonly context: LeaseContext },
): Claim {
  const { generation, holder } = readLease(db, session);
  const isMine = holder?.incarnation === request.incarnation;
  if (holder !== undefined && !isMine && !isOver(holder, request.now, context.isDead))
    return { kind: "held", owner: holder.owner, expiresAt: holder.expiresAt };
  const next = isMine ? generation : generation + 1;
  const { owner, incarnation, expiresAt } = request;
  const { instance } = context;
  putLease(db, session, { generation: next, holder: { owner, incarnation, instance, expiresAt } });
  return {
    kind: "claimed",
    generation: next,
    isTakeover: holder !== undefined && !isMine,
    revision: lastRevision(db, session),
    inputs: countInputs(db, session),
  };
}

/** Throws `lease_lost` for a generation that is not the holder's, and without one `lease_held` while there is a holder. */
export function checkLease(db: Connection, session: SessionKey, generation: number | undefined): void {
  const lease = readLease(db, session);
  if (generation === undefined) {
    if (lease.holder !== undefined) throw leaseHeld(session, lease.holder);
    return;
  }
  if (lease.holder === undefined || lease.generation !== generation)
    throw leaseLost(session, generation, lease);
}

/** Extends a lease that is still that of whoever asks; `false` when it is not. */
export function renewLease(
  db: Connection,
  session: SessionKey,
  { generation, incarnation, expiresAt }: Pick<Lease, "generation"> & LeaseRequest,
): boolean {
  const { generation: found, holder } = readLease(db, session);
  if (found !== generation || holder?.incarnation !== incarnation) return false;
  putLease(db, session, { generation, holder: { ...holder, expiresAt } });
  return true;
}

/** Frees a lease of this generation; leaves any other alone. */
export function releaseLease(db: Connection, session: SessionKey, generation: number): void {
  const lease = readLease(db, session);
  if (lease.generation !== generation || lease.holder === undefined) return;
  const row = { session: session.no, generation, ...NOBODY };
  db.run(RELEASE, sumOf("leases", row), session.no, generation);
  db.memory.of(session.no).lease = { generation, holder: undefined };
}

export function deleteLease(db: Connection, no: number): void {
  db.run("DELETE FROM leases WHERE session = ?", no);
  db.memory.of(no).lease = undefined;
}

/** Whether somebody has the lease, alive or not. */
export function hasHolder(db: Connection, session: SessionKey): boolean {
  return readLease(db, session).holder !== undefined;
}

/** Whether the lease could be had by anybody: it is free, expired, or its holder is proved dead. */
export function isLeaseOpen(
  db: Connection,
  session: SessionKey,
  { now, isDead }: { readonly now: number; readonly isDead: LeaseContext["isDead"] },
): boolean {
  const { holder } = readLease(db, session);
  return holder === undefined || isOver(holder, now, isDead);
}

function isOver(holder: LeaseHolder, now: number, isDead: LeaseContext["isDead"]): boolean {
  return holder.expiresAt <= now || isDead(holder.instance);
}

function readLease(db: Connection, session: SessionKey): LeaseRow {
  const known = db.memory.of(session.no);
  known.lease ??= decodeLease(
    db,
    db.get(
      "SELECT session, generation, owner, incarnation, instance, expires_at, sum FROM leases WHERE session = ?",
      session.no,
    ),
  );
  return known.lease;
}

function decodeLease(db: Connection, row: SqlRow | undefined): LeaseRow {
  if (row === undefined) return { generation: 0, holder: undefined };
  const generation = db.integer(db.summed("leases", row), "generation");
  if (row.incarnation === null) return { generation, holder: undefined };
  const holder = {
    owner: db.text(row, "owner"),
    incarnation: db.text(row, "incarnation"),
    instance: db.text(row, "instance"),
    expiresAt: db.integer(row, "expires_at"),
  };
  return { generation, holder };
}

function putLease(
  db: Connection,
  session: SessionKey,
  { generation, holder }: { readonly generation: number; readonly holder: LeaseHolder },
): void {
  const { owner, incarnation, instance, expiresAt } = holder;
  const sum = sumOf("leases", {
    session: session.no,
    generation,
    owner,
    incarnation,
    instance,
    expires_at: expiresAt,
  });
  db.run(
    "INSERT OR REPLACE INTO leases (session, generation, owner, incarnation, instance, expires_at, sum) VALUES (?, ?, ?, ?, ?, ?, ?)",
    session.no,
    generation,
    owner,
    incarnation,
    instance,
    expiresAt,
    sum,
  );
  db.memory.of(session.no).lease = { generation, holder };
}

function leaseLost({ id }: SessionKey, generation: number, lease: LeaseRow): MarlingError {
  const found =
    lease.holder === undefined ? "none" : `generation ${lease.generation} of ${lease.holder.owner}`;
  return new MarlingError(
    "lease_lost",
    `session ${id}: expected the lease to be of generation ${generation}, found ${found}`,
    { details: { sessionId: id, expected: generation, found: lease.generation } },
  );
}

function leaseHeld({ id }: SessionKey, { owner, expiresAt }: LeaseHolder): MarlingError {
  return new MarlingError(
    "lease_held",
    `session ${id}: expected a lease that nobody has, found it with ${owner}`,
    { details: { sessionId: id, owner, expiresAt } },
  );
}
