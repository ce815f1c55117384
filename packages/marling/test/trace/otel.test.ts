// Traces as OpenTelemetry spans, as an exporter sees them. trace/SPEC.md, TC40-TC42.

import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { createRuntime, defineTool, type ModelPort, type RuntimeOptions, toolFailure } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { type OtelTraceOptions, otelTrace } from "../../src/otel.ts";
import { subagents } from "../../src/stock/subagents/subagents.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { database, live } from "../kernel/durable-support.ts";
import { passTime, plugin } from "../kernel/hooks-support.ts";

/** The spans of one turn. */
async function spansOf(
  options: RuntimeOptions,
  otel: OtelTraceOptions = {},
): Promise<readonly ReadableSpan[]> {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  onTestFinished(() => provider.shutdown());
  const trace = otelTrace({ tracer: provider.getTracer("test"), ...otel });
  const runtime = createRuntime({ ...options, trace });
  onTestFinished(() => runtime.close());
  const { result } = (await runtime.session("s")).turn("What is up?");
  await (options.clock instanceof ManualClock ? passTime(options.clock, result) : result);
  return exporter.getFinishedSpans();
}

const named = (spans: readonly ReadableSpan[], name: string): ReadableSpan => {
  const span = spans.find((one) => one.name === name);
  if (span === undefined) throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(", ")}`);
  return span;
};

const parentOf = (span: ReadableSpan): string | undefined => span.parentSpanContext?.spanId;
const millis = ([seconds, nanos]: ReadableSpan["startTime"]): number => seconds * 1_000 + nanos / 1_000_000;

const weather = defineTool({
  name: "weather",
  description: "Tells the weather.",
  input: z.object({ city: z.string() }),
  execute: ({ city }) =>
    city === "Atlantis"
      ? toolFailure({ code: "no_such_city", message: "under water", class: "execution" })
      : `rain in ${city}`,
});

const asClaude = (model: ModelPort): ModelPort => ({ ...model, id: "anthropic.messages/claude-x" });

describe("spans", () => {
  test("[TC40] a turn, its requests and its tool calls by the names of the conventions, below the turn", async () => {
    const model = asClaude(
      scriptedModel([
        callTool(
          "weather",
          { city: "Paris" },
          { usage: { input: 5, cacheRead: 20, cacheWrite: 3, output: 2 } },
        ),
        say("Rain.", { usage: { input: 7, output: 9, reasoning: 4 } }),
      ]),
    );
    const spans = await spansOf({ model, tools: [weather] }, { agentName: "helper" });
    expect(spans.map(({ name }) => name)).toEqual([
      "chat claude-x",
      "execute_tool weather",
      "chat claude-x",
      "invoke_agent helper",
    ]);
    const turn = named(spans, "invoke_agent helper");
    expect(parentOf(turn)).toBeUndefined();
    for (const span of spans.slice(0, 3)) expect(parentOf(span)).toBe(turn.spanContext().spanId);
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
    expect(spans.map(({ kind }) => kind)).toEqual([
      SpanKind.CLIENT,
      SpanKind.INTERNAL,
      SpanKind.CLIENT,
      SpanKind.INTERNAL,
    ]);
    expect(spans[0]?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "anthropic",
      "gen_ai.request.model": "claude-x",
      "gen_ai.conversation.id": "s",
      "gen_ai.response.finish_reasons": ["tool_use"],
      "gen_ai.usage.input_tokens": 28,
      "gen_ai.usage.output_tokens": 2,
      "gen_ai.usage.cache_read.input_tokens": 20,
      "gen_ai.usage.cache_creation.input_tokens": 3,
    });
    expect(spans[1]?.attributes).toMatchObject({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "weather",
      "gen_ai.tool.call.id": "call_1",
      "gen_ai.conversation.id": "s",
    });
    expect(turn.attributes).toMatchObject({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": "helper",
      "gen_ai.usage.output_tokens": 11,
      "gen_ai.usage.reasoning.output_tokens": 4,
      "marling.outcome": "finished",
    });
    expect(turn.events.map(({ name }) => name)).toEqual(["marling.commit"]);
  });

  test("[TC40] spans have the times of the runtime's clock", async () => {
    const clock = new ManualClock({ startsAt: 5_000 });
    const slow = defineTool({
      name: "slow",
      description: "Takes its time.",
      input: z.object({}),
      execute: () => {
        clock.advance(300);
        return "done";
      },
    });
    const spans = await spansOf({
      clock,
      model: scriptedModel([callTool("slow"), say("Done.")]),
      tools: [slow],
    });
    const tool = named(spans, "execute_tool slow");
    expect([millis(tool.startTime), millis(tool.endTime)]).toEqual([5_000, 5_300]);
    const turn = named(spans, "invoke_agent");
    expect([millis(turn.startTime), millis(turn.endTime)]).toEqual([5_000, 5_300]);
  });

  test("[TC40] failures have a type and a status; each attempt of a call is a span", async () => {
    const clock = new ManualClock();
    const spans = await spansOf({
      clock,
      tools: [weather],
      model: scriptedModel([
        failWith({ kind: "overloaded", retryAfterMs: 1 }),
        callTool("weather", { city: "Atlantis" }),
        failWith({ kind: "auth", retryable: false }),
      ]),
    });
    const failed = spans.filter(({ status }) => status.code === SpanStatusCode.ERROR);
    expect(failed.map(({ name, attributes }) => [name, attributes["error.type"]])).toEqual([
      ["chat default", "overloaded"],
      ["execute_tool weather", "no_such_city"],
      ["chat default", "auth"],
      ["invoke_agent", "auth"],
    ]);
    expect(spans).toHaveLength(5);
  });

  test("[TC40] what a tool starts is below it: other calls, and the turn of a session below", async () => {
    const spans = await spansOf({
      tools: [weather],
      plugins: [subagents()],
      model: scriptedModel([
        callTools([
          ["spawn", { task: "Look" }],
          ["batch", { calls: [{ tool: "weather", args: { city: "Oslo" } }] }],
        ]),
        say("Seen."),
        say("Done."),
      ]),
    });
    const [inner, outer] = spans.filter(({ name }) => name === "invoke_agent");
    expect(inner && parentOf(inner)).toBe(named(spans, "execute_tool spawn").spanContext().spanId);
    expect(outer && parentOf(outer)).toBeUndefined();
    expect(parentOf(named(spans, "execute_tool weather"))).toBe(
      named(spans, "execute_tool batch").spanContext().spanId,
    );
  });

  test("[TC42] a turn that slept asks no model again: its second run has no span for what the journal answered", async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    onTestFinished(() => provider.shutdown());
    let key = "";
    const ask = defineTool({
      name: "ask",
      description: "Asks somebody.",
      input: z.object({}),
      execute: async (_input, ctx) => {
        key = await ctx.completionKey();
        return ctx.pending();
      },
    });
    const { runtime, session } = await live({
      store: sqliteStore({ path: database() }),
      trace: otelTrace({ tracer: provider.getTracer("test") }),
      tools: [ask],
      script: [callTool("ask"), say("Done.")],
    });
    const { result } = session.turn("Go");
    await expect.poll(() => exporter.getFinishedSpans().length).toBe(3);
    await runtime.resolve(key, { ok: "yes" });
    await result;
    const spans = exporter.getFinishedSpans();
    expect(spans.map(({ name, attributes }) => [name, attributes["marling.outcome"]])).toEqual([
      ["chat default", undefined],
      ["execute_tool ask", "parked"],
      ["invoke_agent", "parked"],
      ["execute_tool ask", "success"],
      ["chat default", undefined],
      ["invoke_agent", "finished"],
    ]);
    expect(spans[3]?.attributes["marling.replayed"]).toBe(true);
  });

  test("[TC40] handlers of plugins are spans when they are asked for", async () => {
    const options = { plugins: [plugin("p", { turn: { before: () => undefined } })] };
    const spans = await spansOf({ ...options, model: scriptedModel([say("Hi.")]) }, { hooks: true });
    expect(named(spans, "hook turn.before p").attributes).toMatchObject({ "marling.plugin": "p" });
    const quiet = await spansOf({ ...options, model: scriptedModel([say("Hi.")]) });
    expect(quiet.map(({ name }) => name)).toEqual(["chat default", "invoke_agent"]);
  });
});

describe("content", () => {
  const options = (): RuntimeOptions => ({
    tools: [weather],
    instructions: "Be kind.",
    model: scriptedModel([callTool("weather", { city: "Paris" }), say("It rains.")]),
  });

  test("[TC41] nothing that was said, asked or answered is exported by default", async () => {
    const spans = await spansOf(options());
    const exported = JSON.stringify(spans.map(({ name, attributes, events }) => [name, attributes, events]));
    for (const text of ["What is up?", "Paris", "It rains.", "Be kind."])
      expect(exported).not.toContain(text);
  });

  test("[TC41] on request it is, in the form of the conventions", async () => {
    const spans = await spansOf(options(), { captureContent: true });
    const tool = named(spans, "execute_tool weather").attributes;
    expect(tool["gen_ai.tool.call.arguments"]).toBe('{"city":"Paris"}');
    expect(tool["gen_ai.tool.call.result"]).toBe('{"kind":"success","value":"rain in Paris"}');
    const chat = spans.filter(({ name }) => name === "chat default")[1]?.attributes ?? {};
    const input = JSON.parse(String(chat["gen_ai.input.messages"]));
    expect(input[0]).toEqual({ role: "user", parts: [{ type: "text", content: "What is up?" }] });
    expect(input[1].parts[0]).toMatchObject({ type: "tool_call", id: "call_1", name: "weather" });
    expect(input[2].parts[0]).toMatchObject({ type: "tool_call_response", id: "call_1" });
    expect(JSON.parse(String(chat["gen_ai.output.messages"]))).toEqual([
      { role: "assistant", parts: [{ type: "text", content: "It rains." }], finish_reason: "stop" },
    ]);
    expect(String(chat["gen_ai.system_instructions"])).toContain("Be kind.");
    const turn = named(spans, "invoke_agent").attributes;
    expect(turn["gen_ai.input.messages"]).toContain("What is up?");
    expect(turn["gen_ai.output.messages"]).toContain("It rains.");
  });
});
