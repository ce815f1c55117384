// Hooks of finished answers with state and events. Each hook notes in a file which answer it saw: the model must not be asked
// for that answer again, wherever the process is killed, and the hooks' state counts once.

import { deepEqual } from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { definePlugin } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { results, runInputs, tool } from "./sample-tools.mjs";

const USAGE = { input: 3, output: 1, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

/** @param {import("marling/testing").CrashWatch} watch */
function hooked({ folder, boundary }) {
  const noted = (/** @type {number} */ step) => join(folder, `answer-${step}`);
  return definePlugin({
    id: "hooked",
    build(ctx) {
      const seen = ctx.durable({ version: 1, initial: () => /** @type {string[]} */ ([]) });
      const see = (/** @type {string} */ what) => seen.update((before) => [...before, what]);
      return {
        model: {
          request: ({ request }) => {
            if (existsSync(noted(results(request))))
              throw new Error(`the model is asked again for answer ${results(request)}`);
          },
        },
        output: {
          stream: ({ chunk }) => {
            see(`stream ${chunk}`);
            return { chunk };
          },
          response: ({ response }) => {
            const parts = response.parts.map((part) => {
              if (part.kind !== "text") return part;
              writeFileSync(noted(Number(part.text.split(" ")[1])), "");
              boundary(`response ${part.text}`);
              see(`response ${part.text}`);
              return { ...part, text: `${part.text}, hooked` };
            });
            const events = [{ kind: /** @type {const} */ ("custom"), name: "hooked", payload: null }];
            return { response: { ...response, parts }, events };
          },
          streamFinished: ({ reason }) => {
            see(`finished ${reason}`);
            boundary("streamFinished");
          },
        },
        operations: { queries: { "hooked.seen": { handler: () => [...seen.get()] } } },
      };
    },
  })();
}

export const scenario = defineCrashScenario({
  answer: (request) => {
    const step = results(request);
    return step === 0
      ? callTool("look", {}, { text: `answer ${step}`, usage: USAGE })
      : say(`answer ${step}`, { usage: USAGE });
  },
  options: (watch) => ({ tools: [tool("look", { replay: "idempotent" })], plugins: [hooked(watch)] }),
  run: async (runtime) => {
    const end = await runInputs(runtime, ["go"]);
    const seen = await (await runtime.session("s")).query("hooked.seen", {});
    const hooks = (/** @type {number} */ step) => [
      `stream answer ${step}`,
      `response answer ${step}`,
      "finished complete",
    ];
    deepEqual(seen, [...hooks(0), ...hooks(1)]);
    return { ...end, seen };
  },
});
