// A session that began with a plugin which is retired now: the record is made once, before the first turn without it.

import { join } from "node:path";
import { createRuntime, definePlugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTools, defineCrashScenario, say, scriptedModel } from "marling/testing";
import { endOf, inputs, results, tool } from "./sample-tools.mjs";

const guard = definePlugin({
  id: "old_guard",
  build(ctx) {
    ctx.durable({ version: 1, initial: () => "kept" });
    return {};
  },
});

/** Begins the session with the plugin. @param {string} folder */
async function beginWithGuard(folder) {
  const runtime = createRuntime({
    model: scriptedModel(() => say("never asked")),
    store: sqliteStore({ path: join(folder, "crash.db") }),
    plugins: [guard()],
  });
  await runtime.session("s");
  await runtime.close();
}

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) < inputs(request) ? callTools([["look", {}]]) : say("done")),
  options: () => ({ tools: [tool("look")], retired: { old_guard: "there is a better one" } }),
  run: async (runtime, { folder }) => {
    if (!(await runtime.sessions.exists("s"))) await beginWithGuard(folder);
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    await session.turn("two", { key: "two" }).result;
    const fork = (await runtime.sessions.exists("fork"))
      ? await runtime.session("fork")
      : await runtime.sessions.fork("s", { as: "fork", at: "n_s//0" });
    await fork.turn("three", { key: "three" }).result;
    const ends = [await endOf(session), await endOf(fork)];
    // The times of the records are those of the run that made them.
    return ends.map(({ history, ...end }) => ({
      ...end,
      history: history.map((node) => ("at" in node ? { ...node, at: 0 } : node)),
    }));
  },
});
