// Deleting a session takes its inputs, its journal, its waits with their keys, its subscriptions with what was to be
// delivered, its leases, what was to be announced or gone on with, and those of its commits that no fork reads. Its id stays.

import { type SessionId, workLeaseId } from "../../model/ids.ts";
import { deleteCommits } from "./commit-rows.ts";
import type { CommitParts } from "./commit-session.ts";
import type { Connection } from "./connection.ts";
import { deleteTriggers } from "./delivery-rows.ts";
import { deleteInputs } from "./inbox-rows.ts";
import { deleteLease } from "./lease-rows.ts";
import { deleteOutbox } from "./outbox-rows.ts";
import {
  findSession,
  insertSession,
  lastSharedRevision,
  retireSession,
  sessionByNumber,
  setBase,
} from "./session-rows.ts";
import { deleteWaits } from "./wait-rows.ts";
import { setWork } from "./work-rows.ts";

export function deleteSession(db: Connection, id: SessionId, { images, journal }: CommitParts): void {
  const session = findSession(db, id) ?? insertSession(db, id, "deleted");
  retireSession(db, session);
  deleteInputs(db, session.no);
  deleteWaits(db, session.no);
  deleteTriggers(db, session.no);
  deleteOutbox(db, session.no);
  setWork(db, session, false);
  for (const held of [session, findSession(db, workLeaseId(id))])
    if (held !== undefined) deleteLease(db, held.no);
  journal.deleteAll(session.no);
  images.delete(session.no);
  dropUnread(db, session.no);
}

/** Removes what nobody reads of a deleted session, and then of the deleted ones that it was a fork of. */
function dropUnread(db: Connection, deleted: number): void {
  let no: number | undefined = deleted;
  while (no !== undefined) {
    const session = sessionByNumber(db, no);
    if (session?.status !== "deleted") return;
    const shared = lastSharedRevision(db, no);
    deleteCommits(db, session, shared ?? 0);
    if (shared !== undefined) return;
    setBase(db, session, undefined);
    no = session.base?.no;
  }
}
