// A runtime without the plugin and the tools of a session runs beside. After a crash it comes first: it must leave the turn
// as it is, however often it is asked to recover.

import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime } from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, defineCrashScenario, say, scriptedModel } from "marling/testing";
import { endOf, results, tool } from "./sample-tools.mjs";

/** Has an unbound runtime try what it can, and refuses what it did. @param {string} folder */
async function tryWithout(folder) {
  const model = scriptedModel(() => say("by the wrong runtime"));
  const beside = createRuntime({ model, store: sqliteStore({ path: join(folder, "crash.db") }) });
  try {
    const { resumed } = await beside.recover();
    if (resumed.length > 0) throw new Error("an unbound runtime has resumed a turn");
    if (!(await beside.sessions.exists("s"))) return;
    const reader = await beside.sessions.open("s");
    if (!reader.isReadOnly) throw new Error("an unbound runtime may drive the session");
    const refused = await reader.run("more").catch((/** @type {{ code: string }} */ thrown) => thrown.code);
    if (refused !== "needs_binding") throw new Error(`expected needs_binding, found ${String(refused)}`);
  } finally {
    await beside.close();
  }
}

/** @param {import("marling").Runtime} runtime */
async function allowAll(runtime) {
  for (const question of await runtime.approvals.list())
    await runtime.approvals.decide(question, { decision: "allow", actor: "somebody" });
}

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("pay", { cents: 5 }) : say("paid")),
  options: () => ({ tools: [tool("pay", { replay: "unsafe" })], plugins: [approvals()] }),
  recover: async (runtime, { folder, life }) => {
    if (life > 1) await tryWithout(folder);
    await allowAll(runtime);
    return runtime.recover();
  },
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    await tryWithout(folder);
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
    await tryWithout(folder);
    return endOf(session);
  },
});
