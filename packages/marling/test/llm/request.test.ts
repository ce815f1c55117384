// What a model of the AI SDK is called with.

import type { AttachmentSource, ModelRequest } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import { expect, test } from "vitest";
import type { CallOptions } from "../../src/llm/ai-sdk/call-options.ts";
import type { MessagePart } from "../../src/model/message.ts";
import { type FakeModelOptions, fakeModel, STOP, text } from "./fake-model.ts";
import { ADD, call, failureOf, request, responseOf, result, said, user } from "./port-calls.ts";

type Messages = ModelRequest["messages"];

const signal = new AbortController().signal;

/** The call that a request becomes. */
async function sent(changes: Partial<ModelRequest>, options?: FakeModelOptions): Promise<CallOptions> {
  const model = fakeModel([...text("Hi."), STOP], options);
  responseOf(await call(aiSdkModel(model), changes, signal));
  return model.calls[0] as CallOptions;
}

async function prompt(messages: Messages, options?: FakeModelOptions): Promise<CallOptions["prompt"]> {
  return (await sent({ messages }, options)).prompt;
}

function attached(source: AttachmentSource): Messages {
  return [{ role: "user", parts: [{ kind: "attachment", source }] }];
}

test("[LA16] parameters, options, headers, tools and the signal are passed on, and only those that are set", async () => {
  expect(
    await sent({
      system: "Be brief.",
      tools: [ADD],
      toolChoice: "required",
      parameters: { temperature: 0.5, topP: 0.9, maxOutputTokens: 100, stopSequences: ["END"] },
      providerOptions: { fake: { effort: "low" } },
      headers: { "x-team": "blue" },
    }),
  ).toEqual({
    prompt: [
      { role: "system", content: "Be brief." },
      { role: "user", content: [{ type: "text", text: "Hello" }] },
    ],
    temperature: 0.5,
    topP: 0.9,
    maxOutputTokens: 100,
    stopSequences: ["END"],
    tools: [{ type: "function", ...ADD }],
    toolChoice: { type: "required" },
    providerOptions: { fake: { effort: "low" } },
    headers: { "x-team": "blue" },
    abortSignal: signal,
  });
  expect(await sent({})).toEqual({
    prompt: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
    abortSignal: signal,
  });
});

test("[LA16] parameters that nobody knows are left out and named in the warnings", async () => {
  const model = fakeModel([...text("Hi."), STOP]);
  const called = await call(aiSdkModel(model), { parameters: { temprature: 1, seed: "x", topK: 4 } });
  expect(Object.keys(model.calls[0] ?? {}).sort()).toEqual(["abortSignal", "prompt", "topK"]);
  expect(responseOf(called).evidence).toMatchObject({
    warnings: [
      { type: "unknown_parameter", name: "temprature" },
      { type: "unknown_parameter", name: "seed" },
    ],
  });
});

test("[LA16] a tool without a type of its arguments takes an object", async () => {
  const { tools } = await sent({ tools: [{ ...ADD, inputSchema: {} }] });
  expect(tools).toMatchObject([{ inputSchema: { type: "object" } }]);
});

test("[LA15] a model that takes no schema is asked in words", async () => {
  const outputSchema = { type: "object", properties: { city: { type: "string" } } };
  const model = { ...fakeModel([...text("{}"), STOP]), supportsStructuredOutputs: false };
  responseOf(await call(aiSdkModel(model), { system: "Be brief.", outputSchema }));
  expect(model.calls[0]).not.toHaveProperty("responseFormat");
  expect(model.calls[0]?.prompt[0]).toEqual({
    role: "system",
    content:
      "Be brief.\n\nGive your final answer as JSON that follows this JSON schema, and nothing else:\n" +
      '{"type":"object","properties":{"city":{"type":"string"}}}',
  });
  const google = await sent({ outputSchema, tools: [ADD] }, { provider: "google.generative-ai" });
  expect(google).not.toHaveProperty("responseFormat");
});

