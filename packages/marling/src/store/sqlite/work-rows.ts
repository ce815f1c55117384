// Sessions that somebody should go on with: for inputs that no commit has settled, or for what goes on beside turns.

import { type SessionId, workLeaseId } from "../../model/ids.ts";
import type { Connection } from "./connection.ts";
import { isAsleep, sessionsWithInputs } from "./inbox-rows.ts";
import { isLeaseOpen, type LeaseContext } from "./lease-rows.ts";
import { sumOf } from "./row-sum.ts";
import { findSession, type SessionKey, sessionByNumber } from "./session-rows.ts";

interface LeaseTime {
  readonly now: number;
  readonly isDead: LeaseContext["isDead"];
}

export function workableSessions(db: Connection, asked: LeaseTime): readonly SessionId[] {
  const time = lookingOnce(asked);
  return sessionsWithInputs(db)
    .filter((id) => {
      const session = findSession(db, id);
      return session !== undefined && !isAsleep(db, session, time.now) && isLeaseOpen(db, session, time);
    })
    .sort();
}

export function resumableSessions(db: Connection, asked: LeaseTime): readonly SessionId[] {
  const time = lookingOnce(asked);
  return db
    .all("SELECT session, sum FROM works")
    .flatMap((row) => sessionByNumber(db, db.integer(db.summed("works", row), "session"))?.id ?? [])
    .filter((id) => {
      const lease = findSession(db, workLeaseId(id));
      return lease === undefined || isLeaseOpen(db, lease, time);
    })
    .sort();
}

/** To find out whether a store is alive takes a look at its files: one is enough, however many leases it holds. */
function lookingOnce({ now, isDead }: LeaseTime): LeaseTime {
  const known = new Map<string, boolean>();
  return {
    now,
    isDead: (instance) => {
      const answer = known.get(instance) ?? isDead(instance);
      known.set(instance, answer);
      return answer;
    },
  };
}

/** Whether something beside turns is left to be gone on with. */
export function setWork(db: Connection, { no }: SessionKey, hasWork: boolean): void {
  if (!hasWork) db.run("DELETE FROM works WHERE session = ?", no);
  else {
    const sum = sumOf("works", { session: no });
    db.run("INSERT OR IGNORE INTO works (session, sum) VALUES (?, ?)", no, sum);
  }
}
