// The host takes a tool away and gives it back, each between two turns that call it.

import { callTools, defineCrashScenario, say } from "marling/testing";
import { endOf, inputs, results, tool } from "./sample-tools.mjs";

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) < inputs(request) ? callTools([["secret", {}]]) : say("done")),
  options: () => ({ tools: [tool("secret")] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    const changes = (await session.history()).filter(({ kind }) => kind === "authority_change").length;
    if (changes === 0) await session.authorize({ hiddenTools: ["secret"] }, { reason: "not yet" });
    await session.turn("one", { key: "one" }).result;
    if (changes < 2) await session.authorize({ hiddenTools: undefined }, { reason: "now" });
    await session.turn("two", { key: "two" }).result;
    const { history, ...end } = await endOf(session);
    // The times of the changes are those of the run that made them.
    return { ...end, history: history.map((node) => ("at" in node ? { ...node, at: 0 } : node)) };
  },
});
