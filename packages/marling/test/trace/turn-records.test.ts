// What a turn tells the trace: which records, how they hang together, and how long things took. trace/SPEC.md, TC1-TC9.

import {
  createRuntime,
  defineTool,
  type RuntimeOptions,
  type Session,
  type TraceRecord,
  toolFailure,
} from "marling";
import { callTool, callTools, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { passTime, plugin } from "../kernel/hooks-support.ts";
import { type KeptTrace, keptTrace, ofKind, outline } from "./trace-support.ts";

async function traced(
  options: RuntimeOptions & { readonly trace?: KeptTrace },
): Promise<{ readonly session: Session; readonly trace: KeptTrace }> {
  const { trace = keptTrace() } = options;
  const runtime = createRuntime({ owner: "me", ...options, trace });
  onTestFinished(() => runtime.close());
  return { session: await runtime.session("s"), trace };
}

const kindsOf = (records: readonly TraceRecord[]): readonly string[] => records.map(({ kind }) => kind);

const echo = defineTool({
  name: "echo",
  description: "Says what it is told.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => `echo: ${text}`,
});

/** Counts how often somebody asks what time it is, which only a span does. */
class CountingClock extends ManualClock {
  looks = 0;
  override now(): number {
    this.looks += 1;
    return super.now();
  }
}

describe("how much", () => {
  test("[TC1] a text turn is told in seven records", async () => {
    const { session, trace } = await traced({
      model: scriptedModel([say("Hello.", { chunks: ["Hel", "lo", "."] })]),
    });
    const before = trace.records.length;
    await session.turn("Hi").result;
    expect(kindsOf(trace.records.slice(before))).toEqual([
      "turn_started",
      "hook",
      "model_attempt",
      "model_call",
      "round",
      "commit",
      "turn",
    ]);
  });

  test("[TC1] ten thousand deltas are told in as many records as three", async () => {
    const chunks = Array.from({ length: 10_000 }, () => "x");
    const { session, trace } = await traced({
      model: scriptedModel([say(chunks.join(""), { chunks })]),
      plugins: [plugin("p", { output: { stream: ({ chunk }) => ({ chunk }) } })],
    });
    const before = trace.records.length;
    await session.turn("Hi").result;
    expect(trace.records.length - before).toBe(8);
    const [streamed] = ofKind(trace, "hook").filter(({ payload }) => payload.hook === "output.stream");
    expect(streamed?.payload).toMatchObject({ pluginId: "p", runs: 10_000 });
  });

  test("[TC2] without a sink no span of a text turn is begun; with one there are eight", async () => {
    const looks = async (trace?: KeptTrace): Promise<number> => {
      const clock = new CountingClock();
      const options = {
        model: scriptedModel([say("Hello.")]),
        clock,
        ...(trace === undefined ? {} : { trace }),
      };
      const runtime = createRuntime(options);
      onTestFinished(() => runtime.close());
      const session = await runtime.session("s");
      const before = clock.looks;
      await session.turn("Hi").result;
      return clock.looks - before;
    };
    expect(await looks()).toBe(0);
    expect(await looks(keptTrace())).toBe(8);
  });

  test("[TC3] a sink that throws at every record changes nothing", async () => {
    const runtime = createRuntime({
      model: scriptedModel([callTool("echo", { text: "a" }), say("Done.")]),
      tools: [echo],
      trace: {
        record: () => {
          throw new Error("full disk");
        },
      },
    });
    onTestFinished(() => runtime.close());
    const { outcome, issues } = await (await runtime.session("s")).turn("Go").result;
    expect(outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(issues).toEqual([]);
  });
});

describe("the tree", () => {
  test("[TC4] turn, rounds, calls and their attempts, each below what it is part of", async () => {
    const { session, trace } = await traced({
      model: scriptedModel([
        callTools([
          ["echo", { text: "a" }],
          ["batch", { calls: [{ tool: "echo", args: { text: "b" } }] }],
        ]),
        say("Done."),
      ]),
      tools: [echo],
      plugins: [plugin("p", { toolCalls: { before: () => undefined } })],
    });
    await session.turn("Go", { id: "t" }).result;
    const inTurn = { records: trace.records.filter(({ turnId }) => turnId === "t") };
    const names = outline(inTurn).filter((line) => !line.trim().startsWith("hook"));
    expect(names).toEqual([
      "turn",
      "  round",
      "    model_call",
      "      model_attempt",
      "    tool_call",
      "      tool_attempt",
      "    tool_call",
      "      tool_attempt",
      "      tool_call",
      "        tool_attempt",
      "  round",
      "    model_call",
      "      model_attempt",
      "  commit",
    ]);
    expect(new Set(trace.records.map(({ owner, sessionId }) => `${owner} ${sessionId}`))).toEqual(
      new Set(["me s"]),
    );
  });

  test("[TC4] what is announced has the id of its span, and no duration", async () => {
    const { session, trace } = await traced({
      model: scriptedModel([callTool("echo", { text: "a" }), say("Done.")]),
      tools: [echo],
    });
    await session.turn("Go").result;
    const [announced] = ofKind(trace, "tool_started");
    const [ended] = ofKind(trace, "tool_call");
    expect(announced).toMatchObject({ durationMs: 0, payload: { name: "echo", callId: "call_1" } });
    expect(ended).toMatchObject({ spanId: announced?.spanId, payload: { outcome: { kind: "success" } } });
    const ids = trace.records.filter(({ durationMs }) => durationMs > 0).map(({ spanId }) => spanId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("[TC5] times are those of the runtime's clock", async () => {
    const clock = new ManualClock({ startsAt: 1_000 });
    const slow = defineTool({
      name: "slow",
      description: "Takes its time.",
      input: z.object({}),
      execute: () => {
        clock.advance(250);
        return "done";
      },
    });
    const { session, trace } = await traced({
      model: scriptedModel([callTool("slow"), say("Done.")]),
      tools: [slow],
      clock,
    });
    await session.turn("Go").result;
    expect(ofKind(trace, "tool_attempt")).toMatchObject([
      { at: 1_000, durationMs: 250, payload: { ranMs: 250 } },
    ]);
    expect(ofKind(trace, "turn")).toMatchObject([{ at: 1_000, durationMs: 250 }]);
    expect(ofKind(trace, "round")).toMatchObject([
      { at: 1_000, durationMs: 250 },
      { at: 1_250, durationMs: 0 },
    ]);
  });
});

describe("what they say", () => {
  test("[TC6] an attempt of a model call: sizes, usage, the first token and how it failed", async () => {
    const clock = new ManualClock();
    const { session, trace } = await traced({
      clock,
      model: scriptedModel([
        failWith({ kind: "overloaded", retryAfterMs: 5, usage: { input: 3 } }),
        () => {
          clock.advance(40);
          return say("Hi.", { usage: { input: 10, output: 4, cacheRead: 2, cacheWrite: 1, reasoning: 3 } });
        },
      ]),
      instructions: "Be brief.",
    });
    await passTime(clock, session.turn("Hello").result);
    const [failed, made] = ofKind(trace, "model_attempt").map(({ payload }) => payload);
    const usage = { input: 10, output: 4, cacheRead: 2, cacheWrite: 1, reasoning: 3 };
    expect(failed).toMatchObject({
      attempt: 1,
      outcome: "failed",
      failure: { kind: "overloaded", code: "overloaded" },
    });
    expect(failed?.usage.input).toBe(3);
    expect(made).toMatchObject({
      attempt: 2,
      model: "default",
      port: "scripted",
      outcome: "completed",
      finish: "stop",
    });
    expect(made).toMatchObject({ usage, firstTokenMs: 40, request: { messages: 1 } });
    expect(made?.request.bytes).toBeGreaterThan(20);
    expect(made?.request).toEqual(failed?.request);
    expect(ofKind(trace, "model_call")).toMatchObject([
      { payload: { attempts: 2, outcome: "completed", replayed: false, usage: { ...usage, input: 13 } } },
    ]);
  });

  test("[TC6] requests with another history or other tools have other digests", async () => {
    const { session, trace } = await traced({ model: scriptedModel([say("One."), say("Two.")]) });
    await session.turn("A").result;
    await session.turn("B").result;
    const [one, two] = ofKind(trace, "model_attempt").map(({ payload }) => payload.request);
    expect(one?.messagesDigest).not.toBe(two?.messagesDigest);
    expect(one?.systemDigest).toBe(two?.systemDigest);
    expect(one?.toolsDigest).toBe(two?.toolsDigest);
    expect([one?.messages, two?.messages]).toEqual([1, 3]);
  });

  test("[TC7] the attempts of a tool call with their outcome, and the timer between them", async () => {
    const clock = new ManualClock();
    let tries = 0;
    const flaky = defineTool({
      name: "flaky",
      description: "Fails once.",
      input: z.object({}),
      replay: "safe",
      retry: { attempts: 2, delayMs: 5 },
      execute: () => {
        tries += 1;
        if (tries > 1) return "fine";
        return toolFailure({ code: "busy", message: "come back", class: "external", retry: { safe: true } });
      },
    });
    const { session, trace } = await traced({
      clock,
      model: scriptedModel([callTool("flaky"), say("Done.")]),
      tools: [flaky],
    });
    await passTime(clock, session.turn("Go").result);
    expect(ofKind(trace, "tool_attempt").map(({ payload }) => payload)).toMatchObject([
      {
        attempt: 1,
        replay: "safe",
        outcome: { kind: "failure", code: "busy", class: "external" },
        replayed: false,
      },
      { attempt: 2, outcome: { kind: "success" }, isCut: false },
    ]);
    expect(ofKind(trace, "effect")).toMatchObject([
      { payload: { effect: "timer", outcome: "done", replayed: false } },
    ]);
    expect(ofKind(trace, "tool_call")).toMatchObject([{ payload: { outcome: { kind: "success" } } }]);
  });

  test("[TC8] a handler with its plugin, and how it failed", async () => {
    const broken = plugin("broken", {
      turn: {
        before: () => {
          throw new Error("no");
        },
      },
    });
    const { session, trace } = await traced({ model: scriptedModel([]), plugins: [broken] });
    await session.turn("Hi").result;
    const [told] = ofKind(trace, "hook").filter(({ payload }) => payload.pluginId === "broken");
    expect(told?.payload).toMatchObject({ hook: "turn.before", runs: 1, failure: { code: "hook_failed" } });
    expect(told?.payload.content).toBeUndefined();
    expect(ofKind(trace, "turn")).toMatchObject([
      { payload: { outcome: { kind: "stopped", reason: "runtime_error" } } },
    ]);
  });

  test("[TC9] a commit with its revision and size, and the turn with its outcome and usage", async () => {
    const { session, trace } = await traced({
      model: scriptedModel([say("Hi.", { usage: { input: 7, output: 2 } })]),
    });
    const { revision } = await session.turn("Hello", { id: "t" }).result;
    const commit = ofKind(trace, "commit").at(-1);
    expect(commit?.payload).toMatchObject({ operation: "turn:t", revision, nodes: 2 });
    expect(commit?.payload.bytes).toBeGreaterThan(50);
    expect(ofKind(trace, "turn")).toMatchObject([
      {
        turnId: "t",
        payload: {
          outcome: { kind: "finished", by: "message" },
          revision,
          rounds: 1,
          replays: 0,
          usage: { input: 7, output: 2 },
        },
      },
    ]);
  });
});
