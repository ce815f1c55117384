// What the model is sent: SPEC.md T34 to T37.

import { describe, expect, test } from "vitest";
import { type CallId, callId, messageId, pluginId } from "../../src/model/ids.ts";
import type { Message, MessagePart, Role } from "../../src/model/message.ts";
import { isPromptResumeSafe, projectMessage, projectMessages } from "../../src/turn/project-messages.ts";
import { message, system, user } from "./fixtures.ts";

const c1: CallId = callId("c1");
const png = { kind: "stored", mediaType: "image/png", ref: "r1", bytes: 4 } as const;
const words = (text: string): MessagePart => ({ kind: "text", text });
const partsFor = (role: Role, ...parts: readonly MessagePart[]): readonly MessagePart[] | undefined =>
  projectMessage(message("m", role, ...parts))?.parts;

describe("roles", () => {
  test("[T34] event becomes user; the first text of event and system messages is prefixed", () => {
    const messages = [
      user("u", "hello"),
      system("s", "be brief"),
      message("e", "event", { kind: "attachment", source: png }, words("the bell rang"), words("twice")),
    ];
    expect(projectMessages(messages)).toEqual([
      { role: "user", parts: [{ kind: "text", text: "hello" }] },
      { role: "system", parts: [{ kind: "text", text: "Runtime note: be brief" }] },
      {
        role: "user",
        parts: [
          { kind: "attachment", source: png },
          { kind: "text", text: "Runtime event: the bell rang" },
          { kind: "text", text: "twice" },
        ],
      },
    ]);
  });

  test("[T34] a message with nothing to say is not sent", () => {
    const messages = [
      user("u", " "),
      message("a", "assistant", { kind: "reasoning", text: "hm" }),
      message("n", "user"),
      user("v", "x"),
    ];
    expect(projectMessages(messages)).toEqual([{ role: "user", parts: [{ kind: "text", text: "x" }] }]);
  });

  test("[T35] transient messages are sent", () => {
    const transient: Message = {
      ...system("s", "only now"),
      origin: { kind: "plugin", pluginId: pluginId("p"), transient: true },
    };
    expect(projectMessages([transient])).toHaveLength(1);
  });
});

describe("parts", () => {
  test("[T35] parts that need no change are the same objects", () => {
    const call: MessagePart = { kind: "tool_call", callId: c1, name: "a", args: {}, replay: { id: "f" } };
    expect(partsFor("assistant", call)?.[0]).toBe(call);
    const hello = words("hello");
    expect(partsFor("user", hello)?.[0]).toBe(hello);
  });

  test("[T36] reasoning is sent only with replay data and only as the model's", () => {
    const signed: MessagePart = { kind: "reasoning", text: "hm", replay: { sig: "a" } };
    const bare: MessagePart = { kind: "reasoning", text: "hm" };
    expect(partsFor("assistant", signed, bare)).toEqual([signed]);
    expect(partsFor("user", signed, words("x"))).toEqual([words("x")]);
  });

  test.each([
    ["user", true],
    ["tool", true],
    ["event", true],
    ["assistant", false],
    ["system", false],
  ] as const)("[T36] an attachment in a %s message is sent: %j", (role, isSent) => {
    const attachment: MessagePart = { kind: "attachment", source: png, callId: c1, name: "shot" };
    expect(partsFor(role, attachment)).toEqual(isSent ? [attachment] : undefined);
  });

  test("[T36] prose is sent as text with its replay data", () => {
    expect(
      partsFor(
        "assistant",
        { kind: "prose", text: "hi" },
        { kind: "prose", text: "ho", replay: { id: "m" } },
        { kind: "prose", text: "" },
        { kind: "prose", text: "", replay: { sig: "s" } },
      ),
    ).toEqual([
      { kind: "text", text: "hi" },
      { kind: "text", text: "ho", replay: { id: "m" } },
      { kind: "text", text: "", replay: { sig: "s" } },
    ]);
  });

  test("[T36] code, output and error are sent as text, blank ones not at all", () => {
    expect(
      partsFor(
        "assistant",
        { kind: "code", language: "js", code: "1 + 1" },
        { kind: "output", text: "2" },
        { kind: "error", text: "boom" },
        { kind: "output", text: " " },
        { kind: "error", text: "" },
        { kind: "code", language: "js", code: "\n" },
      ),
    ).toEqual([
      { kind: "text", text: "```js\n1 + 1\n```" },
      { kind: "text", text: "2" },
      { kind: "text", text: "Error: boom" },
    ]);
  });

  test("[T36] an empty tool result is kept", () => {
    const result: MessagePart = { kind: "tool_result", callId: c1, name: "a", text: "" };
    expect(partsFor("tool", result)).toEqual([result]);
  });
});

describe("resume safety", () => {
  const call = (id: string): MessagePart => ({
    kind: "tool_call",
    callId: id as CallId,
    name: "a",
    args: {},
  });
  const result = (id: string): MessagePart => ({
    kind: "tool_result",
    callId: id as CallId,
    name: "a",
    text: "",
  });
  const at = (role: Role, ...parts: readonly MessagePart[]): Message => ({ id: messageId("m"), role, parts });

  const CASES: readonly (readonly [string, boolean, readonly Message[]])[] = [
    ["no calls at all", true, [at("user", words("x"))]],
    [
      "each call with its result",
      true,
      [at("assistant", call("1"), call("2")), at("tool", result("2"), result("1"))],
    ],
    ["results in a user message", true, [at("assistant", call("1")), at("user", result("1"))]],
    ["a call without a result", false, [at("assistant", call("1"))]],
    ["a result without a call", false, [at("tool", result("1"))]],
    ["a result before its call", false, [at("tool", result("1")), at("assistant", call("1"))]],
    ["two results", false, [at("assistant", call("1")), at("tool", result("1"), result("1"))]],
    [
      "two calls with one id",
      false,
      [
        at("assistant", call("1")),
        at("tool", result("1")),
        at("assistant", call("1")),
        at("tool", result("1")),
      ],
    ],
    ["a blank id", false, [at("assistant", call(" ")), at("tool", result(" "))]],
    ["a call that is not the model's", false, [at("user", call("1")), at("tool", result("1"))]],
    ["a result of the model's", false, [at("assistant", call("1"), result("1"))]],
  ];

  test.each(CASES)("[T37] with %s: %j", (_name, expected, messages) => {
    expect(isPromptResumeSafe(messages)).toBe(expected);
  });
});
