// Chat Completions as the native model speaks them.

import type { ModelRequest } from "marling";
import { describe, expect, test } from "vitest";
import { delta, sentToChat, streamedByChat, viaChat } from "./native-calls.ts";
import { ADD, call, failureOf, responseOf, result, said, textsOf, user, watchedAdd } from "./port-calls.ts";
import { event } from "./wire.ts";
import { wireServer } from "./wire-server.ts";

const FINISHED = delta({}, "tool_calls");
const piece = (value: object): ReturnType<typeof delta> => delta({ tool_calls: [value as never] });

describe("requests", () => {
  test("[LA16] a request is what was asked for, and nothing else", async () => {
    const { path, body, headers } = await sentToChat({});
    expect(path).toBe("/v1/chat/completions");
    expect(headers.authorization).toBeUndefined();
    expect(body).toEqual({
      model: "local",
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: "Hello" }],
    });
  });

  test("[LA16] parameters, options, headers and tools have their names of the wire", async () => {
    const { body, headers, warnings } = await sentToChat({
      system: "Be brief.",
      tools: [ADD, { name: "now", description: "The time.", inputSchema: {} }],
      toolChoice: "required",
      parameters: {
        ...{ maxOutputTokens: 9, temperature: 0.5, topP: 0.9, presencePenalty: 1, frequencyPenalty: 2 },
        ...{ seed: 3, stopSequences: ["END"], reasoning: "low", topK: 5, beams: 2 },
      },
      providerOptions: { openai: { user: "u1", stream: false, messages: [] }, other: { user: "u2" } },
      headers: { "X-Team": "blue" },
    });
    const { messages, tools, ...rest } = body;
    expect(rest).toEqual({
      model: "local",
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 9,
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 1,
      frequency_penalty: 2,
      seed: 3,
      stop: ["END"],
      reasoning_effort: "low",
      tool_choice: "required",
      user: "u1",
    });
    expect(messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ]);
    const { name, description, inputSchema } = ADD;
    expect(tools).toEqual([
      { type: "function", function: { name, description, parameters: inputSchema } },
      {
        type: "function",
        function: { name: "now", description: "The time.", parameters: { type: "object" } },
      },
    ]);
    expect(headers["x-team"]).toBe("blue");
    expect(warnings).toEqual([
      { type: "unknown_parameter", name: "beams" },
      { type: "unsupported", feature: "topK" },
    ]);
  });

  test("[LA16] headers of the request come before those of the model", async () => {
    const { headers } = await sentToChat(
      { headers: { "x-a": "request" } },
      {
        apiKey: "k-123",
        headers: { "X-A": "model", "x-b": "model" },
        organization: "org-1",
        project: "proj-1",
        maxOutputTokens: 4,
      },
    );
    expect(headers).toMatchObject({
      authorization: "Bearer k-123",
      "x-a": "request",
      "x-b": "model",
      "openai-organization": "org-1",
      "openai-project": "proj-1",
    });
  });

  test("[LA15] a schema that can be followed to the letter is strict, another is not", async () => {
    const closed = {
      type: "object",
      properties: { list: { type: "array", items: { type: "string" } } },
      required: ["list"],
      additionalProperties: false,
    };
    const formatOf = async (outputSchema: ModelRequest["outputSchema"]): Promise<unknown> =>
      (await sentToChat({ outputSchema: outputSchema ?? {} })).body.response_format;
    const json = (schema: object, strict: boolean): object => ({
      type: "json_schema",
      json_schema: { name: "answer", schema, strict },
    });
    expect(await formatOf(closed)).toEqual(json(closed, true));
    const optional = { ...closed, required: [] };
    expect(await formatOf(optional)).toEqual(json(optional, false));
    const inner = { ...closed, properties: { list: { type: "object", properties: {} } } };
    expect(await formatOf(inner)).toEqual(json(inner, false));
  });

  test("[LA14] files have the form of their kind, and others are told in words", async () => {
    const file = (mediaType: string): ModelRequest["messages"][number]["parts"][number] => ({
      kind: "attachment",
      source: { kind: "inline", mediaType, base64: "AQID" },
    });
    const parts = [
      ...["image/png", "audio/mpeg", "application/pdf", "video/mp4", "text/plain"].map(file),
      {
        kind: "attachment",
        source: { kind: "external_url", mediaType: "image/gif", url: "https://a.example/b" },
      },
      {
        kind: "attachment",
        source: { kind: "provider_file", mediaType: "x/y", provider: "openai", id: "file-1" },
      },
    ] as const;
    const { body } = await sentToChat({ messages: [{ role: "user", parts }] });
    expect(body.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
          { type: "input_audio", input_audio: { data: "AQID", format: "mp3" } },
          { type: "file", file: { filename: "document.pdf", file_data: "data:application/pdf;base64,AQID" } },
          { type: "text", text: "[attachment video/mp4 is not shown: this model does not take such files]" },
          { type: "text", text: "[attachment text/plain]\n\u0001\u0002\u0003" },
          { type: "image_url", image_url: { url: "https://a.example/b" } },
          { type: "file", file: { file_id: "file-1" } },
        ],
      },
    ]);
  });

  test("[LA11] calls without results, results without calls and words in between are put in order", async () => {
    const asked = said([
      { kind: "tool_call", callId: "c1", name: "add", args: "{}" },
      { kind: "tool_call", callId: "c2", name: "add", args: "[1]" },
    ]);
    const { body } = await sentToChat({
      messages: [user("Go"), asked, user("Hurry"), result("c2", "2"), result("c9", "9"), user("Well?")],
    });
    const toolCall = (id: string, args: string): object => ({
      id,
      type: "function",
      function: { name: "add", arguments: args },
    });
    expect(body.messages).toEqual([
      { role: "user", content: "Go" },
      {
        role: "assistant",
        content: null,
        tool_calls: [toolCall("c1", "{}"), toolCall("c2", '{"arguments":[1]}')],
      },
      { role: "tool", tool_call_id: "c2", content: "2" },
      { role: "tool", tool_call_id: "c1", content: "This call has no result. It may have taken effect." },
      { role: "user", content: "Hurry\n\n[result of add]\n9\n\nWell?" },
    ]);
  });

  test("[LA19] a message is converted and written once, however many requests it is in", async () => {
    const events = [event(delta({ content: "Hi." }, "stop"))];
    const server = await wireServer([
      { kind: "stream", events },
      { kind: "stream", events },
    ]);
    const port = viaChat(server.url);
    let reads = 0;
    const first = new Proxy(user("One"), {
      get: (target, name, self) => {
        if (name === "role") reads += 1;
        return Reflect.get(target, name, self);
      },
    });
    responseOf(await call(port, { messages: [first] }));
    const once = reads;
    responseOf(await call(port, { messages: [first, said([{ kind: "text", text: "Hi." }]), user("Two")] }));
    expect([once, reads]).toEqual([1, 1]);
    expect(server.sent[1]?.body.messages).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Hi." },
      { role: "user", content: "Two" },
    ]);
  });

  test("[LA23] a list of tools is written once, and another one anew", async () => {
    const events = [event(delta({ content: "Hi." }, "stop"))];
    const server = await wireServer(Array.from({ length: 4 }, () => ({ kind: "stream", events }) as const));
    const port = viaChat(server.url);
    const { tool, writes } = watchedAdd();
    const tools = [tool];
    responseOf(await call(port, { tools }));
    responseOf(await call(port, { tools, messages: [user("Again")] }));
    expect(writes()).toBe(1);
    responseOf(await call(port, { tools: [ADD, { ...ADD, name: "other" }] }));
    responseOf(await call(port, { tools, providerOptions: { openai: { tools: [] } } }));
    const names = server.sent.map(({ body }) =>
      (body.tools as { function: { name: string } }[]).map((tool) => tool.function.name),
    );
    expect(names).toEqual([["add"], ["add"], ["add", "other"], []]);
    expect(server.sent[0]?.body.tool_choice).toBe("auto");
  });
});

