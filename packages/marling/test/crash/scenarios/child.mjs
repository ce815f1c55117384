// A tool that gives tasks to two sessions of their own, one of which gives one to a third.

import { subagents } from "marling/plugins";
import { callTool, callTools, defineCrashScenario, say } from "marling/testing";
import { endOf, lastText, results, tool } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: (request) => {
    if (results(request) > 0) return say("reported");
    const task = lastText(request);
    if (task === "go")
      return callTools([
        ["spawn", { task: "look", name: "looker" }],
        ["spawn", { task: "ask", name: "asker" }],
      ]);
    if (task === "look") return callTool("look", { at: "it" });
    if (task === "ask") return callTool("spawn", { task: "look", name: "helper" });
    return say("nothing to do");
  },
  options: () => ({ tools: [tool("look", { replay: "idempotent" })], plugins: [subagents({ maxDepth: 2 })] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("go", { key: "go" }).result;
    const { items } = await runtime.sessions.list();
    const ends = [];
    for (const { id } of items) ends.push([id, await endOf(await runtime.session(id))]);
    return { ends, usage: session.usage() };
  },
});
