// Publish: what watchers and lifecycle handlers are told after a commit. It may fail; it cannot undo.
//   PU1  nothing that fails here fails the turn: it is reported, and the rest is still told.

import type { TurnIssue } from "../model/turn.ts";
import type { LifecycleEvent } from "../plugin/hook-context.ts";
import { announceTurn } from "./announce.ts";
import type { CommittedTurn, OpenedFrame } from "./commit-turn.ts";
import type { FinalizedTurn } from "./finalize.ts";
import { reportIssues, tell, tellTurn } from "./lifecycle.ts";
import type { ResidentSession } from "./resident-session.ts";
import { restoreProtocol } from "./restore-session.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { emitPluginEvents, type TurnRun } from "./turn-run.ts";

export async function publish(
  turn: TurnRun,
  { finalized, committed }: { readonly finalized: FinalizedTurn; readonly committed: CommittedTurn },
): Promise<void> {
  const { session } = turn;
  const { frame, revision } = committed;
  if (frame !== undefined) turn.emit({ kind: "frame_switched", ...frame });
  turn.emit({ kind: "committed", turnId: turn.turnId, revision });
  for (const { pluginId, value } of finalized.events) emitPluginEvents(turn, pluginId, [value]);
  if (frame !== undefined) {
    await reportingFailure(turn, () => restoreProtocol(session));
    await tellTurn(turn, () => frameOpened(session, frame));
  }
  if (session.plugins.hasRuntimeEventHooks)
    await reportingFailure(turn, () => announceTurn(turn, { revision, isLast: committed.kind === "ended" }));
}

/** After a change of frames beside a turn: the protocol restores itself, and plugins are told; returns what failed there. */
export async function tellFrameOpened(
  session: ResidentSession,
  frame: OpenedFrame,
): Promise<readonly TurnIssue[]> {
  await restoreProtocol(session);
  return tell(session, () => frameOpened(session, frame));
}

function frameOpened({ id }: ResidentSession, { frameId, reason }: OpenedFrame): LifecycleEvent {
  return { kind: "frame_opened", sessionId: id, frameId, reason };
}

async function reportingFailure(turn: TurnRun, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    reportIssues(turn, [issueOfThrown(thrown)]);
  }
}
