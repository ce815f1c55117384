// The graph of one session as an immutable value: the active path, the frames on it, and what the model may see.
//   G1  history only grows: a new version shares everything with the one it came from, and costs what was added.
//   G2  a node's generation is its place on the path; the ids of a path are all different.
//   G3  ids derive from session, operation and ordinal: the same appends give the same nodes in every run.
//   G4  `messages` are those of the current frame: transient ones never, an id once, the first one wins.
//   G17 a message id is on the path once: no append puts it there again.
//   G5  exactly one frame is active: the last one, which is current and which the leaf belongs to.
// The rest of the rules is in SPEC.md.

import { MarlingError } from "../base/errors.ts";
import { SharedList } from "../base/shared-list.ts";
import {
  appendedNodeId,
  type FrameId,
  frameId,
  initialFrameId,
  type NodeId,
  type SessionId,
} from "../model/ids.ts";
import { isTransient, type Message } from "../model/message.ts";
import { type Frame, type FrameAssignment, NO_PROTOCOL_OPTIONS, type ProtocolTurnOptions } from "./frame.ts";
import type { AppendOperation, NodeBody, NodeDraft, SessionNode } from "./node.ts";

export interface SessionGraph {
  readonly sessionId: SessionId;
  /** All frames, oldest first. */
  readonly path: SharedList<SessionNode>;
  /** What the model may see: the messages of the current frame. */
  readonly messages: SharedList<Message>;
  /** In the order they were opened; the last is the current one. */
  readonly frames: readonly Frame[];
  readonly currentFrameId: FrameId;
  readonly leaf: NodeId;
}

export interface GraphStart {
  readonly sessionId: SessionId;
  readonly assignment: FrameAssignment;
  readonly protocolOptions?: ProtocolTurnOptions;
}

export interface FrameOpening {
  readonly frameId: string;
  readonly reason: string;
  /** What the new frame begins with. */
  readonly nodes: readonly NodeDraft[];
  readonly operation: AppendOperation;
  /** Taken over from the current frame when absent. */
  readonly assignment?: FrameAssignment;
  /** Taken over from the current frame when absent. */
  readonly protocolOptions?: ProtocolTurnOptions;
}

/** A graph with what was added to it. */
export interface Appended {
  readonly graph: SessionGraph;
  readonly nodes: readonly SessionNode[];
}

/** The operation that opens a session. No other is blank, so its node has an id that no other can have. */
const OPENING = "";

/** A session at its beginning: one frame, opened by the first node. */
export function createGraph(start: GraphStart): SessionGraph {
  const { sessionId, assignment, protocolOptions = NO_PROTOCOL_OPTIONS } = start;
  const id = initialFrameId(sessionId);
  const openedBy = appendedNodeId(sessionId, OPENING, 0);
  const frame: Frame = { id, status: "active", reason: "initial", openedBy, assignment, protocolOptions };
  const empty: Omit<SessionGraph, "leaf"> = {
    sessionId,
    path: SharedList.of<SessionNode>([], nodeKey),
    messages: SharedList.of<Message>([], messageKey),
    frames: Object.freeze([Object.freeze(frame)]),
    currentFrameId: id,
  };
  const body: NodeBody = { kind: "frame_open", frameId: id, reason: "initial" };
  return extend(empty, [body], { sessionId, operation: OPENING, ordinal: 0 }).graph;
}

/**
 * Appends nodes to the current frame. Messages that are transient or that the frame shows already are left out; ordinals
 * count what was stored, so the operation goes on at `ordinal` + the number of nodes returned.
 */
export function appendToGraph(
  graph: SessionGraph,
  drafts: readonly NodeDraft[],
  operation: AppendOperation,
): Appended {
  checkOperation(graph, operation);
  const appended = extend(graph, drafts, operation);
  return appended.nodes.length === 0 ? { graph, nodes: appended.nodes } : appended;
}

/**
 * Whether a message is in the session, in whichever frame. Nodes that are not loaded are: only messages whose ids were not
 * derived have to be looked for.
 */
