// Rules G1-G7 of src/session/SPEC.md.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { PluginId } from "../../src/model/ids.ts";
import { sessionId } from "../../src/model/ids.ts";
import { type Message, toMessage } from "../../src/model/message.ts";
import {
  appendToGraph,
  checkAncestor,
  currentFrame,
  hasMessage,
  hasOnPath,
  type SessionGraph,
} from "../../src/session/graph.ts";
import type { NodeDraft } from "../../src/session/node.ts";
import { refusal } from "../base/refusal.ts";
import { ASSIGNMENT, emptyGraph, open, operation, pathOf, SESSION, say, says, shownIn } from "./samples.ts";

test("[G6] a session begins with one frame that its first node opens", () => {
  const graph = emptyGraph();
  expect(graph.path.toArray()).toEqual([
    { kind: "frame_open", frameId: "s:frame:initial", reason: "initial", id: "n_s//0", generation: 0 },
  ]);
  expect(graph.frames).toEqual([
    {
      id: "s:frame:initial",
      status: "active",
      reason: "initial",
      openedBy: "n_s//0",
      assignment: ASSIGNMENT,
      protocolOptions: { schemaVersion: 1, payload: {} },
    },
  ]);
  expect([graph.currentFrameId, graph.leaf, graph.messages.length]).toEqual(["s:frame:initial", "n_s//0", 0]);
});

test("[G2] [G3] appended nodes hang behind the leaf with ids from session, operation and ordinal", () => {
  const drafts: readonly NodeDraft[] = [
    says("hello", "m1"),
    { kind: "protocol_event", pluginId: "standard" as PluginId, payload: { a: 1 } },
    { kind: "plugin", type: "note", body: "b", causedBy: { kind: "turn" } },
  ];
  const { graph, nodes } = appendToGraph(emptyGraph(), drafts, operation("t1", 4));
  expect(nodes).toEqual([
    {
      kind: "message",
      message: { id: "m1", role: "user", parts: [{ kind: "text", text: "hello" }] },
      id: "n_s/t1/4",
      parentId: "n_s//0",
      generation: 1,
      frameId: "s:frame:initial",
    },
    {
      kind: "protocol_event",
      pluginId: "standard",
      payload: { a: 1 },
      id: "n_s/t1/5",
      parentId: "n_s/t1/4",
      generation: 2,
      frameId: "s:frame:initial",
    },
    {
      kind: "plugin",
      type: "note",
      body: "b",
      causedBy: { kind: "turn" },
      id: "n_s/t1/6",
      parentId: "n_s/t1/5",
      generation: 3,
      frameId: "s:frame:initial",
    },
  ]);
  expect(graph.leaf).toBe("n_s/t1/6");
  expect(nodes.every(Object.isFrozen)).toBe(true);
});

test("[G3] the cause of an operation is that of its nodes, unless a node has its own", () => {
  const cause = { ...operation("t1"), causedBy: "the turn" };
  const { nodes } = appendToGraph(emptyGraph(), [says("a"), { ...says("b"), causedBy: "itself" }], cause);
  expect(nodes.map((node) => node.causedBy)).toEqual(["the turn", "itself"]);
});

test("[G1] a version never changes, whatever is made of it", () => {
  const before = say(emptyGraph(), "t1", ["a"]);
  const left = say(before, "t2", ["b", "c"]);
  const right = say(before, "t3", ["d"]);
  expect([shownIn(before), shownIn(left), shownIn(right)]).toEqual([["a"], ["a", "b", "c"], ["a", "d"]]);
  expect(pathOf(right)).toEqual(["n_s//0", "n_s/t1/0", "n_s/t3/0"]);
  expect([before.leaf, left.leaf, right.leaf]).toEqual(["n_s/t1/0", "n_s/t2/1", "n_s/t3/0"]);
});

test("[G1] a later version has the very nodes of the one before", () => {
  const before = say(emptyGraph(), "t1", ["a", "b"]);
  const after = say(before, "t2", ["c"]);
  for (const [index, node] of before.path.toArray().entries()) expect(after.path.at(index)).toBe(node);
});

