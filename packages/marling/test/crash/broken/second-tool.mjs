// A tool whose result differs when it runs again: with a kill in its first run, the end is another.

import { defineTool } from "marling";
import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs } from "../scenarios/sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: rounds(1, ["twice"]),
  options: ({ life }) => ({
    tools: [
      defineTool({
        name: "twice",
        description: "Says in which life it ran.",
        input: { type: "object" },
        replay: "safe",
        execute: () => life,
      }),
    ],
  }),
  run: (runtime) => runInputs(runtime, ["go"]),
});
