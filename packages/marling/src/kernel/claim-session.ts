// Claim: a session becomes this runtime's to write to, as it is now.
//   CL1  who holds the lease is waited for; the store says when its holder is dead, else its time runs out.
//   CL2  what others committed since is taken over before anything is done, in a turn or beside turns.

import { MarlingError } from "../base/errors.ts";
import type { Claim, InboxRow } from "../store/contract.ts";
import { requireBindings, requireForTurn, requireForTurns } from "./bindings.ts";
import { reloadSession } from "./reload-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { storeFault } from "./store-fault.ts";

/** A lease that others hold is asked for again after this time at the latest. */
const ASK_AGAIN_MS = 250;

export interface Claimed {
  /** Whether others have committed to the session since it was read last. */
  readonly hasMoved: boolean;
  /** The answer of the store; none when the lease was held already. */
  readonly claim?: Extract<Claim, { kind: "claimed" }>;
}

/** Resolves when the session is this runtime's; `shouldGiveUp` is asked while somebody else holds it. */
export async function claimSession(
  session: ResidentSession,
  shouldGiveUp: () => Promise<boolean> | boolean = () => false,
): Promise<Claimed> {
  const { lease, parts } = session;
  let claimed: Extract<Claim, { kind: "claimed" }> | undefined;
  const ask = async (): Promise<boolean> => {
    const claim = await lease.claim();
    if (claim.kind === "held" && (await shouldGiveUp())) throw heldElsewhere(session, claim.owner);
    if (claim.kind === "claimed") claimed = claim;
    return lease.generation !== undefined;
  };
  if (lease.generation === undefined && !(await ask()))
    await parts.watch.until(ask, { of: session.id, everyMs: ASK_AGAIN_MS });
  if (claimed === undefined && !session.isDoubtful) return { hasMoved: false };
  const revision = claimed?.revision ?? (await parts.store.revision(session.id));
  return { hasMoved: await catchUp(session, revision), ...(claimed === undefined ? {} : { claim: claimed }) };
}

/** Before something is done beside turns, in the turn of its writer: takes over what others committed. */
export async function refreshSession(session: ResidentSession): Promise<void> {
  const { lease, parts, commits, isDoubtful } = session;
  if (parts.effects.remembers !== true || (lease.generation !== undefined && !isDoubtful)) return;
  await commits.idle();
  const revision = await parts.store.revision(session.id).catch((thrown: unknown) => {
    throw storeFault(thrown, session.id);
  });
  await catchUp(session, revision);
}

/** As `refreshSession`, for what runs or writes: throws `needs_binding` when this runtime may not. */
export async function refreshToDrive(session: ResidentSession): Promise<void> {
  await refreshSession(session);
  await requireToDrive(session);
}

/** Throws `needs_binding` when this runtime may not drive the session as it is known here. */
export async function requireToDrive(session: ResidentSession): Promise<void> {
  requireBindings(session);
  await requireForTurns(session);
}

/** Before turns that were left in the store are queued: throws `needs_binding`, and claims nothing. */
export async function requireToResume(session: ResidentSession, rows: readonly InboxRow[]): Promise<void> {
  if (rows.length > 0) await refreshIdle(session);
  for (const row of rows) await requireForTurn(session, row);
}

/** As `refreshSession`, for what waits for no turn: only when nothing is at work here, which has the session as it is. */
export async function refreshIdle(session: ResidentSession): Promise<void> {
  const { parts, writer } = session;
  if (parts.effects.remembers === true && writer.length === 0)
    await writer.run(() => refreshSession(session));
}

/** Takes over what others committed, if they did. */
export async function catchUp(session: ResidentSession, revision: number): Promise<boolean> {
  const hasMoved = revision !== session.state.revision;
  if (hasMoved) await reloadSession(session);
  session.isDoubtful = false;
  return hasMoved;
}

function heldElsewhere({ id }: ResidentSession, owner: string): MarlingError {
  const message = `session ${id}: expected a free lease, found it held by ${owner}`;
  return new MarlingError("lease_held", message, { details: { sessionId: id, owner } });
}
