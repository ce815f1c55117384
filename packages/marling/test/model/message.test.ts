import { expect, test } from "vitest";
import type { PluginId } from "../../src/model/ids.ts";
import {
  decodeMessage,
  decodeMessageInput,
  isTransient,
  type Message,
  type Origin,
  textOf,
  toMessage,
} from "../../src/model/message.ts";
import { refusal } from "../base/refusal.ts";

const PLUGIN: Origin = { kind: "plugin", pluginId: "notes" as PluginId, transient: false };

const PARTS = [
  { kind: "text", text: "hello" },
  {
    kind: "attachment",
    source: { kind: "external_url", mediaType: "image/png", url: "https://a.example/b.png" },
    name: "b",
  },
  { kind: "code", language: "js", code: "1 + 1" },
  { kind: "output", text: "2" },
  { kind: "error", text: "no" },
  { kind: "prose", text: "so it is", replay: { id: "r1" } },
  { kind: "tool_call", callId: "c1", name: "add", args: { a: 1 } },
  { kind: "tool_call", callId: "c2", name: "add", args: null, rawArgs: "{", replay: {} },
  { kind: "tool_result", callId: "c1", name: "add", text: "2", isError: false },
  { kind: "reasoning", text: "hm", replay: { signature: "s" } },
];

test("content is short for one text part", () => {
  expect(toMessage({ role: "user", content: "hello" }, "m1")).toEqual({
    id: "m1",
    role: "user",
    parts: [{ kind: "text", text: "hello" }],
  });
});

test("content is ignored when there are parts, and adds nothing when it is empty", () => {
  const parts = [{ kind: "text", text: "part" }];
  expect(decodeMessageInput({ role: "user", content: "content", parts }).parts).toEqual(parts);
  expect(decodeMessageInput({ role: "user", content: "" }).parts).toEqual([]);
});

test("attachments follow the parts", () => {
  const source = { kind: "stored", mediaType: "image/png", ref: "abc", bytes: 3 };
  const { parts } = decodeMessageInput({ role: "user", content: "look", attachments: [source] });
  expect(parts).toEqual([
    { kind: "text", text: "look" },
    { kind: "attachment", source },
  ]);
});

test("a given id is kept; a blank one counts as absent", () => {
  expect(toMessage({ role: "user", content: "a", id: "mine" }, "m1").id).toBe("mine");
  expect(toMessage({ role: "user", content: "a", id: "  " }, "m1").id).toBe("m1");
  expect(toMessage({ role: "user", content: "a" }, "m1").id).toBe("m1");
});

test("what a plugin writes has its origin, and is transient when it says so", () => {
  expect(toMessage({ role: "user", content: "a" }, "m1", PLUGIN).origin).toEqual(PLUGIN);
  const transient = toMessage({ role: "user", content: "a", transient: true }, "m1", PLUGIN);
  expect(transient.origin).toEqual({ kind: "plugin", pluginId: "notes", transient: true });
  expect([
    isTransient(transient),
    isTransient(toMessage({ role: "user", content: "a" }, "m1", PLUGIN)),
  ]).toEqual([true, false]);
  expect(isTransient(toMessage({ role: "user", content: "a" }, "m1"))).toBe(false);
});

test("messages are frozen to the bottom and independent of what they were made from", () => {
  const given = { role: "user", parts: [{ kind: "text", text: "a" }] };
  const message = toMessage(given, "m1");
  (given.parts[0] as { text: string }).text = "b";
  expect(message.parts).toEqual([{ kind: "text", text: "a" }]);
  expect([message, message.parts, message.parts[0]].every(Object.isFrozen)).toBe(true);
});

test("every kind of part survives storing", () => {
  const message = { id: "m1", role: "assistant", parts: PARTS, origin: PLUGIN };
  expect(decodeMessage(JSON.parse(JSON.stringify(message)))).toEqual(message);
  const sequence = { kind: "process", processId: "p1", eventType: "wake", sequence: 3 };
  expect(decodeMessage({ id: "m1", role: "event", parts: [], origin: sequence }).origin).toEqual(sequence);
});

test.each<[string, unknown, string]>([
  ["a text", "hello", "message: expected an object with `role` and `content` or `parts`"],
  [
    "a message that says nothing",
    { role: "user", text: "hello" },
    "message: expected an object with `role` and `content` or `parts`",
  ],
  [
    "no role",
    { content: "a" },
    "message.role: expected one of user, assistant, system, tool, event, found undefined",
  ],
  [
    "another role",
    { role: "robot", content: "a" },
    'message.role: expected one of user, assistant, system, tool, event, found "robot"',
  ],
  ["content that is no text", { role: "user", content: 1 }, "message.content: expected a string"],
  ["an id that is no text", { role: "user", content: "a", id: 1 }, "message.id: expected a string"],
  [
    "a transient that is no boolean",
    { role: "user", content: "a", transient: "yes" },
    "message.transient: expected a boolean",
  ],
  ["parts that are no list", { role: "user", parts: {} }, "message.parts: expected an array"],
  [
    "attachments that are no list",
    { role: "user", attachments: {} },
    "message.attachments: expected an array",
  ],
  ["a part that is no object", { role: "user", parts: ["a"] }, partKind("undefined")],
  ["an unknown part", { role: "user", parts: [{ kind: "image" }] }, partKind('"image"')],
  ["a part of an inherited name", { role: "user", parts: [{ kind: "toString" }] }, partKind('"toString"')],
  [
    "a text part without text",
    { role: "user", parts: [{ kind: "text" }] },
    "message.parts[0].text: expected a string",
  ],
  [
    "a call without arguments",
    { role: "assistant", parts: [{ kind: "tool_call", callId: "c", name: "n" }] },
    "message.parts[0].args: expected a JSON value",
  ],
  [
    "a replay that is no object",
    { role: "assistant", parts: [{ kind: "reasoning", text: "", replay: "r" }] },
    "message.parts[0].replay: expected an object",
  ],
  [
    "an isError that is no boolean",
    { role: "tool", parts: [{ kind: "tool_result", callId: "c", name: "n", text: "", isError: 1 }] },
    "message.parts[0].isError: expected a boolean",
  ],
])("%s is refused by its place", (_name, raw, message) => {
  expect(refusal(() => toMessage(raw, "m1"))).toEqual({ code: "invalid_message", message });
});

test("values that are no JSON are refused inside of parts", () => {
  const parts = [{ kind: "tool_call", callId: "c", name: "n", args: { at: new Map() } }];
  expect(refusal(() => decodeMessageInput({ role: "assistant", parts }, "input"))).toEqual({
    code: "invalid_json",
    message: "input.parts[0].args.at: expected a plain object, found an instance of Map",
  });
});

test("a stored message without an id, or with an origin that is none, is refused", () => {
  expect(refusal(() => decodeMessage({ role: "user", parts: [] })).code).toBe("invalid_id");
  const origin = { kind: "plugin", pluginId: "notes" };
  expect(refusal(() => decodeMessage({ id: "m1", role: "user", parts: [], origin }))).toEqual({
    code: "invalid_message",
    message: "message.origin: expected the origin of a plugin or of a process",
  });
});

test("the words of a message are its text and prose", () => {
  const message = { id: "m1", role: "assistant", parts: PARTS } as unknown as Message;
  expect(textOf(message)).toBe("hello\n\nso it is");
  expect(textOf({ ...message, parts: [] })).toBe("");
});

function partKind(found: string): string {
  return `message.parts[0].kind: expected one of text, attachment, code, output, error, prose, tool_call, tool_result, reasoning, found ${found}`;
}
