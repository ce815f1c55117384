// Hooks around one tool call: each directive, and each way to fail the call while the turn goes on.

import { type Directive, directive, type PluginParts, toolFailure, toolSuccess } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { pendingResult } from "../../src/model/tool-output.ts";
import {
  custom,
  outcomeOf,
  play,
  plugin,
  pluginEvents,
  resultsIn,
  type Scene,
  scene,
  transcript,
} from "./hooks-support.ts";

const SCRIPT = [callTool("echo", { text: "one" }), say("Done.")];

/** A turn with one call of `echo` and the given hooks of one plugin around it. */
async function withHooks(toolCalls: PluginParts["toolCalls"] & object): Promise<Scene> {
  return scene({ script: SCRIPT, plugins: [plugin("p", { toolCalls })] });
}

const deny = (message: string): Directive =>
  directive.shortCircuitTool(toolFailure({ code: "denied", message }));

describe("replaced arguments", () => {
  test("[K35] they are what runs, what is recorded and what hooks after the call see", async () => {
    const seen: unknown[] = [];
    const { session, ran } = await withHooks({
      before: () => directive.replaceToolArgs({ text: "two" }),
      after: ({ args, result }) => void seen.push(args, result.outcome) as undefined,
    });
    const { report, events } = await play(session);

    expect(ran).toEqual(["two"]);
    expect(report.toolCalls[0]?.args).toEqual({ text: "two" });
    expect(outcomeOf(report)).toEqual({ value: "echo: two" });
    expect(seen).toEqual([{ text: "two" }, { kind: "success", value: "echo: two" }]);
    expect(events.find(({ kind }) => kind === "tool_started")).toMatchObject({ args: { text: "two" } });
  });

  test("[K35] the last of one hook's replacements holds", async () => {
    const { session, ran } = await withHooks({
      before: () => [
        directive.replaceToolArgs({ text: "two" }),
        directive.replaceToolArgs({ text: "three" }),
      ],
    });
    const { report } = await play(session);

    expect(ran).toEqual(["three"]);
    expect(report.toolCalls[0]?.args).toEqual({ text: "three" });
  });

  test("[K35] arguments that the schema refuses never reach the tool, and the failure names the plugin", async () => {
    const { session, ran } = await withHooks({ before: () => directive.replaceToolArgs({ text: 7 }) });
    const { report } = await play(session);

    expect(ran).toEqual([]);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(outcomeOf(report)).toMatchObject({ code: "invalid_tool_args" });
    expect(outcomeOf(report)).toMatchObject({ message: expect.stringContaining("plugin p") });
    expect(outcomeOf(report)).toMatchObject({ message: expect.stringContaining("/text") });
  });

  test("[K35] a replacement may mend what the model got wrong", async () => {
    const { session, ran } = await scene({
      script: [callTool("echo", { text: 1 }), say("Done.")],
      plugins: [plugin("p", { toolCalls: { before: () => directive.replaceToolArgs({ text: "1" }) } })],
    });
    const { report } = await play(session);

    expect(ran).toEqual(["1"]);
    expect(outcomeOf(report)).toEqual({ value: "echo: 1" });
  });
});

describe("a short circuit before a call", () => {
  test.each([
    ["success", toolSuccess("from the cache"), { value: "from the cache" }, false],
    ["denial", toolFailure({ code: "denied", message: "No." }), { code: "denied", message: "No." }, true],
  ])("[K36] %s: the tool and the hooks after it are skipped", async (_name, output, expected, isError) => {
    const after: unknown[] = [];
    const { session, ran, model } = await withHooks({
      before: () => directive.shortCircuitTool(output),
      after: () => void after.push("asked") as undefined,
    });
    const { report, events } = await play(session);

    expect(ran).toEqual([]);
    expect(after).toEqual([]);
    expect(outcomeOf(report)).toEqual(expected);
    expect(report.toolCalls).toMatchObject([{ name: "echo", args: { text: "one" }, durationMs: 0 }]);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(resultsIn(model.requests[1])).toMatchObject([isError ? { isError } : { text: "from the cache" }]);
    const told = events.map(({ kind }) => kind).filter((kind) => kind.startsWith("tool_"));
    expect(told).toEqual(["tool_started", "tool_finished"]);
  });

  test("[K36] it is not checked against the schema, and a later replacement is still recorded", async () => {
    const { session, ran } = await scene({
      script: [callTool("echo", { text: 1 }), say("Done.")],
      plugins: [
        plugin("a", { toolCalls: { before: () => directive.shortCircuitTool(toolSuccess("known")) } }),
        plugin("b", { toolCalls: { before: () => directive.replaceToolArgs({ text: "two" }) } }),
      ],
    });
    const { report } = await play(session);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toEqual({ value: "known" });
    expect(report.toolCalls[0]?.args).toEqual({ text: "two" });
  });

  test("[K36] a result that comes later cannot settle a call", async () => {
    const { session, ran } = await withHooks({
      before: () => directive.shortCircuitTool(pendingResult()),
    });
    const { report } = await play(session);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toMatchObject({ code: "pending_tool_short_circuit" });
  });
});

