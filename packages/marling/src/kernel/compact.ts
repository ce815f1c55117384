// Compaction: a plugin's seed nodes open a new frame; what was before stays in the history.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { HistoryHost } from "../plugin/host-services.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { openFrame, type SessionGraph } from "../session/graph.ts";
import type { AppendOperation, NodeDraft } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { refreshSession } from "./claim-session.ts";
import { commitChange, operationOf } from "./commit.ts";
import { compactionOperation, freeFrameId } from "./commit-turn.ts";
import { recordsOf } from "./hook-messages.ts";
import { tell } from "./lifecycle.ts";
import { tellFrameOpened } from "./publish.ts";
import type { ResidentSession } from "./resident-session.ts";
import { hostIn } from "./services.ts";
import { traceIssues } from "./trace-issues.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { performEffect, showCompacted, type TurnRun, viewOf } from "./turn-run.ts";

/** Compacts the session between two turns; false when no compactor had anything to say. */
export async function compactSession(
  session: ResidentSession,
  instructions: string | undefined,
): Promise<boolean> {
  await refreshSession(session);
  const operation = operationOf(session, "compaction");
  const { operations, graph: base } = session.state;
  const host = session.host("history");
  const seeds = await seedNodes(session, { instructions, state: session.readView(), operation, host });
  if (seeds === undefined) return false;
  const previousFrameId = session.frameId;
  await commitChange(session, {
    operation: operation.operation,
    change: (graph) =>
      openFrame(graph, {
        frameId: freeFrameId(graph, `compaction:${operations}`),
        reason: "compaction",
        nodes: [...seeds, ...landedSince(base, graph)],
        operation,
      }),
  });
  const opened = { frameId: session.frameId, previousFrameId, reason: "compaction" };
  await traceIssues(session, "lifecycle_hook_failed", await tellFrameOpened(session, opened));
  return true;
}

/** Compacts what a running turn shows the model; the frame is opened by the turn's own commit. */
export async function compactInTurn(
  turn: TurnRun,
  records: readonly TurnRecord[],
  instructions: string | undefined,
): Promise<boolean> {
  if (turn.compaction !== undefined) return false;
  const state = viewOf(turn, records);
  const host = hostIn(turn, "history");
  const operation = compactionOperation(turn);
  const seeds = await seedNodes(turn.session, { instructions, state, operation, host });
  if (seeds === undefined) return false;
  showCompacted(turn, seeds);
  return true;
}

/** Compacts before the first round, because a context transform asked. One that fails is reported, and the turn goes on. */
export async function compactBeforeTurn(turn: TurnRun, instructions: string | undefined): Promise<void> {
  const effect = { key: "0.compact", kind: "hook_phase" } as const;
  await performEffect(turn, effect, async (scope) => {
    try {
      return await compactInTurn(scope, recordsOf([turn.inputMessage]), instructions);
    } catch (thrown) {
      scope.log.issues.push(issueOfThrown(thrown));
      return false;
    }
  });
}

/** Messages that were appended while the compactors worked: they have not seen them, so the new frame shows them. */
function landedSince(base: SessionGraph, now: SessionGraph): readonly NodeDraft[] {
  const landed = now.path.tail(now.path.length - base.path.length);
  return landed.flatMap((node): readonly NodeDraft[] =>
    node.kind === "message" ? [{ kind: "message", message: node.message }] : [],
  );
}

interface CompactionRequest {
  readonly instructions: string | undefined;
  readonly state: SessionReadView;
  readonly operation: AppendOperation;
  readonly host: HistoryHost;
}

async function seedNodes(
  session: ResidentSession,
  { instructions, state, operation, host }: CompactionRequest,
): Promise<readonly NodeDraft[] | undefined> {
  const { plugins, id } = session;
  try {
    const context = { sessionId: id, instructions, state, host };
    const found = await plugins.compactContext(context, session.parts.probe);
    if (found === undefined) return undefined;
    return bodiesOf(decodeAppendNodes(found.initialNodes, "initialNodes"), { operation });
  } catch (cause) {
    const error = MarlingError.is(cause)
      ? cause
      : new MarlingError("compaction_failed", `session ${id}: compaction failed: ${messageOf(cause)}`, {
          cause,
        });
    const { code, message } = error;
    const failed = { kind: "compaction_failed", sessionId: id, code, message } as const;
    await traceIssues(session, "lifecycle_hook_failed", await tell(session, () => failed));
    throw error;
  }
}
