// Rules G8-G10 of src/session/SPEC.md.

import { describe, expect, test } from "vitest";
import type { NodeId } from "../../src/model/ids.ts";
import type { Frame } from "../../src/session/frame.ts";
import { nodesAfter, seedsWith } from "../../src/session/frame-seeds.ts";
import {
  appendToGraph,
  currentFrame,
  openFrame,
  type SessionGraph,
  updateFrames,
  withAssignment,
  withProtocolOptions,
} from "../../src/session/graph.ts";
import type { NodeDraft } from "../../src/session/node.ts";
import { refusal } from "../base/refusal.ts";
import { ASSIGNMENT, emptyGraph, open, operation, pathOf, say, says, shownIn } from "./samples.ts";

const OPTIONS = { schemaVersion: 2, payload: { mode: "plan" } } as const;

const OTHER = { ...ASSIGNMENT, policy: { model: "smart", maxTurns: 3 }, usageSource: "plan" } as const;

test("[G8] an opened frame shows its own nodes only; the earlier ones stay on the path", () => {
  const before = say(emptyGraph(), "t1", ["a", "b"]);
  const { opened, graph, nodes } = openFrame(before, {
    frameId: "plan",
    reason: "compaction",
    nodes: [says("summary"), says("c")],
    operation: operation("c1"),
  });
  expect(opened).toBe(true);
  expect(nodes.map(({ kind, id, frameId }) => ({ kind, id, frameId }))).toEqual([
    { kind: "frame_open", id: "n_s/c1/0", frameId: "plan" },
    { kind: "message", id: "n_s/c1/1", frameId: "plan" },
    { kind: "message", id: "n_s/c1/2", frameId: "plan" },
  ]);
  expect(shownIn(graph)).toEqual(["summary", "c"]);
  expect(pathOf(graph)).toEqual(["n_s//0", "n_s/t1/0", "n_s/t1/1", "n_s/c1/0", "n_s/c1/1", "n_s/c1/2"]);
});

test("[G17] a seed under the id of a message that the frame before shows is refused", () => {
  const before = say(emptyGraph(), "t1", ["a", "b"]);
  expect(refusal(() => open(before, "plan", ["summary", "a"]))).toEqual({
    code: "corrupt_graph",
    message: "session s: expected a message id that is new, found a in the frame before",
  });
});

describe("[G18] what landed while a frame was made", () => {
  const base = say(emptyGraph(), "t1", ["a", "b"]);
  const now = appendToGraph(
    base,
    [says("c"), { kind: "plugin", type: "mark", body: 1 }, says("d")],
    operation("t2"),
  ).graph;
  const drafts = (seeds: readonly NodeDraft[]) =>
    seedsWith(now, { seeds, landed: nodesAfter(now, base.leaf), operation: operation("c1") });

  test("is copied behind the seeds, under ids of its own and with its source", () => {
    const { graph, nodes } = openFrame(now, {
      frameId: "plan",
      reason: "compaction",
      nodes: drafts([says("summary")]),
      operation: operation("c1"),
    });
    expect(shownIn(graph)).toEqual(["summary", "m_s/c1/1", "m_s/c1/2"]);
    expect(nodes.map(({ causedBy }) => causedBy)).toEqual([
      undefined,
      undefined,
      { kind: "carried", nodeId: "n_s/t2/0" },
      { kind: "carried", nodeId: "n_s/t2/2" },
    ]);
  });

  test("takes no id that a seed has, and a seed none that is shown", () => {
    const ids = drafts([says("c"), says("summary")]).map((draft) =>
      draft.kind === "message" ? draft.message.id : draft.kind,
    );
    expect(ids).toEqual(["m_s/c1/0", "summary", "m_s/c1/2", "m_s/c1/3"]);
  });

  test("is nothing behind the leaf, and nothing behind a node that is not there", () => {
    expect(nodesAfter(now, now.leaf)).toEqual([]);
    expect(nodesAfter(now, "nobody" as NodeId)).toEqual([]);
  });
});

test("[G8] the frame before is superseded; the new one is linked to it and inherits what it runs with", () => {
  const graph = open(withProtocolOptions(emptyGraph(), OPTIONS, "current"), "plan");
  expect(graph.currentFrameId).toBe("plan");
  expect(graph.frames).toEqual([
    {
      id: "s:frame:initial",
      status: "superseded",
      reason: "initial",
      openedBy: "n_s//0",
      assignment: ASSIGNMENT,
      protocolOptions: OPTIONS,
    },
    {
      id: "plan",
      previousFrameId: "s:frame:initial",
      status: "active",
      reason: "switch",
      openedBy: "n_s/open plan/0",
      assignment: ASSIGNMENT,
      protocolOptions: OPTIONS,
    },
  ]);
});

