// Directives: checked where they are made, and again where a hook returns them.

import { expect, test } from "vitest";
import { pendingResult, toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import { type Directive, directive } from "../../src/plugin/directive.ts";
import { decodeDirectives } from "../../src/plugin/hook-result.ts";
import {
  checkpointCtx,
  plugin,
  rejection,
  sessionOf,
  thrownBy,
  toolCtx,
  toolResultCtx,
  turnCtx,
  turnResultCtx,
} from "./samples.ts";

test("[DI1] directives are plain frozen data with a snake_case kind", () => {
  const made: readonly Directive[] = [
    directive.abortTurn({ code: "stop", message: "No." }),
    directive.enqueueMessages([{ role: "system", content: "Be kind." }]),
    directive.createSession({ relation: { kind: "child", parent: "s" }, plugins: "fresh" }),
    directive.replaceToolArgs({ path: "/safe" }),
    directive.shortCircuitTool(toolSuccess(3)),
    directive.emitEvents([{ kind: "custom", name: "n", payload: 1 }]),
    directive.emitTrace({ name: "t" }),
  ];
  expect(JSON.parse(JSON.stringify(made))).toEqual([
    { kind: "abort_turn", code: "stop", message: "No." },
    { kind: "enqueue_messages", messages: [{ role: "system", parts: [{ kind: "text", text: "Be kind." }] }] },
    { kind: "create_session", request: { relation: { kind: "child", parent: "s" }, plugins: "fresh" } },
    { kind: "replace_tool_args", args: { path: "/safe" } },
    { kind: "short_circuit_tool", output: { outcome: { kind: "success", value: 3 } } },
    { kind: "emit_events", events: [{ kind: "custom", name: "n", payload: 1 }] },
    { kind: "emit_trace", name: "t", payload: null, context: {} },
  ]);
  for (const one of made) expect(Object.isFrozen(one)).toBe(true);
});

test.each<[string, () => unknown, string, string]>([
  [
    "an abort without a code",
    () => directive.abortTurn({ message: "x" } as never),
    "invalid_directive",
    "abortTurn.code",
  ],
  [
    "a message with no role",
    () => directive.enqueueMessages([{ content: "x" } as never]),
    "invalid_message",
    "messages[0].role",
  ],
  [
    "messages that are no list",
    () => directive.enqueueMessages({} as never),
    "invalid_directive",
    "enqueueMessages.messages",
  ],
  [
    "a request with a typo",
    () => directive.createSession({ sesionId: "x" } as never),
    "invalid_directive",
    "request.sesionId",
  ],
  [
    "a relation that is none",
    () => directive.createSession({ relation: { kind: "twin" } } as never),
    "invalid_directive",
    "relation.kind",
  ],
  [
    "a start without an id",
    () => directive.createSession({ start: { kind: "existing_session" } } as never),
    "invalid_directive",
    "start.id",
  ],
  [
    "nodes that are none",
    () => directive.createSession({ initialNodes: [{ kind: "x" }] } as never),
    "invalid_node",
    "initialNodes[0].kind",
  ],
  [
    "arguments that are not JSON",
    () => directive.replaceToolArgs(() => 1),
    "invalid_json",
    "replaceToolArgs.args",
  ],
  [
    "an output that is none",
    () => directive.shortCircuitTool("done" as never),
    "invalid_directive",
    "shortCircuitTool.output",
  ],
  [
    "an event of no kind",
    () => directive.emitEvents([{ kind: "x" } as never]),
    "invalid_directive",
    "events[0]",
  ],
  [
    "a status without a label",
    () => directive.emitEvents([{ kind: "status", key: "k" } as never]),
    "invalid_directive",
    "events[0]",
  ],
  ["a nameless trace", () => directive.emitTrace({ name: " " }), "invalid_directive", "emitTrace.name"],
])("[DI1] %s is refused where it is made", (_name, make, code, where) => {
  const error = thrownBy(make);
  expect(error.code).toBe(code);
  expect(error.message).toContain(where);
});

test("[DI1] a pending result cannot settle a call: it becomes a failure", () => {
  const made = directive.shortCircuitTool(pendingResult());
  expect(made).toMatchObject({
    kind: "short_circuit_tool",
    output: { outcome: { kind: "failure", code: "pending_tool_short_circuit", source: "runtime" } },
  });
});

test("[DI1] plain data is a directive too, outputs included", async () => {
  const plain = JSON.parse(
    JSON.stringify(directive.shortCircuitTool(toolFailure({ code: "no", message: "No." }))),
  );
  const session = sessionOf([plugin("a", { toolCalls: { before: () => plain } })]);
  const [owned] = await session.beforeToolCall(toolCtx());
  expect(owned?.value).toEqual(directive.shortCircuitTool(toolFailure({ code: "no", message: "No." })));
});

test("[DI1] what a hook returned can be read anywhere: nothing, one or several", () => {
  const site = { pluginId: "a", hook: "turn.before" } as const;
  const trace = { kind: "emit_trace", name: "t" };
  const read = { kind: "emit_trace", name: "t", payload: null, context: {} };
  expect(decodeDirectives(undefined, site)).toEqual([]);
  expect(decodeDirectives(trace, site)).toEqual([read]);
  expect(decodeDirectives([trace, trace], site)).toEqual([read, read]);
  expect(thrownBy(() => decodeDirectives([trace, 3], site)).message).toContain("the answer[1]");
});

const handoff = { kind: "handoff_session", sessionId: "other" };
const returnsHandoff = () => handoff as never;
const all = plugin("a", {
  turn: { before: returnsHandoff, after: returnsHandoff, checkpoint: returnsHandoff },
  toolCalls: { before: returnsHandoff, after: returnsHandoff },
});

test.each([
  ["turn.before", () => sessionOf([all]).beforeTurn(turnCtx())],
  ["turn.after", () => sessionOf([all]).afterTurn(turnResultCtx())],
  ["turn.checkpoint", () => sessionOf([all]).atCheckpoint(checkpointCtx())],
  ["tool_calls.before", () => sessionOf([all]).beforeToolCall(toolCtx())],
  ["tool_calls.after", () => sessionOf([all]).afterToolCall(toolResultCtx())],
])("[K47] a handoff is refused in %s, with what to do instead", async (hook, run) => {
  const error = await rejection(run());
  expect([error.code, error.details]).toEqual([
    "directive_not_allowed",
    { directive: "handoff_session", pluginId: "a", hook },
  ]);
  expect(error.message).toContain("switchFrame");
});
