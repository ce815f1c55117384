// A session that is long enough for a commit that stores all of its head, and goes on behind it.

import { defineCrashScenario, say } from "marling/testing";
import { inputs, runInputs } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: (request) => say(`answer ${inputs(request)}`),
  run: (runtime) =>
    runInputs(
      runtime,
      Array.from({ length: 68 }, (_, index) => `input ${index}`),
    ),
});
