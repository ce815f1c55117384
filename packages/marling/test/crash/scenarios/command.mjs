// A command of a plugin that changes its state and queues a turn, both in one commit.

import { definePlugin } from "marling";
import { defineCrashScenario, say } from "marling/testing";
import { endOf, inputs } from "./sample-tools.mjs";

const reminders = definePlugin({
  id: "reminders",
  build(ctx) {
    const given = ctx.durable({ version: 1, initial: () => 0 });
    return {
      operations: {
        queries: { "reminders.given": { handler: () => given.get() } },
        commands: {
          "reminders.remind": {
            handler: () => {
              given.update((before) => before + 1);
              return {
                output: "queued",
                directives: [{ kind: "queue_turn", input: "Remember the milk.", key: "reminder" }],
              };
            },
          },
        },
      },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: (request) => say(`answer ${inputs(request)}`),
  options: () => ({ plugins: [reminders()] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    if ((await session.query("reminders.given")) === 0) await session.command("reminders.remind");
    await session.turn("Remember the milk.", { key: "reminder" }).result;
    return { ...(await endOf(session)), given: await session.query("reminders.given") };
  },
});
