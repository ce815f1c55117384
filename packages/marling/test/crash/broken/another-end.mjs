// Its end depends on the life.

import { defineCrashScenario, say } from "marling/testing";
import { runInputs } from "../scenarios/sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: () => say("fine"),
  run: async (runtime, { life }) => ({ ...(await runInputs(runtime, ["go"])), life }),
});
