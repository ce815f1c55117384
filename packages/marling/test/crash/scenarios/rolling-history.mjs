// A session that is compacted before a turn, on an overflow inside a turn, and between turns, and goes on.

import { rollingHistory } from "marling/plugins";
import { defineCrashScenario, failWith, say } from "marling/testing";
import { endOf, inputs, lastText } from "./sample-tools.mjs";

const LONG = "word ".repeat(80);

export const scenario = defineCrashScenario({
  answer: (request) => {
    if (request.system.startsWith("You summarise")) return say(`a summary of ${request.messages.length}`);
    if (lastText(request) === "overflow" && inputs(request) > 3)
      return failWith({ kind: "context_overflow" });
    return say(`${inputs(request)} ${LONG}`);
  },
  options: () => ({ plugins: [rollingHistory({ contextTokens: 500, threshold: 0.8, keepTurns: 1 })] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    for (const key of ["one", "two", "three", "four", "five"]) await session.turn(key, { key }).result;
    await session.turn("overflow", { key: "overflow" }).result;
    if (session.read().frames.length === 3) await session.compact("everything");
    await session.turn("last", { key: "last" }).result;
    return { ...(await endOf(session)), status: await session.query("history.status", {}) };
  },
});