test("[G8] execution state stays with the frame it belongs to", () => {
  const before = updateFrames(emptyGraph(), (frame) => ({ ...frame, executionState: "sha256:abc" }));
  expect(open(before, "plan").frames.map((frame) => frame.executionState)).toEqual(["sha256:abc", undefined]);
});

test("[G8] a frame may be opened with an assignment and options of its own", () => {
  const { graph } = openFrame(emptyGraph(), {
    frameId: "plan",
    reason: "switch",
    nodes: [],
    operation: operation("t1"),
    assignment: OTHER,
    protocolOptions: OPTIONS,
  });
  expect(currentFrame(graph)).toMatchObject({ assignment: OTHER, protocolOptions: OPTIONS });
  expect(graph.frames[0]).toMatchObject({ assignment: ASSIGNMENT });
});

test.each(["", "  ", "plan"])(
  "[K25] [G9] opening %j, blank or current, opens nothing and adds no seeds",
  (frameId) => {
    const before = say(open(emptyGraph(), "plan", ["seed"]), "t1", ["a"]);
    const again = openFrame(before, {
      frameId,
      reason: "switch",
      nodes: [says("seed 2")],
      operation: operation("t2"),
    });
    expect(again.opened).toBe(false);
    expect(again.graph).toBe(before);
    expect(again.nodes).toEqual([]);
    expect(shownIn(again.graph)).toEqual(["seed", "a"]);
  },
);

test("[K25] [G9] opening the initial frame of a new session opens nothing", () => {
  const graph = emptyGraph();
  const again = openFrame(graph, {
    frameId: "s:frame:initial",
    reason: "switch",
    nodes: [],
    operation: operation("t1"),
  });
  expect([again.opened, again.graph]).toEqual([false, graph]);
});

test("[G9] the id of an earlier frame is refused", () => {
  const graph = open(open(emptyGraph(), "plan"), "build");
  expect(refusal(() => open(graph, "plan"))).toEqual({
    code: "duplicate_frame",
    message: "session s: expected a frame id that is new, found plan, which was opened before",
  });
});

test("[G8] what is appended later belongs to the new frame", () => {
  const graph = say(open(say(emptyGraph(), "t1", ["a"]), "plan"), "t2", ["b"]);
  expect(graph.path.toArray().map((node) => node.frameId)).toEqual([
    "s:frame:initial",
    "s:frame:initial",
    "plan",
    "plan",
  ]);
  expect(shownIn(graph)).toEqual(["b"]);
});

test("[G10] protocol options change in the current frame or in all", () => {
  const graph = open(emptyGraph(), "plan");
  expect(optionsOf(withProtocolOptions(graph, OPTIONS, "current"))).toEqual([
    { schemaVersion: 1, payload: {} },
    OPTIONS,
  ]);
  expect(optionsOf(withProtocolOptions(graph, OPTIONS, "all"))).toEqual([OPTIONS, OPTIONS]);
  expect(optionsOf(graph)).toEqual([
    { schemaVersion: 1, payload: {} },
    { schemaVersion: 1, payload: {} },
  ]);
});

test("[G10] an assignment changes in the current frame only", () => {
  const graph = withAssignment(open(emptyGraph(), "plan"), OTHER);
  expect(graph.frames.map((frame) => frame.assignment)).toEqual([ASSIGNMENT, OTHER]);
});

test("[G10] a change that changes nothing gives the same version", () => {
  const graph = open(emptyGraph(), "plan");
  expect(updateFrames(graph, (frame) => frame)).toBe(graph);
});

test.each<[string, (frame: Frame) => Frame]>([
  ["status", (frame) => ({ ...frame, status: "active" })],
  ["id", (frame) => ({ ...frame, id: "same" as Frame["id"] })],
])("[G10] a change of %s is refused", (_name, change) => {
  const graph = open(emptyGraph(), "plan");
  expect(refusal(() => updateFrames(graph, change)).code).toBe("corrupt_graph");
});

function optionsOf(graph: SessionGraph): readonly unknown[] {
  return graph.frames.map((frame) => frame.protocolOptions);
}
