// Compactions that an append overtakes: one between turns, one inside a turn whose first call overflowed.

import { definePlugin } from "marling";
import { defineCrashScenario, failWith, say } from "marling/testing";
import { endOf, lastText } from "./sample-tools.mjs";

/** @typedef {import("marling").AppendNode} AppendNode */

/** @param {import("marling").Message} message */
const textOf = ({ parts: [part] }) => (part?.kind === "text" ? part.text : "");

/** @param {string} content @param {string} [id] @returns {AppendNode} */
const user = (content, id) => ({
  kind: "message",
  message: { role: "user", content, ...(id === undefined ? {} : { id }) },
});

/** The note has an id: an append that landed before a crash is not made again, and the compactor has seen it. */
const summary = definePlugin({
  id: "summary",
  build: () => ({
    context: {
      compact: {
        compact: async ({ state, host, sessionId }) => {
          const note = `note ${state.frames.length}`;
          const isThere = state.messages.some(({ id }) => id === note);
          await host.appendSessionNodes(sessionId, { nodes: [user(note, note)] });
          return { initialNodes: [user("summary"), ...(isThere ? [user(note)] : [])] };
        },
      },
    },
    model: { error: () => ({ kind: "compact_and_retry" }) },
  }),
});

export const scenario = defineCrashScenario({
  answer: (request) => {
    const hasOverflowed = request.messages[0]?.parts.some(
      (part) => part.kind === "text" && part.text === "summary",
    );
    const isCompacted = request.messages.length < 5;
    if (lastText(request) === "two" && hasOverflowed && !isCompacted)
      return failWith({ kind: "context_overflow" });
    return say(`answer to ${lastText(request)}`);
  },
  options: () => ({ plugins: [summary()] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    await session.turn("one", { key: "one" }).result;
    if (session.read().frames.length === 1) await session.compact();
    await session.turn("more", { key: "more" }).result;
    await session.turn("two", { key: "two" }).result;
    const { messages, frames } = await endOf(session);
    return { texts: messages.map(textOf), reasons: frames.map(({ reason }) => reason) };
  },
});
