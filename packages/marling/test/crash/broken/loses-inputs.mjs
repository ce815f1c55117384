import { defineCrashScenario, say } from "marling/testing";
import { brokenStore } from "./broken-store.mjs";

/** Nothing that was accepted is ever found again. */
const forgetful = () => ({
  pending: async () => [],
  unsettled: async () => [],
  workable: async () => [],
});

export const scenario = defineCrashScenario({
  answer: () => say("fine"),
  store: (folder) => brokenStore(folder, forgetful),
  run: async (runtime, { life }) => {
    const session = await runtime.session("s");
    if (life === 1) await session.turn("go", { key: "go" }).result;
    return "the end";
  },
});
