// The committed state of a session, and how it is stored.

import { MarlingError } from "../base/errors.ts";
import { frameId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";
import { decodeFrame } from "../session/decode-frame.ts";
import { decodeSessionNode } from "../session/decode-node.ts";
import type { Frame, FrameAssignment } from "../session/frame.ts";
import { forkGraph, type SessionGraph } from "../session/graph.ts";
import { loadGraph } from "../session/load-graph.ts";
import type { SessionNode } from "../session/node.ts";
import type { SessionHead, StoredSession } from "../store/contract.ts";

export interface SessionState {
  readonly graph: SessionGraph;
  readonly revision: number;
  readonly turnIndex: number;
  readonly ledger: readonly UsageEntry[];
  readonly lastPromptUsage: TokenUsage | undefined;
  readonly parentSessionId: string | undefined;
  /** Operations beside turns so far; their ids derive from it. */
  readonly operations: number;
  /** What the stored components were made from; a component is written again when its mark moved. */
  readonly saved: SavedMarks;
}

/** A session as a store forked it: without its nodes, which are those of its source. */
export type StoredFork = Omit<StoredSession, "nodes" | "earlier">;

export interface SavedMarks {
  readonly plugins: bigint | undefined;
  readonly tools: number | undefined;
  readonly work: number;
}

/** The mark of work that was stored with a history that another session shares, and that is none of its own. */
export const WORK_OF_ANOTHER = -1;

export const NOTHING_SAVED: SavedMarks = Object.freeze({ plugins: undefined, tools: undefined, work: 0 });

export function encodeHead(state: SessionState): SessionHead {
  const { graph } = state;
  return {
    version: 1,
    turnIndex: state.turnIndex,
    leaf: graph.leaf ?? null,
    currentFrameId: graph.currentFrameId,
    frames: graph.frames as unknown as readonly JsonObject[],
    ledger: state.ledger,
    lastPromptUsage: state.lastPromptUsage ?? null,
    parentSessionId: state.parentSessionId ?? null,
    operations: state.operations,
  };
}

export function encodeNodes(nodes: readonly SessionNode[]): readonly JsonObject[] {
  return nodes as unknown as readonly JsonObject[];
}

/** Whether what a store gives back are the very values it was given, because it lives in this process. */
export interface StoredValues {
  readonly isLive?: boolean;
}

/**
 * The state that was stored. What comes from outside the process is checked node by node; a store that lives in it
 * gives back the very values it was given, and those are shared.
 */
export function decodeState(stored: StoredSession, { isLive = false }: StoredValues = {}): SessionState {
  const { sessionId, head, nodes, earlier } = stored;
  refuseVersion(stored);
  const decodeNodes = (list: readonly JsonObject[]): readonly SessionNode[] =>
    isLive
      ? (list as unknown as readonly SessionNode[])
      : list.map((node, index) => decodeSessionNode(node, `nodes[${index}]`));
  const decoded = decodeNodes(nodes);
  const graph = loadGraph({
    sessionId,
    nodes: decoded,
    earlier:
      earlier === undefined
        ? undefined
        : { length: decoded[0]?.generation ?? 0, load: () => decodeNodes(earlier()) },
    frames: decodeFrames(head, { isLive }),
    currentFrameId: frameId(head.currentFrameId),
  });
  return stateWith(graph, stored);
}

/**
 * The state of a fork, with the nodes of a version of its source that has them in memory: nothing of the history is read
 * or copied. Nothing when the source was not there yet, or has not loaded what is before its current frame.
 */
export function decodeFork(
  forked: StoredFork,
  source: SessionGraph,
  { isLive = false }: StoredValues = {},
): SessionState | undefined {
  const { sessionId, head } = forked;
  refuseVersion(forked);
  if (head.leaf === null || source.path.loadedPositionOf(head.leaf) === undefined) return undefined;
  const frames = decodeFrames(head, { isLive });
  return stateWith(forkGraph(source, { sessionId, at: head.leaf, frames }), forked);
}

/** What the current frame of a stored session is assigned; looks at nothing else. */
export function storedAssignment(stored: StoredFork): FrameAssignment {
  const { frames, currentFrameId } = stored.head;
  refuseVersion(stored);
  return decodeFrame(
    frames.findLast(({ id }) => id === currentFrameId),
    "frame",
  ).assignment;
}

function refuseVersion({ sessionId, head }: StoredFork): void {
  if (head.version === 1) return;
  const message = `session ${sessionId}: expected head version 1, found ${head.version}`;
  throw new MarlingError("unsupported_version", message);
}

function decodeFrames({ frames }: SessionHead, { isLive }: StoredValues): readonly Frame[] {
  if (isLive) return frames as unknown as readonly Frame[];
  return frames.map((frame, index) => decodeFrame(frame, `frames[${index}]`));
}

function stateWith(graph: SessionGraph, { head, revision }: StoredFork): SessionState {
  return {
    graph,
    revision,
    turnIndex: head.turnIndex,
    ledger: head.ledger,
    lastPromptUsage: head.lastPromptUsage ?? undefined,
    parentSessionId: head.parentSessionId ?? undefined,
    operations: head.operations,
    saved: NOTHING_SAVED,
  };
}
