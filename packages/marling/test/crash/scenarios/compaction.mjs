// A session that is compacted between two turns.

import { definePlugin } from "marling";
import { defineCrashScenario, say } from "marling/testing";
import { endOf, inputs } from "./sample-tools.mjs";

const summary = definePlugin({
  id: "summary",
  build: () => ({
    context: {
      compact: {
        compact: ({ state }) => ({
          initialNodes: [
            { kind: "message", message: { role: "user", content: `${state.tail(99).length} before` } },
          ],
        }),
      },
    },
  }),
});

export const scenario = defineCrashScenario({
  answer: (request) => say(`answer to ${inputs(request)}`),
  options: () => ({ plugins: [summary()] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    await session.turn("two", { key: "two" }).result;
    if (session.read().frames.length === 1) await session.compact();
    await session.turn("three", { key: "three" }).result;
    return endOf(session);
  },
});
