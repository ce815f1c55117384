// What the exit code of every command means.

import type { TurnReport } from "marling";

export const EXIT = {
  /** The command did what it was asked; for a turn: it finished. */
  finished: 0,
  /** The turn stopped before it had an answer. */
  stopped: 1,
  /** How it was called or configured is wrong; nothing was done. */
  usage: 2,
  /** Something else failed: the store, the session, the machine. */
  failed: 3,
  /** Somebody cancelled it. */
  cancelled: 130,
} as const;

export function exitCodeOf({ outcome }: TurnReport): number {
  if (outcome.kind === "finished") return EXIT.finished;
  return outcome.reason === "cancelled" ? EXIT.cancelled : EXIT.stopped;
}
