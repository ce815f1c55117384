// A turn begins a durable task in a session whose work another runtime has. After a crash either of the two may have it.

import { deepEqual } from "node:assert/strict";
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime, definePlugin, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, defineCrashScenario, say, scriptedModel } from "marling/testing";
import { endOf, results } from "./sample-tools.mjs";

/** @type {(id: string) => import("marling").TaskSpec} */
const task = (id) => ({
  id,
  kind: "other",
  producer: "jobs",
  label: "index",
  durable: { recovery: "rerun" },
});

/** Tasks of one step. Those of the first process wait until the turn has begun its own. */
function makeJobs(/** @type {import("marling/testing").CrashWatch} */ watch) {
  const { folder, life } = watch;
  let isBegun = life > 1;
  return definePlugin({
    id: "jobs",
    build: () => ({
      background: {
        index: async ({ step, record }) => {
          for (let tries = 0; !isBegun && tries < 2000; tries += 1) await delay(5);
          const outcome = await step("index", () => {
            appendFileSync(join(folder, "done"), `${record.id}\n`);
            return record.id;
          });
          watch.boundary(`behind the step of ${record.id}`);
          return outcome;
        },
      },
      operations: {
        commands: {
          "jobs.hold": {
            handler: async ({ processes, sessionId = "" }) =>
              (await processes.start(sessionId, { ...task("held"), idempotencyKey: "held" })).id,
          },
        },
      },
      tools: [
        defineTool({
          name: "begin",
          description: "Begins to index.",
          input: { type: "object" },
          replay: "safe",
          execute: async (_args, ctx) => {
            await ctx.host.spawnManagedTask(ctx.sessionId, task("asked"));
            isBegun = true;
            return "begun";
          },
        }),
      ],
    }),
  })();
}

/** @type {import("marling").Plugin | undefined} */
let jobs;

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("begin") : say("asked for")),
  options: (watch) => {
    jobs = makeJobs(watch);
    return { plugins: [jobs] };
  },
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    const beside = createRuntime({
      model: scriptedModel(() => say("by the wrong runtime")),
      store: sqliteStore({ path: join(folder, "crash.db") }),
      plugins: jobs === undefined ? [] : [jobs],
    });
    try {
      const other = await beside.session("s");
      await other.command("jobs.hold", null);
      await session.turn("index", { key: "index" }).result;
      const ended = () =>
        [...session.tasks.list(), ...other.tasks.list()].filter(({ state }) => state === "completed");
      const names = () => [...new Set(ended().map(({ id }) => id))].sort();
      for (let tries = 0; names().length < 2 && tries < 4000; tries += 1) await delay(5);
      deepEqual(names(), ["asked", "held"]);
    } finally {
      await beside.close();
    }
    const done = readFileSync(join(folder, "done"), "utf8").trim().split("\n");
    deepEqual([...new Set(done)].sort(), ["asked", "held"]);
    return { messages: (await endOf(session)).messages };
  },
});
