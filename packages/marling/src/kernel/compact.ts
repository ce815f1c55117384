// Compaction: a plugin's seed nodes open a new frame; what was before stays in the history.
//   KC1  messages that were appended while the compactors worked are copied behind the seeds, under ids of their own (G18):
//        no summary speaks of them.
//   KC2  between turns, the compactors work under the session's lease, so that turns of other runtimes wait for the frame.
//   KC3  a compaction whose lease was lost is made again on what others committed, a few times at most: its summary and the
//        plugin state that it was made from are outdated.

import { MarlingError, messageOf } from "../base/errors.ts";
import { endingView, type HostServices } from "../plugin/host-services.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { nodesAfter, seedsWith } from "../session/frame-seeds.ts";
import { openFrame, type SessionGraph } from "../session/graph.ts";
import type { AppendOperation, NodeDraft } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { claimSession, refreshToDrive, requireToDrive } from "./claim-session.ts";
import { commitChange, isContended, operationOf } from "./commit.ts";
import { compactionOperation, freeFrameId } from "./commit-turn.ts";
import { recordsOf } from "./hook-messages.ts";
import { tell } from "./lifecycle.ts";
import { tellFrameOpened } from "./publish.ts";
import type { ResidentSession } from "./resident-session.ts";
import { hostServices } from "./services.ts";
import { traceIssues } from "./trace-issues.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { performEffect, showCompacted, type TurnRun, viewOf } from "./turn-run.ts";

/** How often the compactors are asked before others were faster every time. */
const ATTEMPTS = 3;

/** Compacts the session between two turns; false when no compactor had anything to say. */
export async function compactSession(
  session: ResidentSession,
  instructions: string | undefined,
): Promise<boolean> {
  await refreshToDrive(session);
  if (session.parts.effects.remembers !== true) {
    const compacted = await compactNow(session, instructions);
    if (compacted === "overtaken") throw overtaken(session);
    return compacted;
  }
  session.lease.join();
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      await claimSession(session);
      await requireToDrive(session);
      const compacted = await compactNow(session, instructions);
      if (compacted !== "overtaken") return compacted;
    }
    throw overtaken(session);
  } finally {
    await session.lease.leave();
  }
}

/** Asks the compactors once, and opens the frame unless others have committed meanwhile. */
async function compactNow(
  session: ResidentSession,
  instructions: string | undefined,
): Promise<boolean | "overtaken"> {
  const operation = operationOf(session, "compaction");
  const { generation: lease } = session.lease;
  const { operations, graph: base } = session.state;
  const request = { instructions, state: session.readView(), operation, services: session.services };
  const seeds = await seedNodes(session, request);
  if (seeds === undefined) return false;
  const previousFrameId = session.frameId;
  const change = (graph: SessionGraph) => {
    if (graph.path.sharedLength(base.path) < base.path.length) throw overtaken(session);
    const nodes = seedsWith(graph, { seeds, landed: nodesAfter(graph, base.leaf), operation });
    const frameId = freeFrameId(graph, `compaction:${operations}`);
    return openFrame(graph, { frameId, reason: "compaction", nodes, operation });
  };
  try {
    await commitChange(session, { operation: operation.operation, lease, change });
  } catch (thrown) {
    if (!isOvertaken(thrown)) throw thrown;
    if (thrown.code === "lease_lost") session.lease.lose(lease);
    return "overtaken";
  }
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
  const operation = compactionOperation(turn);
  const services = hostServices(turn.session, turn);
  const seeds = await seedNodes(turn.session, { instructions, state, operation, services });
  if (seeds === undefined) return false;
  showCompacted(turn, seeds, turn.base);
  return true;
}

/** The effect of a compaction before the first round. */
export const COMPACTION_KEY = "0.compact";

/** Compacts before the first round, because a context transform asked. One that fails is reported, and the turn goes on. */
export async function compactBeforeTurn(turn: TurnRun, instructions: string | undefined): Promise<void> {
  const effect = { key: COMPACTION_KEY, kind: "hook_phase" } as const;
  await performEffect(turn, effect, async (scope) => {
    try {
      return await compactInTurn(scope, recordsOf([turn.inputMessage]), instructions);
    } catch (thrown) {
      scope.log.issues.push(issueOfThrown(thrown));
      return false;
    }
  });
}

/** Whether others have written to the session since the compactors were asked. */
function isOvertaken(thrown: unknown): thrown is MarlingError {
  return isContended(thrown) || (MarlingError.is(thrown) && thrown.code === "lease_lost");
}

function overtaken({ id }: ResidentSession): MarlingError {
  const message = `session ${id}: other commits landed during the compaction; ask for it again`;
  return new MarlingError("revision_conflict", message, { details: { sessionId: id } });
}

interface CompactionRequest {
  readonly instructions: string | undefined;
  readonly state: SessionReadView;
  readonly operation: AppendOperation;
  readonly services: HostServices;
}

async function seedNodes(
  session: ResidentSession,
  { instructions, state, operation, services }: CompactionRequest,
): Promise<readonly NodeDraft[] | undefined> {
  const { plugins, id } = session;
  const { host, end } = endingView(services, "history");
  try {
    const context = { sessionId: id, instructions, state, host };
    const found = await plugins.compactContext(context, session.parts.probe).finally(end);
    if (found === undefined) return undefined;
    const { graph } = session.state;
    const by = { operation, graph, opensFrame: true };
    return bodiesOf(decodeAppendNodes(found.initialNodes, "initialNodes"), by);
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
