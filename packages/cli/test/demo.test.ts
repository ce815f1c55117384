// The demo agent: section Demo of SPEC.md.

import type { ModelMessage } from "marling";
import { expect, test } from "vitest";
import { calculate } from "../src/demo/calculate.ts";
import { type DemoStep, demoStep } from "../src/demo/demo-script.ts";

const user = (text: string): ModelMessage => ({ role: "user", parts: [{ kind: "text", text }] });
const callId = "c" as never; // only carried along
const called = (name: string): ModelMessage => ({
  role: "assistant",
  parts: [{ kind: "tool_call", callId, name, args: {} }],
});
const result = (name: string, text: string): ModelMessage => ({
  role: "tool",
  parts: [{ kind: "tool_result", callId, name, text }],
});
const said = (text: string): ModelMessage => ({ role: "assistant", parts: [{ kind: "text", text }] });
const callsOf = (step: DemoStep): unknown => (step.kind === "call" ? step.calls : step.text);

test("[DS1] a few words decide which tool is called", () => {
  const cases: readonly (readonly [string, string, object])[] = [
    ["list files", "list_files", {}],
    ["What files are in docs?", "list_files", { path: "docs" }],
    ["read package.json", "read_file", { path: "package.json" }],
    ["how many words are in a/README.md", "count_words", { path: "a/README.md" }],
    ["calculate (1 + 2) * 3", "calculate", { expression: "(1 + 2) * 3" }],
    ["what is 2 + 2?", "calculate", { expression: "2 + 2" }],
    ["What is 2 plus 3 times 4?", "calculate", { expression: "2 + 3 * 4" }],
    ["remember that tea is green", "remember", { fact: "tea is green" }],
    ["what do you remember?", "recall", {}],
    ["note buy tea", "write_note", { text: "buy tea" }],
    ["work slowly", "slow_work", { step: 1, of: 4 }],
    ["work slowly 2", "slow_work", { step: 1, of: 2 }],
  ];
  for (const [words, name, args] of cases)
    expect(callsOf(demoStep([user(words)])), words).toEqual([[name, args]]);
});

test("[DS3] it says that it is a script, to a greeting and to what it has no line for", () => {
  for (const words of ["hello", "write me a poem"])
    expect(callsOf(demoStep([user(words)]))).toContain("I am a script, not a language model");
});

test("[DS2] what is said while it works is taken up at the next step", () => {
  const working = [user("work slowly"), called("slow_work"), result("slow_work", "step 1 of 4 is done")];
  expect(callsOf(demoStep(working))).toEqual([["slow_work", { step: 2, of: 4 }]]);
  expect(callsOf(demoStep([...working, user("only 2")]))).toEqual([["slow_work", { step: 2, of: 2 }]]);
  expect(callsOf(demoStep([...working, user("stop")]))).toBe(
    'Done: 1 step of slow work. You said meanwhile: "stop".',
  );
});

test("[DS1] a turn that was cancelled is no part of the next one", () => {
  const messages = [
    user("work slowly"),
    called("slow_work"),
    result("slow_work", "The tool slow_work was cancelled."),
    user("work slowly 3"),
  ];
  expect(callsOf(demoStep(messages))).toEqual([["slow_work", { step: 1, of: 3 }]]);
  expect(callsOf(demoStep([user("work slowly"), user("calculate 1 + 1")]))).toEqual([
    ["calculate", { expression: "1 + 1" }],
  ]);
  expect(callsOf(demoStep([user("hello"), said("Hi."), user("list files")]))).toEqual([["list_files", {}]]);
});

test("[DS4] sums are read, never run", () => {
  expect(calculate("(17 + 4) * 2")).toBe(42);
  expect(calculate("2 + 3 * 4 - 1")).toBe(13);
  expect(calculate("-(2 - 5) / 2")).toBe(1.5);
  for (const wrong of ["", "2 +", "1 / 0", "(1", "1)", "process.exit()", "1 1"])
    expect(calculate(wrong)).toBeUndefined();
});
