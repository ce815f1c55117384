// A model that fails the first time it is asked something, a tool that fails its first attempt, and one that is not there.

import { defineTool, toolFailure } from "marling";
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
  options: () => ({ tools: [flaky] }),
  run: (runtime) => runInputs(runtime, ["go"]),
});
