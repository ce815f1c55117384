// Recovery of effects that other effects enclose: nested calls, completions, child turns, approvals, timers.
// A run is replaying while recorded outcomes are ahead of it, and no longer: budget, inputs and cancels depend on it.

import fc from "fast-check";
import { defineTool, type Json, type ToolContext, type ToolDefinition, toolFailure } from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import type { EffectHost } from "../../src/effects/contract.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { JournalStore } from "../../src/model/journal.ts";
import type { HostServices } from "../../src/plugin/host-services.ts";
import type { Store } from "../../src/store/contract.ts";
import {
  database,
  gate,
  gatedTool,
  type Life,
  live,
  mortal,
  never,
  quickTool,
  userTexts,
} from "./durable-support.ts";
import { act, acting, answering, hostTool, ledger } from "./services-support.ts";

const tokens = (input: number) => ({ usage: { input, output: 0 } });

const creating = acting({ "do.create": (host, request) => host.createSession(request as object) });

/** A tool that calls `quick` several times. */
const outer = (replay: "safe" | "unsafe" = "safe"): ToolDefinition =>
  hostTool(
    "outer",
    async (_host, _args, ctx) => {
      await ctx.callTools([0, 1, 2].map(() => ({ name: "quick", args: {} })));
      return "outer done";
    },
    { replay },
  );

test("[AU4] the budget holds after a crash when a recorded call had made calls", async () => {
  const path = database();
  const at = gate();
  const middle = [
    callTool("outer", {}, tokens(300)),
    callTool("wait", {}, tokens(300)),
    ...Array.from({ length: 10 }, () => callTool("quick", {}, tokens(300))),
  ];
  const options = { plugins: [creating], script: answering({ Middle: middle }) };
  const before = await mortal({
    ...options,
    store: sqliteStore({ path }),
    tools: [outer(), quickTool("quick"), gatedTool("wait", at)],
  });
  await act(before.session, "do.create", { sessionId: "c", budget: { tokens: 1000 } });
  (await before.runtime.session("c")).turn("Middle", { key: "k" });
  await at.begun;
  await before.die();
  const after = await live({
    ...options,
    store: sqliteStore({ path }),
    tools: [outer(), quickTool("quick"), quickTool("wait")],
  });
  const child = await after.runtime.session("c");
  const report = await child.turn("Middle", { key: "k" }).result;
  expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
  expect(ledger(child)).toEqual(["child default 1200+0"]);
  expect(after.model.requests).toHaveLength(2);
});

test("[CP1] an input joins a recovering turn when a recorded call had made calls", async () => {
  const path = database();
  const at = gate();
  const script: ScriptFunction = (request) => {
    const results = request.messages.filter(({ role }) => role === "tool").length;
    if (results === 0) return callTool("outer");
    return results === 1 ? callTool("wait") : say(`heard ${userTexts(request).join(", ")}`);
  };
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools: [outer(), quickTool("quick"), gatedTool("wait", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
  const again = gate();
  const { session } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [outer(), quickTool("quick"), gatedTool("wait", again)],
  });
  const turn = session.turn("go", { key: "k" });
  await again.begun;
  await session.enqueue("note", { key: "note", deliver: "active_turn" });
  again.open();
  expect(await turn.result).toMatchObject({ text: "heard go, note" });
});

test("[JE10] a completion that a cut call had finished stays in the ledger and in the budget", async () => {
  const path = database();
  const at = gate();
  const paying = (isGated: boolean): ToolDefinition =>
    hostTool(
      "pay",
      async (host, _args, ctx) => {
        await ctx.callTools([{ name: "inner", args: {} }]);
        await host.directLlmCompletion({ messages: "aside" }, "aside");
        if (isGated) await at.pass();
        return "paid";
      },
      { replay: "unsafe" },
    );
  const inner = hostTool("inner", (host) => host.directLlmCompletion({ messages: "aside" }, "inner"));
  const script = answering({
    Middle: [callTool("pay", {}, tokens(10)), callTool("inner", {}, tokens(10))],
    aside: [say("Aside.", tokens(500))],
  });
  const options = { plugins: [creating], script };
  const before = await mortal({ ...options, store: sqliteStore({ path }), tools: [paying(true), inner] });
  await act(before.session, "do.create", { sessionId: "c", budget: { tokens: 1000 } });
  (await before.runtime.session("c")).turn("Middle", { key: "k" });
  await at.begun;
  await before.die();
  for (const life of [1, 2]) {
    const after = await live({ ...options, store: sqliteStore({ path }), tools: [paying(false), inner] });
    const child = await after.runtime.session("c");
    const report = await child.turn("Middle", { key: "k" }).result;
    expect(report.toolCalls.map(({ output }) => output.outcome)).toMatchObject([{ code: "unknown_outcome" }]);
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
    expect(ledger(child)).toEqual(["aside default 500+0", "child default 10+0", "inner default 500+0"]);
    expect(after.model.requests).toHaveLength(0);
    if (life === 1) await after.runtime.close();
  }
});

/** A call as it is generated: a tool, and what it does before it answers. */
type Work =
  | { readonly tool: "leaf" | "retried" | "asked" }
  | { readonly tool: "safe" | "unsafe" | "fickle" | "bundle"; readonly steps: readonly WorkStep[] };