describe("answers", () => {
  test("[LA18] what the server reports is evidence", async () => {
    const { evidence } = responseOf(
      await streamedByChat([{ id: "r1", model: "served-1", ...delta({ content: "Hi." }, "stop") }]),
    );
    expect(evidence).toEqual({ responseId: "r1", model: "served-1", finish: "stop" });
  });

  test("[LA4] reasoning goes back in the member it came in", async () => {
    const server = await wireServer([
      {
        kind: "stream",
        events: [
          event(delta({ reasoning: "Let me " })),
          event(delta({ reasoning: "see." })),
          event(delta({ content: "Yes." }, "stop")),
        ],
      },
      { kind: "stream", events: [event(delta({ content: "Bye." }, "stop"))] },
    ]);
    const port = viaChat(server.url);
    const { parts } = responseOf(await call(port));
    responseOf(await call(port, { messages: [user("Well?"), said(parts), user("Sure?")] }));
    expect(server.sent[1]?.body.messages).toEqual([
      { role: "user", content: "Well?" },
      { role: "assistant", content: "Yes.", reasoning: "Let me see." },
      { role: "user", content: "Sure?" },
    ]);
  });

  test("[LA4] what stands beside a call goes back with it", async () => {
    const extra = { google: { thought_signature: "SIGNED" } };
    const called = { index: 0, id: "c1", function: { name: "add", arguments: "{}" }, extra_content: extra };
    const events = [event(piece(called)), event(FINISHED)];
    const server = await wireServer([
      { kind: "stream", events },
      { kind: "stream", events: [event(delta({ content: "Bye." }, "stop"))] },
    ]);
    const port = viaChat(server.url);
    const { parts } = responseOf(await call(port));
    responseOf(await call(port, { messages: [user("Go"), said(parts), result("c1", "3")] }));
    expect(server.sent[1]?.body.messages).toMatchObject([
      {},
      { tool_calls: [{ id: "c1", extra_content: extra }] },
      { role: "tool" },
    ]);
  });

  const named = (index: number | undefined, id: string | undefined, name: string, args: string): object => ({
    ...(index === undefined ? {} : { index }),
    ...(id === undefined ? {} : { id }),
    function: { name, arguments: args },
  });

  test.each([
    [
      "calls whose pieces alternate",
      [
        named(0, "a", "add", '{"a"'),
        named(1, "b", "sub", '{"b"'),
        { index: 0, function: { arguments: ":1}" } },
        { index: 1, function: { arguments: ":2}" } },
      ],
      [
        ["a", "add", '{"a":1}'],
        ["b", "sub", '{"b":2}'],
      ],
    ],
    [
      "calls that share an index",
      [named(0, "a", "add", "{}"), named(0, "b", "sub", '{"b":2}')],
      [
        ["a", "add", "{}"],
        ["b", "sub", '{"b":2}'],
      ],
    ],
    [
      "calls without an index",
      [
        named(undefined, "a", "add", '{"a"'),
        { function: { arguments: ":1}" } },
        named(undefined, "b", "sub", "{}"),
      ],
      [
        ["a", "add", '{"a":1}'],
        ["b", "sub", "{}"],
      ],
    ],
    [
      "ids and names that are said again",
      [named(0, "a", "add", '{"a"'), named(0, "a", "add", ":1}")],
      [["a", "add", '{"a":1}']],
    ],
    ["ids that are missing", [named(0, undefined, "add", "{}")], [["", "add", "{}"]]],
    ["arguments that are missing", [{ index: 0, id: "a", function: { name: "now" } }], [["a", "now", "{}"]]],
  ])("[LN10] %s", async (_title, pieces, expected) => {
    const { parts, finish } = responseOf(await streamedByChat([...pieces.map(piece), FINISHED]));
    expect(parts.map((part) => part.kind === "tool_call" && [part.callId, part.name, part.args])).toEqual(
      expected,
    );
    expect(finish).toBe("tool_use");
  });

  test("[LN8] an answer that reached its limit in the middle of a call has the calls before it only", async () => {
    const { parts, finish } = responseOf(
      await streamedByChat([
        piece(named(0, "a", "add", '{"a":1}')),
        piece(named(1, "b", "add", '{"a":')),
        delta({}, "length"),
      ]),
    );
    expect(finish).toBe("output_limit");
    expect(parts).toEqual([{ kind: "tool_call", callId: "a", name: "add", args: '{"a":1}' }]);
  });

  test.each([
    ["eos", "unknown"],
    ["function_call", "tool_use"],
    ["model_context_window_exceeded", "context_overflow"],
  ])("[LA3] the reason %s is the finish %s", async (raw, finish) => {
    expect(responseOf(await streamedByChat([delta({ content: "Hi." }, raw)]))).toMatchObject({
      finish,
      evidence: { finish: raw },
    });
  });

  test.each([
    ["no reason before the mark of the end", ["[DONE]"], "truncated_stream"],
    ["a word for an answer that was broken off", [delta({}, "network_error")], "truncated_stream"],
    ["an answer that the provider calls an error", [delta({}, "error")], "unknown"],
    ["an event that is no JSON", ['{"choices":[{"delta":{"con', delta({}, "stop")], "truncated_stream"],
  ] as const)("[LA3] %s may be tried again", async (_title, events, kind) => {
    const called = await streamedByChat([delta({ content: "Half" }), ...events]);
    expect(failureOf(called)).toMatchObject({ kind, retryable: true });
    expect(textsOf(called)).toEqual(["Half"]);
  });

  test("[LA5] an error in a stream whose code is a status has the kind of the status", async () => {
    const called = await streamedByChat([
      { error: { code: 429, message: "Slow down" } },
      delta({ content: "x" }),
    ]);
    expect(failureOf(called)).toMatchObject({ kind: "rate_limit", retryable: true, message: "Slow down" });
    expect(textsOf(called)).toEqual([]);
  });

  test("[LA3] usage that comes with the last delta, or of another name, counts as well", async () => {
    const usage = { prompt_tokens: 50, completion_tokens: 7, prompt_cache_hit_tokens: 20 };
    const { usage: used } = responseOf(
      await streamedByChat([{ ...delta({ content: "Hi." }, "stop"), usage }]),
    );
    expect(used).toEqual({ input: 30, output: 7, cacheRead: 20, cacheWrite: 0, reasoning: 0 });
  });

  test("[LA3] an answer that has ended is whole, whatever becomes of the connection", async () => {
    const called = await streamedByChat([delta({ content: "Hi." }, "stop")], { end: "reset" });
    expect(responseOf(called).parts).toEqual([{ kind: "text", text: "Hi." }]);
  });
});
