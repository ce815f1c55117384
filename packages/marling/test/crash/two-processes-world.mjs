// The world of the processes that share a file: tools that leave a line behind, and a model that does what it is told.
// An input says what its turn does by its first word: safe, unsafe, pair; everything else is answered.

import { appendFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { definePlugin, defineTool } from "marling";
import { callTool, callTools, say, scriptedModel } from "marling/testing";

export const SESSIONS = ["a", "b", "c", "d"];

/** Numbers from 0 to below 1, always the same ones for a seed. @param {number} seed */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * What every runtime of this world is made with; tools write to the file at `log` when they begin and when they end.
 * @param {{ log: string, random: () => number }} options
 */
export function world({ log, random }) {
  const tool = (/** @type {string} */ name, /** @type {"safe" | "unsafe"} */ replay) =>
    defineTool({
      name,
      description: "Leaves a line.",
      input: { type: "object" },
      replay,
      execute: async (_input, { idempotencyKey }) => {
        appendFileSync(log, `${name} begins ${idempotencyKey}\n`);
        await delay(Math.floor(random() * 20));
        appendFileSync(log, `${name} ends ${idempotencyKey}\n`);
        return `${name} done`;
      },
    });
  return {
    model: scriptedModel(async (request) => {
      await delay(Math.floor(random() * 8));
      return answerTo(request);
    }),
    tools: [tool("safe", "safe"), tool("unsafe", "unsafe")],
    plugins: [counter(), compactor(random)],
  };
}

/** @param {import("marling/host").ModelRequest} request */
function answerTo({ messages }) {
  const last = messages.at(-1);
  const part = last?.role === "user" ? last.parts[0] : undefined;
  const [kind] = part?.kind === "text" ? part.text.split(" ") : [];
  if (kind === "safe" || kind === "unsafe") return callTool(kind);
  if (kind === "pair")
    return callTools([
      ["safe", {}],
      ["unsafe", {}],
    ]);
  return say("done");
}

/** Counts the turns that ran to their end, in state that is committed with them. */
function counter() {
  return definePlugin({
    id: "counter",
    build(ctx) {
      const turns = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          after: () => {
            turns.update((count) => count + 1);
          },
        },
        operations: { queries: { "counter.read": { session: "required", handler: () => turns.get() } } },
      };
    },
  })();
}

/** Takes its time to say how much there was. @param {() => number} random */
function compactor(random) {
  return definePlugin({
    id: "compactor",
    build: () => ({
      context: {
        compact: {
          compact: async ({ state }) => {
            const content = `${state.messageCount} messages before`;
            await delay(Math.floor(random() * 30));
            return { initialNodes: [{ kind: "message", message: { role: "system", content } }] };
          },
        },
      },
    }),
  })();
}
