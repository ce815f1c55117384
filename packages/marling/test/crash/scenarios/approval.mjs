// A call that waits for somebody's word. After a crash the word comes before anybody recovers: while the process is dead.

import { setTimeout as delay } from "node:timers/promises";
import { approvals } from "marling/plugins";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results, tool } from "./sample-tools.mjs";

/** @param {import("marling").Runtime} runtime */
async function allowAll(runtime) {
  for (const question of await runtime.approvals.list())
    await runtime.approvals.decide(question, { decision: "allow", actor: "somebody" });
}

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("pay", { cents: 5 }) : say("paid")),
  options: () => ({ tools: [tool("pay", { replay: "unsafe" })], plugins: [approvals()] }),
  recover: async (runtime) => {
    await allowAll(runtime);
    return runtime.recover();
  },
  run: async (runtime) => {
    const session = await runtime.session("s");
    const turn = session.turn("pay", { key: "pay" });
    let isOver = false;
    const over = turn.result.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await allowAll(runtime);
      await Promise.race([over, delay(5)]);
    }
    await over;
    return endOf(session);
  },
});
