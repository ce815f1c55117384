// Two turns of words.

import { defineCrashScenario, say } from "marling/testing";
import { inputs, runInputs } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: (request) => say(`answer ${inputs(request)}`, { chunks: ["answer ", `${inputs(request)}`] }),
  run: (runtime) => runInputs(runtime, ["one", "two"]),
});
