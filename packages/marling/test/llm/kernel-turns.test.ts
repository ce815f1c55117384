// Whole turns of a runtime on models of the AI SDK.

import { createRuntime, defineTool, type RuntimeOptions, type Session } from "marling";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { systemClock } from "../../src/base/clock.ts";
import { anthropicWire } from "./anthropic-wire.ts";
import { PROVIDERS, type Provider } from "./providers.ts";
import { responsesWire } from "./responses-wire.ts";
import { at } from "./wire.ts";
import { type WireReply, type WireServer, wireServer } from "./wire-server.ts";

const CALL = { id: "call_1", name: "add", args: ['{"a":1,', '"b":2}'] };

describe.each(PROVIDERS)("$name", (provider) => {
  test("[LA11] a turn calls the model, runs the tool and ends with the answer", async () => {
    const { wire } = provider;
    const { session, ran, server } = await open(provider, [
      stream(wire.events({ text: ["Adding."], calls: [CALL], finish: "calls" })),
      stream(wire.events({ text: ["It is ", "3."] })),
    ]);
    const report = await session.turn("Add 1 and 2").result;
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "It is 3." });
    expect(ran).toEqual([{ a: 1, b: 2 }]);
    expect(report.usage).toEqual(doubled(wire.usage));
    expect(server.sent).toHaveLength(2);
  });
});

const anthropic = providerNamed("anthropic v3");
const responses = providerNamed("openai responses v4");

test("[LA6] a provider that asks to wait is called again after that, without another try being counted", async () => {
  const busy: WireReply = {
    kind: "refuse",
    ...anthropicWire.refusal("rate_limit"),
    headers: { "retry-after-ms": "1250" },
  };
  const waits: number[] = [];
  const { session } = await open(anthropic, [busy, stream(anthropicWire.events({ text: ["Hi."] }))], {
    clock: { ...systemClock, sleep: async (ms) => void waits.push(ms) },
  });
  const report = await session.turn("Hello").result;
  expect(report.text).toBe("Hi.");
  expect(waits).toEqual([1_250]);
  expect(report.modelCalls.map(({ outcome, code }) => [outcome, code])).toEqual([
    ["failed", "rate_limit"],
    ["completed", undefined],
  ]);
});

test("[LA2] a call that was cut off is not run: the model is asked again", async () => {
  const { session, ran } = await open(responses, [
    stream(responsesWire.brokenCall),
    stream(responsesWire.events({ text: ["Never mind."] })),
  ]);
  const report = await session.turn("Add 1 and 2").result;
  expect(report.text).toBe("Never mind.");
  expect(ran).toEqual([]);
  expect(report.toolCalls).toEqual([]);
  expect(report.modelCalls[0]).toMatchObject({ outcome: "failed", code: "truncated_stream" });
});

test("[LA2] a call in an answer that reached its limit is not run", async () => {
  const { session, ran } = await open(anthropic, [
    stream(anthropicWire.events({ calls: [CALL], finish: "length" })),
  ]);
  const report = await session.turn("Add 1 and 2").result;
  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "incomplete", code: "output_limit" });
  expect(ran).toEqual([]);
});

test("[LA2] malformed arguments fail the call, and the provider is shown an object of them", async () => {
  const malformed = { ...CALL, args: ['{"a":1, oops"'] };
  const { session, ran, server } = await open(anthropic, [
    stream(anthropicWire.events({ calls: [malformed], finish: "calls" })),
    stream(anthropicWire.events({ text: ["Sorry."] })),
  ]);
  const report = await session.turn("Add 1 and 2").result;
  expect(report.text).toBe("Sorry.");
  expect(ran).toEqual([]);
  const body = server.sent[1]?.body;
  expect(at(body, "messages", -2, "content", 0, "input")).toEqual({ malformed_arguments: '{"a":1, oops"' });
  expect(at(body, "messages", -1, "content", 0)).toMatchObject({ type: "tool_result", is_error: true });
});

