// A command that says one line, which becomes a turn: once it is accepted it is not lost, and is heard once.

import { setTimeout as delay } from "node:timers/promises";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results, runInputs, tool } from "./sample-tools.mjs";

const DOOR = { id: "door", command: "echo somebody rings" };

/** @param {import("marling").Session} session */
const isOpen = (session) => JSON.stringify(session.read().messages).includes('"opened"');

export const scenario = defineCrashScenario({
  answer: (request) => {
    const hasRung = JSON.stringify(request.messages).includes("somebody rings");
    if (!hasRung) return say("waiting");
    return results(request) === 0 ? callTool("open") : say("opened");
  },
  options: () => ({ tools: [tool("open")] }),
  run: async (runtime) => {
    await runInputs(runtime, ["wait"]);
    const session = await runtime.session("s");
    const hasBegun = (await session.pending()).length > 0 || session.read().turnIndex > 1;
    if (!hasBegun) await session.monitors.start(DOOR);
    for (let tries = 0; !isOpen(session) && tries < 2000; tries += 1) await delay(5);
    if (!isOpen(session)) throw new Error("expected the door to be opened, found that nobody heard");
    return endOf(session);
  },
});