test("[G1] appending nothing gives the same version", () => {
  const graph = say(emptyGraph(), "t1", ["a"]);
  expect(appendToGraph(graph, [], operation("t2"))).toEqual({ graph, nodes: [] });
  expect(appendToGraph(graph, [], operation("t2")).graph).toBe(graph);
});

test("[G2] an operation that starts over is refused: its ids are taken", () => {
  const graph = say(emptyGraph(), "t1", ["a", "b"]);
  expect(refusal(() => appendToGraph(graph, [says("c")], operation("t1", 1)))).toEqual({
    code: "corrupt_graph",
    message: "session s: expected a node id that is new, found n_s/t1/1 on the path",
  });
  expect(appendToGraph(graph, [says("c")], operation("t1", 2)).graph.leaf).toBe("n_s/t1/2");
});

test("[G3] operations of another session, and those without a name, are refused", () => {
  const graph = emptyGraph();
  const foreign = operation("t1", 0, sessionId("other"));
  expect(refusal(() => appendToGraph(graph, [says("a")], foreign))).toEqual({
    code: "invalid_node",
    message: 'session s: expected an operation of its own with a name, found "t1" of session other',
  });
  expect(refusal(() => appendToGraph(graph, [says("a")], operation(" "))).code).toBe("invalid_node");
});

test("[G4] [G17] a message id is shown and stored once, the first time; what repeats it takes no ordinal", () => {
  const drafts = [says("first", "m1"), says("second", "m1"), says("other", "m2")];
  const once = appendToGraph(emptyGraph(), drafts, operation("t1")).graph;
  const again = appendToGraph(once, [says("third", "m1"), says("last", "m3")], operation("t2"));
  expect(again.graph.messages.toArray().map(textIn)).toEqual(["first", "other", "last"]);
  expect(pathOf(again.graph)).toEqual(["n_s//0", "n_s/t1/0", "n_s/t1/1", "n_s/t2/0"]);
  expect(appendToGraph(once, [says("third", "m1")], operation("t2"))).toEqual({ graph: once, nodes: [] });
});

test("[G17] a message is found in whichever frame it is, and in the versions that have it", () => {
  const base = say(emptyGraph(), "t1", ["a"]);
  const later = open(say(base, "t2", ["b"]), "next", ["seed"]);
  const has = (graph: SessionGraph) => ["a", "b", "seed", "c"].filter((id) => hasMessage(graph, id));
  expect([base, later].map(has)).toEqual([["a"], ["a", "b", "seed"]]);
});

test("[G4] an id that only a dropped branch has shown is shown", () => {
  const base = say(emptyGraph(), "t1", ["a"]);
  say(base, "dropped", ["x", "b"]);
  expect(shownIn(say(base, "t2", ["b", "x"]))).toEqual(["a", "b", "x"]);
});

test("[G4] transient messages are never stored, and take no ordinal", () => {
  const origin = { kind: "plugin", pluginId: "notes" as PluginId, transient: true } as const;
  const transient: NodeDraft = {
    kind: "message",
    message: toMessage({ role: "user", content: "psst" }, "m0", origin),
  };
  const { graph, nodes } = appendToGraph(emptyGraph(), [transient, says("a"), transient], operation("t1"));
  expect(nodes.map((node) => node.id)).toEqual(["n_s/t1/0"]);
  expect([shownIn(graph), graph.path.length]).toEqual([["a"], 2]);
});

test("[G7] a node is on the path of the versions that have it", () => {
  const base = say(emptyGraph(), "t1", ["a"]);
  const left = say(base, "t2", ["b"]);
  const right = say(say(base, "t3", ["c"]), "t2", ["b"]);
  expect([base, left, right].map((graph) => hasOnPath(graph, "n_s/t2/0"))).toEqual([false, true, true]);
  expect([base, left, right].map((graph) => hasOnPath(graph, "n_s/t1/0"))).toEqual([true, true, true]);
  expect([left, right].map((graph) => hasOnPath(graph, "n_s/t3/0"))).toEqual([false, true]);
  expect(hasOnPath(base, "")).toBe(false);
});

