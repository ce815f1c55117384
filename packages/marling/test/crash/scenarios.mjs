// @ts-nocheck -- plain JavaScript for a process of its own, which runs against the build
// What is run and killed: turns whose model answers by the request and never by a count.

import { definePlugin, defineTool, directive, switchFrame } from "marling";
import { callTools, failWith, say } from "marling/testing";

/** @typedef {{ log(line: string): void, boundary(name: string): void }} Watch */

/** @param {Watch} watch */
function tool(watch, name, replay = "safe", answer = (args) => ({ name, ...args })) {
  return defineTool({
    name,
    description: `The tool ${name}.`,
    input: { type: "object" },
    replay,
    execute: async (args, ctx) => {
      watch.log(`call ${replay} ${ctx.turnId} ${ctx.callId}`);
      watch.boundary(`${name} begins`);
      await new Promise((resolve) => setTimeout(resolve, 1));
      watch.log(`done ${replay} ${ctx.turnId} ${ctx.callId}`);
      watch.boundary(`${name} ends`);
      return answer(args);
    },
  });
}

const results = ({ messages }) => messages.filter(({ role }) => role === "tool").length;
const inputs = ({ messages }) => messages.filter(({ role }) => role === "user").length;

/** Rounds of four parallel calls, then words. */
const rounds = (count, names) => (request) => {
  const done = results(request) - (inputs(request) - 1) * count;
  if (done >= count) return say(`done after ${results(request)} rounds`);
  return callTools(names.map((name, index) => [name, { round: done, index }]));
};

/** A plugin with state in every hook that may write it. @param {Watch} watch */
const counting = (watch) =>
  definePlugin({
    id: "counting",
    build(ctx) {
      const seen = ctx.durable({ version: 1, initial: () => ({ hooks: {} }) });
      const count = (hook) => () => {
        watch.boundary(`hook ${hook}`);
        seen.update(({ hooks }) => ({ hooks: { ...hooks, [hook]: (hooks[hook] ?? 0) + 1 } }));
      };
      const checkpoint = count("checkpoint");
      return {
        tools: [tool(watch, "stateful")],
        turn: {
          before: count("before"),
          after: count("after"),
          checkpoint: ({ checkpoint: kind, state }) => {
            checkpoint();
            const asked = state
              .tail(8)
              .some(({ parts }) => parts.some((part) => part.text === "One more thing."));
            return kind === "before_completion" && !asked
              ? directive.enqueueMessages([{ role: "user", content: "One more thing." }])
              : undefined;
          },
        },
        toolCalls: { before: count("tool_before"), after: count("tool_after") },
        output: {
          stream: ({ chunk }) => {
            count("stream")();
            return { chunk: chunk.toUpperCase() };
          },
          response: ({ response }) => {
            count("response")();
            return { response };
          },
        },
        model: { request: () => void count("request")() },
        session: { onEvent: ({ kind }) => watch.boundary(`event ${kind}`) },
        operations: { queries: { "counting.seen": { handler: () => seen.get().hooks } } },
      };
    },
  });

/** @type {Record<string, (watch: Watch) => { answer: (request: any) => any, options: any, inputs: string[] }>} */
export const SCENARIOS = {
  text: () => ({
    answer: (request) => say(`answer ${inputs(request)}`),
    options: {},
    inputs: ["one", "two"],
  }),
  tools: (watch) => ({
    answer: rounds(3, ["a", "b", "c", "d"]),
    options: { tools: ["a", "b", "c", "d"].map((name) => tool(watch, name)) },
    inputs: ["go"],
  }),
  mixed: (watch) => ({
    answer: rounds(2, ["safe", "idempotent", "unsafe"]),
    options: { tools: ["safe", "idempotent", "unsafe"].map((name) => tool(watch, name, name)) },
    inputs: ["go"],
  }),
  hooks: (watch) => ({
    answer: rounds(1, ["stateful", "stateful"]),
    options: { plugins: [counting(watch)()] },
    inputs: ["go", "again"],
  }),
  frames: (watch) => ({
    answer: (request) => {
      const text = request.messages.at(-1)?.parts.at(-1)?.text ?? "";
      if (results(request) === 0 && text === "go") return callTools([["leave", {}]]);
      return text === "the task" && results(request) === 0
        ? callTools([["work", {}]])
        : say("done in the new frame");
    },
    options: {
      tools: [
        tool(watch, "work"),
        tool(watch, "leave", "safe", () => switchFrame({ key: "second", task: "the task" })),
      ],
    },
    inputs: ["go", "go on"],
  }),
  poison: () => ({
    answer: (request) => {
      const text = request.messages.at(-1)?.parts.at(-1)?.text ?? "";
      return text === "go" ? callTools([["poison", {}]]) : say("fine again");
    },
    options: {
      tools: [
        defineTool({
          name: "poison",
          description: "Ends the process.",
          input: { type: "object" },
          replay: "safe",
          execute: () => process.kill(process.pid, "SIGKILL"),
        }),
      ],
    },
    inputs: ["go", "go on"],
  }),
  retries: (watch) => {
    let failures = 0;
    return {
      answer: (request) => {
        failures += 1;
        return failures % 2 === 1
          ? failWith({ kind: "overloaded", retryAfterMs: 1 })
          : rounds(1, ["a"])(request);
      },
      options: { tools: [tool(watch, "a")] },
      inputs: ["go"],
    };
  },
};
