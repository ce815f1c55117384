// One session that is open in a runtime, and what its opening takes up.

import { MarlingError } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import { announceAgain } from "./announce.ts";
import { isUnbound } from "./bindings.ts";
import { goOn } from "./go-on.ts";
import type { OpenedSession } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { Session } from "./session.ts";
import { startArmedMonitors } from "./session-monitors.ts";
import type { QueuedTurn, TurnQueue } from "./turn-queue.ts";

/** How a runtime came to have a session open. */
export interface Open {
  readonly resident: ResidentSession;
  readonly queue: TurnQueue;
  /** Turns that an earlier process accepted and did not finish, and what comes from triggers. */
  recovered: QueuedTurn[];
  readonly handle: Session;
  /** Nobody asked for it but the work that was left in it: it goes when that is done. */
  isForRecovery: boolean;
  /** The host has it, and it stays until the host lets it go. */
  isAttended: boolean;
  /** Set while it is let go: whoever wants it then waits, and opens it anew. */
  closing: Promise<void> | undefined;
  /** Takes up what its opening left alone; called when the host asks for the session to drive it. */
  rest: (() => Promise<void>) | undefined;
}

export interface TrackOptions {
  readonly isForRecovery?: boolean;
  readonly isAttended?: boolean;
  /** It is opened to be read: nothing that was left in it is taken up. */
  readonly isAtRest?: boolean;
}

interface EnterOptions extends TrackOptions {
  close(open: Open): Promise<void>;
  /** Queues the turns that the opening found. */
  begin(open: Open): void;
  /** Queues the turns that are left in the store now. */
  takeUp(open: Open): Promise<void>;
}

/** Makes the entry of a session that was opened, and takes up its work unless it is at rest. */
export async function enter(
  { session, unannounced }: OpenedSession,
  queue: TurnQueue,
  options: EnterOptions,
): Promise<Open> {
  const { isForRecovery = false, isAttended = !isForRecovery, isAtRest = false } = options;
  const entry: Open = {
    resident: session,
    queue,
    recovered: [],
    handle: new Session(session, { queue, close: () => options.close(entry) }),
    isForRecovery,
    isAttended,
    closing: undefined,
    rest: undefined,
  };
  const work = async (): Promise<void> => {
    await goOn(session, () => session.work.takeUp());
    if (unannounced.length > 0)
      session.writer.run(() => announceAgain(session, unannounced)).catch(() => undefined); // The next opening tries again.
  };
  const monitors = (): Promise<void> => goOn(session, () => startArmedMonitors(session));
  if (isAtRest) {
    entry.rest = () => work().then(() => options.takeUp(entry).then(monitors));
    return entry;
  }
  await work();
  options.begin(entry);
  if (isForRecovery) entry.rest = monitors;
  else await monitors();
  return entry;
}

/** The host wants the session to be driven: what its opening left alone is taken up. */
export async function attend(open: Open): Promise<void> {
  const { rest } = open;
  open.isForRecovery = false;
  open.rest = undefined;
  await rest?.();
}

/** Whether turns that were waited for need what this runtime lacks. */
export function isLeft(quiet: Promise<void>): Promise<boolean> {
  return quiet.then(
    () => false,
    (thrown: unknown) => {
      if (isUnbound(thrown)) return true;
      throw thrown;
    },
  );
}

export function openAlready(id: SessionId): MarlingError {
  return new MarlingError(
    "session_busy",
    `session ${id}: expected a closed session to give it plugin options or a parent, found an open one`,
  );
}
