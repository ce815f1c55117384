// Rules G13 and G14 of src/session/SPEC.md.

import { expect, test } from "vitest";
import type { PluginId } from "../../src/model/ids.ts";
import { bodiesOf, decodeAppendNodes } from "../../src/session/append-node.ts";
import { appendToGraph } from "../../src/session/graph.ts";
import { refusal } from "../base/refusal.ts";
import { emptyGraph, open, operation, say, shownIn } from "./samples.ts";

const NOTES = "notes" as PluginId;

test("[G13] nodes of every kind are read, with their causes", () => {
  const nodes = decodeAppendNodes([
    { kind: "message", message: { role: "user", content: "hello" }, causedBy: { kind: "turn" } },
    { kind: "plugin", type: "note", body: { a: undefined, b: 1 } },
    { kind: "protocol_event", payload: null },
  ]);
  expect(nodes).toEqual([
    {
      kind: "message",
      message: { role: "user", parts: [{ kind: "text", text: "hello" }] },
      causedBy: { kind: "turn" },
    },
    { kind: "plugin", type: "note", body: { b: 1 } },
    { kind: "protocol_event", payload: null },
  ]);
});

const FINE = { kind: "protocol_event", payload: 1 };

test.each<[string, unknown, string, string]>([
  ["a text", "hello", "invalid_node", 'nodes[1]: expected an object with a `kind`, found "hello"'],
  ["null", null, "invalid_node", "nodes[1]: expected an object with a `kind`, found null"],
  ["a list", [], "invalid_node", "nodes[1]: expected an object with a `kind`, found object"],
  [
    "an unknown kind",
    { kind: "note" },
    "invalid_node",
    'nodes[1].kind: expected one of message, plugin, protocol_event, found "note"',
  ],
  [
    "a frame opening",
    { kind: "frame_open", frameId: "f", reason: "r" },
    "invalid_node",
    'nodes[1].kind: expected one of message, plugin, protocol_event, found "frame_open"',
  ],
  [
    "a plugin node without a type",
    { kind: "plugin", body: 1 },
    "invalid_node",
    "nodes[1].type: expected a name that is not blank, found undefined",
  ],
  [
    "a plugin node without a body",
    { kind: "plugin", type: "note" },
    "invalid_json",
    "nodes[1].body: expected a JSON value, found undefined",
  ],
  [
    "an event that is no JSON",
    { kind: "protocol_event", payload: { at: new Map() } },
    "invalid_json",
    "nodes[1].payload.at: expected a plain object, found an instance of Map",
  ],
  [
    "a cause that is no JSON",
    { ...FINE, causedBy: () => 1 },
    "invalid_json",
    "nodes[1].causedBy: expected a JSON value, found a function",
  ],
  [
    "a message of no role",
    { kind: "message", message: { content: "a" } },
    "invalid_message",
    "nodes[1].message.role: expected one of user, assistant, system, tool, event, found undefined",
  ],
  [
    "a part of no kind",
    { kind: "message", message: { role: "user", parts: [{}] } },
    "invalid_message",
    "nodes[1].message.parts[0].kind: expected one of text, attachment, code, output, error, prose, tool_call, tool_result, reasoning, found undefined",
  ],
])("[G13] %s is refused by its place in the list", (_name, node, code, message) => {
  expect(refusal(() => decodeAppendNodes([FINE, node, "later"]))).toEqual({ code, message });
});

test("[G13] what is no list is refused, and the place can be named by whoever asks", () => {
  expect(refusal(() => decodeAppendNodes({} as never, "initialNodes")).message).toBe(
    "initialNodes: expected an array, found object",
  );
  expect(refusal(() => decodeAppendNodes([1], "initialNodes")).message).toMatch(/^initialNodes\[0\]: /);
});

test("[G14] messages without an id get one from session, operation and ordinal", () => {
  const nodes = decodeAppendNodes([
    { kind: "plugin", type: "note", body: 1 },
    { kind: "message", message: { role: "user", content: "a" } },
    { kind: "message", message: { role: "user", content: "b", id: "mine" } },
  ]);
  const drafts = bodiesOf(nodes, { operation: operation("append-1", 3), graph: emptyGraph() });
  expect(drafts).toEqual([
    { kind: "plugin", type: "note", body: 1 },
    {
      kind: "message",
      message: { id: "m_s/append-1/4", role: "user", parts: [{ kind: "text", text: "a" }] },
    },
    { kind: "message", message: { id: "mine", role: "user", parts: [{ kind: "text", text: "b" }] } },
  ]);
});

test("[G14] what a plugin appends is its own", () => {
  const nodes = decodeAppendNodes([
    { kind: "message", message: { role: "user", content: "a" } },
    { kind: "protocol_event", payload: 1, causedBy: "x" },
  ]);
  expect(bodiesOf(nodes, { operation: operation("t1"), graph: emptyGraph(), pluginId: NOTES })).toEqual([
    {
      kind: "message",
      message: {
        id: "m_s/t1/0",
        role: "user",
        parts: [{ kind: "text", text: "a" }],
        origin: { kind: "plugin", pluginId: "notes", transient: false },
      },
    },
    { kind: "protocol_event", pluginId: "notes", payload: 1, causedBy: "x" },
  ]);
  expect(bodiesOf(nodes, { operation: operation("t1"), graph: emptyGraph() })[1]).toMatchObject({
    pluginId: "host",
  });
});

test("[G4] transient messages make no nodes, whoever writes them", () => {
  const nodes = decodeAppendNodes([
    { kind: "message", message: { role: "user", content: "psst", transient: true } },
    { kind: "message", message: { role: "user", content: "a" } },
  ]);
  for (const pluginId of [undefined, NOTES]) {
    const drafts = bodiesOf(nodes, { operation: operation("t1"), graph: emptyGraph(), pluginId });
    expect(shownIn(appendToGraph(emptyGraph(), drafts, operation("t1")).graph)).toEqual(["m_s/t1/0"]);
  }
});

test("[G17] a message under an id of an earlier frame gets one that is derived; so does a seed of the current one", () => {
  const graph = open(say(emptyGraph(), "t1", ["old"]), "plan", ["shown"]);
  const nodes = decodeAppendNodes(
    ["old", "shown", "new"].map((id) => ({ kind: "message", message: { role: "user", content: id, id } })),
  );
  const idsOf = (opensFrame: boolean) =>
    bodiesOf(nodes, { operation: operation("t2"), graph, opensFrame }).map((draft) =>
      draft.kind === "message" ? draft.message.id : "",
    );
  expect(idsOf(false)).toEqual(["m_s/t2/0", "shown", "new"]);
  expect(idsOf(true)).toEqual(["m_s/t2/0", "m_s/t2/1", "new"]);
});