test("[K37] an abort before a call fails the call only; the model is told why", async () => {
  const { session, ran, model } = await withHooks({
    before: () => directive.abortTurn({ code: "closed", message: "The shop is closed." }),
  });
  const { report } = await play(session);

  expect(ran).toEqual([]);
  expect(outcomeOf(report)).toEqual({ code: "closed", message: "The shop is closed." });
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(resultsIn(model.requests[1])).toMatchObject([
    { isError: true, text: expect.stringContaining("The shop is closed.") },
  ]);
});

test("[K38] messages cannot be enqueued before a call: the call fails and nothing is delivered", async () => {
  const { session, ran } = await withHooks({
    before: () => directive.enqueueMessages([{ role: "user", content: "never" }]),
  });
  const { report } = await play(session);

  expect(ran).toEqual([]);
  expect(outcomeOf(report)).toMatchObject({
    code: "directive_not_allowed",
    message: expect.stringMatching(/plugin p.*tool_calls\.before.*enqueue_messages/),
  });
  expect(transcript(session).join()).not.toContain("never");
});

describe("a session that cannot be created", () => {
  const taken = directive.createSession({ sessionId: "s" });

  test("[K39] before a call: it fails the call, and no later directive of any plugin is applied", async () => {
    const later = [
      directive.emitEvents([custom("never")]),
      directive.emitTrace({ name: "never" }),
      directive.replaceToolArgs({ text: "never" }),
      directive.shortCircuitTool(toolSuccess("never")),
    ];
    const { session, ran, traces } = await scene({
      script: SCRIPT,
      plugins: [
        plugin("a", {
          toolCalls: { before: () => [directive.emitEvents([custom("first")]), taken, ...later] },
        }),
        plugin("b", { toolCalls: { before: () => directive.createSession({ sessionId: "never" }) } }),
      ],
    });
    const { report, events } = await play(session);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toMatchObject({
      code: "plugin_session_create_failed",
      message: expect.stringMatching(/plugin a.*tool_calls\.before/),
    });
    expect(report.toolCalls[0]?.args).toEqual({ text: "one" });
    expect(pluginEvents(events)).toEqual(["a: first"]);
    expect(traces).toEqual([]);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  });

  test("[K39] after a call: the result is the failure, and no later directive is applied", async () => {
    const { session, runtime } = await withHooks({
      after: () => [
        taken,
        directive.enqueueMessages([{ role: "user", content: "never" }]),
        directive.createSession({ sessionId: "never" }),
        directive.shortCircuitTool(toolSuccess("never")),
      ],
    });
    const { report } = await play(session);

    expect(outcomeOf(report)).toMatchObject({ code: "plugin_session_create_failed" });
    expect(transcript(session).join()).not.toContain("never");
    expect(await runtime.sessions.exists("never")).toBe(false);
  });
});

test.each(["before", "after"] as const)(
  "[K41] a hook %s a call that throws fails the call, closed, and the turn goes on",
  async (hook) => {
    const { session, ran } = await withHooks({
      [hook]: () => {
        throw new Error("broken");
      },
    });
    const { report, events } = await play(session);

    expect(ran).toEqual(hook === "before" ? [] : ["one"]);
    expect(outcomeOf(report)).toMatchObject({ code: `${hook}_tool_call_failed` });
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ class: "internal", source: "plugin" });
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    const issue = {
      kind: "plugin",
      code: "hook_failed",
      message: `plugin p: hook tool_calls.${hook} failed: broken`,
      pluginId: "p",
      hook: `tool_calls.${hook}`,
    };
    expect(report.issues).toEqual([issue]);
    expect(events).toContainEqual({ kind: "error", issue });
  },
);

test("[K168] the hooks before all calls of a response run in order before any tool does", async () => {
  const log: string[] = [];
  const textOf = (args: unknown): string => (args as { text: string }).text;
  const hooks = plugin("p", {
    toolCalls: {
      before: async ({ args }) => {
        log.push(`begin ${textOf(args)}`);
        await Promise.resolve();
        log.push(`end ${textOf(args)}`);
        return textOf(args) === "two" ? deny("Not two.") : undefined;
      },
      after: ({ args }) => void log.push(`after ${textOf(args)}`) as undefined,
    },
  });
  const { session, ran } = await scene({
    script: [
      callTools([
        ["echo", { text: "one" }],
        ["echo", { text: "two" }],
        ["echo", { text: "three" }],
      ]),
      say("Done."),
    ],
    plugins: [hooks],
  });
  const { report } = await play(session);

  expect(log.slice(0, 6)).toEqual([
    "begin one",
    "end one",
    "begin two",
    "end two",
    "begin three",
    "end three",
  ]);
  expect(log.slice(6).toSorted()).toEqual(["after one", "after three"]);
  expect(ran).toEqual(["one", "three"]);
  expect(report.toolCalls.map(({ args }) => textOf(args))).toEqual(["one", "two", "three"]);
});
