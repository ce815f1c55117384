// Publish: what watchers and lifecycle handlers are told after a commit. It may fail; it cannot undo.
//   PU1  nothing that fails here fails the turn: it is reported, and the rest is still told.
//   PU2  plugin state that handlers of `turn_persisted` wrote is committed, so that no later turn can take it back.

import type { TurnIssue } from "../model/turn.ts";
import { commitChange, operationOf } from "./commit.ts";
import type { CommittedTurn, OpenedFrame } from "./commit-turn.ts";
import type { FinalizedTurn } from "./finalize.ts";
import { reportIssues, tell, tellTurn } from "./lifecycle.ts";
import { restoreProtocol } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
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
  if (frame !== undefined)
    await reportingFailure(turn, async () => reportIssues(turn, await tellFrameOpened(session, frame)));
  await reportingFailure(turn, () => tellPersisted(turn));
}

/** After a committed change of frames: the protocol restores itself, and plugins are told; returns what failed there. */
export async function tellFrameOpened(
  session: ResidentSession,
  { frameId, reason }: OpenedFrame,
): Promise<readonly TurnIssue[]> {
  await restoreProtocol(session);
  return tell(session, () => ({ kind: "frame_opened", sessionId: session.id, frameId, reason }));
}

async function tellPersisted(turn: TurnRun): Promise<void> {
  const { session, turnId } = turn;
  const { plugins, id } = session;
  if (!plugins.hasRuntimeEventHooks) return;
  const before = plugins.snapshotRevisionFingerprint();
  const host = session.host("history");
  await tellTurn(turn, () => ({
    kind: "turn_persisted",
    sessionId: id,
    turnId,
    state: session.readView(),
    host,
  }));
  if (plugins.snapshotRevisionFingerprint() === before) return;
  const { operation } = operationOf(session, "persisted");
  const { issues } = await commitChange(session, { operation, change: (graph) => ({ graph, nodes: [] }) });
  reportIssues(turn, issues);
}

async function reportingFailure(turn: TurnRun, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (thrown) {
    reportIssues(turn, [issueOfThrown(thrown)]);
  }
}