test("[LA7] a session that goes on with another provider takes its words along and leaves its data", async () => {
  const from = await wireServer([
    stream(anthropicWire.events({ reasoning: ["Hm."], calls: [CALL], finish: "calls" })),
    stream(anthropicWire.events({ text: ["It is 3."] })),
    stream(anthropicWire.events({ text: ["Back."] })),
  ]);
  const to = await wireServer([stream(responsesWire.events({ reasoning: ["Hm!"], text: ["Still 3."] }))]);
  const { session } = await open(anthropic, [], {
    models: {
      first: anthropic.model(from.url),
      second: { model: responses.model(to.url), providerOptions: responses.providerOptions },
    },
  });
  await session.configure({ model: "first" });
  await session.turn("Add 1 and 2").result;
  expect(at(from.sent[1]?.body, "messages", 1, "content", 0)).toMatchObject({ signature: "SIGNED" });
  await session.configure({ model: "second" });
  expect((await session.turn("Sure?").result).text).toBe("Still 3.");
  expect(at(to.sent[0]?.body, "input")).toMatchObject([
    { role: "developer" },
    { role: "user" },
    { type: "function_call", call_id: "call_1" },
    { type: "function_call_output", call_id: "call_1", output: "3" },
    { role: "assistant", content: "It is 3." },
    { role: "user", content: [{ text: "Sure?" }] },
  ]);
  await session.configure({ model: "first" });
  await session.turn("And now?").result;
  const back = at(from.sent[2]?.body, "messages");
  expect(at(back, 1, "content", 0)).toMatchObject({ type: "thinking", signature: "SIGNED" });
  expect(JSON.stringify(back)).not.toContain("Hm!");
});

test("[LA14] stored bytes of an input reach the model", async () => {
  const { session, server } = await open(anthropic, [stream(anthropicWire.events({ text: ["A dot."] }))]);
  const attachments = [{ kind: "inline", mediaType: "image/png", base64: "aGVsbG8=" } as const];
  await session.turn({ text: "What is it?", attachments }).result;
  expect(at(server.sent[0]?.body, "messages", 0, "content", 1)).toMatchObject({
    type: "image",
    source: { type: "base64", media_type: "image/png", data: "aGVsbG8=" },
  });
});

test("[LA15] an answer that follows a schema comes back as its value", async () => {
  const { session } = await open(responses, [
    stream(responsesWire.events({ text: ['{"city":', '"Paris"}'] })),
  ]);
  const { value } = await session.run("Where?", { output: z.object({ city: z.string() }) });
  expect(value).toEqual({ city: "Paris" });
});

test("[LA16] settings of a model are what its calls are made with", async () => {
  const server = await wireServer([stream(anthropicWire.events({ text: ["Hi."] }))]);
  const { session } = await open(anthropic, [], {
    model: {
      model: anthropic.model(server.url),
      contextWindow: 200_000,
      maxOutputTokens: 1_234,
      parameters: { temperature: 0.25 },
      headers: { "x-team": "blue" },
      promptCache: "off",
    },
    instructions: "Be brief.",
  });
  await session.turn("Hello").result;
  const [sent] = server.sent;
  expect(sent?.body).toMatchObject({ max_tokens: 1_234, temperature: 0.25 });
  expect(sent?.headers["x-team"]).toBe("blue");
  expect(JSON.stringify(sent?.body)).not.toContain("cache_control");
  expect(session.read().policy.model).toBe("default");
});

test("[LA17] Anthropic's cache is told where the stable part of the prompt ends", async () => {
  const { session, server } = await open(anthropic, [stream(anthropicWire.events({ text: ["Hi."] }))], {
    instructions: "Be brief.",
  });
  await session.turn("Hello").result;
  const ephemeral = { type: "ephemeral" };
  expect(at(server.sent[0]?.body, "system", -1)).toMatchObject({ cache_control: ephemeral });
  expect(at(server.sent[0]?.body, "messages", -1, "content", -1)).toMatchObject({ cache_control: ephemeral });
});

interface Opened {
  readonly session: Session;
  readonly server: WireServer;
  /** What the tool was run with. */
  readonly ran: readonly unknown[];
}

async function open(
  provider: Provider,
  replies: readonly WireReply[],
  options: RuntimeOptions = {},
): Promise<Opened> {
  const server = await wireServer(replies);
  const ran: unknown[] = [];
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    input: z.object({ a: z.number(), b: z.number() }),
    execute: (args) => {
      ran.push(args);
      return args.a + args.b;
    },
  });
  const runtime = createRuntime({ model: provider.model(server.url), tools: [add], ...options });
  onTestFinished(() => runtime.close());
  return { session: await runtime.session("s"), server, ran };
}

function stream(events: readonly string[]): WireReply {
  return { kind: "stream", events };
}

function providerNamed(name: string): Provider {
  const found = PROVIDERS.find((provider) => provider.name === name);
  if (found === undefined) throw new Error(`no provider ${name}`);
  return found;
}

function doubled(usage: Provider["wire"]["usage"]): Provider["wire"]["usage"] {
  const { input, output, cacheRead, cacheWrite, reasoning } = usage;
  return {
    input: 2 * input,
    output: 2 * output,
    cacheRead: 2 * cacheRead,
    cacheWrite: 2 * cacheWrite,
    reasoning: 2 * reasoning,
  };
}
