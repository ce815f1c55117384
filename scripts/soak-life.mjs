// A process of the soak test: opens the world, finishes what earlier ones left, asks for everything, and says what is
// there in the end.
//   node soak-life.mjs <seed> <folder>

import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime, definePlugin, defineTool, toolFailure } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTools, say, scriptedModel } from "marling/testing";
import { roundFor, worldOf } from "./soak-world.mjs";

const [seed = "0", folder = ""] = process.argv.slice(2);
const world = worldOf(Number(seed));
const tell = (/** @type {object} */ message) => process.send?.(message);

/** Counts turns and calls in its state, which must agree with the history whatever is killed when. */
const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const seen = ctx.durable({
      version: 1,
      initial: () => /** @type {Record<string, number>} */ ({}),
    });
    const count = (/** @type {string} */ name) => () =>
      seen.update((counts) => ({ ...counts, [name]: (counts[name] ?? 0) + 1 }));
    return {
      turn: { after: count("turns") },
      toolCalls: {
        before: count("before"),
        // Attempts that are tried again are told too; each call succeeds once.
        after: ({ result }) => (result.outcome.kind === "success" ? count("after")() : undefined),
      },
      output: { stream: ({ chunk }) => ({ chunk }) },
      operations: { queries: { "counting.seen": { handler: () => seen.get() } } },
    };
  },
});

const tools = world.tools.map(({ name, replay, delayMs, attempts }) =>
  defineTool({
    name,
    description: `The tool ${name}.`,
    input: { type: "object" },
    replay,
    retry: { attempts, delayMs: 1 },
    execute: async (_args, { sessionId, turnId, callId, attempt }) => {
      appendFileSync(join(folder, "ran.log"), `${replay} ${sessionId} ${turnId} ${callId} ${attempt}\n`);
      await delay(delayMs);
      return attempt < attempts ? toolFailure({ message: "not yet", retry: { safe: true } }) : { name };
    },
  }),
);

const model = scriptedModel(async (request) => {
  await delay(2);
  const { calls, text } = roundFor(world, request);
  return calls === undefined
    ? say(`done: ${text.length}`, { chunks: ["do", "ne"] })
    : callTools(calls.map((name) => [name, {}]));
});

const runtime = createRuntime({
  model,
  tools,
  plugins: [counting()],
  store: sqliteStore({ path: join(folder, "soak.db") }),
});
tell({ kind: "begun" });
await runtime.recover();
const sessions = await Promise.all(world.sessions.map(({ id }) => runtime.session(id)));
await Promise.all(
  world.sessions.flatMap(({ inputs }, at) =>
    inputs.map(async ({ key, text }) => {
      const turn = sessions[at]?.turn(text, { key });
      await turn?.accepted;
      tell({ kind: "accepted", key });
      await turn?.result;
    }),
  ),
);
const ends = await Promise.all(
  sessions.map(async (session) => ({
    id: session.id,
    turnIndex: session.read().turnIndex,
    history: await session.history(),
    seen: await session.query("counting.seen"),
  })),
);
await runtime.close();
const store = sqliteStore({ path: join(folder, "soak.db") });
const unsettled = await store.unsettled();
await store.close();
process.send?.({ kind: "end", end: { unsettled, sessions: ends } }, () => process.disconnect());
