import { defineCrashScenario } from "marling/testing";
import { endOf, rounds, tool } from "../scenarios/sample-tools.mjs";
import { brokenStore, dropping } from "./broken-store.mjs";

export const scenario = defineCrashScenario({
  answer: rounds(1, ["a"]),
  options: () => ({ tools: [tool("a")] }),
  store: (folder) => brokenStore(folder, dropping("done")),
  run: async (runtime) => {
    const session = await runtime.scope("north").session("s");
    await session.turn("go", { key: "go" }).result;
    return endOf(session);
  },
});
