import { defineCrashScenario, say } from "marling/testing";
import { runInputs } from "../scenarios/sample-tools.mjs";
import { brokenStore } from "./broken-store.mjs";

export const scenario = defineCrashScenario({
  answer: () => say("fine"),
  store: (folder) => brokenStore(folder, () => ({ sneak: async () => undefined })),
  run: (runtime) => runInputs(runtime, ["go"]),
});
