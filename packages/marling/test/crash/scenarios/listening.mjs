// A turn that changes frames twice, with a plugin that is told of every commit and counts them in its state.

import { deepEqual } from "node:assert/strict";
import { definePlugin, switchFrame } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { results, runInputs, tool } from "./sample-tools.mjs";

const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const told = ctx.durable({ version: 1, initial: () => /** @type {string[]} */ ([]) });
    return {
      session: {
        onEvent: (event) => {
          if (event.kind === "turn_persisted") told.update((turns) => [...turns, event.turnId]);
        },
      },
      operations: { queries: { "counting.told": { session: "required", handler: () => told.get() } } },
    };
  },
});

/** A handler beside it, which writes nothing. */
const listening = definePlugin({ id: "listening", build: () => ({ session: { onEvent: () => undefined } }) });

const leave = (/** @type {string} */ task) =>
  tool(`leave_for_${task}`, { answer: () => switchFrame({ key: task, task }) });

export const scenario = defineCrashScenario({
  answer: (request) => {
    const asked = request.messages.findLast(({ role }) => role === "user")?.parts.at(-1);
    const text = asked?.kind === "text" ? asked.text : "";
    if (text === "go") return callTool("leave_for_second");
    if (text === "second") return callTool(results(request) === 0 ? "work" : "leave_for_third");
    return say("done");
  },
  options: () => ({
    tools: [tool("work"), leave("second"), leave("third")],
    plugins: [counting(), listening()],
  }),
  run: async (runtime) => {
    const end = await runInputs(runtime, ["go", "go on"]);
    const told = await (await runtime.session("s")).query("counting.told", {});
    // Told again or not, what a handler writes about a commit is committed once.
    const turn = "s:turn:1";
    deepEqual(told, [turn, `${turn}:frame:1`, `${turn}:frame:2`, "s:turn:2"]);
    return { ...end, told };
  },
});