test("every part of a message has its words", async () => {
  const parts: readonly MessagePart[] = [
    { kind: "text", text: "one" },
    { kind: "prose", text: "two" },
    { kind: "code", language: "js", code: "3" },
    { kind: "output", text: "four" },
    { kind: "error", text: "five" },
    { kind: "text", text: "   " },
  ];
  const texts = ["one", "two", "```js\n3\n```", "four", "Error: five"];
  const content = texts.map((words) => ({ type: "text", text: words }));
  expect(await prompt([{ role: "user", parts }])).toEqual([{ role: "user", content }]);
  expect(await prompt([user("Go"), { role: "assistant", parts }])).toEqual([
    { role: "user", content: [{ type: "text", text: "Go" }] },
    { role: "assistant", content },
  ]);
});

test("[LA10] messages of one role in a row become one, notes of the runtime are the user's", async () => {
  const note = { role: "system", parts: [{ kind: "text", text: "Runtime note: hm." }] } as const;
  expect(await prompt([user("One"), note, user("Two")])).toEqual([
    {
      role: "user",
      content: [
        { type: "text", text: "One" },
        { type: "text", text: "Runtime note: hm." },
        { type: "text", text: "Two" },
      ],
    },
  ]);
});

test("[LA10] messages of which nothing is left are not sent", async () => {
  const silent = { role: "assistant", parts: [{ kind: "reasoning", text: "Hm." }] } as const;
  expect(await prompt([user("One"), silent, user("Two")])).toHaveLength(1);
});

test("[LA12] a history that begins with the model is introduced", async () => {
  const [first, second] = await prompt([{ role: "assistant", parts: [{ kind: "prose", text: "Hi." }] }]);
  expect(first).toEqual({
    role: "user",
    content: [{ type: "text", text: "[The beginning of this conversation is not shown.]" }],
  });
  expect(second).toMatchObject({ role: "assistant" });
});

const ASKED = said([
  { kind: "tool_call", callId: "c1", name: "add", args: "{}" },
  { kind: "tool_call", callId: "c2", name: "add", args: "{}" },
]);

const answered = (id: string, type: string, value: string): object => ({
  type: "tool-result",
  toolCallId: id,
  toolName: "add",
  output: { type, value },
});

test("[LA11] results stand right behind their calls, whatever was said in between", async () => {
  const messages = await prompt([
    user("Go"),
    ASKED,
    result("c2", "2"),
    user("Hurry"),
    result("c1", "1", true),
  ]);
  expect(messages.slice(2)).toEqual([
    { role: "tool", content: [answered("c2", "text", "2"), answered("c1", "error-text", "1")] },
    { role: "user", content: [{ type: "text", text: "Hurry" }] },
  ]);
});

test("[LA11] a call without a result gets an error, and a result without a call becomes words", async () => {
  const messages = await prompt([user("Go"), ASKED, result("c1", "1"), result("c9", "9"), user("Well?")]);
  expect(messages.slice(2)).toEqual([
    {
      role: "tool",
      content: [
        answered("c1", "text", "1"),
        answered("c2", "error-text", "This call has no result. It may have taken effect."),
      ],
    },
    {
      role: "user",
      content: [
        { type: "text", text: "[result of add]\n9" },
        { type: "text", text: "Well?" },
      ],
    },
  ]);
});

test("[LA11] files of a result follow it, numbered as in its text", async () => {
  const callId = "c1" as never;
  const source = { kind: "inline", mediaType: "image/png", base64: "AQID" } as const;
  const tool: Messages[number] = {
    role: "tool",
    parts: [
      { kind: "tool_result", callId, name: "draw", text: "[attachment 1] and [attachment 2]" },
      { kind: "attachment", source, callId, name: "draw" },
      { kind: "attachment", source, callId, name: "draw" },
    ],
  };
  const draw = said([{ kind: "tool_call", callId: "c1", name: "draw", args: "{}" }]);
  const file = { type: "file", mediaType: "image/png", data: Buffer.from([1, 2, 3]) };
  expect((await prompt([user("Draw"), draw, tool])).slice(2)).toMatchObject([
    { role: "tool", content: [{ toolCallId: "c1" }] },
    {
      role: "user",
      content: [
        { type: "text", text: "[attachment 1 of draw]" },
        file,
        { type: "text", text: "[attachment 2 of draw]" },
        file,
      ],
    },
  ]);
});

