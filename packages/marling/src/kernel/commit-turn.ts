// The commit of one part of a turn, with the report that settles its input.

import { MarlingError } from "../base/errors.ts";
import type { FrameId, InputId } from "../model/ids.ts";
import { toolFailure } from "../model/tool-output.ts";
import type { ModelCallRecord, TurnIssue, TurnOutcome, TurnReport } from "../model/turn.ts";
import { addToLedger, addUsage, NO_USAGE, type TokenUsage, type UsageEntry } from "../model/usage.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { nodesAfter, seedsWith } from "../session/frame-seeds.ts";
import { openFrame, type SessionGraph } from "../session/graph.ts";
import type { AppendOperation, SessionNode } from "../session/node.ts";
import type { MachineOutcome, TurnRecord } from "../turn/effect.ts";
import { appendRecords, type Change, type Committed, commitChange } from "./commit.ts";
import { isLarger } from "./commit-size.ts";
import { assistantText, type FinalizedTurn } from "./finalize.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { AcceptedTurn } from "./run-turn.ts";
import { faultIssue, faultOutcome, toFault } from "./turn-fault.ts";
import { encodeProgress } from "./turn-progress.ts";
import { nameOf, type TurnRun } from "./turn-run.ts";

export const MAX_FRAME_SWITCHES = 16;

export interface OpenedFrame {
  readonly frameId: FrameId;
  readonly previousFrameId: FrameId;
  readonly reason: string;
}

/** Either the turn is over, or it goes on with a task in another frame. */
export type CommittedTurn = { readonly revision: number; readonly frame: OpenedFrame | undefined } & (
  | { readonly kind: "ended"; readonly report: TurnReport }
  | { readonly kind: "switched"; readonly task: string }
);

type SwitchOutcome = Extract<MachineOutcome, { kind: "switch_frame" }>;

export interface TurnEnd {
  readonly finalized: FinalizedTurn;
  readonly accepted: AcceptedTurn;
  readonly switches: number;
}

/**
 * Commits a part of a turn. What cannot be committed is committed as a fault, with the input kept, so that it ends; a turn
 * that was asked to end before its commit ends as cancelled, with everything it came to.
 */
export async function commitTurn(turn: TurnRun, end: TurnEnd): Promise<CommittedTurn> {
  try {
    return await commitUnlessCancelled(turn, end);
  } catch (thrown) {
    const fault = toFault(thrown);
    if (fault.code === "commit_too_large") leaveOutLarge(turn);
    turn.log.issues.push(faultIssue(fault));
    turn.compaction = undefined;
    const finalized = {
      records: [{ kind: "message", message: turn.inputMessage }],
      outcome: faultOutcome(fault),
      events: [],
      isFault: true,
    } as const;
    return commitUnlessCancelled(turn, { ...end, finalized });
  }
}

/** The report of a turn that is too large to be committed says what was called, and not what was too large about it. */
function leaveOutLarge({ log, session }: TurnRun): void {
  const { toolCalls } = log;
  const share = session.parts.commitBytes / toolCalls.length;
  for (const [index, call] of toolCalls.entries()) {
    if (!isLarger([call.output], share)) continue;
    const message = `The result of ${call.name} was too large to be kept.`;
    const output = toolFailure({ code: "commit_too_large", class: "internal", source: "runtime", message });
    toolCalls[index] = { ...call, output };
  }
}

/** The first writer wins: a cancel request that the store has is the outcome. */
async function commitUnlessCancelled(turn: TurnRun, end: TurnEnd): Promise<CommittedTurn> {
  try {
    return await commitPart(turn, end);
  } catch (thrown) {
    if (!MarlingError.is(thrown) || thrown.code !== "turn_cancelled") throw thrown;
    turn.control.cancel(String(thrown.details.reason));
    return commitPart(turn, { ...end, finalized: { ...end.finalized, outcome: turn.control.outcome() } });
  }
}

async function commitPart(turn: TurnRun, end: TurnEnd): Promise<CommittedTurn> {
  const { outcome } = end.finalized;
  if (outcome.kind === "switch_frame" && end.switches < MAX_FRAME_SWITCHES)
    return commitSwitch(turn, end, outcome);
  return commitEnd(turn, end, outcome.kind === "switch_frame" ? tooManySwitches(turn) : outcome);
}

