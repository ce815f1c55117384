// Every provider of the AI SDK, both lines, and the native models, against a server that speaks their wire format.

import type { ModelPort, ModelRequest } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import { describe, expect, test } from "vitest";
import { ADD, type Called, call, failureOf, responseOf, result, said, textsOf, user } from "./port-calls.ts";
import { PROVIDERS, type Provider } from "./providers.ts";
import { type WireReply, type WireServer, wireServer } from "./wire-server.ts";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const CALL = { id: "call_1", name: "add", args: ['{"a":1,"b":2}'] };
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

describe.each(PROVIDERS)("$name", (provider) => {
  const { wire } = provider;
  const unless = (name: string): typeof test =>
    (wire.skips[name] === undefined ? test : test.skip) as typeof test;
  const named = (name: string, title: string): string =>
    wire.skips[name] === undefined ? title : `${title} (skipped: ${wire.skips[name]})`;
  const answers = (...replies: readonly WireReply[]): Promise<Served> => serve(provider, replies);

  test("[LA1] a text comes in the chunks it is sent in, and whole in the response", async () => {
    const { ask } = await answers(stream(wire.events({ text: ["Hel", "lo ", "there."] })));
    const called = await ask();
    expect(textsOf(called)).toEqual(["Hel", "lo ", "there."]);
    expect(responseOf(called)).toMatchObject({
      finish: "stop",
      parts: [{ kind: "text", text: "Hello there." }],
    });
  });

  test("[LA1] characters that are cut in the middle of their bytes arrive whole", async () => {
    const reply = stream(wire.events({ text: ["Grüße, ", "世界 ", "👩‍👩‍👧!"] }));
    const { ask } = await answers({ ...reply, bytes: 7 });
    const called = await ask();
    expect(textsOf(called)).toEqual(["Grüße, ", "世界 ", "👩‍👩‍👧!"]);
  });

  unless("reasoning")(
    named("reasoning", "[LA4] reasoning is told apart and goes back with the provider's data"),
    async () => {
      const { ask, server } = await answers(
        stream(wire.events({ reasoning: ["Let me ", "see."], text: ["Yes."] })),
        stream(wire.events({ text: ["Bye."] })),
      );
      const called = await ask();
      expect(called.parts.filter(({ kind }) => kind === "reasoning_delta")).toEqual([
        { kind: "reasoning_delta", text: "Let me " },
        { kind: "reasoning_delta", text: "see." },
      ]);
      const { parts } = responseOf(called);
      expect(parts.map(({ kind }) => kind)).toEqual(["reasoning", "text"]);
      responseOf(await ask({ messages: [user("Well?"), said(parts), user("Sure?")] }));
      expect(wire.reasoning?.(server.sent[1]?.body ?? {})).toEqual(REPLAYED[nameOf(provider)]);
    },
  );

  test("[LA2] a tool call has its id, name and arguments", async () => {
    const { ask, server } = await answers(stream(wire.events({ calls: [CALL], finish: "calls" })));
    const called = await ask({ tools: [ADD] });
    expect(responseOf(called)).toMatchObject({
      finish: "tool_use",
      parts: [{ kind: "tool_call", callId: "call_1", name: "add", args: '{"a":1,"b":2}' }],
    });
    expect(wire.tools(server.sent[0]?.body ?? {})).toBe("add");
  });

  test("[LA2] calls of one response come in their order, behind what was said", async () => {
    const second = { id: "call_2", name: "add", args: ['{"a":3,"b":4}'] };
    const { ask } = await answers(
      stream(wire.events({ text: ["Both:"], calls: [CALL, second], finish: "calls" })),
    );
    const { parts } = responseOf(await ask({ tools: [ADD] }));
    expect(parts).toMatchObject([
      { kind: "text", text: "Both:" },
      { callId: "call_1", args: '{"a":1,"b":2}' },
      { callId: "call_2", args: '{"a":3,"b":4}' },
    ]);
  });

  test("[LA2] arguments that come in pieces are put together", async () => {
    const pieces = { ...CALL, args: ['{"a', '":1,', '"b":2', "}"] };
    const { ask } = await answers(stream(wire.events({ calls: [pieces], finish: "calls" })));
    const { parts } = responseOf(await ask({ tools: [ADD] }));
    expect(parts).toMatchObject([{ callId: "call_1", args: '{"a":1,"b":2}' }]);
  });

  unless("malformed")(
    named("malformed", "[LA2] arguments that are no JSON stay what the model wrote"),
    async () => {
      const malformed = { ...CALL, args: ['{"a":1,', ' oops"'] };
      const { ask } = await answers(stream(wire.events({ calls: [malformed], finish: "calls" })));
      const { parts } = responseOf(await ask({ tools: [ADD] }));
      expect(parts).toMatchObject([{ callId: "call_1", args: '{"a":1, oops"' }]);
    },
  );

  test("[LA11] a call and its result go back as a pair", async () => {
    const { ask, server } = await answers(
      stream(wire.events({ calls: [CALL], finish: "calls" })),
      stream(wire.events({ text: ["3"] })),
    );
    const { parts } = responseOf(await ask({ tools: [ADD] }));
    responseOf(await ask({ tools: [ADD], messages: [user("Add"), said(parts), result("call_1", "3")] }));
    expect(wire.roundTrip(server.sent[1]?.body ?? {})).toMatchObject(ROUND_TRIPS[nameOf(provider)] ?? {});
  });

  test("[LA3] usage is in five buckets, told to the sink and in the response", async () => {
    const { ask } = await answers(stream(wire.events({ text: ["Hi."] })));
    const called = await ask();
    expect(responseOf(called).usage).toEqual(wire.usage);
    expect(called.parts.at(-1)).toEqual({ kind: "usage", usage: wire.usage });
  });

  test.each([
    ["length", "output_limit"],
    ["filter", "content_filter"],
  ] as const)("[LA3] an answer that ends by %s says so", async (finish, expected) => {
    const { ask } = await answers(stream(wire.events({ text: ["Once upon"], finish })));
    expect(responseOf(await ask())).toMatchObject({
      finish: expected,
      parts: [{ kind: "text", text: "Once upon" }],
    });
  });

  test("[LA6] 429 is a rate limit, and Retry-After is kept", async () => {
    const { ask } = await answers({
      kind: "refuse",
      ...wire.refusal("rate_limit"),
      headers: { "retry-after": "7" },
    });
    expect(failureOf(await ask())).toMatchObject({
      kind: "rate_limit",
      retryable: true,
      retryAfterMs: 7_000,
      raw: { status: 429 },
    });
  });

  test.each([
    ["overloaded", true],
    ["auth", false],
    ["context_overflow", false],
  ] as const)("[LA5] a refusal because of %s has that kind", async (kind, retryable) => {
    const { ask } = await answers({ kind: "refuse", ...wire.refusal(kind) });
    expect(failureOf(await ask())).toMatchObject({ kind, retryable });
  });

  test("[LA5] an error in the middle of a stream fails the call, with what was said before it shown", async () => {
    const { ask } = await answers(stream(wire.errorEvents));
    const called = await ask();
    expect(textsOf(called)).toEqual(["begun"]);
    expect(failureOf(called)).toMatchObject({ kind: "overloaded", retryable: true });
  });

  test("[LA5] a connection that breaks is a network failure that may be retried", async () => {
    const reply = stream(wire.events({ text: ["Half a"] }, { cutOff: true }));
    const { ask } = await answers({ ...reply, end: "reset" });
    const called = await ask();
    expect(textsOf(called)).toEqual(["Half a"]);
    expect(failureOf(called)).toMatchObject({ kind: "network", retryable: true });
  });

  test("[LA5] a server that is not there is a network failure that may be retried", async () => {
    const port = portOf(provider, "http://127.0.0.1:9");
    expect(failureOf(await call(port))).toMatchObject({ kind: "network", retryable: true });
  });

  test("[LA3] a stream that ends without a reason is a failure that may be retried", async () => {
    const { ask } = await answers(stream(wire.events({ text: ["Half a"] }, { cutOff: true })));
    const called = await ask();
    expect(textsOf(called)).toEqual(["Half a"]);
    expect(failureOf(called)).toMatchObject({ kind: "truncated_stream", retryable: true });
  });

  test("[LA2] a call whose arguments were cut off is no call", async () => {
    const { ask } = await answers(stream(wire.brokenCall));
    expect(failureOf(await ask({ tools: [ADD] }))).toMatchObject({
      kind: "truncated_stream",
      retryable: true,
    });
  });

  test("[LA13] an abort ends the call as cancelled, and the connection with it", async () => {
    const reply = stream(wire.events({ text: ["Half a"] }, { cutOff: true }));
    const { port, server } = await answers({ ...reply, end: "hang" });
    const abort = new AbortController();
    const outcome = await port.call(requestFor(provider), {
      signal: abort.signal,
      sink: () => abort.abort(),
    });
    expect(outcome).toMatchObject({ kind: "failure", failure: { kind: "cancelled", retryable: false } });
    await server.left;
  });

  test("[LA13] a call that is aborted before it begins sends nothing", async () => {
    const { ask, server } = await answers(stream(wire.events({ text: ["Hi."] })));
    expect(failureOf(await ask({}, AbortSignal.abort()))).toMatchObject({ kind: "cancelled" });
    expect(server.sent).toEqual([]);
  });

  test("[LA14] an image is sent as its bytes", async () => {
    const { ask, server } = await answers(stream(wire.events({ text: ["A dot."] })));
    const source = { kind: "inline", mediaType: "image/png", base64: PNG } as const;
    const parts = [{ kind: "text", text: "What is it?" } as const, { kind: "attachment", source } as const];
    responseOf(await ask({ messages: [{ role: "user", parts }] }));
    expect(wire.image(server.sent[0]?.body ?? {})).toBe(PNG);
  });

  test("[LA15] the schema of an answer is sent as one", async () => {
    const { ask, server } = await answers(stream(wire.events({ text: ['{"city":', '"Paris"}'] })));
    const called = await ask({ outputSchema: SCHEMA });
    expect(responseOf(called).parts).toMatchObject([{ text: '{"city":"Paris"}' }]);
    expect(wire.schema(server.sent[0]?.body ?? {})).toMatchObject({
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
    });
  });

  test("[LA7] the history of another model is sent without its data, and with ids that are accepted", async () => {
    const { ask, server } = await answers(stream(wire.events({ text: ["3"] })));
    responseOf(await ask({ tools: [ADD], messages: foreignHistory() }));
    const sent = JSON.stringify(server.sent[0]?.body);
    expect(sent).not.toContain("FOREIGN");
    expect(sent).not.toContain("never shown");
    expect(sent).not.toContain("toolu:01");
    expect(sent.match(/call_[0-9a-f]{32}/g)).toHaveLength(2);
    expect(sent).toContain("Go on");
  });
});

