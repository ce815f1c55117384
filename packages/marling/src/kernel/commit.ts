// Commit: everything that a turn or another operation changed, in one step that happens or does not.
//   C1  nodes are appended to the head as it is now, so that what landed during the turn stays.
//   C2  plugin and tool state are written only when their mark moved; a snapshot that fails leaves the old one and its mark.
//   C3  the session moves to the new state after the store has taken it, never before; a commit that fails takes plugin
//       state back to the last one that did not.
//   C5  a turn and its announcements commit under the lease that the turn began under, and under no other. A commit beside
//       turns uses the session's lease where there is one, and needs none.
//   C7  a commit beside turns that meets another holder, a lost lease or a newer revision claims the lease, takes over what
//       others committed, and is made again. A change that cannot be made on a newer revision is a `revision_conflict`.
//   C4  what is committed beside a turn leaves plugin state alone: what the turn did to it is the turn's to commit.
//   C8  a commit that the store refuses is tried again, the same one, under the lease where it needs one. One that cannot be
//       recognised by the store is tried again only while the session is at the revision that it was made for.
//   C9  a session whose newest commit needs what this runtime lacks is not written to.
//   C6  a turn that came to more than a commit may hold is refused before the store is asked.

import { MarlingError, messageOf } from "../base/errors.ts";
import { retryRefused } from "../base/retry-refused.ts";
import type { JsonObject } from "../model/json.ts";
import type { TurnIssue } from "../model/turn.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";
import { addToLedger } from "../model/usage.ts";
import { encodePluginSnapshot } from "../plugin/snapshot.ts";
import type { SessionGraph } from "../session/graph.ts";
import { appendToGraph } from "../session/graph.ts";
import type { AppendOperation, NodeDraft, SessionNode } from "../session/node.ts";
import type { CommitResult, SessionCommit, SessionComponents } from "../store/contract.ts";
import type { TracePayloads } from "../trace/contract.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { requireBindings } from "./bindings.ts";
import { claimSession } from "./claim-session.ts";
import { isLarger, jsonBytes } from "./commit-size.ts";
import { saveExecutionState } from "./execution-state.ts";
import type { ResidentSession } from "./resident-session.ts";
import { hasRetirement, retired, withRetirement } from "./retire-plugins.ts";
import { encodeHead, encodeNodes, type SavedMarks, type SessionState } from "./session-state.ts";
import { type TraceSpan, traceFailure } from "./session-trace.ts";
import { storeFault } from "./store-fault.ts";

/** What a commit changes beside components; `nodes` are those that `graph` has more than the session. */
export interface Change {
  /** A turn, or the derived name of another operation. */
  readonly operation: string;
  change(graph: SessionGraph): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] };
  /** What the commit counts as; by default an operation beside turns. Part of a turn counts as nothing. */
  readonly counts?: "turn" | "operation" | "nothing";
  /** Set when a turn may be running that the commit is no part of. */
  readonly isBesideTurns?: boolean;
  /** False when what a code executor did is not to be kept. */
  readonly keepsExecution?: boolean;
  /** How many bytes of nodes and components it may have; by default as many as there are. */
  readonly budgetBytes?: number | undefined;
  readonly usage?: readonly UsageEntry[];
  readonly lastPromptUsage?: TokenUsage | undefined;
  /** Made when everything else is known: the revision, and what went wrong on the way. */
  settles?(revision: number, issues: readonly TurnIssue[]): SessionCommit["settles"];
  readonly enqueues?: SessionCommit["enqueues"];
  readonly advances?: SessionCommit["advances"];
  readonly forgets?: SessionCommit["forgets"];
  readonly joins?: SessionCommit["joins"];
  /** Generation that the change is fenced by: without it, the change needs no lease and waits for other holders. */
  readonly lease?: number | undefined;
  /** Lets the lease go with the commit, unless more is to be done under it. */
  readonly releases?: boolean;
  readonly announces?: SessionCommit["announces"];
  readonly announced?: SessionCommit["announced"];
  /** Ends the retrying of a commit that the store refuses. By default the closing of the session does. */
  readonly signal?: AbortSignal;
  /** Called after each refusal. */
  onRefused?(): Promise<void>;
  /** Whether the change can be made again on what another runtime has committed meanwhile. */
  readonly rebases?: boolean;
}

export interface Committed extends CommitResult {
  readonly nodes: readonly SessionNode[];
  readonly issues: readonly TurnIssue[];
}

/** Commits a change of a session, one after the other. A function is asked for its change when its turn has come. */
export function commitChange(session: ResidentSession, change: Change | (() => Change)): Promise<Committed> {
  const make = typeof change === "function" ? change : () => change;
  return session.commits.run(async () => {
    const wanted = make();
    try {
      try {
        return await commitNow(session, wanted);
      } catch (thrown) {
        if (!isContended(thrown) || !waitsForOthers(session, wanted)) throw thrown;
        return await commitContended(session, make, thrown);
      }
    } catch (thrown) {
      if (wanted.isBesideTurns !== true) session.plugins.rollbackState();
      throw thrown;
    }
  });
}

const ATTEMPTS = 5;

