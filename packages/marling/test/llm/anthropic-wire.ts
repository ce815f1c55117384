// Anthropic Messages as server-sent events.

import type { Json } from "../../src/model/json.ts";
import { at, event, type Wire, type WireAnswer } from "./wire.ts";

const FINISH = { stop: "end_turn", calls: "tool_use", length: "max_tokens", filter: "refusal" } as const;

const STATUS = {
  rate_limit: [429, "rate_limit_error", "This request would exceed your rate limit."],
  overloaded: [503, "api_error", "Service unavailable."],
  auth: [401, "authentication_error", "invalid x-api-key"],
  context_overflow: [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"],
} as const;

export const anthropicWire: Wire = {
  events: (answer, { cutOff = false } = {}) => [
    begin(),
    ...blocksOf(answer).flatMap((block, index) => block(index)),
    ...(cutOff ? [] : endOf(answer)),
  ],
  brokenCall: [
    begin(),
    typed({
      type: "content_block_start",
      index: 0,
      content_block: { type: "tool_use", id: "toolu_1", name: "add", input: {} },
    }),
    typed({
      type: "content_block_delta",
      index: 0,
      delta: { type: "input_json_delta", partial_json: '{"a":1,"b' },
    }),
  ],
  errorEvents: [
    begin(),
    typed({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    typed({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "begun" } }),
    typed({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }),
  ],
  refusal: (kind) => {
    const [status, type, message] = STATUS[kind];
    return { status, body: { type: "error", error: { type, message } } };
  },
  usage: { input: 100, output: 30, cacheRead: 20, cacheWrite: 5, reasoning: 12 },
  roundTrip: (body) => ({
    call: at(body, "messages", -2, "content", -1) ?? null,
    result: at(body, "messages", -1, "content", 0) ?? null,
  }),
  reasoning: (body) => at(body, "messages", 1, "content", 0),
  image: (body) => at(body, "messages", 0, "content", 1, "source", "data") as string | undefined,
  schema: (body) =>
    at(body, "output_format", "schema") ??
    at(body, "output_config", "format", "schema") ??
    at(body, "tools", -1, "input_schema"),
  tools: (body) => at(body, "tools", 0, "name"),
  skips: {},
};

function begin(): string {
  const usage = {
    input_tokens: 100,
    output_tokens: 1,
    cache_read_input_tokens: 20,
    cache_creation_input_tokens: 5,
  };
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-test",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  };
  return typed({ type: "message_start", message });
}

function blocksOf({
  reasoning,
  text,
  calls = [],
}: WireAnswer): readonly ((index: number) => readonly string[])[] {
  return [
    ...(reasoning === undefined ? [] : [(index: number) => thinking(index, reasoning)]),
    ...(text === undefined ? [] : [(index: number) => words(index, text)]),
    ...calls.map(({ id, name, args }) => (index: number) => [
      typed({
        type: "content_block_start",
        index,
        content_block: { type: "tool_use", id, name, input: {} },
      }),
      ...args.map((piece) =>
        typed({
          type: "content_block_delta",
          index,
          delta: { type: "input_json_delta", partial_json: piece },
        }),
      ),
      typed({ type: "content_block_stop", index }),
    ]),
  ];
}

function thinking(index: number, pieces: readonly string[]): readonly string[] {
  const delta = (value: { [name: string]: Json }): string =>
    typed({ type: "content_block_delta", index, delta: value });
  return [
    typed({ type: "content_block_start", index, content_block: { type: "thinking", thinking: "" } }),
    ...pieces.map((piece) => delta({ type: "thinking_delta", thinking: piece })),
    delta({ type: "signature_delta", signature: "SIGNED" }),
    typed({ type: "content_block_stop", index }),
  ];
}

function words(index: number, pieces: readonly string[]): readonly string[] {
  return [
    typed({ type: "content_block_start", index, content_block: { type: "text", text: "" } }),
    ...pieces.map((piece) =>
      typed({ type: "content_block_delta", index, delta: { type: "text_delta", text: piece } }),
    ),
    typed({ type: "content_block_stop", index }),
  ];
}

function endOf({ finish = "stop" }: WireAnswer): readonly string[] {
  return [
    typed({
      type: "message_delta",
      delta: { stop_reason: FINISH[finish], stop_sequence: null },
      usage: { output_tokens: 30, output_tokens_details: { thinking_tokens: 12 } },
    }),
    typed({ type: "message_stop" }),
  ];
}

function typed(data: { readonly type: string } & { readonly [name: string]: Json }): string {
  return event(data, data.type);
}
