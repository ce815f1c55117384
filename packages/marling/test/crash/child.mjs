// @ts-nocheck -- plain JavaScript for a process of its own, which runs against the build
// One life of a process: opens the store, recovers, runs what is left of a scenario, and is killed at a boundary.
//   node child.mjs <scenario> <database> <log> <boundary to be killed at, or 0>

import { appendFileSync } from "node:fs";
import { createRuntime } from "marling";
import { sqliteStore } from "marling/sqlite";
import { scriptedModel } from "marling/testing";
import { SCENARIOS } from "./scenarios.mjs";

const [name, path, logFile, killAt] = process.argv.slice(2);
const deadly = Number(killAt);
let boundaries = 0;

const watch = {
  log: (line) => appendFileSync(logFile, `${line}\n`),
  boundary: () => {
    boundaries += 1;
    if (boundaries === deadly) process.kill(process.pid, "SIGKILL");
  },
};

/** Every method of the store has a boundary before and after it; what writes says when it has written. */
function watched(target, writes) {
  return new Proxy(
    {},
    {
      get(_object, member) {
        const value = target[member];
        if (member === "journal") return value === undefined ? undefined : watched(value, ["append"]);
        if (typeof value !== "function") return value;
        return async (...args) => {
          watch.boundary(`before ${String(member)}`);
          const result = await value.apply(target, args);
          if (writes.includes(member)) watch.log("written");
          watch.boundary(`after ${String(member)}`);
          return result;
        };
      },
    },
  );
}

watch.log("life begins");
const scenario = SCENARIOS[name](watch);
const scripted = scriptedModel(async (request) => scenario.answer(request));
const model = {
  id: "watched",
  call: async (request, options) => {
    watch.log(`call model ${request.scope.requestId}`);
    watch.boundary("model begins");
    const outcome = await scripted.call(request, options);
    if (outcome.kind === "response") watch.log(`done model ${request.scope.requestId}`);
    watch.boundary("model ends");
    return outcome;
  },
};

const runtime = createRuntime({
  model,
  store: watched(sqliteStore({ path }), ["commit", "admit"]),
  ...scenario.options,
});
await runtime.recover();
const session = await runtime.session("s");
for (const [index, input] of scenario.inputs.entries())
  await session.turn(input, { key: `input-${index}` }).result;
const state = session.operations().some(({ name: operation }) => operation === "counting.seen")
  ? await session.query("counting.seen", {})
  : null;
const { messages, frames, usage, turnIndex } = session.read();
const history = await session.history();
await runtime.close();
console.log(JSON.stringify({ boundaries, end: { messages, frames, usage, turnIndex, history, state } }));
