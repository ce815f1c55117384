// A turn that makes sessions by its tools and by directives, starts turns below it, and gives inputs to itself and to them.

import { definePlugin, defineTool, directive } from "marling";
import { callTool, callTools, defineCrashScenario, say } from "marling/testing";
import { endOf, inputs, lastText, results, tool } from "./sample-tools.mjs";

const gather = defineTool({
  name: "gather",
  description: "Asks two sessions of its own.",
  input: { type: "object" },
  replay: "safe",
  execute: async (_args, ctx) => {
    const { sessionId } = ctx;
    // Tools are given more than their contract names.
    const host = /** @type {import("../../../src/plugin/host-services.ts").HostServices} */ (ctx.host);
    const first = await host.createSession({ sessionId: `${sessionId}:first`, plugins: "fork" });
    const { text } = await host.startTurn(first.sessionId, "pay");
    await host.injectTurnInput(sessionId, { message: { role: "user", content: "one more thing" } });
    const second = await host.createSession({ sessionId: `${sessionId}:second`, plugins: "fork" });
    const { turnId } = await host.startTurnStream(second.sessionId, "look");
    await host.injectTurnInput(second.sessionId, { message: { role: "user", content: "and look again" } });
    return `${text}, ${(await host.awaitTurn(turnId)).text}`;
  },
});

const minutes = definePlugin({
  id: "minutes",
  build: (ctx) => {
    if (!ctx.isRoot) return {};
    const create = (/** @type {string} */ name) => [
      directive.createSession({ sessionId: `${ctx.sessionId}:${name}`, plugins: "fork" }),
    ];
    return {
      tools: [gather],
      turn: { before: () => create("before"), after: () => create("after") },
      toolCalls: {
        before: ({ toolName }) => (toolName === "gather" ? create("call_before") : undefined),
        after: ({ toolName }) => (toolName === "gather" ? create("call_after") : undefined),
      },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: (request) => {
    if (results(request) > 0) return say(`reported after ${inputs(request)} inputs`);
    const task = lastText(request);
    if (task === "go") return callTool("gather");
    // The call that must not run twice has an id that no other call has.
    if (task === "pay")
      return callTools([
        ["look", { at: "the bill" }],
        ["pay", { cents: 2 }],
      ]);
    if (task === "look") return callTool("look", { at: "it" });
    return say("nothing to do");
  },
  options: () => ({
    tools: [tool("look", { replay: "idempotent" }), tool("pay", { replay: "unsafe" })],
    plugins: [minutes()],
  }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("go", { key: "go" }).result;
    const ends = [];
    for (const { id } of (await runtime.sessions.list()).items) {
      const one = await runtime.session(id);
      const { messages, frames, turnIndex } = await endOf(one);
      ends.push([id, { messages, frames, turnIndex }]);
    }
    return { ends };
  },
});
