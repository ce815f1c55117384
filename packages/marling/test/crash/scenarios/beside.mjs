// A durable task whose steps are stored at the moment in which the turn beside it goes to sleep.

import { deepEqual } from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { definePlugin, defineTool } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results } from "./sample-tools.mjs";

const NAPS = 2;

/** @type {import("marling").TaskSpec} */
const TASK = { id: "index", kind: "other", producer: "jobs", label: "index", durable: { recovery: "rerun" } };

function gate() {
  let open = () => {};
  /** @type {Promise<void>} */
  const opened = new Promise((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** @param {import("marling/testing").CrashWatch} watch */
function jobs(watch) {
  const { folder, life } = watch;
  const done = join(folder, "done");
  // Each nap lets the task do one step more. In a later life the naps may be over, so that nothing waits for them.
  const naps = Array.from({ length: NAPS }, gate);
  let napped = 0;
  if (life > 1) for (const nap of naps) nap.open();
  return definePlugin({
    id: "jobs",
    build: () => ({
      background: {
        index: async ({ step }) => {
          const outcomes = [];
          for (const [number, nap] of naps.entries()) {
            await nap.opened;
            outcomes.push(
              await step(`step ${number}`, () => {
                appendFileSync(done, `${number}\n`);
                return number;
              }),
            );
            watch.boundary("behind a step");
          }
          return outcomes;
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
        defineTool({
          name: "nap",
          description: "Waits for what does not come.",
          input: { type: "object" },
          replay: "safe",
          execute: async (_args, ctx) => {
            await ctx.completionKey();
            naps[napped]?.open();
            napped += 1;
            return ctx.pending({ deadlineMs: 60 });
          },
        }),
      ],
    }),
  })();
}

export const scenario = defineCrashScenario({
  answer: (request) => {
    const asked = results(request);
    if (asked === 0) return callTool("begin");
    return asked <= NAPS ? callTool("nap") : say("rested");
  },
  options: (watch) => ({ plugins: [jobs(watch)] }),
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    await session.turn("index", { key: "index" }).result;
    const indexed = () => session.tasks.list().find(({ id }) => id === "index");
    for (let tries = 0; indexed()?.state !== "completed" && tries < 2000; tries += 1) await delay(5);
    const { state, result, failure } = indexed() ?? {};
    if (state !== "completed")
      throw new Error(`expected the task to complete, found ${state}: ${failure?.message}`);
    deepEqual(result, [0, 1]);
    // A step whose outcome was not stored is done again, in its place: none comes behind a later one.
    const order = readFileSync(join(folder, "done"), "utf8").trim().split("\n");
    deepEqual(order, [...order].sort());
    return { result, messages: (await endOf(session)).messages };
  },
});
