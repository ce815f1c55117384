// The host changes what a session may do: rules AU7 to AU9 of plugin/fork.ts.
//   AZ1  nothing changes under a turn of which something is in the journal, asleep or cut by a crash, whichever runtime has
//        it: when it is run again, what it was refused would be done, and what was done would be refused.

import type { SessionId } from "../model/ids.ts";
import { type Json, jsonEqual } from "../model/json.ts";
import { limitsOf, withLimits } from "../plugin/fork.ts";
import type { AuthorityChange, AuthorityLimits, SessionAuthority } from "../session/frame.ts";
import { appendToGraph, currentFrame, withAssignment } from "../session/graph.ts";
import type { AuthorityRecord } from "../session/node.ts";
import type { InboxRow } from "../store/contract.ts";
import { readLimits, readObject, refuseOption } from "./authority-limits.ts";
import { claimSession, refreshToDrive } from "./claim-session.ts";
import { type Change, commitChange, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { storeFault } from "./store-fault.ts";

/** Why the authority of a session is changed, and who says so. */
export interface AuthorizeOptions {
  readonly reason: string;
  readonly actor?: string;
}

export interface Authorization {
  readonly change: AuthorityChange;
  readonly options: AuthorizeOptions;
  /** Throws when nobody shall wait any longer. */
  refuseClosed(): void;
}

/** What is wanted, and why: checked. */
interface Wanted {
  readonly change: AuthorityChange;
  readonly why: AuthorizeOptions;
}

/** A turn that has begun is looked at again after this time at the latest. */
const LOOK_AGAIN_MS = 250;

/** Changes the limits of a session as it is now, after the turn that has begun. Refuses a change as a whole. */
export async function authorizeSession(
  session: ResidentSession,
  { change, options, refuseClosed }: Authorization,
): Promise<void> {
  const wanted = { change: readLimits(change, "change"), why: readOptions(options) };
  for (;;) {
    const begun = await session.writer.run(() => authorizeNow(session, wanted));
    if (begun === undefined) return;
    const isOver = async (): Promise<boolean> => {
      refuseClosed();
      return (await pending(session)).every(({ turnId }) => turnId !== begun.turnId);
    };
    await session.parts.watch.until(isOver, { of: session.id, everyMs: LOOK_AGAIN_MS });
  }
}

/** Changes it, unless a turn has begun that has to end first, which is returned. */
async function authorizeNow(session: ResidentSession, wanted: Wanted): Promise<InboxRow | undefined> {
  await refreshToDrive(session);
  if (!isNews(session, wanted)) return undefined;
  if (session.parts.effects.remembers !== true) return commitWanted(session, wanted);
  session.lease.join();
  try {
    await claimSession(session);
    return (await begunTurn(session)) ?? (await commitWanted(session, wanted));
  } finally {
    await session.lease.leave();
  }
}

/** A turn that is run again, by whichever runtime goes on with it. */
async function begunTurn(session: ResidentSession): Promise<InboxRow | undefined> {
  const { id, parts } = session;
  const records = (row: InboxRow) => parts.store.journal?.read(id, row.turnId) ?? Promise.resolve([]);
  for (const row of await pending(session)) {
    if ((await asked(id, records(row))).length > 0) return row;
  }
  return undefined;
}

function pending({ id, parts }: ResidentSession): Promise<readonly InboxRow[]> {
  return asked(id, parts.store.pending(id));
}

/** What a store answers, or what is wrong with it. */
function asked<T>(id: SessionId, answer: Promise<T>): Promise<T> {
  return answer.catch((thrown: unknown) => {
    throw storeFault(thrown, id);
  });
}

async function commitWanted(session: ResidentSession, wanted: Wanted): Promise<undefined> {
  if (!isNews(session, wanted)) return;
  const at = session.parts.clock.now();
  await commitChange(session, () => changeOf(session, wanted, at));
}

function changeOf(session: ResidentSession, { change, why }: Wanted, at: number): Change {
  const operation = operationOf(session, "authorize");
  return {
    operation: operation.operation,
    change: (graph) => {
      const { assignment } = currentFrame(graph);
      const authority = changed(assignment.authority, change);
      const record: AuthorityRecord = {
        ...why,
        at,
        before: limitsOf(assignment.authority),
        after: limitsOf(authority),
      };
      const moved = withAssignment(graph, { ...assignment, authority });
      return appendToGraph(moved, [{ kind: "authority_change", ...record }], operation);
    },
  };
}

function isNews({ frame }: ResidentSession, { change }: Wanted): boolean {
  const { authority } = frame.assignment;
  return !isSame(limitsOf(authority), limitsOf(changed(authority, change)));
}

function changed(authority: SessionAuthority, change: AuthorityChange): SessionAuthority {
  return withLimits(authority, { ...limitsOf(authority), ...change });
}

function isSame(a: AuthorityLimits, b: AuthorityLimits): boolean {
  return jsonEqual(a as unknown as Json, b as unknown as Json);
}

function readOptions(raw: unknown): AuthorizeOptions {
  const { reason, actor } = readObject(raw, "options", ["reason", "actor"]);
  return {
    reason: readText(reason, "reason"),
    ...(actor === undefined ? {} : { actor: readText(actor, "actor") }),
  };
}

function readText(value: unknown, option: string): string {
  if (typeof value === "string" && value.trim() !== "") return value;
  throw refuseOption(option, "a text that is not blank", value);
}
