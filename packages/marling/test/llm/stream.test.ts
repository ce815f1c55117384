// What is made of the parts of a stream, whichever provider they come from.

import type { AiSdkLanguageModel } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import { expect, test } from "vitest";
import { type FakeModelOptions, fakeModel, finish, STOP, text } from "./fake-model.ts";
import { type Called, call, failureOf, responseOf, textsOf } from "./port-calls.ts";

const streamed = (parts: readonly unknown[], options?: FakeModelOptions): Promise<Called> =>
  call(aiSdkModel(fakeModel(parts, options)));

test("[LA4] data of a text that comes in pieces is put together, and its phase is kept", async () => {
  const { parts } = responseOf(
    await streamed([
      { type: "text-start", id: "m1", providerMetadata: { openai: { itemId: "m1", phase: "commentary" } } },
      { type: "text-delta", id: "m1", delta: "Looking." },
      { type: "text-end", id: "m1", providerMetadata: { openai: { annotations: [] } } },
      STOP,
    ]),
  );
  expect(parts).toEqual([
    {
      kind: "text",
      text: "Looking.",
      phase: "commentary",
      replay: {
        model: "fake.chat/fake-1",
        words: "cf69d0ec7da1054c",
        metadata: { openai: { itemId: "m1", phase: "commentary", annotations: [] } },
      },
    },
  ]);
});

test("[LA1] texts with one id, one behind the other, are two texts", async () => {
  const { parts } = responseOf(await streamed([...text("One."), ...text("Two."), STOP]));
  expect(parts).toEqual([
    { kind: "text", text: "One." },
    { kind: "text", text: "Two." },
  ]);
});

test("[LA2] a call that a provider began and did not complete is no answer, whatever it says of the end", async () => {
  const begun = { type: "tool-input-start", id: "c1", toolName: "add" };
  const delta = { type: "tool-input-delta", id: "c1", delta: '{"a":' };
  expect(failureOf(await streamed([begun, delta, STOP]))).toMatchObject({
    kind: "truncated_stream",
    retryable: true,
    message: "the stream ended before the answer did: the arguments of a call of add are incomplete",
    usage: { input: 10, output: 2 },
  });
});

test("[LA2] calls that the provider runs itself are not ours", async () => {
  const { parts, finish: reason } = responseOf(
    await streamed([
      { type: "tool-input-start", id: "w1", toolName: "web_search", providerExecuted: true },
      { type: "tool-call", toolCallId: "w1", toolName: "web_search", input: "{}", providerExecuted: true },
      { type: "tool-result", toolCallId: "w1", toolName: "web_search", result: {} },
      ...text("Found."),
      STOP,
    ]),
  );
  expect(parts).toEqual([{ kind: "text", text: "Found." }]);
  expect(reason).toBe("stop");
});

test("[LA3] calls that end with a stop are calls all the same", async () => {
  const asked = { type: "tool-call", toolCallId: "c1", toolName: "add", input: "{}" };
  expect(responseOf(await streamed([asked, STOP])).finish).toBe("tool_use");
});

test.each([
  ["no finish at all", []],
  ["a finish without a reason", [finish("other")]],
  ["an interruption", [finish("interrupted", "eof")]],
  ["a server that gave up", [finish("other", "abort")]],
])("[LA3] %s is a stream that was cut off", async (_title, end) => {
  const called = await streamed([...text("Half"), ...end]);
  expect(failureOf(called)).toMatchObject({ kind: "truncated_stream", retryable: true });
  expect(textsOf(called)).toEqual(["Half"]);
});

test.each([
  ["other", "eos", "unknown"],
  ["length", "model_context_window_exceeded", "context_overflow"],
] as const)("[LA3] %s for the reason %s is the finish %s", async (unified, raw, expected) => {
  expect(responseOf(await streamed([...text("Hi."), finish(unified, raw)]))).toMatchObject({
    finish: expected,
    evidence: { finish: raw },
  });
});

