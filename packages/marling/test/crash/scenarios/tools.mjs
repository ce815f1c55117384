// Three rounds of four calls that run at once.

import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs, tool } from "./sample-tools.mjs";

const NAMES = ["a", "b", "c", "d"];

export const scenario = defineCrashScenario({
  answer: rounds(3, NAMES),
  options: () => ({ tools: NAMES.map((name) => tool(name)) }),
  run: (runtime) => runInputs(runtime, ["go"]),
});