export function hasMessage(graph: SessionGraph, id: string): boolean {
  return graph.messages.positionOf(id) !== undefined || graph.path.positionBy(messageIdIn, id) !== undefined;
}

/** Whether a node is on the active path. */
export function hasOnPath(graph: SessionGraph, nodeId: string): boolean {
  return graph.path.positionOf(nodeId) !== undefined;
}

export type AncestorCheck =
  | { readonly kind: "ok" }
  | { readonly kind: "stale_branch"; readonly leaf?: NodeId };

/** Whether the branch that a writer knows is still the active one; that the leaf has moved on does not matter. */
export function checkAncestor(graph: SessionGraph, requiresAncestor?: string): AncestorCheck {
  if (requiresAncestor === undefined || hasOnPath(graph, requiresAncestor)) return { kind: "ok" };
  return { kind: "stale_branch", leaf: graph.leaf };
}

/** The frame that nodes are appended to. */
export function currentFrame(graph: Pick<SessionGraph, "frames">): Frame {
  return graph.frames.at(-1) as Frame;
}

/**
 * Opens a frame and makes it current; the one before is superseded and stays in the history. A blank id and the id of
 * the current frame change nothing, so that doing it again is harmless; the id of an earlier frame is refused.
 * The assignment and the protocol options are inherited, the execution state is not.
 */
export function openFrame(
  graph: SessionGraph,
  opening: FrameOpening,
): Appended & { readonly opened: boolean } {
  if (opening.frameId.trim() === "" || opening.frameId === graph.currentFrameId) {
    return { opened: false, graph, nodes: [] };
  }
  checkOperation(graph, opening.operation);
  const frame = newFrame(graph, opening);
  const superseded = Object.freeze({ ...currentFrame(graph), status: "superseded" } as const);
  const moved: SessionGraph = {
    ...graph,
    frames: Object.freeze([...graph.frames.slice(0, -1), superseded, frame]),
    currentFrameId: frame.id,
    messages: SharedList.of<Message>([], messageKey),
  };
  for (const node of opening.nodes) refuseShown(graph, node);
  const body: NodeBody = { kind: "frame_open", frameId: frame.id, reason: frame.reason };
  return { opened: true, ...extend(moved, [body, ...opening.nodes], opening.operation) };
}

/** Replaces frames by changed ones; which frames there are and which is active does not change this way. */
export function updateFrames(graph: SessionGraph, change: (frame: Frame) => Frame): SessionGraph {
  const frames = graph.frames.map((frame) => Object.freeze(change(frame)));
  if (frames.every((frame, index) => frame === graph.frames[index])) return graph;
  for (const [index, { id, status, openedBy }] of graph.frames.entries()) {
    const next = frames[index];
    if (next?.id === id && next.status === status && next.openedBy === openedBy) continue;
    throw corrupt(graph.sessionId, `frame ${id} to stay ${status}, found ${next?.status} frame ${next?.id}`);
  }
  return Object.freeze({ ...graph, frames: Object.freeze(frames) });
}

export function withProtocolOptions(
  graph: SessionGraph,
  protocolOptions: ProtocolTurnOptions,
  scope: "current" | "all",
): SessionGraph {
  return updateFrames(graph, (frame) =>
    scope === "all" || frame.id === graph.currentFrameId ? { ...frame, protocolOptions } : frame,
  );
}

/** Gives the current frame another assignment. */
export function withAssignment(graph: SessionGraph, assignment: FrameAssignment): SessionGraph {
  return updateFrames(graph, (frame) =>
    frame.id === graph.currentFrameId ? { ...frame, assignment } : frame,
  );
}

/**
 * The history up to a node as a new session; no node is copied. `frames` are those recorded with the commit that ended
 * there; without them the frames keep the assignments they have now, and an earlier node's execution state is unknown.
 */
