// What a watcher sees of a turn that is run again from its recorded effects: model-call.ts, rule MC3, and code-cell.ts.

import {
  createRuntime,
  defineTool,
  type EffectHost,
  type RuntimeOptions,
  type TurnEvent,
  type TurnReport,
} from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { codeProtocol } from "./code-support.ts";
import { plugin, port, responseOf, textsOf, watch } from "./model-support.ts";

/** Remembers outcomes as JSON and performs only what it does not know. */
function remembering(): EffectHost {
  const known = new Map<string, string>();
  return {
    run: async (request, perform) => {
      const name = `${request.turnId} ${request.key}`;
      const recorded = known.get(name) ?? JSON.stringify(await perform(undefined));
      known.set(name, recorded);
      return JSON.parse(recorded);
    },
  };
}

interface Both {
  readonly live: readonly TurnEvent[];
  readonly again: readonly TurnEvent[];
  readonly reports: readonly TurnReport[];
}

/** The same turn twice: performed, and from what was recorded. The second model is never to be asked. */
async function twice(options: Omit<RuntimeOptions, "effects">): Promise<Both> {
  const effects = remembering();
  const run = async (more: RuntimeOptions) => {
    const runtime = createRuntime({ ...more, effects });
    const watched = await watch((await runtime.session("s")).turn("Go"));
    await runtime.close();
    return watched;
  };
  const live = await run(options);
  const unasked = scriptedModel(() => {
    throw new Error("expected no model call");
  });
  const again = await run({ ...options, model: unasked });
  expect(again.report).toEqual(live.report);
  return { live: live.events, again: again.events, reports: [live.report, again.report] };
}

const shown = (events: readonly TurnEvent[]) =>
  events.filter(({ kind }) => /_delta$/.test(kind) || kind === "model_call");

const echo = defineTool({
  name: "echo",
  description: "Says what it is told.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => `echo ${text}`,
});

test("[MC3] a recorded call shows its reasoning and its text again, with its tool calls", async () => {
  const { live, again, reports } = await twice({
    model: scriptedModel([
      callTool("echo", { text: "x" }, { text: "Let me look.", reasoning: "Hm." }),
      say("Found it.", { chunks: ["Found", " it."] }),
    ]),
    tools: [echo],
  });
  expect(textsOf(live)).toEqual(["Let me look.", "Found", " it."]);
  const [first, second] = reports[0]?.modelCalls ?? [];
  expect(shown(again)).toEqual([
    { kind: "model_call", phase: "started", round: 0, model: "default" },
    { kind: "reasoning_delta", round: 0, text: "Hm." },
    { kind: "text_delta", round: 0, text: "Let me look." },
    { kind: "model_call", phase: "finished", round: 0, record: first },
    { kind: "model_call", phase: "started", round: 1, model: "default" },
    { kind: "text_delta", round: 1, text: "Found it." },
    { kind: "model_call", phase: "finished", round: 1, record: second },
  ]);
  const tools = (events: readonly TurnEvent[]) => events.filter(({ kind }) => kind.startsWith("tool_"));
  expect(tools(again)).toHaveLength(2);
  expect(tools(again)).toEqual(tools(live));
  const order = again.map(({ kind }) => kind);
  expect(order.indexOf("text_delta")).toBeLessThan(order.indexOf("tool_started"));
});

test("[MC3] nothing of an attempt that was given up is shown again", async () => {
  const { live, again } = await twice({
    model: scriptedModel([
      failWith({ kind: "overloaded", chunks: ["wrong"], retryAfterMs: 0 }),
      say("right"),
    ]),
    plugins: [plugin("patient", { model: { error: () => ({ kind: "retry", delayMs: 0 }) } })],
  });
  expect(textsOf(live)).toEqual(["wrong", "right"]);
  expect(live.some(({ kind }) => kind === "attempt_reset")).toBe(true);
  expect(textsOf(again)).toEqual(["right"]);
  expect(again.some(({ kind }) => kind === "attempt_reset")).toBe(false);
});

test("[MC3] what stream hooks made of the text is shown again, not what the model said", async () => {
  const { live, again } = await twice({
    model: scriptedModel([say("secret word", { chunks: ["secret ", "word"] })]),
    plugins: [
      plugin("censor", { output: { stream: ({ chunk }) => ({ chunk: chunk.replace("secret", "***") }) } }),
    ],
  });
  expect(textsOf(live)).toEqual(["*** ", "word"]);
  expect(textsOf(again)).toEqual(["*** word"]);
});

test("[MC3] text that hooks let nothing through of is not shown again", async () => {
  const { live, again } = await twice({
    model: scriptedModel([say("secret")]),
    plugins: [plugin("mute", { output: { stream: () => ({ chunk: "" }) } })],
  });
  expect(textsOf(live)).toEqual([]);
  expect(textsOf(again)).toEqual([]);
});

test("[MC3] the response after its hooks is what is shown again", async () => {
  const { live, again, reports } = await twice({
    model: scriptedModel([say("draft")]),
    plugins: [
      plugin("editor", {
        output: {
          response: ({ response }) => ({
            response: { ...response, parts: [{ kind: "text", text: "final" }] },
          }),
        },
      }),
    ],
  });
  expect(textsOf(live)).toEqual(["draft"]);
  expect(textsOf(again)).toEqual(["final"]);
  expect(reports.map(({ text }) => text)).toEqual(["final", "final"]);
});

test("[MC3] text that was not streamed is shown again as the prose projector left it, without asking it", async () => {
  const asked: string[] = [];
  const projecting = plugin("projecting", {
    output: {
      proseProjector: (text) => {
        asked.push(text);
        return `<${text}>`;
      },
    },
  });
  const { live, again } = await twice({
    model: port(() => responseOf("whole")),
    plugins: [projecting],
  });
  expect(textsOf(live)).toEqual(["<whole>"]);
  expect(textsOf(again)).toEqual(["<whole>"]);
  expect(asked).toEqual(["whole"]);
});

test("[MC3] commentary that was left out is left out again", async () => {
  const { live, again } = await twice({
    model: port(() =>
      responseOf([
        { kind: "text", text: "thinking aloud", phase: "commentary" },
        { kind: "text", text: "the answer", phase: "final_answer" },
      ]),
    ),
  });
  expect(textsOf(live)).toEqual(["the answer"]);
  expect(textsOf(again)).toEqual(["the answer"]);
});

test("[MC3] a failed call shows nothing again", async () => {
  const { live, again } = await twice({
    model: scriptedModel([failWith({ kind: "auth", chunks: ["half"] })]),
  });
  expect(textsOf(live)).toEqual(["half"]);
  expect(textsOf(again)).toEqual([]);
});

test("a recorded cell of code is shown again with its calls, and took as long as it took", async () => {
  const { live, again } = await twice({
    model: scriptedModel([say("run it"), say("done")]),
    tools: [echo],
    plugins: [
      codeProtocol({
        executeCode: async (ctx) => {
          await ctx.callTools([{ name: "echo", args: { text: "x" } }]);
          return { observations: ["seen"], error: "and failed" };
        },
      }),
    ],
  });
  const cell = (events: readonly TurnEvent[]) => events.filter(({ kind }) => /^(code|tool)_/.test(kind));
  expect(cell(live).map(({ kind }) => kind)).toEqual([
    "code_started",
    "tool_started",
    "tool_finished",
    "code_finished",
  ]);
  expect(cell(again)).toEqual(cell(live));
});
