// Two tenants with a session each, one of which uses tools: a new process finds what was under way for both.

import { defineCrashScenario, say } from "marling/testing";
import { endOf, lastText, rounds, tool } from "./sample-tools.mjs";

const withTools = rounds(1, ["look", "pay"]);

export const scenario = defineCrashScenario({
  answer: (request) => (lastText(request) === "talk" ? say("words") : withTools(request)),
  options: () => ({ tools: [tool("look"), tool("pay", { replay: "unsafe" })] }),
  run: async (runtime) => {
    const north = await runtime.scope("north").session("n");
    const south = await runtime.scope("south").session("s");
    await north.turn("talk", { key: "talk" }).result;
    await south.turn("work", { key: "work" }).result;
    return { north: await endOf(north), south: await endOf(south) };
  },
});
