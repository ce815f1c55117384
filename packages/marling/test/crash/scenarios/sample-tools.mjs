// What the scenarios are made of: tools that say what they were called with, and models that answer by the request.

import { setTimeout as delay } from "node:timers/promises";
import { defineTool } from "marling";
import { callTools, say } from "marling/testing";

/** @typedef {import("marling/host").ModelRequest} ModelRequest */

/**
 * @param {string} name
 * @param {{
 *   replay?: "safe" | "idempotent" | "unsafe",
 *   answer?: (args: import("marling").JsonObject) => unknown,
 * }} [options]
 */
export function tool(name, { replay = "safe", answer = (args) => ({ name, ...args }) } = {}) {
  return defineTool({
    name,
    description: `The tool ${name}.`,
    input: { type: "object" },
    replay,
    execute: async (args) => {
      await delay(1);
      return answer(args);
    },
  });
}

/** Messages with the results of a round of calls. @param {ModelRequest} request */
export const results = ({ messages }) => messages.filter(({ role }) => role === "tool").length;

/** @param {ModelRequest} request */
export const inputs = ({ messages }) => messages.filter(({ role }) => role === "user").length;

/** The newest text. @param {ModelRequest} request */
export function lastText({ messages }) {
  const part = messages.at(-1)?.parts.at(-1);
  return part?.kind === "text" ? part.text : "";
}

/**
 * Rounds of parallel calls for each input, then words.
 * @param {number} count
 * @param {readonly string[]} names
 * @returns {(request: ModelRequest) => import("marling/testing").ScriptStep}
 */
export function rounds(count, names) {
  return (request) => {
    const done = results(request) - (inputs(request) - 1) * count;
    if (done >= count) return say(`done after ${results(request)} rounds`, { chunks: ["done ", "after"] });
    return callTools(names.map((name, index) => [name, { round: done, index }]));
  };
}

/**
 * Runs an input per key and says what became of the session.
 * @param {import("marling").Runtime} runtime
 * @param {readonly string[]} texts
 */
export async function runInputs(runtime, texts) {
  const session = await runtime.session("s");
  for (const [index, text] of texts.entries()) await session.turn(text, { key: `input-${index}` }).result;
  return endOf(session);
}

/** Everything that is settled of a session. @param {import("marling").Session} session */
export async function endOf(session) {
  const { messages, frames, usage, turnIndex } = session.read();
  return { messages, frames, usage, turnIndex, history: await session.history() };
}
