import { defineCrashScenario, say } from "marling/testing";
import { brokenStore } from "./broken-store.mjs";

/** Every answer is stored under the same id. */
const repeating = (/** @type {import("marling").Store} */ store) => ({
  commit: (/** @type {Parameters<typeof store.commit>[0]} */ commit) =>
    store.commit({
      ...commit,
      nodes: commit.nodes.map((node) => {
        const message = /** @type {import("marling").JsonObject} */ (node.message);
        return message?.role === "assistant" ? { ...node, message: { ...message, id: "answer" } } : node;
      }),
    }),
});

export const scenario = defineCrashScenario({
  answer: () => say("fine"),
  store: (folder) => brokenStore(folder, repeating),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    await session.turn("two", { key: "two" }).result;
    return "the end";
  },
});
