// A tool whose result comes later. After a crash it comes before anybody recovers: while the process is dead.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { defineTool } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results } from "./sample-tools.mjs";

/** Where the tool leaves its key. @param {string} folder */
const noteIn = (folder) => join(folder, "completion-key");

/** @param {string} folder */
const keyIn = (folder) => (existsSync(noteIn(folder)) ? readFileSync(noteIn(folder), "utf8") : undefined);

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("order") : say("ordered")),
  options: ({ folder }) => ({
    tools: [
      defineTool({
        name: "order",
        description: "Orders lunch; the kitchen confirms later.",
        input: { type: "object" },
        replay: "safe",
        execute: async (_args, ctx) => {
          writeFileSync(noteIn(folder), await ctx.completionKey());
          return ctx.pending();
        },
      }),
    ],
  }),
  recover: async (runtime, { folder }) => {
    const key = keyIn(folder);
    if (key !== undefined) await runtime.resolve(key, { ok: "confirmed" });
    return runtime.recover();
  },
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    const turn = session.turn("lunch", { key: "lunch" });
    let isOver = false;
    const over = turn.result.then(() => {
      isOver = true;
    });
    for (let told = undefined; !isOver; await Promise.race([over, delay(5)])) {
      const key = keyIn(folder);
      if (key === undefined || key === told) continue;
      await runtime.resolve(key, { ok: "confirmed" });
      told = key;
    }
    await over;
    return endOf(session);
  },
});
