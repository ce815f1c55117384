// Calls of tools that may run again, may run again with the same key, and must not.

import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs, tool } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: rounds(2, ["safe", "idempotent", "unsafe"]),
  options: () => ({
    tools: [tool("safe"), tool("idempotent", { replay: "idempotent" }), tool("unsafe", { replay: "unsafe" })],
  }),
  run: (runtime) => runInputs(runtime, ["go"]),
});
