// Payments of a turn that is interrupted again and again. A turn that recovery ends keeps what had finished, and the next
// turn's model is shown it; recoveries between which an outcome was recorded do not end a turn.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, defineCrashScenario, say } from "marling/testing";
import { tool } from "./sample-tools.mjs";

const TURN = "s:turn:1";
const RECOVERIES = 3;

/** The store of this life. @type {import("marling").Store | undefined} */
let store;

/** @param {import("marling/host").ModelRequest} request */
function answer(request) {
  const isNext = request.messages.some(({ parts }) =>
    parts.some((part) => part.kind === "text" && part.text === "next"),
  );
  if (isNext) return say(JSON.stringify(resultsOf(request.messages)));
  const rounds = request.messages.filter(({ role }) => role === "assistant").length;
  if (rounds === 0) return callTool("pay", { n: 0 });
  if (rounds === 1)
    return callTools([
      ["pay", { n: 1 }],
      ["look", {}],
      ["pay", { n: 2 }],
    ]);
  return rounds === 2 ? callTool("bundle") : say("all paid");
}

/**
 * The results in messages, by call.
 * @param {readonly { readonly parts: readonly object[] }[]} messages
 * @returns {readonly (readonly [string, string])[]}
 */
function resultsOf(messages) {
  return messages
    .flatMap(({ parts }) => /** @type {readonly Record<string, unknown>[]} */ (parts))
    .filter(({ kind }) => kind === "tool_result")
    .map(({ callId, text }) => [String(callId), String(text)]);
}

/** Lines of a file. @param {string} path */
const linesOf = (path) => (existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean) : []);

/** Recoveries since an outcome was last recorded, as the journal has them now. */
async function idleRecoveries() {
  const records = (await store?.journal?.read(/** @type {never} */ ("s"), /** @type {never} */ (TURN))) ?? [];
  const since = records.slice(records.findLastIndex(({ status }) => status === "done") + 1);
  return { isBegun: records.length > 0, idle: since.filter(({ key }) => key.startsWith("recovery.")).length };
}

export const scenario = defineCrashScenario({
  answer,
  store: (folder) => {
    store = sqliteStore({ path: join(folder, "crash.db") });
    return store;
  },
  options: ({ folder }) => ({
    tools: [
      tool("pay", {
        replay: "unsafe",
        answer: ({ n }) => {
          appendFileSync(join(folder, "paid"), `${n}\n`);
          return `paid ${n}`;
        },
      }),
      tool("look"),
      tool("bundle", { answer: () => "bundled" }),
    ],
  }),
  recover: async (runtime, { folder }) => {
    const { isBegun, idle } = await idleRecoveries();
    if (isBegun) appendFileSync(join(folder, "expected"), `${idle >= RECOVERIES ? "ended" : "resumed"}\n`);
    await runtime.recover();
  },
  run: async (runtime, { folder }) => {
    const session = await runtime.session("s");
    const { outcome } = await session.turn("go", { key: "go" }).result;
    const expected = linesOf(join(folder, "expected")).at(-1);
    const isEnded = outcome.kind === "stopped" && outcome.code === "recovery_exhausted";
    const next = await session.turn("next", { key: "next" }).result;
    const shown = resultsOf(session.read().messages);
    const paid = linesOf(join(folder, "paid"));
    const isKnown = (/** @type {string} */ n) =>
      shown.some(([, text]) => text.includes(`paid ${n}`) || text.includes("may have taken effect"));
    return {
      isAsExpected: isEnded ? expected === "ended" : expected !== "ended" && outcome.kind === "finished",
      lost: paid.filter((n) => !isKnown(n)),
      isShown: next.text === JSON.stringify(shown),
      repeated: paid.filter((n, at) => paid.indexOf(n) !== at),
    };
  },
});