test("[K122] [G7] an ancestor on the active path lets an append go on, however far the leaf has moved", () => {
  const graph = say(say(emptyGraph(), "t1", ["a"]), "t2", ["b", "c"]);
  expect(checkAncestor(graph)).toEqual({ kind: "ok" });
  expect(checkAncestor(graph, "n_s/t1/0")).toEqual({ kind: "ok" });
  expect(checkAncestor(graph, "n_s/t2/1")).toEqual({ kind: "ok" });
});

test("[K122] [G7] an ancestor off the active path is a stale branch that names the leaf, and nothing is written", () => {
  const base = say(emptyGraph(), "t1", ["a"]);
  const dropped = say(base, "dropped", ["x"]);
  const graph = say(base, "t2", ["b"]);
  const path = pathOf(graph);
  expect(checkAncestor(graph, dropped.leaf)).toEqual({ kind: "stale_branch", leaf: "n_s/t2/0" });
  expect(checkAncestor(graph, "nobody")).toEqual({ kind: "stale_branch", leaf: "n_s/t2/0" });
  expect(pathOf(graph)).toEqual(path);
});

/** What a graph is compared with: plain arrays that are copied all the time. */
interface Twin {
  readonly graph: SessionGraph;
  readonly path: readonly string[];
  readonly shown: readonly string[];
}

type Step = { readonly on: number; readonly texts: readonly string[]; readonly opensFrame: boolean };

const text = fc.constantFrom("a", "b", "c", "d", "e");
const step: fc.Arbitrary<Step> = fc.record({
  on: fc.nat(),
  texts: fc.array(text, { maxLength: 3 }),
  opensFrame: fc.boolean(),
});

test("[G1] [G2] [G4] [G5] random appends, frames and branches keep every version what it was", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const twins: Twin[] = [{ graph: emptyGraph(), path: ["n_s//0"], shown: [] }];
      for (const [index, next] of steps.entries()) {
        twins.push(grow(twins[next.on % twins.length] as Twin, `t${index}`, next));
      }
      for (const twin of twins) expectSound(twin);
    }),
  );
});

function grow(twin: Twin, name: string, { texts, opensFrame }: Step): Twin {
  const news = [...new Set(texts)].filter((one) => !twin.shown.includes(one)); // G17
  if (opensFrame) {
    const added = Array.from({ length: news.length + 1 }, (_, ordinal) => `n_s/open ${name}/${ordinal}`);
    return {
      graph: open(twin.graph, name, news),
      path: [...twin.path, ...added],
      shown: news,
    };
  }
  const added = news.map((_, ordinal) => `n_s/${name}/${ordinal}`);
  const shown = [...twin.shown, ...news];
  return { graph: say(twin.graph, name, texts), path: [...twin.path, ...added], shown };
}

function expectSound({ graph, path, shown }: Twin): void {
  expect(pathOf(graph)).toEqual(path);
  expect(shownIn(graph)).toEqual(shown);
  expect(path.every((id) => hasOnPath(graph, id))).toBe(true);
  const nodes = graph.path.toArray();
  expect(nodes.map((node) => node.generation)).toEqual(path.map((_, index) => index));
  expect(nodes.map((node) => node.parentId)).toEqual([undefined, ...path.slice(0, -1)]);
  expect(graph.leaf).toBe(path.at(-1));
  expect(graph.frames.filter((frame) => frame.status === "active")).toEqual([currentFrame(graph)]);
  expect([currentFrame(graph).id, nodes.at(-1)?.frameId]).toEqual([
    graph.currentFrameId,
    graph.currentFrameId,
  ]);
}

function textIn(message: Message): string {
  const [part] = message.parts;
  return part?.kind === "text" ? part.text : "";
}

test("[G3] the id of a session is part of every id", () => {
  const other = say(emptyGraph(sessionId("other")), "t1", ["a"]);
  const own = say(emptyGraph(SESSION), "t1", ["a"]);
  expect(pathOf(other).filter((id) => pathOf(own).includes(id))).toEqual([]);
});
