import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs, tool } from "../scenarios/sample-tools.mjs";
import { brokenStore, dropping } from "./broken-store.mjs";

export const scenario = defineCrashScenario({
  answer: rounds(1, ["unsafe"]),
  options: () => ({ tools: [tool("unsafe", { replay: "unsafe" })] }),
  store: (folder) => brokenStore(folder, dropping("started")),
  run: (runtime) => runInputs(runtime, ["go"]),
});