interface Served {
  readonly server: WireServer;
  readonly port: ModelPort;
  ask(changes?: Partial<ModelRequest>, signal?: AbortSignal): Promise<Called>;
}

async function serve(provider: Provider, replies: readonly WireReply[]): Promise<Served> {
  const server = await wireServer(replies);
  const port = portOf(provider, server.url);
  const { providerOptions } = provider;
  return { server, port, ask: (changes, signal) => call(port, { providerOptions, ...changes }, signal) };
}

function portOf(provider: Provider, url: string): ModelPort {
  const model = provider.model(url);
  return "doStream" in model ? aiSdkModel(model) : model;
}

function requestFor({ providerOptions }: Provider): ModelRequest {
  return {
    model: "default",
    system: "",
    messages: [user("Hello")],
    tools: [],
    toolChoice: "auto",
    parameters: {},
    providerOptions,
    headers: {},
    scope: { sessionId: "s", frameId: "f", requestId: "r" },
  };
}

function stream(events: readonly string[]): Extract<WireReply, { kind: "stream" }> {
  return { kind: "stream", events };
}

function nameOf({ name }: Provider): string {
  return name.replace(/^native | by \w+$/g, "").replace(/ v[34]$/, "");
}

/** What each wire has of the reasoning that was answered. */
const REPLAYED: Readonly<Record<string, unknown>> = {
  anthropic: { type: "thinking", thinking: "Let me see.", signature: "SIGNED" },
  "openai responses": {
    type: "reasoning",
    id: "rs_1",
    encrypted_content: "SIGNED",
    summary: [{ type: "summary_text", text: "Let me see." }],
  },
  google: { text: "Let me see.", thought: true, thoughtSignature: "SIGNED" },
  "openai-compatible": "Let me see.",
};

