// A plugin with state in every hook that may write it.

import { definePlugin, directive } from "marling";
import { defineCrashScenario } from "marling/testing";
import { rounds, runInputs, tool } from "./sample-tools.mjs";

const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const seen = ctx.durable({
      version: 1,
      initial: () => ({ hooks: /** @type {Record<string, number>} */ ({}) }),
    });
    const count = (/** @type {string} */ hook) => () => {
      seen.update(({ hooks }) => ({ hooks: { ...hooks, [hook]: (hooks[hook] ?? 0) + 1 } }));
    };
    const checkpoint = count("checkpoint");
    return {
      tools: [tool("stateful")],
      turn: {
        before: count("before"),
        after: count("after"),
        checkpoint: ({ checkpoint: kind, state }) => {
          checkpoint();
          const asked = state
            .tail(8)
            .some(({ parts }) =>
              parts.some((part) => part.kind === "text" && part.text === "One more thing."),
            );
          return kind === "before_completion" && !asked
            ? directive.enqueueMessages([{ role: "user", content: "One more thing." }])
            : undefined;
        },
      },
      toolCalls: { before: count("tool_before"), after: count("tool_after") },
      output: {
        stream: ({ chunk }) => {
          count("stream")();
          return { chunk: chunk.toUpperCase() };
        },
        response: ({ response }) => {
          count("response")();
          return { response };
        },
      },
      model: { request: count("request") },
      session: { onEvent: () => undefined },
      operations: { queries: { "counting.seen": { handler: () => seen.get().hooks } } },
    };
  },
});

export const scenario = defineCrashScenario({
  answer: rounds(1, ["stateful", "stateful"]),
  options: () => ({ plugins: [counting()] }),
  run: async (runtime) => {
    const end = await runInputs(runtime, ["go", "again"]);
    return { ...end, seen: await (await runtime.session("s")).query("counting.seen", {}) };
  },
});
