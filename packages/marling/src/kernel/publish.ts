// Publish: what watchers and lifecycle handlers are told after a commit. It may fail; it cannot undo.

import type { FinalizedTurn } from "./finalize.ts";
import type { CommittedTurn, OpenedFrame } from "./commit-turn.ts";
import { reportIssues } from "./lifecycle.ts";
import { restoreProtocol } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type TurnRun, emitPluginEvents } from "./turn-run.ts";

export async function publish(turn: TurnRun, { finalized, committed }: { readonly finalized: FinalizedTurn; readonly committed: CommittedTurn }): Promise<void> {
  const { session } = turn;
  if (committed.frame !== undefined) turn.emit({ kind: "frame_switched", ...committed.frame });
  turn.emit({ kind: "committed", turnId: turn.turnId, revision: committed.revision });
  for (const { pluginId, value } of finalized.events) emitPluginEvents(turn, pluginId, [value]);
  if (committed.frame !== undefined) await tellFrameOpened(session, committed.frame);
  const { plugins, id } = session;
  if (!plugins.hasRuntimeEventHooks) return;
  const event = { kind: "turn_persisted", sessionId: id, turnId: turn.turnId, state: session.readView(), host: session.host("history") } as const;
  reportIssues(turn, await plugins.emitRuntimeEvent(event, session.parts.probe));
}

/** After a committed change of frames: the protocol restores itself, and plugins are told. */
export async function tellFrameOpened(session: ResidentSession, frame: OpenedFrame): Promise<void> {
  await restoreProtocol(session);
  const { plugins, id } = session;
  if (plugins.hasRuntimeEventHooks) await plugins.emitRuntimeEvent({ kind: "frame_opened", sessionId: id, frameId: frame.frameId, reason: frame.reason });
}
