// Commit: everything a turn or an operation changed, in one step that happens or does not.
//   C1  nodes are appended to the head as it is now, so that what landed during the turn stays.
//   C2  plugin and tool state are written only when their mark moved; a snapshot that fails leaves the old one and its mark.
//   C3  the session moves to the new state after the store has taken it, never before.

import { messageOf } from "../base/errors.ts";
import type { JsonObject } from "../model/json.ts";
import type { TurnIssue } from "../model/turn.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";
import { addToLedger } from "../model/usage.ts";
import { encodePluginSnapshot } from "../plugin/snapshot.ts";
import type { SessionGraph } from "../session/graph.ts";
import { appendToGraph } from "../session/graph.ts";
import type { AppendOperation, NodeDraft, SessionNode } from "../session/node.ts";
import type { CommitResult, SessionCommit, SessionComponents } from "../store/contract.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { saveExecutionState } from "./execution-state.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type SavedMarks, type SessionState, encodeHead, encodeNodes } from "./session-state.ts";

/** What a commit changes beside components; `nodes` are those that `graph` has more than the session. */
export interface Change {
  /** A turn id, or the derived id of another operation. */
  readonly operation: string;
  change(graph: SessionGraph): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] };
  readonly isTurn?: boolean;
  readonly usage?: readonly UsageEntry[];
  readonly lastPromptUsage?: TokenUsage | undefined;
  readonly settles?: SessionCommit["settles"] | ((revision: number) => SessionCommit["settles"]);
  readonly enqueues?: SessionCommit["enqueues"];
}

export interface Committed extends CommitResult {
  readonly nodes: readonly SessionNode[];
  readonly issues: readonly TurnIssue[];
}

/** Commits a change of a session, one after the other. */
export function commitChange(session: ResidentSession, change: Change): Promise<Committed> {
  return session.commits.run(() => commitNow(session, change));
}

async function commitNow(session: ResidentSession, change: Change): Promise<Committed> {
  const before = session.state;
  const { graph: changed, nodes } = change.change(before.graph);
  const execution = await saveExecutionState(session, changed);
  const { components, saved, issues } = changedComponents(session, before.saved);
  const state: SessionState = {
    ...before,
    graph: execution.graph,
    saved,
    turnIndex: before.turnIndex + (change.isTurn === true ? 1 : 0),
    operations: before.operations + (change.isTurn === true ? 0 : 1),
    ledger: (change.usage ?? []).reduce(addToLedger, before.ledger),
    lastPromptUsage: change.lastPromptUsage ?? before.lastPromptUsage,
  };
  const settles = typeof change.settles === "function" ? change.settles(before.revision + 1) : change.settles;
  const result = await session.parts.store.commit({
    sessionId: session.id,
    expectedRevision: before.revision,
    operation: change.operation,
    head: encodeHead(state),
    nodes: encodeNodes(nodes),
    components: { ...components, ...execution.components },
    ...(settles === undefined ? {} : { settles }),
    ...(change.enqueues === undefined ? {} : { enqueues: change.enqueues }),
  });
  session.adopt({ ...state, revision: result.revision });
  session.plugins.commitState();
  return { ...result, nodes, issues };
}

function changedComponents(session: ResidentSession, saved: SavedMarks): { readonly components: SessionComponents; readonly saved: SavedMarks; readonly issues: readonly TurnIssue[] } {
  const { plugins } = session;
  const toolMark = plugins.toolRegistry.generation;
  const tools = toolMark === saved.tools ? {} : { tools: plugins.toolRegistry.exportState() as unknown as JsonObject };
  const pluginMark = plugins.snapshotRevisionFingerprint();
  if (pluginMark === saved.plugins) return { components: tools, saved: { plugins: pluginMark, tools: toolMark }, issues: [] };
  try {
    const snapshot = encodePluginSnapshot(plugins.snapshot());
    return { components: { ...tools, plugins: snapshot }, saved: { plugins: pluginMark, tools: toolMark }, issues: [] };
  } catch (thrown) {
    const issue: TurnIssue = { kind: "plugin", code: "snapshot_failed", message: messageOf(thrown) };
    return { components: tools, saved: { ...saved, tools: toolMark }, issues: [issue] };
  }
}

/** The graph with a turn's records appended. Transient messages are not stored. */
export function appendRecords(graph: SessionGraph, records: readonly TurnRecord[], operation: string): { readonly graph: SessionGraph; readonly nodes: readonly SessionNode[] } {
  return appendToGraph(graph, records as readonly NodeDraft[], { sessionId: graph.sessionId, operation, ordinal: 0 });
}

/** The name of the next operation beside turns; the same in every run that has the same history. */
export function operationOf(session: ResidentSession, kind: string): AppendOperation {
  return { sessionId: session.id, operation: `${session.id}:${kind}:${session.state.operations}`, ordinal: 0 };
}