/** The turn goes on in another frame; where it goes on from is kept with its input. */
async function commitSwitch(
  turn: TurnRun,
  { finalized, accepted, switches }: TurnEnd,
  open: SwitchOutcome,
): Promise<CommittedTurn> {
  const { task } = open;
  const childUsage = usageSoFar(turn);
  const log = { ...turn.log, childUsage: [...childUsage] };
  const progress = encodeProgress({ task, switches: switches + 1, log, joined: turn.joined });
  const committed = await commitRecords(turn, finalized.records, {
    open,
    budgetBytes: turn.session.parts.commitBytes,
    advances: { inputId: accepted.inputId, progress },
  });
  turn.log.childUsage.splice(0, turn.log.childUsage.length, ...childUsage);
  return { kind: "switched", task, revision: committed.revision, frame: committed.frame };
}

async function commitEnd(
  turn: TurnRun,
  { finalized, accepted }: TurnEnd,
  outcome: TurnOutcome,
): Promise<CommittedTurn> {
  const { records, isFault = false } = finalized;
  const { turnId, inputId } = accepted;
  const childUsage = usageSoFar(turn);
  let report: TurnReport | undefined;
  const committed = await commitRecords(turn, records, {
    ...(isFault ? { keepsExecution: false } : { budgetBytes: turn.session.parts.commitBytes }),
    forgets: [turn.turnId, ...(turnId === turn.turnId ? [] : [turnId])],
    joins: isFault ? turn.joined.slice(0, turn.committedJoins) : turn.joined,
    settles: (revision, issues) => {
      report = reportOf(turn, { outcome, records, turnId, revision, issues, childUsage });
      return { inputId, report };
    },
  });
  const { revision, frame } = committed;
  return { kind: "ended", report: report as TurnReport, revision, frame };
}

/** What was used beside the turn's own model calls, in this part of it and in those before. */
function usageSoFar({ spent, log }: TurnRun): readonly UsageEntry[] {
  return spent.reduce(addToLedger, log.childUsage as readonly UsageEntry[]);
}

interface CommitOptions {
  readonly open?: SwitchOutcome;
  readonly keepsExecution?: boolean;
  readonly budgetBytes?: number;
  /**
   * Of the last commit of the turn: what joined it and is in the history is settled, what is not becomes a turn of its own.
   * Its lease is let go unless another turn is next.
   */
  readonly joins?: readonly InputId[];
  readonly forgets?: Change["forgets"];
  readonly settles?: Change["settles"];
  readonly advances?: Change["advances"];
}

async function commitRecords(
  turn: TurnRun,
  records: readonly TurnRecord[],
  {
    open,
    settles,
    advances,
    keepsExecution = true,
    budgetBytes,
    forgets = [turn.turnId],
    joins,
  }: CommitOptions,
): Promise<Committed & { readonly frame: OpenedFrame | undefined }> {
  const { session } = turn;
  turn.control.refuseLost();
  const previousFrameId = session.frameId;
  const committed = await commitChange(session, {
    operation: turn.operation,
    lease: turn.lease,
    signal: turn.control.signal,
    onRefused: () => recordInstead(turn),
    counts: open === undefined ? "turn" : "nothing",
    change: (graph) => changeGraph(turn, graph, { records, open }),
    usage: [...ledgerEntries(session, partCalls(turn)), ...turn.spent],
    lastPromptUsage: promptUsage(partCalls(turn)),
    keepsExecution,
    budgetBytes,
    forgets,
    ...(joins === undefined || joins.length === 0 ? {} : { joins }),
    ...(session.plugins.hasRuntimeEventHooks
      ? { announces: turn.turnId }
      : { releases: joins !== undefined }),
    ...(settles === undefined ? {} : { settles }),
    ...(advances === undefined ? {} : { advances }),
  });
  session.inFlight = 0;
  session.parts.effects.forget?.({ sessionId: session.id, turnId: turn.turnId });
  turn.log.issues.push(...committed.issues);
  const { frameId } = session;
  const reason = open === undefined ? "compaction" : "switch";
  return {
    ...committed,
    frame: frameId === previousFrameId ? undefined : { frameId, previousFrameId, reason },
  };
}

/** Writes what the turn came to into the journal, which may have room where the commit has not. */
async function recordInstead(turn: TurnRun): Promise<void> {
  turn.control.refuseLost();
  const { parts, id, state } = turn.session;
  try {
    const isCommitted = (await parts.store.revision(id)) !== state.revision; // Its answer was lost.
    if (!isCommitted) await parts.effects.flush?.(nameOf(turn), "once");
  } catch {
    // The commit is tried again in any case.
  }
}

