// How far a session reaches: itself and its descendants, and nothing else.

import { MarlingError } from "../base/errors.ts";
import { sessionId } from "../model/ids.ts";
import type { ResidentSession } from "./resident-session.ts";

/** A session that this one may reach, opened if it is not open. */
export async function reach(from: ResidentSession, id: string): Promise<ResidentSession> {
  const { sessions } = from.parts;
  const target = sessions.find(id);
  if (target === undefined) return (await sessions.openBelow(id, from)).session;
  if (!(await isBelow(from, id))) throw unreachable(from, id);
  return target;
}

/** Whether a session is this one or descends from it, by what is open and by what is stored. */
export async function isBelow(from: ResidentSession, id: string): Promise<boolean> {
  for (let at: string | undefined = id; at !== undefined; at = await parentIdOf(from, at))
    if (at === from.id) return true;
  return false;
}

async function parentIdOf({ parts }: ResidentSession, id: string): Promise<string | undefined> {
  const open = parts.sessions.find(id);
  if (open !== undefined) return open.state.parentSessionId;
  const stored = await parts.store.load(sessionId(id), { isPartial: true });
  return stored?.head.parentSessionId ?? undefined;
}

/** A session that this one may reach: itself, or one that descends from it. */
export function reachable(from: ResidentSession, id: string): ResidentSession {
  if (id === from.id) return from;
  const target = from.parts.sessions.find(id);
  for (let at = target; at !== undefined; at = parentOf(at))
    if (at.id === from.id) return target as ResidentSession;
  throw unreachable(from, id);
}

export function unreachable(from: ResidentSession, id: string): MarlingError {
  const message = `session ${from.id}: expected itself or a session below it, found ${id}`;
  return new MarlingError("unknown_session", message, { details: { sessionId: id } });
}

function parentOf(session: ResidentSession): ResidentSession | undefined {
  const { parentSessionId } = session.state;
  return parentSessionId === undefined ? undefined : session.parts.sessions.find(parentSessionId);
}
