// A tool that never returns: what ends it, what it is told, and what becomes of what it says later.

import { definePlugin, defineTool, type ToolContext, type ToolDefinition } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import {
  failureOf,
  play,
  plugin,
  rejectionOf,
  shownResults,
  stage,
  successOf,
  TestClock,
  until,
} from "./tools-support.ts";

const never = (): Promise<never> => new Promise(() => undefined);

interface Hanging {
  readonly tool: ToolDefinition;
  readonly contexts: ToolContext[];
}

/** A tool that never answers, whatever it is told. */
function hanging(fields: Partial<Parameters<typeof defineTool>[0]> = {}): Hanging {
  const contexts: ToolContext[] = [];
  const tool = defineTool({
    name: "hang",
    description: "Never answers.",
    input: { type: "object" },
    execute: (_input: unknown, context: ToolContext) => {
      contexts.push(context);
      return never();
    },
    ...fields,
  });
  return { tool: tool as ToolDefinition, contexts };
}

test("[TL1] a tool that never returns fails with `tool_timeout`, its signal says why, and the turn goes on", async () => {
  const clock = new TestClock();
  const { tool, contexts } = hanging({ timeoutMs: 1_000 });
  const { session, model } = await stage({
    clock,
    tools: [tool],
    script: [callTool("hang", {}), say("Sorry.")],
  });
  const playing = play(session.turn("Go"));
  await until(() => contexts.length === 1);
  clock.advance(999);
  expect(contexts[0]?.signal.aborted).toBe(false);
  clock.advance(1);
  const { report } = await playing;
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    kind: "failure",
    code: "tool_timeout",
    class: "timeout",
    source: "runtime",
    retry: { kind: "never" },
  });
  expect(report.text).toBe("Sorry.");
  expect(report.toolCalls[0]?.durationMs).toBe(1_000);
  expect(contexts[0]?.signal.reason).toMatchObject({
    name: "TimeoutError",
    message: "The tool had 1000 ms.",
  });
  expect(shownResults(model)).toEqual([
    expect.stringContaining(
      "The tool hang did not answer within 1000 ms and was told to stop. It may have taken effect; check before calling it again.",
    ),
  ]);
  expect(clock.pending).toBe(0);
});

test("[TL1] the runtime's limit holds for tools that have none of their own, and theirs come first", async () => {
  const clock = new TestClock();
  const short = hanging();
  const long = hanging({ name: "long", timeoutMs: 3_000 });
  const { session } = await stage({
    clock,
    toolTimeoutMs: 500,
    tools: [short.tool, long.tool],
    script: [
      callTools([
        ["hang", {}],
        ["long", {}],
      ]),
      say("Done."),
    ],
  });
  const playing = play(session.turn("Go"));
  await until(() => short.contexts.length === 1 && long.contexts.length === 1);
  clock.advance(500);
  await until(() => short.contexts[0]?.signal.aborted === true);
  expect(long.contexts[0]?.signal.aborted).toBe(false);
  clock.advance(2_500);
  const { report } = await playing;
  expect(report.toolCalls.map(({ output }) => failureOf(output).message.match(/\d+ ms/)?.[0])).toEqual([
    "500 ms",
    "3000 ms",
  ]);
});

test("[TL1] what it says after its time is not heard: not its result, its state, its calls or its keys", async () => {
  const clock = new TestClock();
  const contexts: ToolContext[] = [];
  let answer: (value: string) => void = () => undefined;
  let setNote: (text: string) => void = () => undefined;
  const keeping = definePlugin({
    id: "keeping",
    build: (ctx) => {
      const note = ctx.durable({ version: 1, initial: () => "none" });
      setNote = (text) => note.update(() => text);
      const tool = defineTool({
        name: "slow",
        description: "Answers too late.",
        input: { type: "object" },
        timeoutMs: 100,
        execute: (_input: unknown, context: ToolContext) => {
          contexts.push(context);
          note.update(() => "begun");
          return new Promise<string>((resolve) => {
            answer = resolve;
          });
        },
      });
      return {
        tools: [tool],
        operations: { queries: { "keeping.note": { session: "required", handler: () => note.get() } } },
      };
    },
  });
  const { session } = await stage({
    clock,
    plugins: [keeping()],
    script: [callTool("slow", {}), say("Done."), say("Later.")],
  });
  const playing = play(session.turn("Go"));
  await until(() => contexts.length === 1);
  clock.advance(100);
  const { report, events } = await playing;
  expect(() => setNote("late")).toThrow();
  answer("too late");
  const [context] = contexts;
  expect((await rejectionOf(context?.callTools([]) ?? never())).code).toBe("stale_scope");
  expect((await rejectionOf(context?.completionKey() ?? never())).code).toBe("stale_scope");
  expect((await session.turn("And now?").result).text).toBe("Later.");
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_timeout");
  expect(events.filter(({ kind }) => kind === "tool_finished")).toHaveLength(1);
  expect(await session.query("keeping.note")).toBe("none");
});