test("[LA9] ids that are accepted stay, others derive from themselves", async () => {
  const ids = async (callId: string, provider: string): Promise<readonly string[]> => {
    const ask = said([{ kind: "tool_call", callId, name: "add", args: "[1]" }]);
    const [, assistant, tool] = await prompt([user("Go"), ask, result(callId, "1")], { provider });
    expect(assistant).toMatchObject({ content: [{ input: { arguments: [1] } }] });
    return [assistant, tool].map((message) => String(Object(message?.content[0]).toolCallId));
  };
  expect(await ids("toolu_01-A", "anthropic.messages")).toEqual(["toolu_01-A", "toolu_01-A"]);
  const other = "call_6783a31eabf68ccc0660f935c0826282";
  expect(await ids("a:b", "anthropic.messages")).toEqual([other, other]);
  const long = "x".repeat(41);
  expect((await ids(long, "openai.chat"))[0]).toMatch(/^call_[0-9a-f]{32}$/);
  expect((await ids("call_1", "mistral.chat"))[0]).toMatch(/^[0-9a-f]{9}$/);
});

const OWN = "fake.chat/fake-1";
/** The first 16 digits of the SHA-256 of `Hm.`. */
const HM = "6e72d95cb4b4fe16";

test.each([
  ["of the same model", OWN, HM, 2],
  ["of another model", "fake.chat/fake-2", HM, 1],
  ["of another provider", "other.chat/fake-1", HM, 1],
  ["that was changed since", OWN, "0000000000000000", 1],
])("[LA7] [LA8] reasoning %s is sent back only if it is its own", async (_title, model, words, count) => {
  const replay = { model, words, metadata: { fake: { signature: "S" } } };
  const parts: readonly MessagePart[] = [
    { kind: "reasoning", text: "Hm.", replay },
    { kind: "prose", text: "Hm.", replay },
  ];
  const [, assistant] = await prompt([user("Go"), { role: "assistant", parts }]);
  const data = count === 2 ? { providerOptions: { fake: { signature: "S" } } } : {};
  expect(assistant?.content).toEqual([
    ...(count === 2 ? [{ type: "reasoning", text: "Hm.", ...data }] : []),
    { type: "text", text: "Hm.", ...data },
  ]);
});

const url = new URL("https://example.com/a.png");
const bytes = Buffer.from([1, 2, 3]);

test.each([
  ["v3", { kind: "inline", mediaType: "image/png", base64: "AQID" }, bytes],
  ["v4", { kind: "inline", mediaType: "image/png", base64: "AQID" }, { type: "data", data: bytes }],
  ["v3", { kind: "external_url", mediaType: "image/png", url: url.href }, url],
  ["v4", { kind: "external_url", mediaType: "image/png", url: url.href }, { type: "url", url }],
  ["v3", { kind: "provider_file", mediaType: "image/png", provider: "fake", id: "file-1" }, "file-1"],
  [
    "v4",
    { kind: "provider_file", mediaType: "image/png", provider: "fake", id: "file-1" },
    { type: "reference", reference: { fake: "file-1" } },
  ],
] as const)("[LA14] a file as specification %s has it", async (specification, source, data) => {
  expect(await prompt(attached(source), { specification })).toEqual([
    { role: "user", content: [{ type: "file", mediaType: "image/png", data }] },
  ]);
});

test.each([
  [{ kind: "inline", mediaType: "text/csv", base64: "YSxi" }, "[attachment text/csv]\na,b"],
  [
    { kind: "provider_file", mediaType: "image/png", provider: "other", id: "f" },
    "[attachment image/png is not shown: it is a file of other]",
  ],
  [
    { kind: "stored", mediaType: "image/png", ref: "gone", bytes: 3 },
    "[attachment image/png is not shown: its bytes are gone]",
  ],
  [
    { kind: "external_url", mediaType: "image/png", url: "nowhere" },
    "[attachment image/png is not shown: its address is no URL]",
  ],
] as const)("[LA14] what cannot be a file is told in words", async (source, words) => {
  expect(await prompt(attached(source))).toEqual([
    { role: "user", content: [{ type: "text", text: words }] },
  ]);
});

