// A tool that is tried again after a while, and one whose result never comes.

import { defineTool, toolFailure } from "marling";
import { callTools, defineCrashScenario, say } from "marling/testing";
import { results, runInputs } from "./sample-tools.mjs";

const later = defineTool({
  name: "later",
  description: "Works the second time.",
  input: { type: "object" },
  replay: "safe",
  retry: { attempts: 2, delayMs: 60 },
  execute: (_args, { attempt }) =>
    attempt === 1 ? toolFailure({ message: "not yet", retry: { safe: true } }) : "at last",
});

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

export const scenario = defineCrashScenario({
  answer: (request) =>
    results(request) === 0
      ? callTools([
          ["later", {}],
          ["never", {}],
        ])
      : say("done"),
  options: () => ({ tools: [later, never] }),
  run: (runtime) => runInputs(runtime, ["go"]),
});
