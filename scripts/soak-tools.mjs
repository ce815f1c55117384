// What the runtimes of the soak test are made of: tools that write to the ledger when they begin and when they end,
// plugins that count in their state what they see, and the model. All processes have the same.

import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { definePlugin, defineTool, switchFrame, toolFailure } from "marling";
import { approvals, subagents } from "marling/plugins";
import { callTools, say, scriptedModel } from "marling/testing";
import { marked, nextOf, planIdOf, REPLAY } from "./soak-world.mjs";

/** @typedef {import("marling").ToolContext} ToolContext */
/** @typedef {import("./soak-ledger.mjs").Ledger} Ledger */
/** @typedef {import("./soak-world.mjs").World} World */
/** @typedef {{ turns: Record<string, number>, before: Record<string, number>, after: Record<string, number> }} Seen */
/** @typedef {{ world: World, ledger: Ledger }} Surroundings */

const SERIAL = ["post", "stamp"];
/** Tools that plugins bring. */
const OF_PLUGINS = ["tally", "stamp", "begin_task", "spawn"];

/** A number from 0 to 1 for a name: the same in every process. @param {number} seed @param {string} name */
export const shareOf = (seed, name) =>
  createHash("sha256").update(`${seed} ${name}`).digest().readUInt32LE(0) / 2 ** 32;

/** What a runtime is made with beside its store and its clock. @param {Surroundings} around */
export function partsOf(around) {
  const names = Object.keys(REPLAY).filter((name) => !OF_PLUGINS.includes(name));
  return {
    model: model(around),
    tools: names.map((name) => recorded(name, around, WORK[name] ?? (() => ({ done: true })))),
    plugins: [
      counting(around),
      jobs(around),
      mail(),
      summary(),
      approvals({ rules: { refund: "ask" }, otherwise: "allow" }),
      subagents({ maxDepth: 2 }),
    ],
  };
}

/** What tools do beside taking their time. @type {Record<string, (args: any, ctx: ToolContext, around: Surroundings) => unknown>} */
const WORK = {
  retry: (_args, { attempt }) =>
    attempt === 1 ? toolFailure({ message: "not yet", retry: { safe: true } }) : { done: true },
  wait: async ({ id }, ctx, { ledger }) => {
    const key = await ctx.completionKey();
    ledger.write("wait", { key, plan: id, session: ctx.sessionId });
    return ctx.pending();
  },
  delegate: async ({ program }, { host }) => {
    const { sessionId } = await host.createSession({ plugins: "fresh" });
    const report = await host.startTurn(sessionId, marked(program));
    return { outcome: report.outcome.kind };
  },
  nest: async ({ id }, ctx) => {
    const replies = await ctx.callTools([
      { name: "pay", args: { id: `${id}.n0` } },
      { name: "look", args: { id: `${id}.n1` } },
    ]);
    return { outcomes: replies.map(({ output }) => output.outcome.kind) };
  },
  leave: ({ program }) => switchFrame({ key: program, task: marked(program) }),
};

/**
 * A tool whose attempts are in the ledger.
 * @param {string} name
 * @param {Surroundings} around
 * @param {(args: any, ctx: ToolContext, around: Surroundings) => unknown} work
 */
function recorded(name, around, work) {
  const { world, ledger } = around;
  const replay = REPLAY[name] ?? "unsafe";
  return defineTool({
    name,
    description: `The tool ${name}.`,
    input: { type: "object" },
    replay,
    ...(name === "retry" ? { retry: { attempts: 2, delayMs: 15 } } : {}),
    ...(SERIAL.includes(name) ? { execution: /** @type {const} */ ("serial") } : {}),
    execute: async (/** @type {any} */ args, ctx) => {
      const { sessionId: session, turnId: turn, attempt, idempotencyKey: key } = ctx;
      const about = { tool: name, replay, plan: planIdOf(name, args), session, turn, attempt, key };
      ledger.write("begin", about);
      const ms = shareOf(world.seed, about.plan) * 50 - 10;
      if (ms > 0) await delay(ms);
      const value = await work(args, ctx, around);
      ledger.write("end", about);
      return value;
    },
  });
}

/**
 * Counts turns and calls in its state, by name, which must agree with the history whatever is killed when. What its
 * hooks are told is in the ledger: a hook that sees an outcome sees a recorded one.
 * @param {Surroundings} around
 */
