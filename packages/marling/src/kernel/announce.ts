// Announce: handlers of `turn_persisted` are told of every commit of a turn, at least once.
//   AN1  with a handler, the commit leaves a mark, which goes when the handlers have run; a process that ends in between
//        leaves it to the next opening, which tells them again and says so.
//        So does a handler that fails because the runtime closes.
//   AN2  plugin state that handlers wrote is committed together with the end of the mark, so that no later turn can take
//        it back.
//   AN3  the lease is kept until then: nobody else announces the same commit meanwhile.
//   AN4  the announcement of a turn's last commit releases the lease; that of an earlier part leaves it to the turn.

import type { TurnIssue } from "../model/turn.ts";
import type { LifecycleEvent } from "../plugin/hook-context.ts";
import type { Announcement } from "../store/contract.ts";
import { commitChange, operationOf } from "./commit.ts";
import { reportIssues, tell, tellTurn } from "./lifecycle.ts";
import type { ResidentSession } from "./resident-session.ts";
import { traceIssues } from "./trace-issues.ts";
import type { TurnRun } from "./turn-run.ts";

/** Tells the handlers of a turn's commit, and keeps what they wrote. */
export async function announceTurn(
  turn: TurnRun,
  { revision, isLast }: { readonly revision: number; readonly isLast: boolean },
): Promise<void> {
  const { session, turnId, lease } = turn;
  const before = session.plugins.snapshotRevisionFingerprint();
  await tellTurn(turn, () => persisted(session, turnId));
  if (turn.control.isLost) return session.plugins.rollbackState(); // A handler that a shutdown cut is told again.
  reportIssues(turn, await settle(session, { before, announced: [revision], lease, releases: isLast }));
}

/** Tells again what an earlier process may not have told. Somebody who has the lease does it by himself. */
export async function announceAgain(
  session: ResidentSession,
  announcements: readonly Announcement[],
): Promise<void> {
  if (announcements.length === 0) return;
  const { plugins, lease } = session;
  lease.join();
  try {
    const claim = await lease.claim();
    if (claim.kind === "held") return;
    const before = plugins.snapshotRevisionFingerprint();
    for (const { turnId } of announcements) {
      const again = () => ({ ...persisted(session, turnId), isRedelivered: true as const });
      await traceIssues(session, "lifecycle_hook_failed", await tell(session, again));
    }
    const announced = announcements.map(({ revision }) => revision);
    const marks = { before, announced, lease: claim.generation, releases: true };
    await traceIssues(session, "snapshot_failed", await settle(session, marks));
  } finally {
    await lease.leave();
  }
}

function persisted(
  session: ResidentSession,
  turnId: string,
): Extract<LifecycleEvent, { kind: "turn_persisted" }> {
  const host = session.host("history");
  return { kind: "turn_persisted", sessionId: session.id, turnId, state: session.readView(), host };
}

interface Marks {
  /** Fingerprint of plugin state before the handlers ran. */
  readonly before: bigint;
  readonly announced: readonly number[];
  /** Generation of the lease that the handlers ran under; undefined where nothing is remembered. */
  readonly lease: number | undefined;
  /** Releases the lease too, unless another user needs it. */
  readonly releases: boolean;
}

/** Ends the marks, together with what the handlers wrote. */
async function settle(
  session: ResidentSession,
  { before, announced, lease, releases }: Marks,
): Promise<readonly TurnIssue[]> {
  const { plugins, parts } = session;
  if (plugins.snapshotRevisionFingerprint() !== before) {
    const { operation } = operationOf(session, "persisted");
    return (await commitChange(session, { operation, announced, lease, releases, change: unchanged })).issues;
  }
  const ended = announced.map((revision) => parts.store.announced(session.id, revision));
  const isReleased = releases && session.lease.isLastUser;
  await Promise.all([...ended, isReleased ? session.lease.release() : undefined]); // One write: both are asked in one tick.
  return [];
}

function unchanged<Graph>(graph: Graph): { readonly graph: Graph; readonly nodes: readonly [] } {
  return { graph, nodes: [] };
}
