// Rule G11 of src/session/SPEC.md.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { type NodeId, sessionId } from "../../src/model/ids.ts";
import { forkGraph, hasOnPath, updateFrames, withAssignment } from "../../src/session/graph.ts";
import { refusal } from "../base/refusal.ts";
import { ASSIGNMENT, emptyGraph, open, pathOf, say, shownIn } from "./samples.ts";

const FORK = sessionId("fork");

const source = say(open(say(say(emptyGraph(), "t1", ["a", "b"]), "t2", ["c"]), "plan", ["seed"]), "t3", [
  "d",
]);

test("[G11] a fork has the nodes of its source, the very same ones", () => {
  const fork = forkGraph(source, { sessionId: FORK });
  expect([fork.sessionId, fork.leaf, fork.currentFrameId]).toEqual(["fork", "n_s/t3/0", "plan"]);
  expect(fork.path.toArray().every((node, index) => node === source.path.at(index))).toBe(true);
  expect(fork.path.length).toBe(source.path.length);
  expect(shownIn(fork)).toEqual(["seed", "d"]);
});

test("[G11] a fork at an earlier node ends there, in the frame that was current, active again", () => {
  const fork = forkGraph(source, { sessionId: FORK, at: "n_s/t1/1" as NodeId });
  expect(pathOf(fork)).toEqual(["n_s//0", "n_s/t1/0", "n_s/t1/1"]);
  expect(shownIn(fork)).toEqual(["a", "b"]);
  expect(fork.frames.map(({ id, status }) => [id, status])).toEqual([["s:frame:initial", "active"]]);
  expect(fork.currentFrameId).toBe("s:frame:initial");
});

test("[G11] a fork inside a later frame keeps the frames before it superseded", () => {
  const fork = forkGraph(source, { sessionId: FORK, at: "n_s/open plan/1" as NodeId });
  expect(shownIn(fork)).toEqual(["seed"]);
  expect(fork.frames.map(({ id, status }) => [id, status])).toEqual([
    ["s:frame:initial", "superseded"],
    ["plan", "active"],
  ]);
});

test("[G11] source and fork go on without seeing each other, with ids of their own", () => {
  const fork = forkGraph(source, { sessionId: FORK, at: "n_s/t1/1" as NodeId });
  const later = say(source, "t4", ["e"]);
  const forked = say(fork, "t2", ["c", "f"]);
  expect(pathOf(forked)).toEqual(["n_s//0", "n_s/t1/0", "n_s/t1/1", "n_fork/t2/0", "n_fork/t2/1"]);
  expect(shownIn(forked)).toEqual(["a", "b", "c", "f"]);
  expect([hasOnPath(forked, "n_s/t4/0"), hasOnPath(later, "n_fork/t2/0")]).toEqual([false, false]);
  expect(hasOnPath(forked, "n_s/t2/0")).toBe(false);
  expect(shownIn(source)).toEqual(["seed", "d"]);
});

test("[G11] a fork of a fork shares with both", () => {
  const fork = say(forkGraph(source, { sessionId: FORK }), "t4", ["x"]);
  const second = say(forkGraph(fork, { sessionId: sessionId("second"), at: "n_s/t3/0" as NodeId }), "t4", [
    "y",
  ]);
  expect(pathOf(second).slice(-2)).toEqual(["n_s/t3/0", "n_second/t4/0"]);
  expect(shownIn(fork)).toEqual(["seed", "d", "x"]);
});

test("[G11] the execution state of an earlier node is not taken from a later one", () => {
  const withState = updateFrames(say(emptyGraph(), "t1", ["a"]), (frame) => ({
    ...frame,
    executionState: "sha256:a",
  }));
  const later = say(withState, "t2", ["b"]);
  expect(forkGraph(later, { sessionId: FORK }).frames[0]?.executionState).toBe("sha256:a");
  expect(forkGraph(later, { sessionId: FORK, at: "n_s/t1/0" as NodeId }).frames[0]).not.toHaveProperty(
    "executionState",
  );
});

test("[G11] frames recorded with a commit are those of the fork", () => {
  const recorded = say(emptyGraph(), "t1", ["a"]).frames;
  const changed = withAssignment(source, { ...ASSIGNMENT, usageSource: "later" });
  const fork = forkGraph(changed, { sessionId: FORK, at: "n_s/t1/0" as NodeId, frames: recorded });
  expect(fork.frames).toEqual(recorded);
});

test("[G11] frames that were not open at the node are refused", () => {
  const at = "n_s/t1/0" as NodeId;
  expect(refusal(() => forkGraph(source, { sessionId: FORK, at, frames: source.frames })).code).toBe(
    "corrupt_graph",
  );
});

test("[G11] a node that is not in the history is no place to fork at", () => {
  expect(refusal(() => forkGraph(source, { sessionId: FORK, at: "n_s/t9/0" as NodeId }))).toEqual({
    code: "fork_point_unknown",
    message: "session s: expected a node of its history to fork at, found n_s/t9/0",
  });
});

test("[G11] a fork shares the nodes and the messages of its source, at the leaf and in the middle of its frame", () => {
  const grown = say(say(source, "t4", ["e", "f"]), "t5", ["h", "g"]);
  for (const [at, length, shown] of [
    ["n_s/t5/1", 11, ["seed", "d", "e", "f", "h", "g"]],
    ["n_s/t5/0", 10, ["seed", "d", "e", "f", "h"]],
    ["n_s/t4/0", 8, ["seed", "d", "e"]],
  ] as const) {
    const fork = forkGraph(grown, { sessionId: FORK, at: at as NodeId });
    expect([fork.path.sharedLength(grown.path), shownIn(fork)]).toEqual([length, shown]);
    expect(fork.messages.sharedLength(grown.messages)).toBe(shown.length);
    expect(say(fork, "t9", ["z"]).messages.sharedLength(grown.messages)).toBe(shown.length);
  }
});

test("[G11] what a fork appends goes with it, however long its source stays", async () => {
  const grown = say(source, "t4", ["e"]);
  const appended = ["n_s/t4/0", "n_s/t3/0"].flatMap((at) => {
    const fork = say(forkGraph(grown, { sessionId: FORK, at: at as NodeId }), "t5", ["z"]);
    return [fork.path.at(-1), fork.messages.at(-1)].map((item) => new WeakRef(item as object));
  });
  await new Promise((resolve) => setImmediate(resolve));
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  expect(appended.map((item) => item.deref())).toEqual([undefined, undefined, undefined, undefined]);
  expect(grown.path.length).toBe(8);
});
