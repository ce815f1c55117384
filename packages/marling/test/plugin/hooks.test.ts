// Collecting hooks: order, ownership, failures, and what a handler may return.

import { expect, test } from "vitest";
import type { Directive } from "../../src/plugin/directive.ts";
import { directive } from "../../src/plugin/directive.ts";
import {
  checkpointCtx,
  plugin,
  promptCtx,
  rejection,
  restored,
  sessionOf,
  thrownBy,
  toolCtx,
  toolResultCtx,
  turnCtx,
  turnResultCtx,
} from "./samples.ts";

const abort = (code: string): Directive => directive.abortTurn({ code, message: code });

test("[K1] hooks of a phase run one after another, in the order of registration", async () => {
  const log: string[] = [];
  const slow = (name: string) => async () => {
    log.push(`${name} begins`);
    await Promise.resolve();
    log.push(`${name} ends`);
  };
  const session = sessionOf([
    plugin("a", { turn: { before: [slow("a1"), slow("a2")] } }),
    plugin("b", {
      turn: {
        before: () => {
          log.push("b");
        },
      },
    }),
    plugin("c", { turn: { before: slow("c") } }),
  ]);
  await session.beforeTurn(turnCtx());
  expect(log).toEqual(["a1 begins", "a1 ends", "a2 begins", "a2 ends", "b", "c begins", "c ends"]);
});

test("[K2] each collected value carries the id of its plugin", async () => {
  const session = sessionOf([
    plugin("a", { turn: { before: () => [abort("a1"), abort("a2")] } }),
    plugin("b", { turn: { before: async () => abort("b1") } }),
  ]);
  expect(await session.beforeTurn(turnCtx())).toEqual([
    { pluginId: "a", value: { kind: "abort_turn", code: "a1", message: "a1" } },
    { pluginId: "a", value: { kind: "abort_turn", code: "a2", message: "a2" } },
    { pluginId: "b", value: { kind: "abort_turn", code: "b1", message: "b1" } },
  ]);
});

test("[K3] the first failing hook ends the phase: later ones do not run and nothing collected is returned", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("a", { turn: { before: () => directive.enqueueMessages([{ role: "user", content: "hi" }]) } }),
    plugin("b", {
      turn: {
        before: () => {
          throw new Error("no");
        },
      },
    }),
    plugin("c", {
      turn: {
        before: () => {
          log.push("c");
        },
      },
    }),
  ]);
  const error = await rejection(session.beforeTurn(turnCtx()));
  expect({ code: error.code, message: error.message, details: error.details }).toEqual({
    code: "hook_failed",
    message: "plugin b: hook turn.before failed: no",
    details: { pluginId: "b", hook: "turn.before" },
  });
  expect((error.cause as Error).message).toBe("no");
  expect(log).toEqual([]);
});

test("[P1] all hooks of a phase get the same frozen context", async () => {
  const seen: unknown[] = [];
  const look = (ctx: unknown) => {
    seen.push(ctx);
  };
  const session = sessionOf([
    plugin("a", { toolCalls: { before: look } }),
    plugin("b", { toolCalls: { before: look } }),
  ]);
  await session.beforeToolCall(toolCtx());
  expect(seen).toHaveLength(2);
  expect(seen[0]).toBe(seen[1]);
  expect(Object.isFrozen(seen[0])).toBe(true);
});

test("[P1] a hook that writes to its context fails by name", async () => {
  const session = sessionOf([
    plugin("a", {
      toolCalls: {
        before: (ctx) => {
          (ctx as { toolName: string }).toolName = "other";
        },
      },
    }),
  ]);
  const error = await rejection(session.beforeToolCall(toolCtx()));
  expect([error.code, error.details]).toEqual(["hook_failed", { pluginId: "a", hook: "tool_calls.before" }]);
});

test("[P5] a hook without handlers, and handlers that answer at once, cost no promise", () => {
  const session = sessionOf([plugin("a", { turn: { before: [() => abort("x"), () => undefined] } })]);
  expect(session.runner.collect("turn.after", turnResultCtx())).toEqual([]);
  expect(session.runner.collect("turn.before", turnCtx())).toEqual([
    { pluginId: "a", value: { kind: "abort_turn", code: "x", message: "x" } },
  ]);
  expect(session.runner.notify("session.on_event", restored())).toEqual([]);
});

test("[P1] answers may be one item, a list, a promise of either, or nothing", async () => {
  const session = sessionOf([
    plugin("a", {
      turn: {
        checkpoint: [
          () => abort("1"),
          () => [abort("2")],
          async () => [abort("3"), abort("4")],
          () => {},
          async () => undefined,
        ],
      },
    }),
  ]);
  const owned = await session.atCheckpoint(checkpointCtx());
  expect(owned.map(({ value }) => value.kind === "abort_turn" && value.code)).toEqual(["1", "2", "3", "4"]);
});