export function forkGraph(
  graph: SessionGraph,
  to: { readonly sessionId: SessionId; readonly at?: NodeId | undefined; readonly frames?: readonly Frame[] },
): SessionGraph {
  const { sessionId, at = graph.leaf } = to;
  const generation = graph.path.positionOf(at);
  const node = generation === undefined ? undefined : graph.path.at(generation);
  if (generation === undefined || node === undefined) {
    const message = `session ${graph.sessionId}: expected a node of its history to fork at, found ${at}`;
    throw new MarlingError("fork_point_unknown", message, { details: { sessionId: graph.sessionId, at } });
  }
  const path = graph.path.take(generation + 1).branch();
  const isLeaf = at === graph.leaf;
  const frames = to.frames ?? (isLeaf ? graph.frames : framesAt(graph, generation));
  const shown = isLeaf ? graph.messages : messagesIn(path, node.frameId);
  // What was shown of a frame is the beginning of what is shown of it later.
  const messages = node.frameId === graph.currentFrameId ? graph.messages.take(shown.length) : shown;
  const parts = { sessionId, path, messages: messages.branch(), frames };
  return checked({ ...parts, currentFrameId: node.frameId, leaf: at });
}

export function nodeKey(node: SessionNode): string {
  return node.id;
}

function messageKey(message: Message): string {
  return message.id;
}

function messageIdIn(node: SessionNode): string | undefined {
  return node.kind === "message" ? node.message.id : undefined;
}

/** G17: what the frame before has shown is not shown again under the same id. */
function refuseShown({ sessionId, messages }: SessionGraph, node: NodeDraft): void {
  if (node.kind !== "message" || isTransient(node.message)) return;
  const { id } = node.message;
  if (messages.positionOf(id) !== undefined)
    throw corrupt(sessionId, `a message id that is new, found ${id} in the frame before`);
}

function checkOperation(graph: SessionGraph, { sessionId, operation }: AppendOperation): void {
  if (sessionId === graph.sessionId && operation.trim() !== "") return;
  const message = `session ${graph.sessionId}: expected an operation of its own with a name, found ${JSON.stringify(operation)} of session ${sessionId}`;
  throw new MarlingError("invalid_node", message, { details: { sessionId, operation } });
}

function newFrame(graph: SessionGraph, opening: FrameOpening): Frame {
  const previous = currentFrame(graph);
  const id = frameId(opening.frameId);
  if (graph.frames.some((frame) => frame.id === id)) {
    const message = `session ${graph.sessionId}: expected a frame id that is new, found ${id}, which was opened before`;
    throw new MarlingError("duplicate_frame", message, { details: { frameId: id } });
  }
  const { sessionId, operation, ordinal } = opening.operation;
  return Object.freeze({
    id,
    previousFrameId: previous.id,
    status: "active",
    reason: opening.reason,
    openedBy: appendedNodeId(sessionId, operation, ordinal),
    assignment: opening.assignment ?? previous.assignment,
    protocolOptions: opening.protocolOptions ?? previous.protocolOptions,
  });
}

/** Puts bodies behind the leaf, in the current frame. Costs what is added. */
function extend(
  graph: Omit<SessionGraph, "leaf">,
  bodies: readonly (NodeBody | NodeDraft)[],
  operation: AppendOperation,
): Appended {
  const nodes: SessionNode[] = [];
  const said = new Set<string>();
  for (const body of bodies) {
    if (body.kind === "message" && !isNews(graph, body.message, said)) continue;
    const id = appendedNodeId(operation.sessionId, operation.operation, operation.ordinal + nodes.length);
    if (graph.path.loadedPositionOf(id) !== undefined)
      throw corrupt(graph.sessionId, `a node id that is new, found ${id} on the path`);
    const parentId = nodes.at(-1)?.id ?? graph.path.at(-1)?.id;
    const generation = graph.path.length + nodes.length;
    const place = {
      id,
      ...(parentId === undefined ? {} : { parentId }),
      generation,
      frameId: graph.currentFrameId,
    };
    const cause = operation.causedBy === undefined ? {} : { causedBy: operation.causedBy };
    nodes.push(Object.freeze({ ...cause, ...body, ...place }));
  }
  const path = graph.path.append(nodes);
  const leaf = (path.at(-1) as SessionNode).id;
  const messages = graph.messages.append(shownIn(nodes));
  return { graph: Object.freeze({ ...graph, path, messages, leaf }), nodes: Object.freeze(nodes) };
}