/** A change that a lease fences never waits: without that lease it is another runtime's to write. Nor does a first commit. */
function waitsForOthers({ parts, state }: ResidentSession, { lease }: Change): boolean {
  return parts.effects.remembers === true && state.revision > 0 && lease === undefined;
}

const CONTENDED: ReadonlySet<string> = new Set(["lease_held", "lease_lost", "revision_conflict"]);

/** Whether another runtime has written to the session, may at this moment, or may have since the lease was lost. */
export function isContended(thrown: unknown): thrown is MarlingError {
  return MarlingError.is(thrown) && CONTENDED.has(thrown.code);
}

/** Claims the session as it is now, and makes the change again where it still can be made. */
async function commitContended(
  session: ResidentSession,
  make: () => Change,
  first: MarlingError,
): Promise<Committed> {
  const conflict = new MarlingError("revision_conflict", first.message, {
    cause: first,
    details: first.details,
  });
  session.lease.join();
  try {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const { hasMoved } = await claimSession(session);
      const change = make();
      if (hasMoved && change.rebases !== true) throw conflict;
      try {
        return await commitNow(session, change);
      } catch (thrown) {
        if (!isContended(thrown)) throw thrown;
      }
    }
    throw conflict;
  } finally {
    await session.lease.leave();
  }
}

/** Commits in its turn among commits: when nothing else is at work no turn begins before it is done, else beside it. */
export function commitBeside(session: ResidentSession, change: () => Change): Promise<Committed> {
  if (session.writer.length > 0) return commitChange(session, () => ({ ...change(), isBesideTurns: true }));
  const committed = commitChange(session, change);
  session.writer.run(() => committed).catch(() => undefined); // Whoever asked for the commit is told how it ended.
  return committed;
}

/** Whether plugin or tool state is not what the store has. */
export function hasMovedState({ plugins, state: { saved } }: ResidentSession): boolean {
  return (
    plugins.toolRegistry.generation !== saved.tools || plugins.snapshotRevisionFingerprint() !== saved.plugins
  );
}

/** A change of nothing but components. */
export function stateChange(session: ResidentSession, kind: string): Change {
  return { operation: operationOf(session, kind).operation, change: (graph) => ({ graph, nodes: [] }) };
}

async function commitNow(session: ResidentSession, wanted: Change): Promise<Committed> {
  requireBindings(session);
  const change = hasRetirement(session, wanted) ? await withRetirement(session, wanted) : wanted;
  const before = session.state;
  const { graph: changed, nodes } = change.change(before.graph);
  const isBeside = change.isBesideTurns === true;
  const hasExecution =
    !isBeside && change.keepsExecution !== false && session.plugins.codeExecutor !== undefined;
  const execution = hasExecution
    ? await saveExecutionState(session, changed)
    : { graph: changed, components: {} };
  const { components, saved, issues } = changedComponents(session, { isBeside });
  refuseTooLarge(session, change, { nodes, components: { ...components, ...execution.components } });
  const state = nextState(before, change, { graph: execution.graph, saved });
  const settles = change.settles?.(before.revision + 1, issues);
  const { lease } = session;
  const generation = change.lease ?? lease.generation;
  const releases = change.releases === true && generation !== undefined && lease.isLastUser;
  const span = session.trace?.open();
  const commit: SessionCommit = {
    sessionId: session.id,
    expectedRevision: before.revision,
    operation: change.operation,
    ...(isOfTurn(change) ? { once: true } : {}),
    head: encodeHead(state),
    nodes: encodeNodes(nodes),
    components: { ...components, ...execution.components },
    ...session.work.leftBy(components),
    ...(settles === undefined ? {} : { settles }),
    ...passedOn(change),
    ...(generation === undefined ? {} : { lease: generation }),
    ...(releases ? { releases } : {}),
  };
  const result = await ask(session, { commit, change, span });
  span?.close("commit", { ...measured(change, nodes), revision: result.revision });
  if (releases) lease.drop(generation);
  session.adopt({ ...state, revision: result.revision });
  session.work.committed(components);
  if (!isBeside) commitPlugins(session);
  observed(session, change, { nodes, revision: result.revision });
  return { ...result, nodes, issues };
}

/** The store has the state of all plugins, and names no retired one any more. */
function commitPlugins(session: ResidentSession): void {
  session.plugins.commitState();
  retired(session);
}

interface AskedCommit {
  readonly commit: SessionCommit;
  readonly change: Change;
  readonly span: TraceSpan | undefined;
}

function ask(session: ResidentSession, { commit, change, span }: AskedCommit): Promise<CommitResult> {
  return session.parts.store.commit(commit).catch(async (refusal: unknown) => {
    try {
      return await askAgain(session, { commit, change }, refusal);
    } catch (thrown) {
      span?.close("commit", { ...measured(commit, commit.nodes), failure: traceFailure(thrown) });
      const fault = storeFault(thrown, session.id);
      if (fault.code === "lease_lost") session.lease.lose(commit.lease);
      throw fault;
    }
  });
}