test("[K4] begin and end of a hook are told by name, a failure included", async () => {
  const log: string[] = [];
  const probe = {
    beginNamed: (name: string) => log.push(`begin ${name}`),
    endNamed: (name: string) => log.push(`end ${name}`),
  };
  const session = sessionOf([
    plugin("a", { turn: { before: async () => undefined, after: () => undefined } }),
    plugin("b", {
      turn: {
        before: async () => {
          throw new Error("late");
        },
        after: () => {
          throw new Error("at once");
        },
      },
    }),
  ]);
  await rejection(session.beforeTurn(turnCtx(), probe));
  await rejection(session.afterTurn(turnResultCtx(), probe));
  expect(log).toEqual([
    "begin plugin_hook.before_turn.a",
    "end plugin_hook.before_turn.a",
    "begin plugin_hook.before_turn.b",
    "end plugin_hook.before_turn.b",
    "begin plugin_hook.after_turn.a",
    "end plugin_hook.after_turn.a",
    "begin plugin_hook.after_turn.b",
    "end plugin_hook.after_turn.b",
  ]);
});

test("[K4] prompt, tool, checkpoint, stream and response hooks are not told to a probe", async () => {
  const log: string[] = [];
  const probe = { beginNamed: (name: string) => log.push(name), endNamed: (name: string) => log.push(name) };
  const nothing = () => undefined;
  const session = sessionOf([
    plugin("a", {
      prompt: nothing,
      turn: { checkpoint: nothing },
      toolCalls: { before: nothing, after: nothing },
      output: { stream: nothing, response: nothing, streamFinished: nothing },
    }),
  ]);
  await session.collectPromptContributions(promptCtx(), probe);
  await session.atCheckpoint(checkpointCtx(), probe);
  await session.beforeToolCall(toolCtx(), probe);
  await session.afterToolCall(toolResultCtx(), probe);
  await session.transformAssistantStream("s", "x", probe);
  await session.finishAssistantStream("s", "complete", probe);
  expect(log).toEqual([]);
});

test.each([
  ["a number", 42],
  ["null", null],
  ["a string", "abort"],
  ["an object without a kind", {}],
  ["an unknown kind", { kind: "explode" }],
  ["a known kind with the wrong members", { kind: "abort_turn", code: 3 }],
  ["a list with a hole in it", [undefined]],
])("[P6] a hook that returns %s is an error that names plugin and hook", async (_name, nonsense) => {
  const session = sessionOf([plugin("a", { turn: { before: (() => nonsense) as never } })]);
  const error = await rejection(session.beforeTurn(turnCtx()));
  expect(error.code).toBe("hook_returned_nonsense");
  expect(error.message).toContain("plugin a: hook turn.before");
  expect(error.details).toEqual({ pluginId: "a", hook: "turn.before" });
});

test.each([
  ["a string", "why not"],
  ["undefined", undefined],
  ["an object", { reason: "none" }],
])("[P6] a hook that throws %s fails by name", async (_name, thrown) => {
  const hook = () => {
    throw thrown;
  };
  const session = sessionOf([plugin("a", { turn: { before: [hook] } })]);
  const error = await rejection(session.beforeTurn(turnCtx()));
  expect([error.code, error.details]).toEqual(["hook_failed", { pluginId: "a", hook: "turn.before" }]);
  expect(error.cause).toBe(thrown);
});

test("[P7] a promise from a catalog contributor is an error that says so", () => {
  const session = sessionOf([plugin("a", { toolCatalog: (async () => ({ remove: [] })) as never })]);
  const error = thrownBy(() => session.resolveToolCatalog());
  expect([error.code, error.details]).toEqual([
    "hook_must_be_synchronous",
    { pluginId: "a", hook: "tool_catalog.contribute" },
  ]);
});

test("[P8] handlers around tool calls can be asked one by one, each as a phase of its own", async () => {
  const session = sessionOf([
    plugin("a", { toolCalls: { before: () => directive.replaceToolArgs({ a: 2 }) } }),
    plugin("b", { toolCalls: { before: async ({ args }) => directive.replaceToolArgs([args]) } }),
  ]);
  const [first, second] = session.toolCallHooks("tool_calls.before");
  expect([first?.pluginId, second?.pluginId]).toEqual(["a", "b"]);
  expect(await first?.ask(toolCtx())).toEqual([{ kind: "replace_tool_args", args: { a: 2 } }]);
  expect(await second?.ask({ ...toolCtx(), args: { a: 2 } })).toEqual([
    { kind: "replace_tool_args", args: [{ a: 2 }] },
  ]);
});

test("[P9] approvals are collected with their owners", async () => {
  const session = sessionOf([
    plugin("a", { approval: { request: () => ({ decision: "allow" }) } }),
    plugin("b", { approval: { request: async () => [{ decision: "deny", reason: "not here" }] } }),
  ]);
  expect(session.hasApprovalHooks).toBe(true);
  expect(await session.requestApproval({ sessionId: "s", toolName: "rm", callId: "c", args: {} })).toEqual([
    { pluginId: "a", value: { decision: "allow" } },
    { pluginId: "b", value: { decision: "deny", reason: "not here" } },
  ]);
});
