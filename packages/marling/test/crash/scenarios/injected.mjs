// An input that arrives while a tool of a turn runs, and joins that turn.

import { callTool, defineCrashScenario, say } from "marling/testing";
import { inputs, results, runInputs, tool } from "./sample-tools.mjs";

/** The runtime of this life, for the tool. @type {import("marling").Runtime | undefined} */
let current;

export const scenario = defineCrashScenario({
  answer: (request) =>
    results(request) === 0 ? callTool("work") : say(`done, after ${inputs(request)} inputs`),
  options: () => ({
    tools: [
      tool("work", {
        answer: async () => {
          const session = await current?.session("s");
          await session?.enqueue("and one more thing", { key: "more", deliver: "active_turn" });
          return "worked";
        },
      }),
    ],
  }),
  recover: (runtime) => {
    current = runtime;
    return runtime.recover();
  },
  run: (runtime) => runInputs(runtime, ["go"]),
});
