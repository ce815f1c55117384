// What the native model sends as Anthropic's Messages.

import type { ModelRequest } from "marling";
import { expect, test } from "vitest";
import { anthropicWire } from "./anthropic-wire.ts";
import { sentToMessages, viaMessages } from "./native-calls.ts";
import { ADD, call, responseOf, result, said, user, watchedAdd } from "./port-calls.ts";
import { at } from "./wire.ts";
import { wireServer } from "./wire-server.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const text = (words: string, extra: object = {}): object => ({ type: "text", text: words, ...extra });
const sayHi = said([{ kind: "text", text: "Hi." }]);

test("[LA16] a request is what was asked for, with the limit that the wire wants", async () => {
  const { path, body, headers } = await sentToMessages({}, { apiKey: "k-123", promptCache: "off" });
  expect(path).toBe("/v1/messages");
  expect(headers).toMatchObject({ "x-api-key": "k-123", "anthropic-version": "2023-06-01" });
  expect(body).toEqual({
    model: "claude-sonnet-4-5",
    stream: true,
    max_tokens: 64_000,
    messages: [{ role: "user", content: [text("Hello")] }],
  });
});

test("[LA16] parameters, options and tools have their names of the wire", async () => {
  const { body, warnings } = await sentToMessages(
    {
      tools: [ADD],
      toolChoice: "required",
      parameters: {
        maxOutputTokens: 9,
        temperature: 1.5,
        topP: 0.9,
        topK: 5,
        stopSequences: ["END"],
        seed: 1,
      },
      providerOptions: {
        anthropic: { metadata: { user_id: "u1" }, stream: false },
        openai: { user: "u2" },
      },
    },
    { promptCache: "off" },
  );
  const { name, description, inputSchema } = ADD;
  expect(body).toEqual({
    model: "claude-sonnet-4-5",
    stream: true,
    max_tokens: 9,
    temperature: 1,
    top_p: 0.9,
    top_k: 5,
    stop_sequences: ["END"],
    tools: [{ name, description, input_schema: inputSchema }],
    tool_choice: { type: "any" },
    metadata: { user_id: "u1" },
    messages: [{ role: "user", content: [text("Hello")] }],
  });
  expect(warnings).toEqual([{ type: "unsupported", feature: "seed" }]);
});

test("[LN12] what stays the same is marked for the cache, in four places", async () => {
  const now = { name: "now", description: "The time.", inputSchema: {} };
  const { body } = await sentToMessages({
    system: "Be brief.",
    tools: [ADD, now],
    messages: [user("One"), sayHi, user("Two"), sayHi, user("Three")],
  });
  expect(body.system).toEqual([text("Be brief.", MARK)]);
  expect(body.tools).toMatchObject([{ name: "add" }, { name: "now", ...MARK }]);
  expect(body.messages).toEqual([
    { role: "user", content: [text("One")] },
    { role: "assistant", content: [text("Hi.")] },
    { role: "user", content: [text("Two", MARK)] },
    { role: "assistant", content: [text("Hi.")] },
    { role: "user", content: [text("Three", MARK)] },
  ]);
  expect(JSON.stringify(body).match(/cache_control/g)).toHaveLength(4);
});

test("[LN12] nothing is marked when the host does it, or does not want it", async () => {
  const asked = { system: "Be brief.", providerOptions: { anthropic: MARK } };
  const { body } = await sentToMessages(asked);
  expect(body.cache_control).toEqual({ type: "ephemeral" });
  expect(JSON.stringify(body).match(/cache_control/g)).toHaveLength(1);
  const off = await sentToMessages({ system: "Be brief." }, { promptCache: "off" });
  expect(JSON.stringify(off.body)).not.toContain("cache_control");
});

test("[LN12] a mark is on the request, not on the message that is kept", async () => {
  const reply = { kind: "stream", events: anthropicWire.events({ text: ["Hi."] }) } as const;
  const server = await wireServer([reply, reply]);
  const port = viaMessages(server.url);
  const one = user("One");
  responseOf(await call(port, { messages: [one] }));
  responseOf(await call(port, { messages: [one, sayHi, user("Two"), sayHi, user("Three")] }));
  expect(server.sent.map(({ body }) => at(body.messages, 0, "content"))).toEqual([
    [text("One", MARK)],
    [text("One")],
  ]);
});

test("[LA23] a list of tools is written once, whether it is marked or not, and another one anew", async () => {
  const reply = { kind: "stream", events: anthropicWire.events({ text: ["Hi."] }) } as const;
  const server = await wireServer(Array.from({ length: 5 }, () => reply));
  const port = viaMessages(server.url);
  const { tool, writes } = watchedAdd();
  const tools = [tool];
  responseOf(await call(port, { tools }));
  responseOf(await call(port, { tools, providerOptions: { anthropic: MARK } }));
  responseOf(await call(port, { tools }));
  expect(writes()).toBe(1);
  responseOf(await call(port, { tools: [ADD, { ...ADD, name: "other" }] }));
  responseOf(await call(port, { tools, providerOptions: { anthropic: { tools: [] } } }));
  const { name, description, inputSchema } = ADD;
  const plain = { name, description, input_schema: inputSchema };
  const marked = { ...plain, ...MARK };
  expect(server.sent.map(({ body }) => body.tools)).toEqual([
    [marked],
    [plain],
    [marked],
    [plain, { ...marked, name: "other" }],
    [],
  ]);
});

