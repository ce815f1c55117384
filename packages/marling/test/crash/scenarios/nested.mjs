// Calls that make calls: a child under a budget, completions and nested calls inside an attempt, an input that joins.
// After a crash the budget holds and the input joins, whatever the recorded attempts had enclosed.

import { defineTool } from "marling";
import { callTool, callTools, defineCrashScenario, say } from "marling/testing";
import { endOf, inputs, lastText, results, tool } from "./sample-tools.mjs";

/** @typedef {import("marling/host").ModelRequest} ModelRequest */

/** The runtime of this life, for the tool. @type {import("marling").Runtime | undefined} */
let current;

const usage = { usage: { input: 20, output: 0 } };

/** Calls a tool that calls another, and asks a model beside that. */
const outer = defineTool({
  name: "outer",
  description: "Calls other tools.",
  input: { type: "object" },
  replay: "safe",
  execute: async (_args, ctx) => {
    await ctx.callTools([
      { name: "inner", args: {} },
      { name: "leaf", args: {} },
    ]);
    return "outer";
  },
});

const inner = defineTool({
  name: "inner",
  description: "Asks a model.",
  input: { type: "object" },
  replay: "safe",
  execute: async (_args, ctx) => {
    await ctx.callTools([{ name: "leaf", args: {} }]);
    const { text } = await ctx.host.directCompletion({ messages: "aside" }, "aside");
    return text;
  },
});

/** Gives a session below it more to do than its budget allows. */
const spend = defineTool({
  name: "spend",
  description: "Has a session below it work.",
  input: { type: "object" },
  replay: "safe",
  execute: async (_args, ctx) => {
    const { sessionId } = await ctx.host.createSession({ budget: { tokens: 80 } });
    const { outcome } = await ctx.host.startTurn(sessionId, "work");
    return outcome.kind === "stopped" ? (outcome.code ?? "") : outcome.kind;
  },
});

const note = tool("note", {
  answer: async () => {
    const session = await current?.session("s");
    await session?.enqueue("and one more thing", { key: "more", deliver: "active_turn" });
    return "noted";
  },
});

/** @param {ModelRequest} request */
function answer(request) {
  if (lastText(request) === "aside") return say("aside", usage);
  const isBelow = request.scope.sessionId !== "s";
  const round = results(request);
  if (isBelow) return round === 0 ? callTool("outer", {}, usage) : callTool("leaf", {}, usage);
  if (round === 0)
    return callTools([
      ["outer", {}],
      ["spend", {}],
    ]);
  return round === 1 ? callTool("note") : say(`done, after ${inputs(request)} inputs`);
}

export const scenario = defineCrashScenario({
  answer,
  options: () => ({ tools: [outer, inner, spend, note, tool("leaf")] }),
  recover: (runtime) => {
    current = runtime;
    return runtime.recover();
  },
  run: async (runtime) => {
    const session = await runtime.session("s");
    const { childUsage, outcome } = await session.turn("go", { key: "go" }).result;
    const { items } = await runtime.sessions.list({ prefix: "s:" });
    const below = [];
    for (const { id } of items) below.push(await endOf(await runtime.session(id)));
    return { childUsage, outcome, own: await endOf(session), below };
  },
});