function changeGraph(
  turn: TurnRun,
  graph: SessionGraph,
  { records, open }: { readonly records: readonly TurnRecord[]; readonly open: SwitchOutcome | undefined },
): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] } {
  const compacted = turn.compaction === undefined ? { graph, nodes: [] } : openCompactionFrame(turn, graph);
  const appended = appendRecords(compacted.graph, records, turn.operation);
  const nodes = [...compacted.nodes, ...appended.nodes];
  if (open === undefined) return { graph: appended.graph, nodes };
  const operation = { sessionId: graph.sessionId, operation: `${turn.operation}.frame`, ordinal: 0 };
  const by = { operation, graph: appended.graph, opensFrame: true };
  const seeds = bodiesOf(decodeAppendNodes(open.nodes, "switchFrame.nodes"), by);
  const opened = openFrame(appended.graph, {
    frameId: freeFrameId(appended.graph, open.key),
    reason: "switch",
    nodes: seeds,
    operation,
  });
  return { graph: opened.graph, nodes: [...nodes, ...opened.nodes] };
}

function openCompactionFrame(
  turn: TurnRun,
  graph: SessionGraph,
): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] } {
  const frameId = freeFrameId(graph, `compaction:${turn.turnId}`);
  const operation = compactionOperation(turn);
  const { compaction: seeds = [], compactedAfter } = turn;
  const landed = compactedAfter === undefined ? [] : nodesAfter(graph, compactedAfter);
  const nodes = seedsWith(graph, { seeds, landed, operation });
  return openFrame(graph, { frameId, reason: "compaction", nodes, operation });
}

/** The operation of a compaction inside a turn. */
export function compactionOperation(turn: TurnRun): AppendOperation {
  return { sessionId: turn.session.id, operation: `${turn.operation}.compaction`, ordinal: 0 };
}

/** A frame id from a key: the current frame's own key names the current frame, an older one gets a number. */
export function freeFrameId(graph: SessionGraph, key: string): FrameId {
  const wanted = `${graph.sessionId}:frame:${key}`;
  if (graph.currentFrameId === wanted) return wanted as FrameId;
  const taken = new Set<string>(graph.frames.map((frame) => frame.id));
  let id = wanted;
  for (let number = 2; taken.has(id); number += 1) id = `${wanted}:${number}`;
  return id as FrameId;
}

/** The calls of this part only: earlier parts have committed theirs. */
function partCalls(turn: TurnRun): readonly ModelCallRecord[] {
  return turn.log.modelCalls.slice(turn.committedCalls);
}

function ledgerEntries(session: ResidentSession, calls: readonly ModelCallRecord[]): readonly UsageEntry[] {
  const source = session.frame.assignment.usageSource ?? "turn";
  return calls.map(({ model, usage }) => ({ source, model, usage }));
}

function promptUsage(calls: readonly ModelCallRecord[]): TokenUsage | undefined {
  return calls.findLast((call) => call.outcome === "completed")?.usage;
}

interface Ended {
  readonly outcome: TurnOutcome;
  readonly records: readonly TurnRecord[];
  readonly turnId: string;
  readonly revision: number;
  /** What went wrong in the commit without ending it. */
  readonly issues: readonly TurnIssue[];
  readonly childUsage: readonly UsageEntry[];
}

function reportOf(
  turn: TurnRun,
  { outcome, records, turnId, revision, issues, childUsage }: Ended,
): TurnReport {
  const { toolCalls, modelCalls } = turn.log;
  return {
    outcome,
    text: outcome.kind === "finished" ? outcome.text : assistantText(records),
    turnId,
    revision,
    usage: modelCalls.reduce((sum, call) => addUsage(sum, call.usage), NO_USAGE),
    childUsage,
    toolCalls: [...toolCalls],
    modelCalls: [...modelCalls],
    issues: [...turn.log.issues, ...issues],
  };
}

function tooManySwitches(turn: TurnRun): TurnOutcome {
  const message = `expected at most ${MAX_FRAME_SWITCHES} frame switches in one turn, found one more`;
  turn.log.issues.push({ kind: "runtime", code: "frame_switch_limit", message });
  return { kind: "stopped", reason: "runtime_error", code: "frame_switch_limit", message };
}
