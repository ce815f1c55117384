// The committed state of a session, and how it is stored.

import { MarlingError } from "../base/errors.ts";
import { frameId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";
import { decodeFrame } from "../session/decode-frame.ts";
import { decodeSessionNode } from "../session/decode-node.ts";
import type { Frame } from "../session/frame.ts";
import { loadGraph, type SessionGraph } from "../session/graph.ts";
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

/**
 * The state that was stored. What comes from outside the process is checked node by node; a store that lives in it
 * gives back the very values it was given, and those are shared.
 */
export function decodeState(
  stored: StoredSession,
  { isLive = false }: { readonly isLive?: boolean } = {},
): SessionState {
  const { sessionId, head, revision, nodes } = stored;
  if (head.version !== 1) {
    throw new MarlingError(
      "unsupported_version",
      `session ${sessionId}: expected head version 1, found ${head.version}`,
    );
  }
  const decodeNodes = (list: readonly JsonObject[]): readonly SessionNode[] =>
    isLive
      ? (list as unknown as readonly SessionNode[])
      : list.map((node, index) => decodeSessionNode(node, `nodes[${index}]`));
  const decoded = decodeNodes(nodes);
  const { earlier } = stored;
  const graph = loadGraph({
    sessionId,
    nodes: decoded,
    earlier:
      earlier === undefined
        ? undefined
        : { length: decoded[0]?.generation ?? 0, load: () => decodeNodes(earlier()) },
    frames: isLive
      ? (head.frames as unknown as readonly Frame[])
      : head.frames.map((frame, index) => decodeFrame(frame, `frames[${index}]`)),
    currentFrameId: frameId(head.currentFrameId),
  });
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