/** Whether a message is to be stored: it is not transient, and the frame does not show one of its id. */
function isNews({ messages }: Pick<SessionGraph, "messages">, message: Message, said: Set<string>): boolean {
  if (isTransient(message) || said.has(message.id) || messages.positionOf(message.id) !== undefined)
    return false;
  said.add(message.id);
  return true;
}

/** What is shown of the frame that a path ends in. */
function messagesIn(path: SharedList<SessionNode>, frame: FrameId): SharedList<Message> {
  let start = path.length;
  while (start > 0 && path.at(start - 1)?.frameId === frame) start -= 1;
  return messagesOf(path.tail(path.length - start));
}

/** What is shown of nodes that all are of one frame. */
export function messagesOf(nodes: readonly SessionNode[]): SharedList<Message> {
  return SharedList.distinct(shownIn(nodes), messageKey);
}

/** The messages of nodes that a model may see. */
function shownIn(nodes: readonly SessionNode[]): readonly Message[] {
  const shown: Message[] = [];
  for (const node of nodes)
    if (node.kind === "message" && !isTransient(node.message)) shown.push(node.message);
  return shown;
}

/** The frames that were open at a node, the last of them active again. */
function framesAt(graph: SessionGraph, generation: number): readonly Frame[] {
  const open = graph.frames.filter((frame) => openedAt(graph.path, frame) <= generation);
  return open.map((frame, index) => {
    if (index < open.length - 1) return frame;
    const { executionState: _unknown, ...rest } = frame;
    return Object.freeze({ ...rest, status: "active" });
  });
}

/** As `openedAt`; 0 for a frame that was opened among the first `unloaded` nodes, which are not read for it. */
function openedIn(path: SharedList<SessionNode>, frame: Frame, unloaded: number): number {
  if (unloaded === 0 || frame.openedBy === undefined) return openedAt(path, frame);
  return path.loadedPositionOf(frame.openedBy) ?? 0;
}

function openedAt(path: SharedList<SessionNode>, frame: Frame): number {
  return frame.openedBy === undefined ? -1 : (path.positionOf(frame.openedBy) ?? -1);
}

/**
 * G5: puts the frames in their order and refuses a graph whose frames contradict its path. Of frames that were opened among
 * nodes that are not loaded, the order they were stored in is kept.
 */
export function checked(graph: SessionGraph): SessionGraph {
  const { sessionId, path, currentFrameId } = graph;
  const { unloaded } = path;
  const opened = new Map(graph.frames.map((frame) => [frame, openedIn(path, frame, unloaded)]));
  const at = (frame: Frame): number => opened.get(frame) ?? -1;
  const frames = [...graph.frames].sort((a, b) => at(a) - at(b));
  const stray = frames.find((frame) => at(frame) === -1);
  if (stray !== undefined)
    throw corrupt(sessionId, `the node that opened frame ${stray.id} on its path, found none`);
  const active = frames.filter((frame) => frame.status === "active").map((frame) => frame.id);
  if (active.length !== 1) throw corrupt(sessionId, `exactly one active frame, found ${active.length}`);
  const last = [active[0], frames.at(-1)?.id, path.at(-1)?.frameId].find((frame) => frame !== currentFrameId);
  if (last !== undefined)
    throw corrupt(sessionId, `frame ${currentFrameId} to be the active and last one, found ${last}`);
  return Object.freeze({ ...graph, frames: Object.freeze(frames) });
}

export function missingFrame(sessionId: SessionId, frame: FrameId): MarlingError {
  const message = `session ${sessionId}: expected frame ${frame} among its frames, found none`;
  return new MarlingError("missing_frame", message, { details: { sessionId, frameId: frame } });
}

export function corrupt(sessionId: SessionId, expected: string): MarlingError {
  return new MarlingError("corrupt_graph", `session ${sessionId}: expected ${expected}`, {
    details: { sessionId },
  });
}
