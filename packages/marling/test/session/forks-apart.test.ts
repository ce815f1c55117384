// Sessions that share a past do not see each other: random histories against lists that are copied.

import fc from "fast-check";
import { expect, test } from "vitest";
import { type NodeId, sessionId } from "../../src/model/ids.ts";
import { forkGraph, hasOnPath, type SessionGraph } from "../../src/session/graph.ts";
import { emptyGraph, open, pathOf, say, shownIn } from "./samples.ts";

/** A session and, beside it, what it must be: a list of its own for everything. */
interface Kept {
  readonly graph: SessionGraph;
  readonly nodes: readonly { readonly id: string; readonly frame: string; readonly shows?: string }[];
}

type Step =
  | { readonly kind: "say"; readonly on: number; readonly texts: readonly string[] }
  | { readonly kind: "open"; readonly on: number; readonly text: string }
  | { readonly kind: "fork"; readonly on: number; readonly at: number };

const text = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("say" as const),
      on: fc.nat(),
      texts: fc.array(text, { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("open" as const), on: fc.nat(), text }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("fork" as const), on: fc.nat(), at: fc.nat() }) },
);

test("[G1] [G11] every session of a tree of forks reads like one of its own, whatever happens to the others", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const sessions: Kept[] = [begun()];
      for (const [number, next] of steps.entries()) perform(next, sessions, number);
      for (const session of sessions) expectKept(session);
      for (const { graph } of sessions)
        for (const { nodes } of sessions)
          for (const { id } of nodes) expect(hasOnPath(graph, id)).toBe(pathOf(graph).includes(id as NodeId));
    }),
    { numRuns: 60 },
  );
});

function begun(): Kept {
  return { graph: emptyGraph(), nodes: [{ id: "n_s//0", frame: "s:frame:initial" }] };
}

function perform(next: Step, sessions: Kept[], number: number): void {
  const place = next.on % sessions.length;
  const { graph, nodes } = sessions[place] as Kept;
  const { sessionId: id } = graph;
  const frame = nodes.at(-1)?.frame ?? "";
  const isNew = (text: string): boolean => !nodes.some((node) => node.frame === frame && node.shows === text); // G17
  if (next.kind === "say") {
    const added = [...new Set(next.texts)]
      .filter(isNew)
      .map((shows, index) => ({ id: `n_${id}/t${number}/${index}`, frame, shows }));
    sessions[place] = { graph: say(graph, `t${number}`, next.texts), nodes: [...nodes, ...added] };
  }
  if (next.kind === "open" && isNew(next.text)) {
    const opened = `f${number}`;
    const ids = [0, 1].map((ordinal) => `n_${id}/open ${opened}/${ordinal}`);
    const added = [
      { id: ids[0] ?? "", frame: opened },
      { id: ids[1] ?? "", frame: opened, shows: next.text },
    ];
    sessions[place] = { graph: open(graph, opened, [next.text]), nodes: [...nodes, ...added] };
  }
  if (next.kind === "fork") {
    const at = next.at % nodes.length;
    const forked = forkGraph(graph, { sessionId: sessionId(`f${number}`), at: nodes[at]?.id as NodeId });
    sessions.push({ graph: forked, nodes: nodes.slice(0, at + 1) });
  }
}

function expectKept({ graph, nodes }: Kept): void {
  const frame = nodes.at(-1)?.frame;
  const shown = nodes.filter((node) => node.frame === frame).flatMap(({ shows }) => shows ?? []);
  expect(pathOf(graph)).toEqual(nodes.map(({ id }) => id));
  expect(shownIn(graph)).toEqual([...new Set(shown)]);
  expect([graph.leaf, graph.currentFrameId]).toEqual([nodes.at(-1)?.id, frame]);
  expect(graph.frames.map(({ id }) => id)).toEqual([...new Set(nodes.map((node) => node.frame))]);
  expect(graph.path.toArray().map(({ generation }) => generation)).toEqual(nodes.map((_, index) => index));
}
