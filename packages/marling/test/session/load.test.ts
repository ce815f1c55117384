// Rules G12 and G15 of src/session/SPEC.md.

import { expect, test } from "vitest";
import type { FrameId, MessageId, NodeId, PluginId } from "../../src/model/ids.ts";
import { decodeFrame } from "../../src/session/decode-frame.ts";
import { decodeSessionNode } from "../../src/session/decode-node.ts";
import type { Frame } from "../../src/session/frame.ts";
import { appendToGraph, hasOnPath, type SessionGraph, updateFrames } from "../../src/session/graph.ts";
import { type GraphParts, loadGraph } from "../../src/session/load-graph.ts";
import type { SessionNode } from "../../src/session/node.ts";
import { refusal } from "../base/refusal.ts";
import { ASSIGNMENT, emptyGraph, open, operation, pathOf, say, says, shownIn } from "./samples.ts";

/** As older releases left it: one message id in two frames, and twice in the second. */
const graph = loadGraph(
  withIds(
    partsOf(say(open(say(emptyGraph(), "t1", ["a", "b"]), "plan", ["a2", "seed"]), "t2", ["a3", "c"])),
    { a2: "a", a3: "a" },
  ),
);

const PARTS: GraphParts = partsOf(graph);

const RECORD = {
  kind: "authority_change",
  reason: "so",
  at: 5,
  before: {},
  after: { tools: [], hiddenTools: ["a"], paths: ["b"], budget: { tokens: 1 } },
} as const;

test("[G12] a graph loads from its parts as it was, and goes on", () => {
  const loaded = loadGraph(PARTS);
  expect(pathOf(loaded)).toEqual(pathOf(graph));
  expect(shownIn(loaded)).toEqual(["a", "seed", "c"]);
  expect(loaded.frames).toEqual(graph.frames);
  expect([loaded.leaf, loaded.currentFrameId]).toEqual(["n_s/t2/1", "plan"]);
  expect(hasOnPath(loaded, "n_s/t1/1")).toBe(true);
  expect(shownIn(say(loaded, "t3", ["seed", "d"]))).toEqual(["a", "seed", "c", "d"]);
});

function withIds(parts: GraphParts, ids: Readonly<Record<string, string>>): GraphParts {
  const nodes = parts.nodes.map((node) => {
    if (node.kind !== "message") return node;
    return {
      ...node,
      message: { ...node.message, id: (ids[node.message.id] ?? node.message.id) as MessageId },
    };
  });
  return { ...parts, nodes };
}

/** The parts of the graph with the nodes before its current frame left out, and how often they were asked for. */
function partial(change: (nodes: readonly SessionNode[]) => readonly SessionNode[] = (nodes) => nodes): {
  readonly parts: GraphParts;
  readonly loads: () => number;
} {
  let count = 0;
  const load = (): readonly SessionNode[] => {
    count += 1;
    return change(PARTS.nodes.slice(0, 3));
  };
  const parts = { ...PARTS, nodes: PARTS.nodes.slice(3), earlier: { length: 3, load } };
  return { parts, loads: () => count };
}

test("[G12] nodes before the current frame are asked for when somebody reads them, and once", () => {
  const { parts, loads } = partial();
  const loaded = say(loadGraph(parts), "t3", ["d"]);
  expect(shownIn(loaded)).toEqual(["a", "seed", "c", "d"]);
  expect(loaded.frames).toEqual(graph.frames);
  expect([loaded.path.length, loaded.path.at(-1)?.generation]).toEqual([9, 8]);
  expect(hasOnPath(loaded, "n_s/t2/1")).toBe(true);
  expect(loads()).toBe(0);
  expect(hasOnPath(loaded, "n_s/t1/1")).toBe(true);
  expect(hasOnPath(loaded, "nowhere")).toBe(false);
  expect(pathOf(loaded).slice(0, 8)).toEqual(pathOf(graph));
  expect(loads()).toBe(1);
});