type WorkStep = { readonly direct: true } | { readonly child: true } | { readonly calls: readonly Work[] };

const { work } = fc.letrec<{ readonly work: Work; readonly step: WorkStep }>((tie) => ({
  work: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.record({ tool: fc.constantFrom("leaf" as const, "retried" as const, "asked" as const) }),
    fc.record({
      tool: fc.constantFrom("safe" as const, "unsafe" as const, "fickle" as const, "bundle" as const),
      steps: fc.array(tie("step"), { minLength: 1, maxLength: 2 }),
    }),
  ),
  step: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constant({ direct: true as const }),
    fc.constant({ child: true as const }),
    fc.record({ calls: fc.array(tie("work"), { minLength: 1, maxLength: 2 }) }),
  ),
}));

/** What a tool does before it answers; one that is fickle does other things in every life. */
async function doSteps(args: Json, ctx: ToolContext, life: number): Promise<string> {
  const host = ctx.host as HostServices;
  const { tool, steps } = args as unknown as Extract<Work, { readonly steps: readonly WorkStep[] }>;
  const wanted = tool === "fickle" && life > 1 ? [] : steps;
  for (const step of wanted) {
    if ("calls" in step) await ctx.callTools(step.calls.map((call) => ({ name: call.tool, args: call })));
    if ("direct" in step) await host.directLlmCompletion({ messages: "direct" }, "aside");
    if (!("child" in step)) continue;
    const { sessionId } = await host.createSession({});
    await host.startTurn(sessionId, "child");
  }
  return `${tool} done`;
}

function toolsOf(life: number): readonly ToolDefinition[] {
  const stepping = (name: string, more: object): ToolDefinition =>
    hostTool(name, (_host, args, ctx) => doSteps(args, ctx, life), more);
  const retried = defineTool({
    name: "retried",
    description: "Fails once.",
    input: { type: "object" },
    replay: "safe",
    retry: { attempts: 2, delayMs: 1 },
    execute: (_input, { attempt }) =>
      attempt === 1 ? toolFailure({ message: "once more", retry: { safe: true } }) : "at last",
  });
  return [
    quickTool("leaf") as ToolDefinition,
    quickTool("asked") as ToolDefinition,
    retried as ToolDefinition,
    stepping("safe", { replay: "safe" }),
    stepping("fickle", { replay: "safe" }),
    stepping("unsafe", { replay: "unsafe" }),
    stepping("bundle", { isOrchestrating: true }),
  ];
}

/** A host that says, for each model call that no earlier run made, whether the turn is still replaying. */
function watching(store: Store, stale: string[]): EffectHost {
  const effects = journalEffects(store.journal as JournalStore);
  return {
    ...effects,
    run: async (request, perform, options) => {
      const isNew = request.kind === "model_call" && (await effects.knows?.(request, request.key)) !== true;
      if (isNew && (await effects.isReplaying?.(request)) === true) stale.push(request.key);
      return effects.run(request, perform, options);
    },
  };
}

/** Decides about every call that waits for somebody. */
async function allowAll({ runtime }: Life, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    for (const question of await runtime.approvals.list())
      await runtime.approvals
        .decide(question, { decision: "allow", actor: "somebody" })
        .catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Plays a turn until its journal is written for the n-th time, then recovers it. */
async function recover(rounds: readonly (readonly Work[])[], deadly: number): Promise<readonly string[]> {
  const path = database();
  const script: ScriptFunction = (request) => {
    const [input] = userTexts(request);
    const round = request.messages.filter(({ role }) => role === "assistant").length;
    const calls = input === "go" ? rounds[round] : undefined;
    return calls === undefined ? say("Done.") : callTools(calls.map((call) => [call.tool, call]));
  };
  const plugins = [approvals({ rules: { asked: "ask", "*": "allow" } })];
  let writes = 0;
  let isOver = false;
  let end = (): void => undefined;
  const over = new Promise<void>((resolve) => {
    end = () => {
      isOver = true;
      resolve();
    };
  });
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    plugins,
    tools: toolsOf(1),
    around: async (method, call) => {
      const answer = await call();
      if (method !== "journal.append") return answer;
      writes += 1;
      if (writes !== deadly) return answer;
      end();
      return never();
    },
  });
  const turn = before.session.turn("go", { key: "k" });
  turn.result.then(end, end);
  await Promise.all([over, allowAll(before, () => isOver)]);
  await before.die();
  const store = sqliteStore({ path });
  const stale: string[] = [];
  const after = await live({ store, script, plugins, tools: toolsOf(2), effects: watching(store, stale) });
  let isDone = false;
  const { result } = after.session.turn("go", { key: "k" });
  const done = result.finally(() => {
    isDone = true;
  });
  await Promise.all([done, allowAll(after, () => isDone)]);
  expect((await result).outcome).toMatchObject({ kind: "finished", text: "Done." });
  return stale;
}

test("[JE10] when every recorded outcome was replayed, a recovered turn is not replaying", async () => {
  const rounds = fc.array(fc.array(work, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 });
  const property = fc.asyncProperty(rounds, fc.integer({ min: 1, max: 16 }), async (turn, deadly) => {
    expect(await recover(turn, deadly)).toEqual([]);
  });
  await fc.assert(property, { numRuns: 40, endOnFailure: false });
}, 120_000);