test("[LA3] an answer that the provider itself calls an error may be tried again", async () => {
  expect(failureOf(await streamed([finish("error", "MALFORMED_FUNCTION_CALL")]))).toMatchObject({
    kind: "unknown",
    retryable: true,
    message: "the provider broke off the answer: MALFORMED_FUNCTION_CALL",
    usage: { input: 10, output: 2 },
  });
});

test("[LA5] what was used until an error is in the failure", async () => {
  const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  expect(failureOf(await streamed([error, finish("error")]))).toEqual({
    kind: "overloaded",
    message: "Overloaded",
    retryable: true,
    raw: { words: ["overloaded_error"] },
    usage: { input: 10, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
  });
});

test("[LA13] a stream that stays open behind its end is left", async () => {
  expect(responseOf(await streamed([...text("Hi."), STOP], { hangs: true })).finish).toBe("stop");
});

test("[LA13] a model that does not heed the abort is not waited for", async () => {
  const abort = new AbortController();
  const model = fakeModel([], { before: () => new Promise(() => abort.abort()) });
  expect(failureOf(await call(aiSdkModel(model), {}, abort.signal))).toMatchObject({ kind: "cancelled" });
});

test("[LA13] whatever a model throws is a failure", async () => {
  for (const thrown of [new Error("boom"), "boom", undefined, { cause: "boom" }]) {
    const before = (): void => {
      throw thrown;
    };
    expect(failureOf(await streamed([], { before }))).toMatchObject({ kind: "unknown", retryable: false });
  }
});

test.each<readonly [string, () => unknown]>([
  ["nothing", async () => undefined],
  ["something without a stream", async () => ({})],
  [
    "an error, at once",
    () => {
      throw new Error("boom");
    },
  ],
])("[LA13] a model that answers with %s has failed", async (_name, doStream) => {
  const model = { ...fakeModel([]), doStream: doStream as AiSdkLanguageModel["doStream"] };
  expect(failureOf(await call(aiSdkModel(model)))).toMatchObject({ kind: "unknown" });
});

test("[LA13] an answer that begins after the abort is left", async () => {
  const abort = new AbortController();
  let reason: unknown;
  const stream = new ReadableStream({
    cancel: (given) => {
      reason = given;
    },
  });
  const model = {
    ...fakeModel([]),
    doStream: async () => {
      abort.abort(new Error("enough"));
      return { stream };
    },
  };
  const { outcome } = await call(aiSdkModel(model), {}, abort.signal);
  expect(outcome).toMatchObject({ failure: { kind: "cancelled" } });
  expect(reason).toEqual(new Error("enough"));
});

test("[LA18] warnings, sources, files and what served the answer are its evidence", async () => {
  const { evidence } = responseOf(
    await streamed([
      { type: "stream-start", warnings: [{ type: "unsupported", feature: "seed" }] },
      { type: "response-metadata", id: "resp_9", modelId: "fake-1-0101", timestamp: new Date(0) },
      { type: "source", sourceType: "url", id: "s1", url: "https://example.com/a" },
      { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2, 3]) },
      { type: "file", mediaType: "image/png", data: { type: "data", data: "BAUG" } },
      { type: "something-new", value: 1 },
      ...text("Done."),
      STOP,
    ]),
  );
  expect(evidence).toEqual({
    warnings: [{ type: "unsupported", feature: "seed" }],
    responseId: "resp_9",
    model: "fake-1-0101",
    sources: [{ type: "source", sourceType: "url", id: "s1", url: "https://example.com/a" }],
    files: [
      { mediaType: "image/png", base64: "AQID" },
      { mediaType: "image/png", base64: "BAUG" },
    ],
    finish: "stop",
  });
});

test("[LA1] ten thousand deltas are ten thousand calls of the sink, in order", async () => {
  const deltas = Array.from({ length: 10_000 }, (_, index) => `${index} `);
  const called = await streamed([
    { type: "text-start", id: "t" },
    ...deltas.map((delta) => ({ type: "text-delta", id: "t", delta })),
    STOP,
  ]);
  expect(textsOf(called)).toEqual(deltas);
  expect(responseOf(called).parts).toEqual([{ kind: "text", text: deltas.join("") }]);
});
