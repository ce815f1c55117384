import { expect, test } from "vitest";
import {
  failTurn,
  finishTurn,
  isPendingResult,
  isSuccess,
  isToolOutput,
  pendingResult,
  reviveToolOutput,
  switchFrame,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../../src/model/tool-output.ts";
import { refusal } from "../base/refusal.ts";

test("a success carries its value in wire form; nothing counts as null", () => {
  expect(toolSuccess({ $marling: 1 })).toEqual({
    outcome: { kind: "success", value: { $marling: "object", entries: { $marling: 1 } } },
  });
  expect(toolSuccess(undefined)).toEqual({ outcome: { kind: "success", value: null } });
});

test("a failure that says only what happened is the tool's own and not to be repeated", () => {
  expect(toolFailure("No such file.")).toEqual({
    outcome: {
      kind: "failure",
      class: "execution",
      code: "tool_error",
      message: "No such file.",
      source: "tool",
      retry: { kind: "never" },
    },
  });
});

test("a failure keeps its code, class, advice and raw value", () => {
  const failure = toolFailure({
    message: "busy",
    code: "busy",
    class: "unavailable",
    source: "policy",
    retry: { safe: true, afterMs: 50 },
    raw: { status: 503 },
  });
  expect(failure.outcome).toEqual({
    kind: "failure",
    class: "unavailable",
    code: "busy",
    message: "busy",
    source: "policy",
    retry: { kind: "safe", afterMs: 50 },
    raw: { status: 503 },
  });
  expect(toolFailure({ message: "m", retry: { safe: true } }).outcome).toMatchObject({
    retry: { kind: "safe" },
  });
  expect(toolFailure({ message: "m", retry: { safe: false, afterMs: 9 } }).outcome).toMatchObject({
    retry: { kind: "never" },
  });
});

test("controls of a turn ride on a success", () => {
  expect(finishTurn({ a: 1 })).toEqual({
    outcome: { kind: "success", value: { a: 1 } },
    control: { kind: "finish", value: { a: 1 } },
  });
  expect(failTurn("stop").control).toMatchObject({
    kind: "fail",
    failure: { code: "tool_error", message: "stop" },
  });
  expect(switchFrame({ key: "k", task: "t" }).control).toEqual({
    kind: "switch_frame",
    key: "k",
    task: "t",
    nodes: [],
  });
  expect(refusal(() => switchFrame({ key: "k", task: "t", nodes: [{ f: () => 1 }] })).message).toBe(
    "switchFrame.nodes[0].f: expected a JSON value, found a function",
  );
});

test("outputs are recognised by their mark, not by their shape", () => {
  expect(isToolOutput(toolSuccess(1))).toBe(true);
  expect(isToolOutput({ outcome: { kind: "success", value: 1 } })).toBe(false);
  expect([isToolOutput(null), isToolOutput("a"), isToolOutput(pendingResult())]).toEqual([
    false,
    false,
    false,
  ]);
  expect([
    isPendingResult(pendingResult()),
    isPendingResult(toolSuccess(1)),
    isPendingResult({ kind: "pending" }),
  ]).toEqual([true, false, false]);
});

test("an output from plain JSON is an output again, with its control", () => {
  const plain = JSON.parse(JSON.stringify(finishTurn(1)));
  const revived = reviveToolOutput(plain);
  expect(isToolOutput(revived)).toBe(true);
  expect(revived).toEqual({ outcome: { kind: "success", value: 1 }, control: { kind: "finish", value: 1 } });
  expect(reviveToolOutput(revived)).toBe(revived);
});

test("only a success is a success", () => {
  expect([toolSuccess(1), toolFailure("m"), toolCancelled("m")].map(isSuccess)).toEqual([true, false, false]);
});

test("outputs cannot be changed", () => {
  for (const output of [toolSuccess(1), toolFailure("m"), toolCancelled("m")]) {
    expect([Object.isFrozen(output), Object.isFrozen(output.outcome)]).toEqual([true, true]);
  }
});

test("a pending result says what a late answer means", () => {
  expect(pendingResult({ deadlineMs: 5, onTimeout: "fail_turn" })).toEqual({
    kind: "pending",
    onTimeout: "fail_turn",
    onCancel: "cancel_external_work",
    deadlineMs: 5,
  });
});
