// Compaction: a plugin's seed nodes open a new frame; what was before stays in the history.

import { SharedList } from "../base/shared-list.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { openFrame } from "../session/graph.ts";
import type { AppendOperation, NodeDraft } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { commitChange, operationOf } from "./commit.ts";
import { compactionOperation, freeFrameId } from "./commit-turn.ts";
import { tellFrameOpened } from "./publish.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type TurnRun, viewOf } from "./turn-run.ts";

/** Compacts the session between two turns; false when no compactor had anything to say. */
export async function compactSession(session: ResidentSession, instructions: string | undefined): Promise<boolean> {
  const operation = operationOf(session, "compaction");
  const seeds = await seedNodes(session, { instructions, state: session.readView(), operation });
  if (seeds === undefined) return false;
  const previousFrameId = session.frameId;
  await commitChange(session, {
    operation: operation.operation,
    change: (graph) => openFrame(graph, { frameId: freeFrameId(graph, `compaction:${session.state.operations}`), reason: "compaction", nodes: seeds, operation }),
  });
  await tellFrameOpened(session, { frameId: session.frameId, previousFrameId, reason: "compaction" });
  return true;
}

/** Compacts what a running turn shows the model; the frame is opened by the turn's own commit. */
export async function compactInTurn(turn: TurnRun, records: readonly TurnRecord[], instructions: string | undefined): Promise<boolean> {
  if (turn.compaction !== undefined) return false;
  const seeds = await seedNodes(turn.session, { instructions, state: viewOf(turn, records), operation: compactionOperation(turn) });
  if (seeds === undefined) return false;
  turn.compaction = seeds;
  turn.shown = SharedList.of(seeds.flatMap((body) => (body.kind === "message" ? [body.message] : [])));
  turn.shownRecords = 0;
  return true;
}

async function seedNodes(
  session: ResidentSession,
  { instructions, state, operation }: { readonly instructions: string | undefined; readonly state: SessionReadView; readonly operation: AppendOperation },
): Promise<readonly NodeDraft[] | undefined> {
  const { plugins, id } = session;
  try {
    const found = await plugins.compactContext({ sessionId: id, instructions, state, host: session.host("history") });
    if (found === undefined) return undefined;
    return bodiesOf(decodeAppendNodes(found.initialNodes, "initialNodes"), { operation });
  } catch (cause) {
    const error = MarlingError.is(cause) ? cause : new MarlingError("compaction_failed", `session ${id}: compaction failed: ${messageOf(cause)}`, { cause });
    if (plugins.hasRuntimeEventHooks) {
      await plugins.emitRuntimeEvent({ kind: "compaction_failed", sessionId: id, code: error.code, message: error.message });
    }
    throw error;
  }
}