test("[LA11] results are the user's, stand first and say when they are errors", async () => {
  const asked = said([
    { kind: "text", text: "Adding." },
    { kind: "tool_call", callId: "c1", name: "add", args: '{"a":1}' },
    { kind: "tool_call", callId: "c2", name: "add", args: "{}" },
  ]);
  const messages = [user("Go"), asked, user("Hurry"), result("c1", "no", true), result("c9", "9")];
  const { body } = await sentToMessages({ messages }, { promptCache: "off" });
  const answer = (id: string, content: string, extra: object = {}): object => ({
    type: "tool_result",
    tool_use_id: id,
    content,
    ...extra,
  });
  expect(body.messages).toEqual([
    { role: "user", content: [text("Go")] },
    {
      role: "assistant",
      content: [
        text("Adding."),
        { type: "tool_use", id: "c1", name: "add", input: { a: 1 } },
        { type: "tool_use", id: "c2", name: "add", input: {} },
      ],
    },
    {
      role: "user",
      content: [
        answer("c1", "no", { is_error: true }),
        answer("c2", "This call has no result. It may have taken effect.", { is_error: true }),
        text("Hurry"),
        text("[result of add]\n9"),
      ],
    },
  ]);
});

test("[LA12] an answer to go on from does not end in blanks", async () => {
  const messages = [user("Go "), said([{ kind: "text", text: "One, two, \n" }])];
  const { body } = await sentToMessages({ messages }, { promptCache: "off" });
  expect(body.messages).toEqual([
    { role: "user", content: [text("Go ")] },
    { role: "assistant", content: [text("One, two,")] },
  ]);
});

test("[LA14] files have the form of their kind, and others are told in words", async () => {
  const parts: ModelRequest["messages"][number]["parts"] = [
    { kind: "attachment", source: { kind: "inline", mediaType: "application/pdf", base64: "AQID" } },
    {
      kind: "attachment",
      source: { kind: "external_url", mediaType: "image/gif", url: "https://a.example/b" },
    },
    { kind: "attachment", source: { kind: "inline", mediaType: "image/tiff", base64: "AQID" } },
    {
      kind: "attachment",
      source: { kind: "provider_file", mediaType: "image/png", provider: "anthropic", id: "f1" },
    },
  ];
  const { body, headers } = await sentToMessages(
    { messages: [{ role: "user", parts }] },
    { promptCache: "off" },
  );
  expect(body.messages).toEqual([
    {
      role: "user",
      content: [
        { type: "document", source: { type: "base64", media_type: "application/pdf", data: "AQID" } },
        { type: "image", source: { type: "url", url: "https://a.example/b" } },
        text("[attachment image/tiff is not shown: this model does not take such files]"),
        { type: "image", source: { type: "file", file_id: "f1" } },
      ],
    },
  ]);
  expect(headers["anthropic-beta"]).toBe("files-api-2025-04-14");
});

const CLOSED = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

test.each([
  ["a model that cannot", "claude-3-5-haiku-latest", CLOSED],
  ["a schema that is open", "claude-sonnet-4-5", { type: "object", properties: {} }],
  [
    "a schema with limits",
    "claude-sonnet-4-5",
    { ...CLOSED, properties: { city: { type: "string", maxLength: 3 } } },
  ],
])("[LA15] %s is asked in words", async (_title, model, outputSchema) => {
  const { body } = await sentToMessages({ outputSchema, system: "Be brief." }, { model, promptCache: "off" });
  expect(body.output_config).toBeUndefined();
  const ask = "Give your final answer as JSON that follows this JSON schema, and nothing else:";
  expect(body.system).toEqual([text(`Be brief.\n\n${ask}\n${JSON.stringify(outputSchema)}`)]);
});

test.each([
  ["claude-opus-4-6", "high", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
  ["claude-sonnet-4-5", "low", { thinking: { type: "enabled", budget_tokens: 6_400 } }],
  ["claude-sonnet-4-5", "none", { thinking: { type: "disabled" } }],
  ["claude-3-5-haiku-latest", "high", {}],
  ["claude-sonnet-4-5", "very", {}],
])("[LA16] %s reasons by %s", async (model, reasoning, expected) => {
  const { body, warnings } = await sentToMessages({ parameters: { reasoning } }, { model });
  const { thinking, output_config } = body;
  expect(JSON.parse(JSON.stringify({ thinking, output_config }))).toEqual(expected);
  const isKnown = Object.keys(expected).length > 0;
  expect(warnings).toEqual(isKnown ? undefined : [{ type: "unsupported", feature: "reasoning" }]);
});

test("[LA16] a model that thinks is not told how to choose", async () => {
  const { body, warnings } = await sentToMessages({
    tools: [ADD],
    toolChoice: "required",
    parameters: { temperature: 0.5 },
    providerOptions: { anthropic: { thinking: { type: "enabled", budget_tokens: 2_000 } } },
  });
  expect(body.temperature).toBeUndefined();
  expect(body.tool_choice).toEqual({ type: "auto" });
  expect(body.thinking).toEqual({ type: "enabled", budget_tokens: 2_000 });
  expect(warnings).toEqual([
    { type: "unsupported", feature: "temperature" },
    { type: "unsupported", feature: "toolChoice" },
  ]);
});

test.each([
  ["claude-3-haiku-20240307", 4_096],
  ["claude-3-5-sonnet-latest", 8_192],
  ["claude-opus-4-20250514", 32_000],
  ["claude-sonnet-4-20250514", 64_000],
  ["claude-opus-4-1", 32_000],
  ["claude-opus-4-7", 128_000],
  ["claude-sonnet-5", 64_000],
  ["other-model", 8_192],
])("[LA16] an answer of %s may have %i tokens", async (model, limit) => {
  expect((await sentToMessages({}, { model })).body.max_tokens).toBe(limit);
});
