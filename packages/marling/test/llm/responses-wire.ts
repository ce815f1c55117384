// OpenAI Responses as server-sent events.

import type { Json, JsonObject } from "../../src/model/json.ts";
import { at, event, type Wire, type WireAnswer, type WireCall } from "./wire.ts";

const STATUS = {
  rate_limit: [429, "rate_limit_exceeded", "requests", "Rate limit reached for gpt-5."],
  overloaded: [503, null, "server_error", "The engine is currently overloaded."],
  auth: [401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided."],
  context_overflow: [
    400,
    "context_length_exceeded",
    "invalid_request_error",
    "Your input exceeds the context window of this model.",
  ],
} as const;

export const responsesWire: Wire = {
  events: (answer, { cutOff = false } = {}) => [
    begin(),
    ...itemsOf(answer).flatMap((item, index) => item(index)),
    ...(cutOff ? [] : [endOf(answer)]),
  ],
  brokenCall: [
    begin(),
    event({
      type: "response.output_item.added",
      output_index: 0,
      item: { type: "function_call", id: "fc_call_1", call_id: "call_1", name: "add", arguments: "" },
    }),
    event({
      type: "response.function_call_arguments.delta",
      item_id: "fc_call_1",
      output_index: 0,
      delta: '{"a":1,"b',
    }),
  ],
  errorEvents: [
    begin(),
    ...message(0, ["begun"]).slice(0, 2),
    event({
      type: "error",
      sequence_number: 9,
      error: {
        type: "server_error",
        code: "server_error",
        message: "The server is overloaded.",
        param: null,
      },
    }),
  ],
  refusal: (kind) => openAiRefusal(STATUS[kind]),
  usage: { input: 100, output: 30, cacheRead: 20, cacheWrite: 0, reasoning: 12 },
  roundTrip: (body) => ({ call: at(body, "input", -2) ?? null, result: at(body, "input", -1) ?? null }),
  reasoning: (body) => at(body, "input", 1),
  image: (body) =>
    String(at(body, "input", 0, "content", 1, "image_url") ?? "").replace("data:image/png;base64,", ""),
  schema: (body) => at(body, "text", "format", "schema"),
  tools: (body) => at(body, "tools", 0, "name"),
  skips: {},
};

export function openAiRefusal([status, code, type, text]: readonly [number, string | null, string, string]): {
  readonly status: number;
  readonly body: JsonObject;
} {
  return { status, body: { error: { message: text, type, param: null, code } } };
}

function begin(): string {
  return event({
    type: "response.created",
    sequence_number: 0,
    response: { id: "resp_1", object: "response", created_at: 1_700_000_000, model: "gpt-5" },
  });
}

function itemsOf({
  reasoning,
  text,
  calls = [],
}: WireAnswer): readonly ((index: number) => readonly string[])[] {
  return [
    ...(reasoning === undefined ? [] : [(index: number) => thought(index, reasoning)]),
    ...(text === undefined ? [] : [(index: number) => message(index, text)]),
    ...calls.map((call) => (index: number) => functionCall(index, call)),
  ];
}

function thought(index: number, pieces: readonly string[]): readonly string[] {
  const item = { type: "reasoning", id: "rs_1", summary: [] };
  return [
    event({
      type: "response.output_item.added",
      output_index: index,
      item: { ...item, encrypted_content: null },
    }),
    event({ type: "response.reasoning_summary_part.added", item_id: "rs_1", summary_index: 0 }),
    ...pieces.map((delta) =>
      event({ type: "response.reasoning_summary_text.delta", item_id: "rs_1", summary_index: 0, delta }),
    ),
    event({ type: "response.reasoning_summary_part.done", item_id: "rs_1", summary_index: 0 }),
    event({
      type: "response.output_item.done",
      output_index: index,
      item: { ...item, encrypted_content: "SIGNED" },
    }),
  ];
}

function message(index: number, pieces: readonly string[]): readonly string[] {
  const item = { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [] };
  return [
    event({ type: "response.output_item.added", output_index: index, item }),
    ...pieces.map((delta) =>
      event({
        type: "response.output_text.delta",
        item_id: "msg_1",
        output_index: index,
        content_index: 0,
        delta,
      }),
    ),
    event({ type: "response.output_item.done", output_index: index, item }),
  ];
}

function functionCall(index: number, { id, name, args }: WireCall): readonly string[] {
  const item = { type: "function_call", id: `fc_${id}`, call_id: id, name, status: "completed" };
  return [
    event({ type: "response.output_item.added", output_index: index, item: { ...item, arguments: "" } }),
    ...args.map((delta) =>
      event({
        type: "response.function_call_arguments.delta",
        item_id: item.id,
        output_index: index,
        delta,
      }),
    ),
    event({
      type: "response.output_item.done",
      output_index: index,
      item: { ...item, arguments: args.join("") },
    }),
  ];
}

function endOf({ finish = "stop" }: WireAnswer): string {
  const usage = {
    input_tokens: 120,
    input_tokens_details: { cached_tokens: 20 },
    output_tokens: 30,
    output_tokens_details: { reasoning_tokens: 12 },
    total_tokens: 150,
  };
  const incomplete = { length: "max_output_tokens", filter: "content_filter" }[finish as "length" | "filter"];
  const response: { [name: string]: Json } = {
    id: "resp_1",
    incomplete_details: incomplete === undefined ? null : { reason: incomplete },
    usage,
  };
  return event({
    type: incomplete === undefined ? "response.completed" : "response.incomplete",
    sequence_number: 99,
    response,
  });
}
