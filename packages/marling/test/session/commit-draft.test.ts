// Rules C1-C3 of src/session/SPEC.md.

import fc from "fast-check";
import { expect, test } from "vitest";
import { sessionId } from "../../src/model/ids.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { commitDraft, encodeCommitDraft } from "../../src/session/commit-draft.ts";
import { type SessionGraph, withAssignment } from "../../src/session/graph.ts";
import { refusal } from "../base/refusal.ts";
import { ASSIGNMENT, emptyGraph, open, say } from "./samples.ts";

const EXTRAS = { operation: "t2", turnIndex: 2 };

test("[C1] a draft has the nodes appended in between and nothing of the history", () => {
  const before = say(emptyGraph(), "t1", ["a", "b"]);
  const after = say(before, "t2", ["c"]);
  expect(commitDraft(before, after, EXTRAS)).toEqual({
    version: 1,
    sessionId: "s",
    operation: "t2",
    base: "n_s/t1/1",
    nodes: [after.path.at(-1)],
    currentFrameId: "s:frame:initial",
    leaf: "n_s/t2/0",
    turnIndex: 2,
    usage: [],
  });
});

test("[C1] the first commit has everything and no base", () => {
  const graph = say(emptyGraph(), "t1", ["a"]);
  const draft = commitDraft(undefined, graph, { operation: "t1", turnIndex: 1 });
  expect(draft.nodes.map((node) => node.id)).toEqual(["n_s//0", "n_s/t1/0"]);
  expect(draft.frames).toEqual(graph.frames);
  expect(draft).not.toHaveProperty("base");
});

test("[C1] of the frames it has those that are new or changed", () => {
  const before = open(open(emptyGraph(), "plan"), "build");
  const opened = commitDraft(before, open(before, "test"), EXTRAS);
  expect(opened.frames?.map(({ id, status }) => [id, status])).toEqual([
    ["build", "superseded"],
    ["test", "active"],
  ]);
  const assigned = commitDraft(before, withAssignment(before, { ...ASSIGNMENT, usageSource: "x" }), EXTRAS);
  expect(assigned.frames?.map((frame) => frame.id)).toEqual(["build"]);
  expect(assigned.nodes).toEqual([]);
});

test("[C1] a frame that was replaced by an equal one has not changed", () => {
  const before = emptyGraph();
  const after = withAssignment(before, { ...ASSIGNMENT, policy: { maxTurns: 50, model: "default" } });
  expect(commitDraft(before, after, EXTRAS)).not.toHaveProperty("frames");
});

test("[C1] usage and facts ride along; facts are JSON", () => {
  const before = emptyGraph();
  const usage = [{ source: "turn", model: "default", usage: { ...NO_USAGE, input: 3 } }];
  const draft = commitDraft(before, before, { ...EXTRAS, usage, facts: { outcome: "finished" } });
  expect([draft.usage, draft.facts]).toEqual([usage, { outcome: "finished" }]);
  const facts = { outcome: () => 1 } as never;
  expect(refusal(() => commitDraft(before, before, { ...EXTRAS, facts })).message).toBe(
    "facts.outcome: expected a JSON value, found a function",
  );
});

test("[C3] versions of which one does not continue the other make no draft", () => {
  const base = say(emptyGraph(), "t1", ["a"]);
  const left = say(base, "t2", ["b"]);
  const right = say(base, "t3", ["c", "d"]);
  expect(refusal(() => commitDraft(left, right, EXTRAS))).toEqual({
    code: "corrupt_graph",
    message: "session s: expected a path that goes on from node n_s/t2/0, found n_s/t3/1 on another",
  });
  expect(refusal(() => commitDraft(left, base, EXTRAS)).code).toBe("corrupt_graph");
  const other = say(emptyGraph(sessionId("other")), "t1", ["a"]);
  expect(refusal(() => commitDraft(base, other, EXTRAS)).code).toBe("corrupt_graph");
});

test("[C2] the bytes of a draft are canonical", () => {
  const before = emptyGraph();
  expect(
    encodeCommitDraft(commitDraft(before, say(before, "t1", ["hi"]), { operation: "t1", turnIndex: 1 })),
  ).toBe(
    '{"base":"n_s//0","currentFrameId":"s:frame:initial","leaf":"n_s/t1/0","nodes":[{"frameId":"s:frame:initial",' +
      '"generation":1,"id":"n_s/t1/0","kind":"message","message":{"id":"hi","parts":[{"kind":"text","text":"hi"}],' +
      '"role":"user"},"parentId":"n_s//0"}],"operation":"t1","sessionId":"s","turnIndex":1,"usage":[],"version":1}',
  );
});

/** What happened in one turn of a session, as a journal would have it. */
interface TurnLog {
  readonly texts: readonly string[];
  readonly opensFrame: boolean;
  /** What an attempt that was cut had appended before the turn ran again. */
  readonly cutAttempts: readonly (readonly string[])[];
}

const texts = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 3 });
const turns: fc.Arbitrary<readonly TurnLog[]> = fc.array(
  fc.record({ texts, opensFrame: fc.boolean(), cutAttempts: fc.array(texts, { maxLength: 2 }) }),
  { maxLength: 12 },
);

test("[C2] replaying the same outcomes gives byte-identical commits, whatever attempts were cut in between", () => {
  fc.assert(
    fc.property(turns, (log) => {
      const withoutCuts = log.map((turn) => ({ ...turn, cutAttempts: [] }));
      expect(commitsOf(log)).toEqual(commitsOf(withoutCuts));
    }),
  );
});

function commitsOf(log: readonly TurnLog[]): readonly string[] {
  let graph: SessionGraph = emptyGraph();
  return log.map((turn, index) => {
    const before = graph;
    for (const attempt of turn.cutAttempts) say(before, `t${index}`, attempt);
    graph = turn.opensFrame ? open(before, `f${index}`, turn.texts) : say(before, `t${index}`, turn.texts);
    return encodeCommitDraft(commitDraft(before, graph, { operation: `t${index}`, turnIndex: index }));
  });
}
