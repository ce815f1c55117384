// A call that sleeps beside calls that run after it, with a plugin that counts all of them in its state.

import { deepEqual } from "node:assert/strict";
import { definePlugin, defineTool } from "marling";
import { callTools, defineCrashScenario, say } from "marling/testing";
import { results, runInputs } from "./sample-tools.mjs";

const never = defineTool({
  name: "never",
  description: "Waits for what does not come.",
  input: { type: "object" },
  replay: "safe",
  execute: async (_args, ctx) => {
    await ctx.completionKey();
    return ctx.pending({ deadlineMs: 60 });
  },
});

const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const ended = ctx.durable({ name: "ended", version: 1, initial: () => /** @type {string[]} */ ([]) });
    const worked = ctx.durable({ name: "worked", version: 1, initial: () => 0 });
    const serial = defineTool({
      name: "serial",
      description: "Counts its own calls.",
      input: { type: "object" },
      replay: "safe",
      execution: "serial",
      execute: () => {
        worked.update((count) => count + 1);
        return "worked";
      },
    });
    return {
      tools: [never, serial],
      toolCalls: { after: ({ callId }) => ended.update((calls) => [...calls, callId]) },
      operations: {
        queries: {
          // In which order calls end that wait for the same time is nobody's promise; how often each ends is.
          "counting.seen": { handler: () => ({ ended: [...ended.get()].sort(), worked: worked.get() }) },
        },
      },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: (request) =>
    results(request) === 0
      ? callTools([
          ["never", {}],
          ["serial", {}],
          ["never", {}],
          ["serial", {}],
        ])
      : say("done"),
  options: () => ({ plugins: [counting()] }),
  run: async (runtime) => {
    const end = await runInputs(runtime, ["go"]);
    const seen = await (await runtime.session("s")).query("counting.seen", {});
    // A run that nobody interrupts sleeps too, so that comparing ends is not enough.
    deepEqual(seen, { ended: ["call_1", "call_2", "call_3", "call_4"], worked: 2 });
    return { ...end, seen };
  },
});
