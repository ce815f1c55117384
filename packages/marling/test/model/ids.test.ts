import fc from "fast-check";
import { expect, test } from "vitest";
import {
  appendedMessageId,
  appendedNodeId,
  initialFrameId,
  nodeId,
  pluginId,
  sessionId,
  turnId,
} from "../../src/model/ids.ts";
import { refusal } from "../base/refusal.ts";

test("an id is kept as it is written", () => {
  expect(sessionId(" chat/42 · ä😀")).toBe(" chat/42 · ä😀");
});

test.each<[string, unknown, string]>([
  ["a number", 7, "session id: expected a string, found number"],
  ["null", null, "session id: expected a string, found null"],
  ["nothing", undefined, "session id: expected a string, found undefined"],
  ["an empty text", "", "session id: expected a non-blank string, found a blank one"],
  ["a blank text", " \t ", "session id: expected a non-blank string, found a blank one"],
  ["a control character", "a\u0000b", "session id: expected no control characters, found one"],
  ["a line break", "a\nb", "session id: expected no control characters, found one"],
  ["half a surrogate pair", "a\ud83d", "session id: expected well-formed text, found half a surrogate pair"],
  ["__proto__", "__proto__", "session id: expected another name than __proto__"],
  ["513 characters", "x".repeat(513), "session id: expected at most 512 characters, found 513"],
])("%s is no id", (_name, raw, message) => {
  expect(refusal(() => sessionId(raw))).toEqual({ code: "invalid_id", message });
});

test("the refusal names what kind of id it is about", () => {
  expect(refusal(() => turnId("")).message).toMatch(/^turn id: /);
  expect(refusal(() => pluginId("")).message).toMatch(/^plugin id: /);
});

test("ids of appended nodes and messages name session, operation and ordinal", () => {
  const session = sessionId("chat-42");
  expect(appendedNodeId(session, "t1", 3)).toBe("n_chat-42/t1/3");
  expect(appendedMessageId(session, "t1", 3)).toBe("m_chat-42/t1/3");
  expect(initialFrameId(session)).toBe("chat-42:frame:initial");
});

test("sessions and operations with slashes and percent signs never meet in one id", () => {
  const part = fc.stringMatching(/^[ab/%2F]{1,6}$/);
  const parts = fc.tuple(part, part, fc.nat(20));
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      const same = a.every((value, index) => value === b[index]);
      expect(idOf(a) === idOf(b)).toBe(same);
    }),
    { numRuns: 500 },
  );
  expect(idOf(["a/b", "c", 0])).toBe("n_a%2Fb/c/0");
  expect(idOf(["a", "b/c", 0])).toBe("n_a/b/c/0");
  expect(idOf(["a%2Fb", "c", 0])).toBe("n_a%252Fb/c/0");
});

test("the longest session and operation still make a node id", () => {
  const id = appendedNodeId(sessionId("%".repeat(512)), "x".repeat(512), 1_000_000);
  expect(nodeId(id)).toBe(id);
});

function idOf([session, operation, ordinal]: readonly [string, string, number]): string {
  return appendedNodeId(sessionId(session), operation, ordinal);
}
