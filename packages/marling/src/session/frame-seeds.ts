// What a frame begins with beside what it was given: messages that landed on the path while it was made (G18).

import { appendedMessageId, type NodeId } from "../model/ids.ts";
import type { SessionGraph } from "./graph.ts";
import type { AppendOperation, NodeDraft, SessionNode } from "./node.ts";

/**
 * Drafts for `openFrame`: the seeds, and behind them copies of the messages that landed. A copy has an id of its own, and
 * names the node that it was made from.
 */
export function seedsWith(
  graph: SessionGraph,
  {
    seeds,
    landed,
    operation,
  }: { seeds: readonly NodeDraft[]; landed: readonly SessionNode[]; operation: AppendOperation },
): readonly NodeDraft[] {
  const own = (draft: NodeDraft, index: number): NodeDraft => {
    if (draft.kind !== "message") return draft;
    const id = appendedMessageId(operation.sessionId, operation.operation, operation.ordinal + index);
    return { ...draft, message: { ...draft.message, id } };
  };
  const isShown = (draft: NodeDraft): boolean =>
    draft.kind === "message" && graph.messages.positionOf(draft.message.id) !== undefined;
  const copies = landed.flatMap((node): readonly NodeDraft[] =>
    node.kind === "message"
      ? [{ kind: "message", message: node.message, causedBy: { kind: "carried", nodeId: node.id } }]
      : [],
  );
  return [
    ...seeds.map((seed, index) => (isShown(seed) ? own(seed, index) : seed)),
    ...copies.map((copy, index) => own(copy, seeds.length + index)),
  ];
}

/** The nodes behind a node of the path, oldest first. */
export function nodesAfter({ path }: SessionGraph, node: NodeId): readonly SessionNode[] {
  const position = path.positionOf(node);
  return position === undefined ? [] : path.tail(path.length - position - 1);
}
