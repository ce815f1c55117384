// A durable task of two steps that a tool starts: a step whose outcome was stored is not done again.

import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { definePlugin, defineTool } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results } from "./sample-tools.mjs";

/** @type {import("marling").TaskSpec} */
const TASK = { id: "index", kind: "other", producer: "jobs", label: "index", durable: { recovery: "rerun" } };

/** @param {import("marling/testing").CrashWatch} watch */
function jobs(watch) {
  const { folder } = watch;
  const began = join(folder, "second-began");
  return definePlugin({
    id: "jobs",
    build: () => ({
      background: {
        index: async ({ step, progress }) => {
          const first = await step("first", () => {
            watch.boundary("first step");
            if (existsSync(began)) appendFileSync(join(folder, "repeated"), "first\n");
            return "one";
          });
          watch.boundary("between the steps");
          progress({ done: 1 });
          const second = await step("second", () => {
            writeFileSync(began, "");
            watch.boundary("second step");
            return `${first} two`;
          });
          watch.boundary("behind the steps");
          return second;
        },
      },
      tools: [
        defineTool({
          name: "begin",
          description: "Begins to index.",
          input: { type: "object" },
          replay: "safe",
          execute: async (_args, ctx) => {
            await ctx.host.spawnManagedTask(ctx.sessionId, TASK);
            return "begun";
          },
        }),
      ],
    }),
  })();
}

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("begin") : say("indexing")),
  options: (watch) => ({ plugins: [jobs(watch)] }),
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    await session.turn("index", { key: "index" }).result;
    const indexed = () => session.tasks.list().find(({ id }) => id === "index");
    for (let tries = 0; indexed()?.state !== "completed" && tries < 2000; tries += 1) await delay(5);
    const { state, result, failure } = indexed() ?? {};
    if (state !== "completed")
      throw new Error(`expected the task to complete, found ${state}: ${failure?.message}`);
    const repeated = join(folder, "repeated");
    return {
      result,
      repeated: existsSync(repeated) ? readFileSync(repeated, "utf8") : "",
      messages: (await endOf(session)).messages,
    };
  },
});