test("[G12] nodes that are asked for later are checked then", () => {
  const short = loadGraph(partial((nodes) => nodes.slice(1)).parts);
  expect(refusal(() => short.path.toArray())).toMatchObject({ code: "missing_parent_node" });
  const cut = loadGraph(partial((nodes) => nodes.slice(0, 2)).parts);
  expect(refusal(() => cut.path.toArray())).toMatchObject({ code: "corrupt_graph" });
  const [later] = partial().parts.nodes;
  const again = loadGraph(partial((nodes) => nodes.with(1, { ...nodeAt(1), id: later?.id as NodeId })).parts);
  expect(refusal(() => again.path.toArray())).toEqual({
    code: "corrupt_graph",
    message: `session s: expected each node once, found ${later?.id} twice`,
  });
});

test("[G12] frames are in the order they were opened, however they were stored", () => {
  const loaded = loadGraph({ ...PARTS, frames: [...graph.frames].reverse() });
  expect(loaded.frames.map((frame) => frame.id)).toEqual(["s:frame:initial", "plan"]);
});

test.each<[string, Partial<GraphParts>, { code: string; message: string }]>([
  [
    "a gap in the path",
    { nodes: PARTS.nodes.toSpliced(2, 1) },
    {
      code: "missing_parent_node",
      message: "session s: node n_s/open plan/0: expected its parent n_s/t1/1 before it, found n_s/t1/0",
    },
  ],
  [
    "a path without its beginning",
    { nodes: PARTS.nodes.slice(1) },
    {
      code: "missing_parent_node",
      message: "session s: node n_s/t1/0: expected its parent n_s//0 before it, found nothing",
    },
  ],
  [
    "a node without a parent in the middle",
    changedNode(1, { parentId: undefined }),
    {
      code: "missing_parent_node",
      message: "session s: node n_s/t1/0: expected its parent (none) before it, found n_s//0",
    },
  ],
  [
    "a wrong generation",
    changedNode(3, { generation: 4 }),
    { code: "corrupt_graph", message: "session s: expected generation 3 at node n_s/open plan/0, found 4" },
  ],
  [
    "a node twice",
    { nodes: [...PARTS.nodes, { ...nodeAt(1), generation: 8, parentId: "n_s/t2/1" as NodeId }] },
    { code: "corrupt_graph", message: "session s: expected each node once, found n_s/t1/0 twice" },
  ],
  [
    "no node at all",
    { nodes: [] },
    { code: "corrupt_graph", message: "session s: expected at least the node that opened it, found none" },
  ],
  [
    "a node of an unknown frame",
    { frames: PARTS.frames.slice(1) },
    {
      code: "missing_frame",
      message: "session s: expected frame s:frame:initial among its frames, found none",
    },
  ],
  [
    "an unknown current frame",
    { currentFrameId: "gone" as FrameId },
    { code: "missing_frame", message: "session s: expected frame gone among its frames, found none" },
  ],
  [
    "two active frames",
    changedFrame(0, { status: "active" }),
    { code: "corrupt_graph", message: "session s: expected exactly one active frame, found 2" },
  ],
  [
    "no active frame",
    changedFrame(1, { status: "superseded" }),
    { code: "corrupt_graph", message: "session s: expected exactly one active frame, found 0" },
  ],
  [
    "a current frame that is not active",
    { currentFrameId: "s:frame:initial" as FrameId },
    {
      code: "corrupt_graph",
      message: "session s: expected frame s:frame:initial to be the active and last one, found plan",
    },
  ],
  [
    "a leaf of another frame than the current one",
    changedNode(7, { frameId: "s:frame:initial" }),
    {
      code: "corrupt_graph",
      message: "session s: expected frame plan to be the active and last one, found s:frame:initial",
    },
  ],
  [
    "a frame that nothing on the path opened",
    { frames: [...PARTS.frames, { ...frameAt(0), id: "stray" as FrameId, openedBy: "n_s/x/0" as NodeId }] },
    {
      code: "corrupt_graph",
      message: "session s: expected the node that opened frame stray on its path, found none",
    },
  ],
])("[G12] %s is corruption, and nothing is healed", (_name, change, expected) => {
  expect(refusal(() => loadGraph({ ...PARTS, ...change }))).toEqual(expected);
});