function counting(around) {
  const { ledger } = around;
  return definePlugin({
    id: "counting",
    build(ctx) {
      const seen = ctx.durable({
        version: 1,
        initial: () =>
          /** @type {Seen & { tools: Record<string, number> }} */ ({
            turns: {},
            before: {},
            after: {},
            tools: {},
          }),
      });
      const count = (
        /** @type {"turns" | "before" | "after" | "tools"} */ what,
        /** @type {string} */ name,
      ) => seen.update((all) => ({ ...all, [what]: { ...all[what], [name]: (all[what][name] ?? 0) + 1 } }));
      return {
        tools: ["tally", "stamp"].map((name) =>
          recorded(name, around, ({ id }) => {
            count("tools", id);
            return { done: true };
          }),
        ),
        turn: { after: ({ turn }) => void count("turns", turn.turnId) },
        toolCalls: {
          before: ({ toolName, args }) => void count("before", planIdOf(toolName, args)),
          after: ({ toolName, args, result, sessionId, turnContext }) => {
            const plan = planIdOf(toolName, args);
            if (result.outcome.kind !== "success") return undefined;
            ledger.write("after", { plan, session: sessionId, turn: turnContext.turnId });
            count("after", plan);
            return undefined;
          },
        },
        output: {
          stream: ({ chunk }) => ({ chunk }),
          response: ({ sessionId, response }) => {
            const request = response.parts.flatMap((part) => (part.kind === "text" ? [part.text] : []))[0];
            ledger.write("response", { session: sessionId, request });
            return { response };
          },
        },
        operations: { queries: { "counting.seen": { handler: () => seen.get() } } },
      };
    },
  })();
}

/** Durable tasks of three steps. @param {Surroundings} around */
function jobs(around) {
  const { ledger } = around;
  return definePlugin({
    id: "jobs",
    build: ({ sessionId }) => ({
      background: {
        index: async ({ step, record }) => {
          for (const name of ["one", "two", "three"])
            await step(name, async ({ idempotencyKey: key }) => {
              ledger.write("step", { session: sessionId, task: record.id, step: name, key });
              await delay(shareOf(around.world.seed, `${record.id} ${name}`) * 40);
              ledger.write("step_end", { session: sessionId, task: record.id, step: name, key });
              return name;
            });
          return `indexed ${record.id}`;
        },
      },
      tools: [
        recorded("begin_task", around, async ({ id }, ctx) => {
          const spec = /** @type {const} */ ({ kind: "other", producer: "jobs", label: "index" });
          await ctx.host.spawnManagedTask(ctx.sessionId, { ...spec, id, durable: { recovery: "rerun" } });
          return { begun: id };
        }),
      ],
    }),
  })();
}

/** Says that mail is received. */
const mail = definePlugin({
  id: "mail",
  build: () => ({ triggers: [{ resourceType: "mailbox", alias: "mail", event: "received" }] }),
});

/** Compacts to one message. */
const summary = definePlugin({
  id: "summary",
  build: () => ({
    context: {
      compact: {
        compact: async ({ state }) => {
          await delay(10);
          const content = `what was before: ${state.tail(999).length} messages`;
          return { initialNodes: [{ kind: "message", message: { role: "user", content } }] };
        },
      },
    },
  }),
});

/** Does what the newest program says. The first words of an answer name its request. @param {Surroundings} around */
function model({ world, ledger }) {
  return scriptedModel(async (request) => {
    const { requestId, sessionId: session } = request.scope;
    ledger.write("model", { request: requestId, session });
    await delay(shareOf(world.seed, requestId) * 15);
    const { calls } = nextOf(world, request);
    ledger.write("model_end", { request: requestId, session, plans: (calls ?? []).map(({ id }) => id) });
    if (calls === undefined) return say(requestId, { chunks: [requestId.slice(0, 4), requestId.slice(4)] });
    return callTools(calls.map(argsOf), { text: requestId });
  });
}

/** @param {import("./soak-world.mjs").Call} call @returns {[string, object]} */
function argsOf({ tool, id, program }) {
  if (tool === "spawn") return [tool, { task: marked(program ?? "") }];
  return [tool, program === undefined ? { id } : { id, program }];
}
