// OpenAI Chat Completions as server-sent events, as OpenAI and everyone who is compatible speaks it.

import type { Json, JsonObject } from "../../src/model/json.ts";
import { openAiRefusal } from "./responses-wire.ts";
import { at, event, type Wire, type WireAnswer } from "./wire.ts";

const FINISH = { stop: "stop", calls: "tool_calls", length: "length", filter: "content_filter" } as const;

const STATUS = {
  rate_limit: [429, "rate_limit_exceeded", "tokens", "Rate limit reached for gpt-4o."],
  overloaded: [503, null, "server_error", "The engine is currently overloaded."],
  auth: [401, null, "invalid_request_error", "You didn't provide an API key."],
  context_overflow: [
    400,
    null,
    "invalid_request_error",
    "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.",
  ],
} as const;

const chatWire: Wire = {
  events: (answer, { cutOff = false } = {}) => [...deltasOf(answer), ...(cutOff ? [] : endOf(answer))],
  brokenCall: [
    delta({ role: "assistant", content: null }),
    delta({
      tool_calls: [
        { index: 0, id: "call_1", type: "function", function: { name: "add", arguments: '{"a":1,"b' } },
      ],
    }),
  ],
  errorEvents: [
    delta({ role: "assistant", content: "begun" }),
    event({ error: { message: "The server is overloaded.", type: "server_error", param: null, code: null } }),
  ],
  refusal: (kind) => openAiRefusal(STATUS[kind]),
  usage: { input: 100, output: 30, cacheRead: 20, cacheWrite: 0, reasoning: 12 },
  roundTrip: (body) => ({
    call: at(body, "messages", -2, "tool_calls", 0) ?? null,
    result: at(body, "messages", -1) ?? null,
  }),
  image: (body) =>
    String(at(body, "messages", 0, "content", 1, "image_url", "url") ?? "").replace(
      "data:image/png;base64,",
      "",
    ),
  schema: (body) => at(body, "response_format", "json_schema", "schema"),
  tools: (body) => at(body, "tools", 0, "function", "name"),
  skips: {},
};

export const openAiChatWire: Wire = {
  ...chatWire,
  skips: { reasoning: "OpenAI's Chat Completions never show reasoning" },
};

export const compatibleWire: Wire = {
  ...chatWire,
  reasoning: (body) => at(body, "messages", 1, "reasoning_content"),
};

function delta(value: JsonObject, finish: string | null = null): string {
  return chunk({ choices: [{ index: 0, delta: value, finish_reason: finish }] });
}

function chunk(value: JsonObject): string {
  return event({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "chat-test",
    ...value,
  });
}

function deltasOf({ reasoning = [], text = [], calls = [] }: WireAnswer): readonly string[] {
  return [
    ...reasoning.map((piece) => delta({ role: "assistant", reasoning_content: piece })),
    ...text.map((piece) => delta({ role: "assistant", content: piece })),
    ...calls.flatMap(({ id, name, args }, index) =>
      args.map((piece, at) => {
        const start: { [name: string]: Json } = at === 0 ? { id, type: "function" } : {};
        const named: { [name: string]: Json } = at === 0 ? { name } : {};
        return delta({ tool_calls: [{ index, ...start, function: { ...named, arguments: piece } }] });
      }),
    ),
  ];
}

function endOf({ finish = "stop" }: WireAnswer): readonly string[] {
  const usage = {
    prompt_tokens: 120,
    prompt_tokens_details: { cached_tokens: 20 },
    completion_tokens: 30,
    completion_tokens_details: { reasoning_tokens: 12 },
    total_tokens: 150,
  };
  return [delta({}, FINISH[finish]), chunk({ choices: [], usage }), event("[DONE]")];
}