test("[G15] nodes and frames that were stored as JSON load as they were", () => {
  const full = updateFrames(
    appendToGraph(
      graph,
      [
        { ...says("e"), causedBy: { kind: "turn" } },
        { kind: "protocol_event", pluginId: "standard" as PluginId, payload: null },
        { kind: "plugin", type: "note", body: [1] },
        RECORD,
        { ...RECORD, actor: "ada" },
        { kind: "plugin_retired", pluginId: "guard" as PluginId, reason: "so", at: 5 },
      ],
      operation("t3"),
    ).graph,
    (frame) => ({
      ...frame,
      executionState: "sha256:abc",
      assignment: {
        ...ASSIGNMENT,
        usageSource: "plan",
        authority: {
          toolAccess: { tools: ["a"], hiddenTools: ["b"] },
          subagent: { parentSessionId: "p", capability: "search", depth: 1, maxDepth: 2 },
          pluginOptions: { notes: { dir: "d" } },
        },
      },
    }),
  );
  const nodes = stored(full.path.toArray()).map((node, index) => decodeSessionNode(node, `nodes[${index}]`));
  const frames = stored(full.frames).map((frame, index) => decodeFrame(frame, `frames[${index}]`));
  expect(nodes).toEqual(full.path.toArray());
  expect(frames).toEqual(full.frames);
  expect(pathOf(loadGraph({ ...partsOf(full), nodes, frames }))).toEqual(pathOf(full));
});

test("[G15] a stored node is taken over as it is, and nothing of it can be changed any more", () => {
  const raw = stored([nodeAt(1)])[0] as SessionNode & { message: { parts: object[] } };
  expect(decodeSessionNode(raw)).toBe(raw);
  expect([raw, raw.message, raw.message.parts, raw.message.parts[0]].every(Object.isFrozen)).toBe(true);
});

test("[G15] what is written otherwise in a stored node is put right", () => {
  const source = { kind: "external_url", mediaType: "IMAGE/PNG", url: "https://example.com/a" };
  const message = { id: "m", role: "user", parts: [{ kind: "attachment", source }] };
  expect(decodeSessionNode({ ...nodeAt(1), message })).toEqual({
    ...nodeAt(1),
    message: { ...message, parts: [{ kind: "attachment", source: { ...source, mediaType: "image/png" } }] },
  });
  const silent = decodeSessionNode({ ...nodeAt(1), message: { id: "m", role: "user" } });
  expect(silent).toMatchObject({ message: { id: "m", role: "user", parts: [] } });
});

test.each<[string, object, { code: string; message: string }]>([
  [
    "kind",
    { kind: "image" },
    {
      code: "invalid_node",
      message:
        'node.kind: expected one of message, protocol_event, plugin, frame_open, authority_change, plugin_retired, found "image"',
    },
  ],
  [
    "plugin of a retirement",
    { kind: "plugin_retired", pluginId: "", reason: "so", at: 5 },
    { code: "invalid_id", message: expect.stringContaining("plugin id") },
  ],
  [
    "reason of a retirement",
    { kind: "plugin_retired", pluginId: "guard", at: 5 },
    { code: "invalid_node", message: "node.reason: expected a string, found undefined" },
  ],
  [
    "time of a retirement",
    { kind: "plugin_retired", pluginId: "guard", reason: "so", at: "now" },
    { code: "invalid_node", message: 'node.at: expected a number, found "now"' },
  ],
  [
    "generation",
    { generation: 0.5 },
    { code: "invalid_node", message: "node.generation: expected a whole number, found number" },
  ],
  [
    "message",
    { message: { id: "m", role: "user", parts: "a" } },
    { code: "invalid_message", message: "node.message.parts: expected an array" },
  ],
  [
    "part of a message",
    { message: { id: "m", role: "user", parts: [{ kind: "text" }] } },
    { code: "invalid_message", message: "node.message.parts[0].text: expected a string" },
  ],
  [
    "message id",
    { message: { id: " ", role: "user", parts: [] } },
    { code: "invalid_id", message: "message id: expected a non-blank string, found a blank one" },
  ],
  [
    "role",
    { message: { id: "m", role: "nobody", parts: [] } },
    {
      code: "invalid_message",
      message: 'node.message.role: expected one of user, assistant, system, tool, event, found "nobody"',
    },
  ],
  [
    "origin",
    { message: { id: "m", role: "user", parts: [], origin: { kind: "moon" } } },
    {
      code: "invalid_message",
      message: "node.message.origin: expected the origin of a plugin or of a process",
    },
  ],
  [
    "parent",
    { parentId: "a\nb" },
    { code: "invalid_id", message: "node id: expected no control characters, found one" },
  ],
  ["frame", { frameId: 1 }, { code: "invalid_id", message: "frame id: expected a string, found number" }],
  [
    "body",
    { kind: "plugin", type: "note" },
    { code: "invalid_node", message: "node.body: expected a JSON value, found undefined" },
  ],
  [
    "payload",
    { kind: "protocol_event", pluginId: "standard" },
    { code: "invalid_node", message: "node.payload: expected a JSON value, found undefined" },
  ],
  [
    "cause",
    { causedBy: [1n] },
    { code: "invalid_json", message: "node.causedBy[0]: expected a JSON value, found a bigint" },
  ],
  [
    "id",
    { id: "" },
    { code: "invalid_id", message: "node id: expected a non-blank string, found a blank one" },
  ],
])("[G15] a stored node with a wrong %s is refused", (_name, change, expected) => {
  expect(refusal(() => decodeSessionNode({ ...nodeAt(1), ...change }))).toEqual(expected);
});

