// Hooks after one tool call: what becomes of its result, and messages for the next checkpoint.

import { defineTool, directive, type PluginParts, toolFailure, toolSuccess } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { outcomeOf, play, plugin, resultsIn, type Scene, scene, transcript } from "./hooks-support.ts";

const SCRIPT = [callTool("echo", { text: "one" }), say("Done.")];

/** A turn with one call of `echo` and a hook after it. */
async function withHook(after: (PluginParts["toolCalls"] & object)["after"] & object): Promise<Scene> {
  return scene({ script: SCRIPT, plugins: [plugin("p", { toolCalls: { after } })] });
}

test("[K40] a result is replaced for the model, the record and the report", async () => {
  const { session, ran, model } = await withHook(() => directive.shortCircuitTool(toolSuccess("redacted")));
  const { report } = await play(session);

  expect(ran).toEqual(["one"]);
  expect(outcomeOf(report)).toEqual({ value: "redacted" });
  expect(resultsIn(model.requests[1])).toMatchObject([{ text: "redacted" }]);
  expect(JSON.stringify(session.read())).not.toContain("echo: one");
});

test("[K40] an abort replaces the result by a failure, and the turn goes on", async () => {
  const { session } = await withHook(() =>
    directive.abortTurn({ code: "leak", message: "The result is not for you." }),
  );
  const { report } = await play(session);

  expect(outcomeOf(report)).toEqual({ code: "leak", message: "The result is not for you." });
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
});

test("[K40] messages are delivered at the next checkpoint, behind the results and before the next model call", async () => {
  const shown: string[] = [];
  const { session, model } = await scene({
    script: SCRIPT,
    plugins: [
      plugin("p", {
        toolCalls: {
          after: () => directive.enqueueMessages([{ role: "system", content: "mind the gap" }]),
        },
        turn: {
          checkpoint: ({ checkpoint, state }) => {
            shown.push(`${checkpoint}: ${JSON.stringify(state.lastMessage?.parts)}`);
            return undefined;
          },
        },
      }),
    ],
  });
  await play(session);

  expect(transcript(session)).toEqual([
    "user: Hi",
    "assistant: call echo",
    "tool: result echo: one",
    "system: mind the gap",
    "assistant: Done.",
  ]);
  expect(model.requests[1]?.messages.at(-1)?.role).toBe("system");
  expect(shown[0]).toBe('after_work: [{"kind":"text","text":"mind the gap"}]');
});

test("[K40] messages of a turn that a tool ends are kept all the same", async () => {
  const { session } = await withHook(() => [
    directive.enqueueMessages([{ role: "user", content: "left over" }]),
    directive.shortCircuitTool(toolSuccess("bye", { kind: "finish", value: "bye" })),
  ]);
  const { report } = await play(session);

  expect(report.outcome).toMatchObject({ kind: "finished", by: "tool", value: "bye" });
  expect(transcript(session).at(-1)).toBe("user: left over");
});

test("[K40] messages of calls that run at once are delivered in call order, whichever ends first", async () => {
  const { session } = await scene({
    script: [
      callTools([
        ["echo", { text: "one" }],
        ["echo", { text: "two" }],
      ]),
      say("Done."),
    ],
    plugins: [
      plugin("p", {
        toolCalls: {
          after: async ({ args }) => {
            const { text } = args as { text: string };
            if (text === "one") for (let tick = 0; tick < 50; tick += 1) await Promise.resolve();
            const messages = [text, `${text}!`].map((content) => ({ role: "user", content }) as const);
            return directive.enqueueMessages(messages);
          },
        },
      }),
    ],
  });
  await play(session);

  const said = transcript(session).filter((line) => line.startsWith("user: "));
  expect(said).toEqual(["user: Hi", "user: one", "user: one!", "user: two", "user: two!"]);
  const [input, ...own] = session.read().messages.filter(({ role }) => role === "user");
  expect(own.map(({ id }) => id.slice(`${input?.id}.`.length))).toEqual([
    "0.tool.call_1.1.0",
    "0.tool.call_1.1.1",
    "0.tool.call_2.1.0",
    "0.tool.call_2.1.1",
  ]);
});

test("[K40] every attempt of a call may leave messages", async () => {
  let attempts = 0;
  const flaky = defineTool({
    name: "flaky",
    description: "Fails once.",
    input: z.object({}),
    retry: { attempts: 2 },
    execute: () => {
      attempts += 1;
      return attempts === 1 ? toolFailure({ code: "busy", message: "Busy.", retry: { safe: true } }) : "fine";
    },
  });
  const { session } = await scene({
    script: [callTool("flaky", {}), say("Done.")],
    plugins: [
      plugin("p", {
        tools: [flaky],
        toolCalls: {
          after: ({ result }) =>
            directive.enqueueMessages([{ role: "user", content: `after a ${result.outcome.kind}` }]),
        },
      }),
    ],
  });
  await play(session);

  expect(transcript(session).slice(3, 5)).toEqual(["user: after a failure", "user: after a success"]);
});

test("[K40] arguments cannot be replaced after a call: the result says so", async () => {
  const { session, ran } = await withHook(() => directive.replaceToolArgs({ text: "two" }));
  const { report } = await play(session);

  expect(ran).toEqual(["one"]);
  expect(report.toolCalls[0]?.args).toEqual({ text: "one" });
  expect(outcomeOf(report)).toMatchObject({
    code: "directive_not_allowed",
    message: expect.stringMatching(/plugin p.*tool_calls\.after.*replace_tool_args/),
  });
});

test("[K40] every hook and every directive may leave messages, in order", async () => {
  const leaving = (...contents: readonly string[]) =>
    contents.map((content) => directive.enqueueMessages([{ role: "user", content }]));
  const { session } = await scene({
    script: SCRIPT,
    plugins: [
      plugin("a", { toolCalls: { after: () => leaving("one", "two") } }),
      plugin("b", { toolCalls: { after: () => leaving("three") } }),
    ],
  });
  await play(session);

  expect(transcript(session).slice(3, 6)).toEqual(["user: one", "user: two", "user: three"]);
});
