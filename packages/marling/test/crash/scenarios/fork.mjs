// A session that is forked, and both go on.

import { definePlugin } from "marling";
import { defineCrashScenario, say } from "marling/testing";
import { endOf, inputs } from "./sample-tools.mjs";

const turns = definePlugin({
  id: "turns",
  build(ctx) {
    const count = ctx.durable({ version: 1, initial: () => 0, fork: "copy" });
    return {
      turn: { after: () => count.update((before) => before + 1) },
      operations: { queries: { "turns.count": { handler: () => count.get() } } },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: (request) => say(`answer ${inputs(request)} in ${request.scope.sessionId}`),
  options: () => ({ plugins: [turns()] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    const isThere = await runtime.sessions.exists("fork");
    const fork = isThere ? await runtime.session("fork") : await runtime.sessions.fork("s", { as: "fork" });
    await fork.turn("two", { key: "two" }).result;
    await session.turn("two", { key: "two" }).result;
    return {
      session: await endOf(session),
      fork: await endOf(fork),
      turns: [await session.query("turns.count"), await fork.query("turns.count")],
    };
  },
});
