// Sessions for the tests of this folder.

import { type NodeId, type SessionId, sessionId } from "../../src/model/ids.ts";
import { toMessage } from "../../src/model/message.ts";
import { type FrameAssignment, FULL_AUTHORITY } from "../../src/session/frame.ts";
import { appendToGraph, createGraph, openFrame, type SessionGraph } from "../../src/session/graph.ts";
import type { AppendOperation, NodeDraft } from "../../src/session/node.ts";

export const SESSION: SessionId = sessionId("s");

export const ASSIGNMENT: FrameAssignment = {
  policy: { model: "default", maxTurns: 50 },
  authority: FULL_AUTHORITY,
};

export function emptyGraph(id: SessionId = SESSION): SessionGraph {
  return createGraph({ sessionId: id, assignment: ASSIGNMENT });
}

export function operation(name: string, ordinal = 0, id: SessionId = SESSION): AppendOperation {
  return { sessionId: id, operation: name, ordinal };
}

/** A message node of the user; the message id is the text unless one is given. */
export function says(text: string, id: string = text): NodeDraft {
  return { kind: "message", message: toMessage({ role: "user", content: text }, id) };
}

/** Appends one message per text, as one operation. */
export function say(graph: SessionGraph, name: string, texts: readonly string[]): SessionGraph {
  return appendToGraph(
    graph,
    texts.map((text) => says(text)),
    operation(name, 0, graph.sessionId),
  ).graph;
}

export function open(graph: SessionGraph, frameId: string, texts: readonly string[] = []): SessionGraph {
  const nodes = texts.map((text) => says(text));
  return openFrame(graph, {
    frameId,
    reason: "switch",
    nodes,
    operation: operation(`open ${frameId}`, 0, graph.sessionId),
  }).graph;
}

export function pathOf(graph: SessionGraph): readonly NodeId[] {
  return graph.path.toArray().map((node) => node.id);
}

/** The ids of the messages that the model may see. */
export function shownIn(graph: SessionGraph): readonly string[] {
  return graph.messages.toArray().map((message) => message.id);
}
