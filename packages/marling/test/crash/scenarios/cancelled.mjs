// A turn that is asked to end while it works. Whether it ends so or comes to its end first, all agree on which.

import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results, tool } from "./sample-tools.mjs";

/** The runtime of this life, for the tool. @type {import("marling").Runtime | undefined} */
let current;

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("work") : say("done")),
  options: () => ({
    tools: [
      tool("work", {
        answer: async () => {
          const session = await current?.session("s");
          await session?.cancel("turn-1", "enough");
          return "worked";
        },
      }),
    ],
  }),
  recover: (runtime) => {
    current = runtime;
    return runtime.recover();
  },
  run: async (runtime) => {
    const session = await runtime.session("s");
    const { outcome } = await session.turn("go", { id: "turn-1" }).result;
    const asked = await session.cancel("turn-1", "too late");
    const next = await session.turn("say something", { key: "next" }).result;
    const { turnIndex } = await endOf(session);
    return { outcome, asked, next: next.outcome.kind, turnIndex };
  },
});