/** Makes a refused commit again (C8). */
function askAgain(
  session: ResidentSession,
  { commit, change }: Omit<AskedCommit, "span">,
  refusal: unknown,
): Promise<CommitResult> {
  const { parts, lease, ending } = session;
  const { store, retry } = parts;
  let hasMoved = false;
  const again = async (): Promise<CommitResult> => {
    if (change.lease !== undefined) await lease.ensure();
    hasMoved = commit.once !== true && (await store.revision(session.id)) !== commit.expectedRevision;
    if (hasMoved) throw refusal;
    return store.commit(commit);
  };
  const onRefused = async (): Promise<void> => {
    if (hasMoved) throw refusal; // It may have been made; making it on top of itself would repeat it.
    await change.onRefused?.();
  };
  return retryRefused(again, refusal, { ...retry, signal: change.signal ?? ending.signal, onRefused });
}

/** What the trace is told of the size of a commit. */
function measured(
  { operation }: Pick<Change, "operation">,
  nodes: readonly unknown[],
): Pick<TracePayloads["commit"], "operation" | "nodes" | "bytes"> {
  return { operation, nodes: nodes.length, bytes: jsonBytes(nodes) };
}

/** What a change says to the store in its own words. */
function passedOn(change: Change): Partial<SessionCommit> {
  const { enqueues, advances, forgets, joins, announces, announced } = change;
  return {
    ...(enqueues === undefined ? {} : { enqueues }),
    ...(advances === undefined ? {} : { advances }),
    ...(forgets === undefined ? {} : { forgets }),
    ...(joins === undefined ? {} : { joins }),
    ...(announces === undefined ? {} : { announces }),
    ...(announced === undefined ? {} : { announced }),
  };
}

function isOfTurn({ counts }: Change): boolean {
  return counts === "turn" || counts === "nothing";
}

function observed(
  { observation, running }: ResidentSession,
  change: Change,
  committed: { readonly revision: number; readonly nodes: readonly SessionNode[] },
): void {
  const turn = isOfTurn(change) && running !== undefined ? { turnId: running.turnId } : {};
  observation.committed({ ...committed, ...turn });
}

/** Asked before anything is written: what the store is given is what the turn came to, and no more. */
function refuseTooLarge(
  { id }: ResidentSession,
  { operation, budgetBytes }: Change,
  { nodes, components }: { readonly nodes: readonly SessionNode[]; readonly components: SessionComponents },
): void {
  if (budgetBytes === undefined || !isLarger([nodes, components], budgetBytes)) return;
  const message = `session ${id}: ${operation}: expected a commit of at most ${budgetBytes} bytes, found a larger one; see the option commitBudget`;
  throw new MarlingError("commit_too_large", message, { details: { sessionId: id, operation, budgetBytes } });
}

function nextState(
  before: SessionState,
  change: Change,
  now: Pick<SessionState, "graph" | "saved">,
): SessionState {
  const { counts = "operation", usage = [], lastPromptUsage } = change;
  return {
    ...before,
    ...now,
    turnIndex: before.turnIndex + (counts === "turn" ? 1 : 0),
    operations: before.operations + (counts === "operation" ? 1 : 0),
    ledger: usage.reduce(addToLedger, before.ledger),
    lastPromptUsage: lastPromptUsage ?? before.lastPromptUsage,
  };
}

interface ChangedComponents {
  readonly components: SessionComponents;
  readonly saved: SavedMarks;
  readonly issues: readonly TurnIssue[];
}

function changedComponents(
  session: ResidentSession,
  { isBeside }: { readonly isBeside: boolean },
): ChangedComponents {
  const { plugins } = session;
  const { saved } = session.state;
  const toolMark = plugins.toolRegistry.generation;
  const tools =
    toolMark === saved.tools ? {} : { tools: plugins.toolRegistry.exportState() as unknown as JsonObject };
  const pluginMark = isBeside ? saved.plugins : plugins.snapshotRevisionFingerprint();
  const { work } = session;
  const workMark = work.hasMoved ? work.mark : saved.work;
  const marks = { plugins: pluginMark, tools: toolMark, work: workMark };
  const beside = { ...tools, ...work.components() };
  if (pluginMark === saved.plugins) return { components: beside, saved: marks, issues: [] };
  try {
    const snapshot = encodePluginSnapshot(plugins.snapshot());
    return { components: { ...beside, plugins: snapshot }, saved: marks, issues: [] };
  } catch (thrown) {
    const issue: TurnIssue = { kind: "plugin", code: "snapshot_failed", message: messageOf(thrown) };
    return { components: beside, saved: { ...saved, tools: toolMark, work: workMark }, issues: [issue] };
  }
}

/** The graph with a turn's records appended. Transient messages are not stored. */
export function appendRecords(
  graph: SessionGraph,
  records: readonly TurnRecord[],
  operation: string,
): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] } {
  return appendToGraph(graph, records as readonly NodeDraft[], {
    sessionId: graph.sessionId,
    operation,
    ordinal: 0,
  });
}

/** The name of the next operation beside turns; the same in every run that has the same history. */
export function operationOf(session: ResidentSession, kind: string): AppendOperation {
  return { sessionId: session.id, operation: `${kind}:${session.state.operations}`, ordinal: 0 };
}