test("[TL1] a call beside one that timed out is concluded all the same", async () => {
  const clock = new TestClock();
  const late = hanging({ timeoutMs: 50 });
  const quick = defineTool({
    name: "quick",
    description: "Answers.",
    input: { type: "object" },
    execute: () => "fine",
  });
  const seen: string[] = [];
  const watching = plugin("watching", {
    toolCalls: { after: ({ toolName }) => void seen.push(toolName) as undefined },
  });
  const { session } = await stage({
    clock,
    tools: [late.tool, quick as ToolDefinition],
    plugins: [watching],
    script: [
      callTools([
        ["hang", {}],
        ["quick", {}],
      ]),
      say("Done."),
    ],
  });
  const playing = play(session.turn("Go"));
  await until(() => late.contexts.length === 1 && seen.includes("quick"));
  clock.advance(50);
  const { report } = await playing;
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_timeout");
  expect(successOf(report.toolCalls[1]?.output)).toBe("fine");
  expect(seen).toEqual(["quick", "hang"]);
});

test("[TL2] each attempt has the whole time and a signal of its own; only a tool that may run again is tried again", async () => {
  const clock = new TestClock();
  const { tool, contexts } = hanging({ timeoutMs: 100, replay: "safe", retry: { attempts: 2 } });
  const { session } = await stage({ clock, tools: [tool], script: [callTool("hang", {}), say("Done.")] });
  const playing = play(session.turn("Go"));
  await until(() => contexts.length === 1);
  clock.advance(100);
  await until(() => contexts.length === 2);
  expect(contexts.map(({ signal }) => signal.aborted)).toEqual([true, false]);
  clock.advance(100);
  const { report } = await playing;
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    code: "tool_timeout",
    retry: { kind: "exhausted", attempts: 2 },
  });
});

test("[TL2] waiting for calls that it made is not counted", async () => {
  const clock = new TestClock();
  const inner = hanging({ name: "inner", timeoutMs: 5_000 });
  const outer = defineTool({
    name: "outer",
    description: "Calls another.",
    input: { type: "object" },
    timeoutMs: 100,
    execute: async (_input: unknown, context: ToolContext) => {
      const [reply] = await context.callTools([{ name: "inner", args: {} }]);
      return failureOf(reply?.output).code;
    },
  });
  const { session } = await stage({
    clock,
    tools: [inner.tool, outer as ToolDefinition],
    script: [callTool("outer", {}), say("Done.")],
  });
  const playing = play(session.turn("Go"));
  await until(() => inner.contexts.length === 1);
  clock.advance(5_000);
  const { report } = await playing;
  expect(successOf(report.toolCalls[0]?.output)).toBe("tool_timeout");
});

test("[TL1] a `prepare` that never returns ends with the tool's time, and with a cancellation", async () => {
  const clock = new TestClock();
  const signals: AbortSignal[] = [];
  const preparing = hanging({
    timeoutMs: 1_000,
    prepare: (_input: unknown, { signal }: { readonly signal: AbortSignal }) => {
      signals.push(signal);
      return never();
    },
  });
  const { session } = await stage({
    clock,
    tools: [preparing.tool],
    script: [callTool("hang", {}), say("Done."), callTool("hang", {})],
  });
  const playing = play(session.turn("Go"));
  await until(() => signals.length === 1);
  clock.advance(1_000);
  const { report } = await playing;
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_timeout");
  expect(signals[0]?.aborted).toBe(true);
  const second = session.turn("Again");
  await until(() => signals.length === 2);
  await session.cancel("s:turn:2");
  expect((await second.result).outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  expect(preparing.contexts).toEqual([]);
});

test("without a limit a tool that never returns ends with its turn", async () => {
  const { tool, contexts } = hanging();
  const { session } = await stage({ tools: [tool], script: [callTool("hang", {})] });
  const turn = session.turn("Go");
  await until(() => contexts.length === 1);
  await session.cancel("s:turn:1");
  const report = await turn.result;
  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    kind: "cancelled",
    message: "The call was cancelled; it may have taken effect.",
  });
  expect(contexts[0]?.signal.aborted).toBe(true);
});

test.each([0, -1, 2_147_483_648, Number.NaN, "1"])(
  "a limit of %s is refused, naming it",
  async (timeoutMs) => {
    expect(() => hanging({ timeoutMs: timeoutMs as number })).toThrow(
      expect.objectContaining({ code: "invalid_tool", message: expect.stringContaining("timeoutMs") }),
    );
    expect((await rejectionOf(stage({ toolTimeoutMs: timeoutMs as number }))).message).toContain(
      "toolTimeoutMs",
    );
  },
);
