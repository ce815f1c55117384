// Handlers that are told of every part of a turn: the turn keeps its lease from its first part to its last.

import { definePlugin, type Plugin } from "marling";
import { sessionTitle } from "marling/plugins";
import { callTool, type ScriptFunction, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { BACKINGS, live, movingTool, quickTool } from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";

/** Answers from the conversation, so that a request of a plugin is answered beside it. */
const script: ScriptFunction = ({ messages }) => {
  const text = JSON.stringify(messages.filter(({ role }) => role === "user").at(-1)?.parts ?? []);
  const hasResult = messages.at(-1)?.role === "tool";
  if (text.includes("Hi")) return callTool("move");
  if (!text.includes("Go on there.")) return say("A title");
  return hasResult ? say("Here.") : callTool("look");
};

/** Counts the parts that it was told of, in its state. */
const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const seen = ctx.durable({ version: 1, initial: () => 0 });
    return {
      session: {
        onEvent: ({ kind }) => {
          if (kind === "turn_persisted") seen.update((count) => count + 1);
        },
      },
      operations: { queries: { "counting.seen": { session: "required", handler: () => seen.get() } } },
    };
  },
});

const HANDLERS: readonly (readonly [string, () => Plugin])[] = [
  ["a handler that does nothing", () => plugin("p", { session: { onEvent: () => undefined } })],
  [
    "a handler that takes its time",
    () => plugin("p", { session: { onEvent: () => new Promise<void>((resolve) => setImmediate(resolve)) } }),
  ],
  [
    "a handler that fails",
    () => plugin("p", { session: { onEvent: () => Promise.reject(new Error("broken")) } }),
  ],
  ["a handler that writes state", () => counting()],
  ["the stock plugin sessionTitle", () => sessionTitle()],
];

describe.each(BACKINGS)("on $name", ({ open }) => {
  test.each(HANDLERS)("[AN3] a turn with %s goes on in another frame", async (_name, make) => {
    const { session } = await live({
      store: open()(),
      script,
      tools: [movingTool(), quickTool("look")],
      plugins: [make()],
    });
    const { outcome, toolCalls } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ kind: "finished", text: "Here." });
    expect(toolCalls.map(({ name }) => name)).toEqual(["move", "look"]);
    expect(transcript(session).at(-1)).toBe("assistant: Here.");
  });
});
