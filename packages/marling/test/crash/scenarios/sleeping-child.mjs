// A turn that waits for a turn below it, which sleeps until somebody allows a call; beside it the first one does more.

import { setTimeout as delay } from "node:timers/promises";
import { approvals, subagents } from "marling/plugins";
import { callTool, callTools, defineCrashScenario, say } from "marling/testing";
import { endOf, lastText, results, tool } from "./sample-tools.mjs";

/** @param {import("marling").Runtime} runtime */
async function allowAll(runtime) {
  for (const question of await runtime.approvals.list())
    await runtime.approvals.decide(question, { decision: "allow", actor: "somebody" });
}

export const scenario = defineCrashScenario({
  answer: (request) => {
    if (results(request) > 0) return say("reported");
    if (lastText(request) === "go")
      return callTools([
        ["spawn", { task: "pay", name: "payer" }],
        ["look", { at: "it" }],
      ]);
    return callTool("pay", { cents: 5 });
  },
  options: () => ({
    tools: [tool("pay"), tool("look", { replay: "idempotent" })],
    plugins: [subagents(), approvals({ rules: { pay: "ask", look: "allow", spawn: "allow" } })],
  }),
  recover: async (runtime) => {
    await allowAll(runtime);
    // A turn whose child sleeps does not end before somebody has decided.
    void runtime.recover().catch(() => undefined);
  },
  run: async (runtime) => {
    const session = await runtime.session("s");
    const turn = session.turn("go", { key: "go" });
    let isOver = false;
    const over = turn.result.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await allowAll(runtime);
      await Promise.race([over, delay(5)]);
    }
    await over;
    const ends = [];
    for (const { id } of (await runtime.sessions.list()).items)
      ends.push([id, await endOf(await runtime.session(id))]);
    return { ends };
  },
});
