// The plan that the model keeps.

import { memoryStore } from "marling";
import { subagents, updatePlan } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { database, live } from "../kernel/durable-support.ts";
import { answering } from "../kernel/services-support.ts";
import { customEvents, offered, watched } from "./stock-support.ts";

const STEPS = [
  { step: "look", status: "completed" },
  { step: "write", status: "in_progress" },
  { step: "test", status: "pending" },
];

test("[UP2] a plan is kept, told to watchers, and in the prompt from the next round on", async () => {
  const { session, model } = await live({
    store: memoryStore(),
    plugins: [updatePlan()],
    script: [callTool("update_plan", { steps: STEPS }), say("ok"), say("again")],
  });
  const { events } = await watched(session.turn("Go"));
  expect(customEvents(events)).toEqual([["plan.updated", { steps: STEPS }]]);
  expect(await session.query("plan.current", {})).toEqual({ steps: STEPS });
  await session.turn("And?").result;
  const shown = "[x] look\n[>] write\n[ ] test";
  expect(model.requests.map(({ system }) => system.includes(shown))).toEqual([false, true, true]);
});

test("[UP2] a plan with nothing left to do is not in the prompt", async () => {
  const done = STEPS.map(({ step }) => ({ step, status: "completed" }));
  const { session, model } = await live({
    store: memoryStore(),
    plugins: [updatePlan()],
    script: [callTool("update_plan", { steps: done }), say("ok")],
  });
  await session.turn("Go").result;
  expect(model.requests[1]?.system).not.toContain("[x] look");
});

test.each([
  [
    "two steps in progress",
    [
      { step: "a", status: "in_progress" },
      { step: "b", status: "in_progress" },
    ],
    "invalid_plan",
    "steps: expected at most one step in progress, found 2. The plan is unchanged; send it again with one.",
  ],
  ["a blank step", [{ step: " ", status: "pending" }], "invalid_plan", "steps[0].step: expected some words"],
  ["an unknown status", [{ step: "a", status: "done" }], "invalid_tool_args", "status"],
  ["no steps", [], "invalid_tool_args", "steps"],
])("[UP1] %s is refused, and the plan before stands", async (_name, steps, code, message) => {
  const { session } = await live({
    store: memoryStore(),
    plugins: [updatePlan()],
    script: [callTool("update_plan", { steps: STEPS }), callTool("update_plan", { steps }), say("ok")],
  });
  const { events, report } = await watched(session.turn("Go"));
  expect(report.toolCalls[1]?.output.outcome).toMatchObject({
    kind: "failure",
    class: "invalid_request",
    code,
    message: expect.stringContaining(message),
  });
  expect(customEvents(events)).toHaveLength(1);
  expect(await session.query("plan.current", {})).toEqual({ steps: STEPS });
});

test("[UP2] the plan outlives a restart and goes along with a fork", async () => {
  const path = database();
  const plugins = [updatePlan({ toolName: "todo" })];
  const script = [callTool("todo", { steps: STEPS }), say("ok")];
  const first = await live({ store: sqliteStore({ path }), plugins, script });
  await first.session.turn("Go").result;
  await first.runtime.close();
  const { session, runtime } = await live({ store: sqliteStore({ path }), plugins, script: [] });
  expect(await session.query("plan.current", {})).toEqual({ steps: STEPS });
  const fork = await runtime.sessions.fork("s", { as: "fork" });
  expect(await fork.query("plan.current", {})).toEqual({ steps: STEPS });
});

test("only the root has a plan, unless children are to have one too", async () => {
  for (const inChildren of [false, true]) {
    const { session, model } = await live({
      store: memoryStore(),
      plugins: [updatePlan({ inChildren }), subagents()],
      script: answering({ Go: [callTool("spawn", { task: "Work" }), say("ok")], Work: [say("done")] }),
    });
    await session.turn("Go").result;
    expect(model.requests.map((request) => offered(request).includes("update_plan"))).toEqual([
      true,
      inChildren,
      true,
    ]);
  }
});

test("a plan has at most as many steps as the options say", async () => {
  const { session } = await live({
    store: memoryStore(),
    plugins: [updatePlan({ maxSteps: 2 })],
    script: [callTool("update_plan", { steps: STEPS }), say("ok")],
  });
  const { toolCalls } = await session.turn("Go").result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", code: "invalid_tool_args" });
  expect(() => updatePlan({ maxSteps: 0 })).toThrow("maxSteps: expected a whole number from 1, found 0");
});
