// Plan mode: what is offered, what is refused, and how it ends.

import { defineTool, memoryStore, type ToolContext, type ToolDefinition } from "marling";
import { type PlanModeOptions, planMode, subagents, updatePlan } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { questions } from "../kernel/approvals-support.ts";
import { database, type Life, live, quickTool } from "../kernel/durable-support.ts";
import { answering } from "../kernel/services-support.ts";
import { customEvents, offered, watched } from "./stock-support.ts";

const ran: string[] = [];
const TOOLS = [
  quickTool("read_file"),
  quickTool("edit_file", { replay: "unsafe", ran }),
  quickTool("post", { replay: "idempotent" }),
];

function begin(
  options: PlanModeOptions,
  script: readonly ScriptStep[],
  tools: readonly ToolDefinition[] = TOOLS as readonly ToolDefinition[],
): Promise<Life> {
  return live({ store: memoryStore(), plugins: [planMode(options)], tools, script });
}

test("[PL1] in plan mode only tools that may safely run again are offered, with an explanation", async () => {
  const { session, model } = await begin({}, [say("a"), say("b"), say("c")]);
  await session.turn("one").result;
  await session.command("plan_mode.enter", {});
  await session.turn("two").result;
  await session.command("plan_mode.leave", {});
  await session.turn("three").result;
  expect(model.requests.map(offered).map((names) => [...names].sort())).toEqual([
    ["batch", "edit_file", "post", "read_file"],
    ["batch", "exit_plan", "read_file"],
    ["batch", "edit_file", "post", "read_file"],
  ]);
  expect(model.requests.map(({ system }) => system.includes("The session is in plan mode"))).toEqual([
    false,
    true,
    false,
  ]);
});

test("[PL1] a list of names or a predicate says what stays", async () => {
  const listed = await begin({ startsActive: true, readOnlyTools: ["post", "edit_*"] }, [say("a")]);
  await listed.session.turn("one").result;
  expect(offered(listed.model.requests[0]).toSorted()).toEqual(["batch", "edit_file", "exit_plan", "post"]);
  const isReadOnly: PlanModeOptions["isReadOnly"] = ({ name }) => (name === "post" ? true : undefined);
  const asked = await begin({ startsActive: true, isReadOnly }, [say("a")]);
  await asked.session.turn("one").result;
  expect(offered(asked.model.requests[0]).toSorted()).toEqual(["batch", "exit_plan", "post", "read_file"]);
});

test("[PL1] a call of what is not offered does not run, whether the model or another tool makes it", async () => {
  ran.length = 0;
  const granting = defineTool({
    name: "granting",
    description: "Calls a tool that is not in the catalog.",
    input: { type: "object" },
    replay: "safe",
    execute: async (_input, ctx: ToolContext) => {
      const manifest = { id: "hidden", name: "hidden", description: "Hidden." };
      const grant = { manifest, contract: { inputSchema: { type: "object" } }, binding: null };
      const [reply] = await ctx.callTools([{ name: "hidden", args: {}, grant }]);
      return reply?.output.outcome.kind === "failure" ? reply.output.outcome.code : "ran";
    },
  }) as ToolDefinition;
  const { session } = await begin(
    { startsActive: true },
    [callTool("edit_file"), callTool("granting"), say("x")],
    [...(TOOLS as readonly ToolDefinition[]), granting],
  );
  const { toolCalls } = await session.turn("Go").result;
  expect(ran).toEqual([]);
  expect(toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    { kind: "failure" },
    { kind: "success", value: "plan_mode" },
  ]);
});

test("[PL2] exit_plan waits for somebody, and an approved plan ends plan mode in the same turn", async () => {
  const { session, runtime, model } = await begin({ startsActive: true }, [
    callTool("exit_plan", { plan: "1. edit" }),
    callTool("edit_file"),
    say("Done."),
  ]);
  const turn = session.turn("Go");
  const seen = watched(turn);
  const [question] = await questions(runtime, 1);
  expect(question).toMatchObject({ toolName: "exit_plan", args: { plan: "1. edit" } });
  await runtime.approvals.decide(question as never, { decision: "allow", actor: "ada" });
  const { events, report } = await seen;
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(report.toolCalls.map(({ name, output }) => [name, output.outcome.kind])).toEqual([
    ["exit_plan", "success"],
    ["edit_file", "success"],
  ]);
  expect(customEvents(events)).toEqual([["plan_mode.state", { isActive: false }]]);
  expect(await session.query("plan_mode.status", {})).toEqual({ isActive: false, plan: "1. edit" });
  expect(offered(model.requests[1])).toContain("edit_file");
});

test("[PL2] a plan that is denied keeps the session in plan mode", async () => {
  const { session, runtime } = await begin({ startsActive: true }, [
    callTool("exit_plan", { plan: "x" }),
    say("Ok."),
  ]);
  const turn = session.turn("Go");
  const [question] = await questions(runtime, 1);
  await runtime.approvals.decide(question as never, {
    decision: "deny",
    actor: "ada",
    reason: "smaller steps",
  });
  const { toolCalls } = await turn.result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", class: "permission_denied" });
  expect(await session.query("plan_mode.status", {})).toEqual({ isActive: true });
});

test("[PL2] without asking, exit_plan ends plan mode by itself", async () => {
  const { session } = await begin({ startsActive: true, asks: false }, [
    callTool("exit_plan", { plan: "x" }),
    say("Ok."),
  ]);
  await session.turn("Go").result;
  expect(await session.query("plan_mode.status", {})).toEqual({ isActive: false, plan: "x" });
});

test("[PL3] the mode outlives a restart, and a fork begins in it", async () => {
  const path = database();
  const plugins = [planMode(), updatePlan()];
  const first = await live({ store: sqliteStore({ path }), plugins, script: [say("a")] });
  await first.session.turn("one").result;
  const receipt = await first.session.command("plan_mode.enter", {});
  expect(receipt.events).toEqual([
    {
      pluginId: "plan_mode",
      event: { kind: "custom", name: "plan_mode.state", payload: { isActive: true } },
    },
  ]);
  expect((await first.session.command("plan_mode.enter", {})).events).toEqual([]);
  await first.runtime.close();
  const second = await live({ store: sqliteStore({ path }), plugins, script: [] });
  expect(await second.session.query("plan_mode.status", {})).toEqual({ isActive: true });
  const fork = await second.runtime.sessions.fork("s", { as: "fork" });
  await second.session.command("plan_mode.leave", {});
  expect(await fork.query("plan_mode.status", {})).toEqual({ isActive: true });
  expect(await second.session.query("plan_mode.status", {})).toEqual({ isActive: false });
});

test("[PL3] a child of a session in plan mode is in plan mode too", async () => {
  const { session, model } = await live({
    store: memoryStore(),
    plugins: [planMode({ startsActive: true }), subagents()],
    tools: TOOLS,
    script: answering({
      Go: [callTool("spawn", { task: "Work" }), say("ok")],
      Work: [callTool("edit_file"), say("no")],
    }),
  });
  ran.length = 0;
  await session.turn("Go").result;
  expect(model.requests).toHaveLength(4);
  expect(model.requests.map((request) => offered(request).includes("edit_file"))).toEqual(
    Array(4).fill(false),
  );
  expect(ran).toEqual([]);
});

test("options that are not known are refused by name", () => {
  expect(() => planMode({ readOnly: [] } as never)).toThrow(
    expect.objectContaining({
      code: "invalid_plugin_options",
      message: expect.stringContaining("plan_mode: readOnly"),
    }),
  );
});