test.each<[string, object, string]>([
  ["reason", { reason: 1 }, "node.reason: expected a string, found number"],
  ["actor", { actor: null }, "node.actor: expected a string, found null"],
  ["time", { at: "now" }, 'node.at: expected a number, found "now"'],
  ["before", { before: [] }, "node.before: expected an object, found object"],
  ["list", { after: { paths: "a" } }, 'node.after.paths: expected an array of strings, found "a"'],
  ["name", { after: { tools: ["a", 1] } }, "node.after.tools[1]: expected a string, found number"],
  [
    "budget",
    { after: { budget: { tokens: "all" } } },
    "node.after.budget: expected an object with a number of `tokens`, found object",
  ],
])("[G16] a stored change of authority with a wrong %s is refused", (_name, change, message) => {
  expect(refusal(() => decodeSessionNode({ ...nodeAt(1), ...RECORD, ...change }))).toEqual({
    code: "invalid_node",
    message,
  });
});

test("[G16] a change of authority is on the path and not among the messages", () => {
  const changed = appendToGraph(graph, [RECORD], operation("a1")).graph;
  expect(changed.path.at(-1)).toMatchObject({ ...RECORD, id: "n_s/a1/0", frameId: "plan" });
  expect(shownIn(changed)).toEqual(shownIn(graph));
});

test.each<[string, object, string]>([
  ["status", { status: "open" }, 'frame.status: expected active or superseded, found "open"'],
  ["reason", { reason: 1 }, "frame.reason: expected a string, found 1"],
  [
    "assignment",
    { assignment: { policy: ASSIGNMENT.policy } },
    "frame.assignment.authority: expected an object, found nothing",
  ],
  [
    "version",
    { protocolOptions: { schemaVersion: -1, payload: {} } },
    "frame.protocolOptions.schemaVersion: expected a whole number from 0, found -1",
  ],
])("[G15] a stored frame with a wrong %s is refused", (_name, change, message) => {
  expect(refusal(() => decodeFrame({ ...frameAt(0), ...change }))).toEqual({
    code: "corrupt_graph",
    message,
  });
});

function partsOf({ sessionId, path, frames, currentFrameId }: SessionGraph): GraphParts {
  return { sessionId, nodes: path.toArray(), frames, currentFrameId };
}

function nodeAt(index: number): SessionNode {
  return PARTS.nodes[index] as SessionNode;
}

function frameAt(index: number): Frame {
  return PARTS.frames[index] as Frame;
}

function changedNode(index: number, change: object): Partial<GraphParts> {
  return { nodes: PARTS.nodes.with(index, { ...nodeAt(index), ...change } as SessionNode) };
}

function changedFrame(index: number, change: Partial<Frame>): Partial<GraphParts> {
  return { frames: PARTS.frames.with(index, { ...frameAt(index), ...change }) };
}

function stored(values: readonly unknown[]): readonly unknown[] {
  return JSON.parse(JSON.stringify(values));
}