const CHAT_ROUND_TRIP = {
  call: { id: "call_1", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } },
  result: { role: "tool", tool_call_id: "call_1", content: "3" },
};

const ROUND_TRIPS: Readonly<Record<string, object>> = {
  anthropic: {
    call: { type: "tool_use", id: "call_1", name: "add", input: { a: 1, b: 2 } },
    result: { type: "tool_result", tool_use_id: "call_1", content: "3" },
  },
  "openai responses": {
    call: { type: "function_call", call_id: "call_1", name: "add", arguments: '{"a":1,"b":2}' },
    result: { type: "function_call_output", call_id: "call_1", output: "3" },
  },
  "openai chat": CHAT_ROUND_TRIP,
  "openai-compatible": CHAT_ROUND_TRIP,
  google: {
    call: { name: "add", args: { a: 1, b: 2 } },
    result: { name: "add", response: { name: "add", content: "3" } },
  },
};

/** As another provider's model left it: signed reasoning, an item id, a call id with letters that some refuse. */
function foreignHistory(): ModelRequest["messages"] {
  const replay = { model: "elsewhere/model-1", metadata: { elsewhere: { signature: "FOREIGN" } } };
  const callId = "toolu:01/ü" as never;
  return [
    { role: "assistant", parts: [{ kind: "reasoning", text: "never shown", replay }] },
    user("Add one and two"),
    {
      role: "assistant",
      parts: [
        { kind: "reasoning", text: "never shown", replay },
        { kind: "prose", text: "Adding.", replay },
        { kind: "tool_call", callId, name: "add", args: { a: 1, b: 2 }, replay },
      ],
    },
    { role: "tool", parts: [{ kind: "tool_result", callId, name: "add", text: "3" }] },
    { role: "assistant", parts: [{ kind: "prose", text: "", replay }] },
    { role: "system", parts: [{ kind: "text", text: "Runtime note: be brief." }] },
    user("Go on"),
  ];
}
