import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs, tool } from "../scenarios/sample-tools.mjs";
import { brokenStore, dropping } from "./broken-store.mjs";

export const scenario = defineCrashScenario({
  answer: rounds(1, ["a"]),
  options: () => ({ tools: [tool("a")] }),
  store: (folder) => brokenStore(folder, dropping("done")),
  run: (runtime) => runInputs(runtime, ["go"]),
});
