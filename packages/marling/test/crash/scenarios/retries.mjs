// A model that fails the first time it is asked something, a tool that fails its first attempt, and one that is not there.
// A plugin keeps what it saw streaming: an attempt that is given up leaves nothing there, however often it is cut.

import { deepEqual } from "node:assert/strict";
import { definePlugin, defineTool, toolFailure } from "marling";
import { callTools, defineCrashScenario, failWith, say } from "marling/testing";
import { results, runInputs } from "./sample-tools.mjs";

const flaky = defineTool({
  name: "flaky",
  description: "Fails the first time.",
  input: { type: "object" },
  replay: "safe",
  retry: { attempts: 2, delayMs: 1 },
  execute: (_args, { attempt }) =>
    attempt === 1 ? toolFailure({ message: "not yet", retry: { safe: true } }) : "at last",
});

const keeping = definePlugin({
  id: "keeping",
  build(ctx) {
    const kept = ctx.durable({ version: 1, initial: () => /** @type {string[]} */ ([]) });
    return {
      output: {
        stream: ({ chunk }) => {
          kept.update((chunks) => [...chunks, chunk]);
          return { chunk };
        },
      },
      operations: { queries: { "keeping.kept": { handler: () => [...kept.get()] } } },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: (request, { asked }) => {
    if (asked === 0) return failWith({ kind: "overloaded", retryAfterMs: 1, chunks: ["I"] });
    return results(request) === 0
      ? callTools([
          ["flaky", {}],
          ["nobody", {}],
        ])
      : say("done");
  },
  options: () => ({ tools: [flaky], plugins: [keeping()] }),
  run: async (runtime) => {
    const end = await runInputs(runtime, ["go"]);
    const kept = await (await runtime.session("s")).query("keeping.kept", {});
    deepEqual(kept, ["done"]);
    return { ...end, kept };
  },
});