test("[LA14] files that the provider does not take are left out, and the call is made", async () => {
  const model = fakeModel([...text("Hi."), STOP], {
    before: ({ prompt: messages }) => {
      if (!JSON.stringify(messages).includes('"mediaType":"video/mp4"')) return;
      throw Object.assign(new Error("'media type: video/mp4' functionality not supported."), {
        name: "AI_UnsupportedFunctionalityError",
      });
    },
  });
  const video = { kind: "inline", mediaType: "video/mp4", base64: "AQID" } as const;
  const image = { kind: "inline", mediaType: "image/png", base64: "AQID" } as const;
  const called = await call(aiSdkModel(model), { messages: [...attached(video), ...attached(image)] });
  expect(model.calls).toHaveLength(2);
  expect(model.calls[1]?.prompt[0]?.content).toMatchObject([
    { type: "text", text: "[attachment video/mp4 is not shown: this model does not take such files]" },
    { type: "file", mediaType: "image/png" },
  ]);
  expect(responseOf(called).evidence).toMatchObject({
    warnings: [{ type: "withheld", mediaTypes: ["video/mp4"] }],
  });
});

test("what else a provider does not support fails the call", async () => {
  const before = (): void => {
    throw Object.assign(new Error("no tools"), { name: "AI_UnsupportedFunctionalityError" });
  };
  const called = await call(aiSdkModel(fakeModel([], { before })));
  expect(failureOf(called)).toMatchObject({ kind: "invalid_request", retryable: false, message: "no tools" });
});

test("[LA19] a message is converted once, however many requests it is in", async () => {
  const port = aiSdkModel(fakeModel([...text("Hi."), STOP]));
  let reads = 0;
  const first = new Proxy(user("One"), {
    get: (target, name, self) => {
      if (name === "role") reads += 1;
      return Reflect.get(target, name, self);
    },
  });
  const options = { signal, sink: () => {} };
  await port.call(request({ messages: [first] }), options);
  const once = reads;
  await port.call(request({ messages: [first, user("Two")] }), options);
  expect([once, reads]).toEqual([1, 1]);
});

test("[LA22] schemas are given as copies that are not frozen, the same in every call", async () => {
  const frozen = <T>(value: T): T => {
    if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
  };
  const isThawed = (value: unknown): boolean =>
    typeof value !== "object" ||
    value === null ||
    (!Object.isFrozen(value) && Object.values(value).every(isThawed));
  const schema = frozen({ type: "object", properties: { a: { type: "number" } }, required: ["a"] });
  const model = fakeModel([...text("Hi."), STOP]);
  const port = aiSdkModel(model);
  const asked = { tools: [{ ...ADD, inputSchema: schema }], outputSchema: schema };
  for (let count = 0; count < 2; count += 1) responseOf(await call(port, asked, signal));
  const given = model.calls.map(({ tools, responseFormat }) => [
    tools?.[0]?.inputSchema,
    (responseFormat as { readonly schema?: unknown }).schema,
  ]);
  expect(given[0]).toEqual([schema, schema]);
  expect(isThawed(given[0])).toBe(true);
  expect(given[1]?.map((one, index) => one === given[0]?.[index])).toEqual([true, true]);
  const open = frozen({ properties: { a: { type: "number" } } });
  for (let count = 0; count < 2; count += 1)
    responseOf(await call(port, { tools: [{ ...ADD, inputSchema: open }] }, signal));
  const [before, after] = model.calls.slice(2).map(({ tools }) => tools?.[0]?.inputSchema);
  expect(before).toEqual({ type: "object", ...open });
  expect(isThawed(before)).toBe(true);
  expect(after?.properties).toBe(before?.properties);
});
