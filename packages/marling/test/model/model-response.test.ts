import { expect, test } from "vitest";
import {
  type ModelResponse,
  type ResponsePart,
  responseText,
  visibleTexts,
} from "../../src/model/model-response.ts";
import { NO_USAGE } from "../../src/model/usage.ts";

test("the words of a response are its texts; reasoning and calls are not words", () => {
  const response = responseOf([
    { kind: "reasoning", text: "hm" },
    { kind: "text", text: "one" },
    { kind: "tool_call", callId: "c", name: "n", args: "{}" },
    { kind: "text", text: "" },
    { kind: "text", text: "two" },
  ]);
  expect(visibleTexts(response)).toEqual(["one", "two"]);
  expect(responseText(response)).toBe("one\n\ntwo");
});

test("commentary counts only while there is no final answer", () => {
  const commentary: ResponsePart = { kind: "text", text: "looking", phase: "commentary" };
  const answer: ResponsePart = { kind: "text", text: "found", phase: "final_answer" };
  expect(responseText(responseOf([commentary]))).toBe("looking");
  expect(responseText(responseOf([commentary, answer]))).toBe("found");
  expect(responseText(responseOf([]))).toBe("");
});

function responseOf(parts: readonly ResponsePart[]): ModelResponse {
  return { parts, usage: NO_USAGE, finish: "stop" };
}
