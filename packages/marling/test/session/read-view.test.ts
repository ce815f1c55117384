// Rules V1-V3 of src/session/SPEC.md.

import { expect, test } from "vitest";
import { SharedList } from "../../src/base/shared-list.ts";
import { type Message, toMessage } from "../../src/model/message.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { type SessionGraph, withProtocolOptions } from "../../src/session/graph.ts";
import { createReadView, type ReadViewParts } from "../../src/session/read-view.ts";
import { ASSIGNMENT, emptyGraph, open, pathOf, say } from "./samples.ts";

const graph = say(emptyGraph(), "t1", ["a", "b"]);

function partsFor(shown: SessionGraph, change: Partial<ReadViewParts> = {}): ReadViewParts {
  return { graph: shown, policy: ASSIGNMENT.policy, turnIndex: 1, revision: 7, usage: NO_USAGE, ...change };
}

test("[V2] a view shows the session as it is", () => {
  const options = { schemaVersion: 2, payload: { mode: "plan" } };
  const usage = { ...NO_USAGE, input: 9 };
  const shown = withProtocolOptions(open(graph, "plan", ["seed"]), options, "current");
  const view = createReadView(partsFor(shown, { lastPromptUsage: usage }));
  expect(view).toMatchObject({
    sessionId: "s",
    turnIndex: 1,
    revision: 7,
    usage: NO_USAGE,
    lastPromptUsage: usage,
  });
  expect([view.policy, view.frames, view.currentFrameId]).toEqual([ASSIGNMENT.policy, shown.frames, "plan"]);
  expect(view.protocolOptions).toEqual(options);
  expect(idsOf(view.messages)).toEqual(["seed"]);
  expect(view.history().map((node) => node.id)).toEqual(pathOf(shown));
  expect(createReadView(partsFor(graph)).lastPromptUsage).toBeUndefined();
});

const inFlight = [message("c"), message("d")];

test.each<[string, readonly Message[] | SharedList<Message>]>([
  ["an array", inFlight],
  ["a version of a list", SharedList.of(inFlight)],
])("[V2] what is in flight, as %s, stands behind what is settled", (_name, added) => {
  const view = createReadView(partsFor(graph, { inFlight: added }));
  expect(idsOf(view.messages)).toEqual(["a", "b", "c", "d"]);
  expect([view.messageCount, view.lastMessage?.id]).toEqual([4, "d"]);
  expect([0, 1, 2, 3, 9].map((count) => idsOf(view.tail(count)))).toEqual([
    [],
    ["d"],
    ["c", "d"],
    ["b", "c", "d"],
    ["a", "b", "c", "d"],
  ]);
  expect(view.history().map((node) => node.id)).toEqual(pathOf(graph));
});

test.each<[string, readonly Message[] | SharedList<Message>]>([
  ["an array", [message("x")]],
  ["a version of a list", SharedList.of([message("x")])],
])(
  "[V2] messages of a context transform, as %s, stand in the place of the settled ones",
  (_name, messages) => {
    const view = createReadView(partsFor(graph, { messages, inFlight }));
    expect(idsOf(view.messages)).toEqual(["x", "c", "d"]);
    expect([view.messageCount, view.lastMessage?.id, idsOf(view.tail(1))]).toEqual([3, "d", ["d"]]);
  },
);

test("[V2] a view of an empty session has no last message", () => {
  const view = createReadView(partsFor(emptyGraph()));
  expect([view.messages, view.messageCount, view.lastMessage, view.tail(3)]).toEqual([[], 0, undefined, []]);
});

test("[V2] a view stays what it was when the session goes on, and nobody can change it", () => {
  const view = createReadView(partsFor(graph));
  say(graph, "t2", ["c"]);
  expect(idsOf(view.messages)).toEqual(["a", "b"]);
  expect([Object.isFrozen(view), Object.isFrozen(view.messages), Object.isFrozen(view.history())]).toEqual([
    true,
    true,
    true,
  ]);
  const moving = createReadView(partsFor(graph, { inFlight }));
  expect(Object.isFrozen(moving.messages)).toBe(true);
});

test("[V3] a view is plain JSON when it is written", () => {
  const view = createReadView(partsFor(graph, { lastPromptUsage: NO_USAGE }));
  expect(JSON.parse(JSON.stringify(view))).toEqual({
    sessionId: "s",
    revision: 7,
    turnIndex: 1,
    policy: { model: "default", maxTurns: 50 },
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
    frames: JSON.parse(JSON.stringify(graph.frames)),
    currentFrameId: "s:frame:initial",
    protocolOptions: { schemaVersion: 1, payload: {} },
    messages: [
      { id: "a", role: "user", parts: [{ kind: "text", text: "a" }] },
      { id: "b", role: "user", parts: [{ kind: "text", text: "b" }] },
    ],
  });
});

test("[V1] ten thousand views of ten thousand messages touch none of them", () => {
  const texts = Array.from({ length: 10_000 }, (_, index) => `m${index}`);
  const long = say(emptyGraph(), "t1", texts);
  const touched: PropertyKey[] = [];
  const guarded = { ...long, path: guard(long.path, touched), messages: guard(long.messages, touched) };
  const views = Array.from({ length: 10_000 }, (_, revision) =>
    createReadView(partsFor(guarded, { revision, inFlight })),
  );
  expect(touched).toEqual([]);
  expect(views.at(-1)?.revision).toBe(9_999);
  expect(() => views[0]?.messages).toThrow("touched");
});

test("[V1] views of one version share one array, and a view with more makes its own once", () => {
  const shown = say(emptyGraph(), "t1", ["a"]);
  expect(createReadView(partsFor(shown)).messages).toBe(createReadView(partsFor(shown)).messages);
  expect(createReadView(partsFor(shown)).history()).toBe(createReadView(partsFor(shown)).history());
  const moving = createReadView(partsFor(shown, { inFlight }));
  expect(moving.messages).toBe(moving.messages);
});

/** A list that notes and refuses every access. */
function guard<T extends object>(list: T, touched: PropertyKey[]): T {
  const refuse = (_: T, property: PropertyKey): never => {
    touched.push(property);
    throw new Error("touched");
  };
  return new Proxy(list, { get: refuse, has: refuse });
}

function message(text: string): Message {
  return toMessage({ role: "user", content: text }, text);
}

function idsOf(messages: readonly Message[]): readonly string[] {
  return messages.map(({ id }) => id);
}
