// What the native model makes of the streams of Anthropic's Messages.

import type { ModelStreamPart } from "marling";
import { expect, test } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { anthropicWire } from "./anthropic-wire.ts";
import { streamedByMessages, viaMessages } from "./native-calls.ts";
import { call, failureOf, request, responseOf, said, user } from "./port-calls.ts";
import { event } from "./wire.ts";
import { wireServer } from "./wire-server.ts";

const START = {
  type: "message_start",
  message: { id: "m1", model: "served-1", usage: { input_tokens: 7 } },
};
const END = { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } };
const begin = (index: number, block: JsonObject): JsonObject => ({
  type: "content_block_start",
  index,
  content_block: block,
});
const grow = (index: number, delta: JsonObject): JsonObject => ({
  type: "content_block_delta",
  index,
  delta,
});
const stop = (index: number): JsonObject => ({ type: "content_block_stop", index });

test("[LA4] thinking that is not shown is kept and goes back as it came", async () => {
  const answer = [
    START,
    begin(0, { type: "redacted_thinking", data: "SECRET" }),
    stop(0),
    begin(1, { type: "thinking", thinking: "", signature: "" }),
    grow(1, { type: "signature_delta", signature: "SIG" }),
    grow(1, { type: "signature_delta", signature: "NED" }),
    stop(1),
    begin(2, { type: "text", text: "" }),
    grow(2, { type: "text_delta", text: "Yes." }),
    stop(2),
    END,
  ];
  const server = await wireServer([
    { kind: "stream", events: answer.map((data) => event(data)) },
    { kind: "stream", events: anthropicWire.events({ text: ["Bye."] }) },
  ]);
  const port = viaMessages(server.url, { promptCache: "off" });
  const { parts } = responseOf(await call(port));
  expect(parts.map(({ kind }) => kind)).toEqual(["reasoning", "reasoning", "text"]);
  responseOf(await call(port, { messages: [user("Well?"), said(parts), user("Sure?")] }));
  expect(server.sent[1]?.body.messages).toMatchObject([
    {},
    {
      role: "assistant",
      content: [
        { type: "redacted_thinking", data: "SECRET" },
        { type: "thinking", thinking: "", signature: "SIGNED" },
        { type: "text", text: "Yes." },
      ],
    },
    {},
  ]);
});

test("[LA2] calls that the provider runs itself are not ours, and kinds that are new do no harm", async () => {
  const { parts, finish, evidence } = responseOf(
    await streamedByMessages([
      START,
      { type: "ping" },
      begin(0, { type: "server_tool_use", id: "s1", name: "web_search", input: {} }),
      grow(0, { type: "input_json_delta", partial_json: "{}" }),
      stop(0),
      begin(1, { type: "something_new", text: "?" }),
      stop(1),
      { type: "something_else" },
      begin(2, { type: "text", text: "Found" }),
      grow(2, { type: "text_delta", text: "." }),
      stop(2),
      END,
    ]),
  );
  expect(parts).toEqual([{ kind: "text", text: "Found." }]);
  expect(finish).toBe("stop");
  expect(evidence).toEqual({ responseId: "m1", model: "served-1", finish: "end_turn" });
});

const CALL = begin(0, { type: "tool_use", id: "t1", name: "add", input: {} });
const ENDS = { ...END, delta: { stop_reason: "tool_use" } };

test("[LA2] a call that was begun and not completed is no answer, whatever is said of the end", async () => {
  const called = await streamedByMessages([
    START,
    CALL,
    grow(0, { type: "input_json_delta", partial_json: '{"a":' }),
    ENDS,
  ]);
  expect(failureOf(called)).toMatchObject({
    kind: "truncated_stream",
    retryable: true,
    message: "the stream ended before the answer did: the arguments of a call of add are incomplete",
    usage: { input: 7, output: 3 },
  });
});

test("[LN8] an answer that reached its limit in the middle of a call has no such call", async () => {
  const { parts, finish } = responseOf(
    await streamedByMessages([
      START,
      CALL,
      grow(0, { type: "input_json_delta", partial_json: '{"a":' }),
      stop(0),
      { ...END, delta: { stop_reason: "max_tokens" } },
    ]),
  );
  expect(finish).toBe("output_limit");
  expect(parts).toEqual([]);
});

test.each([
  ["a call without arguments", CALL, "{}"],
  [
    "arguments that come with the call",
    begin(0, { ...(CALL.content_block as JsonObject), input: { a: 1 } }),
    '{"a":1}',
  ],
])("[LA2] %s", async (_title, begun, args) => {
  const { parts } = responseOf(await streamedByMessages([START, begun, stop(0), ENDS]));
  expect(parts).toEqual([{ kind: "tool_call", callId: "t1", name: "add", args }]);
});

test.each([
  ["stop_sequence", "stop"],
  ["pause_turn", "stop"],
  ["model_context_window_exceeded", "context_overflow"],
  ["something_new", "unknown"],
])("[LA3] the reason %s is the finish %s", async (raw, finish) => {
  const events = [START, { ...END, delta: { stop_reason: raw } }];
  expect(responseOf(await streamedByMessages(events))).toMatchObject({ finish, evidence: { finish: raw } });
});

test("[LA5] 529 is overload", async () => {
  const body = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  const server = await wireServer([{ kind: "refuse", status: 529, body }]);
  expect(failureOf(await call(viaMessages(server.url)))).toMatchObject({
    kind: "overloaded",
    retryable: true,
  });
});

test("[LA3] what was used until a call broke or was aborted is told", async () => {
  const events = anthropicWire.events({ text: ["Half a"] }, { cutOff: true });
  const used = { input: 100, output: 1, cacheRead: 20, cacheWrite: 5, reasoning: 0 };
  const server = await wireServer([
    { kind: "stream", events, end: "reset" },
    { kind: "stream", events, end: "hang" },
  ]);
  const port = viaMessages(server.url);
  expect(failureOf(await call(port))).toMatchObject({ kind: "network", usage: used });
  const abort = new AbortController();
  const parts: ModelStreamPart[] = [];
  const outcome = await port.call(request(), {
    signal: abort.signal,
    sink: (part) => {
      parts.push(part);
      if (part.kind === "text_delta") abort.abort();
    },
  });
  expect(parts).toEqual([
    { kind: "text_delta", text: "Half a" },
    { kind: "usage", usage: used },
  ]);
  expect(outcome).toMatchObject({ kind: "failure", failure: { kind: "cancelled", usage: used } });
});
