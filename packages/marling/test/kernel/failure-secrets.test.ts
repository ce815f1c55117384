// No key gets from a model's failure into a report, the history, an event or a trace, whichever port gives it.

import { createRuntime, type ModelPort, memoryStore, type TraceRecord } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import { expect, onTestFinished, test } from "vitest";
import { plugin, port, watch } from "./model-support.ts";

const KEY = "hidden-key-0123456789";

/** Everything that is left of a turn whose model fails. */
async function traces(model: ModelPort): Promise<string> {
  const records: TraceRecord[] = [];
  const asked = plugin("sets", { model: { request: () => ({ headers: { "x-api-key": KEY } }) } });
  const trace = { wantsContent: true, record: (record: TraceRecord) => void records.push(record) };
  const runtime = createRuntime({ model, plugins: [asked], store: memoryStore(), trace });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const { report, events } = await watch(session.turn("Go"));
  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "provider_error" });
  return JSON.stringify([report, events, await session.history(), records, session.read()]);
}

const failing = (message: string, more: object = {}): ModelPort =>
  port(() => ({ kind: "failure", failure: { kind: "auth", message, retryable: false, ...more } }));

test.each([
  ["in its message", failing(`wrong key ${KEY}`)],
  ["in its code", failing("no", { code: KEY })],
  ["in its evidence", failing("no", { raw: { words: [KEY], [KEY]: 1 } })],
  ["in base64", failing(`got ${Buffer.from(`me:${KEY}`).toString("base64")}`)],
  [
    "in what it throws",
    port(() => {
      throw new Error(`cannot reach https://host/?key=${KEY}`);
    }),
  ],
  [
    "in the reason of a reset",
    port((sink) => {
      sink({ kind: "attempt_reset", reason: `Authorization: Bearer ${KEY}`, retryAfterMs: 0 });
      return { kind: "failure", failure: { kind: "auth", message: "no", retryable: false } };
    }),
  ],
])("[CP5] a port that repeats the key %s does not show it", async (_where, model) => {
  const left = await traces(model);
  expect(left).not.toContain(KEY);
  expect(left).not.toContain(Buffer.from(`me:${KEY}`).toString("base64").slice(4, 20));
});

test("[CP5] a failure is short, however long its message is", async () => {
  const left = await traces(failing(`no ${"word ".repeat(100_000)}`));
  expect(left.length).toBeLessThan(100_000);
});

test.each([
  ["requestHeaders", { requestHeaders: { Authorization: `Bearer ${KEY}` } }],
  ["the headers of its request", { request: { headers: new Headers({ "x-api-key": KEY }) } }],
  ["the headers of its cause", { cause: { config: { headers: { "api-key": KEY } } } }],
  ["its address", { url: `https://host/v1?key=${KEY}` }],
])("[LA25] a model of the AI SDK whose error has the key in %s does not show it", async (_where, members) => {
  const model = aiSdkModel({
    specificationVersion: "v3",
    provider: "hand-written",
    modelId: "m",
    doStream: () => Promise.reject(Object.assign(new Error(`refused: ${KEY} is no good`), members)),
  });
  const failed = await model.call(
    {
      model: "m",
      system: "",
      messages: [],
      tools: [],
      toolChoice: "auto",
      parameters: {},
      providerOptions: {},
      headers: {},
      scope: { sessionId: "s", frameId: "f", requestId: "r" },
    },
    { sink: () => {}, signal: new AbortController().signal },
  );
  expect(JSON.stringify(failed)).toContain("is no good");
  expect(JSON.stringify(failed)).not.toContain(KEY);
});

test("[LA24] a model of the AI SDK with fields of its own is called as it is", async () => {
  class Private {
    readonly specificationVersion = "v3" as const;
    readonly provider = "private";
    readonly modelId = "m";
    readonly config = { provider: "private" };
    readonly #word = "Hi.";
    async doStream(): Promise<{ stream: ReadableStream }> {
      const parts = [
        { type: "text-delta", id: "1", delta: this.#word },
        { type: "finish", finishReason: { unified: "stop" }, usage: {} },
      ];
      return { stream: ReadableStream.from(parts) };
    }
  }
  const runtime = createRuntime({ model: new Private() as never });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  expect((await session.run("Go")).text).toBe("Hi.");
  expect((await session.run("Again")).text).toBe("Hi.");
});

test("[LA24] a stream of the AI SDK that is never empty leaves the event loop its turns", async () => {
  let pulled = 0;
  const model = {
    specificationVersion: "v3",
    provider: "endless",
    modelId: "m",
    doStream: async () => ({
      stream: new ReadableStream({
        pull: (controller) => {
          pulled += 1;
          controller.enqueue({ type: "raw", rawValue: 1 });
        },
      }),
    }),
  } as const;
  const runtime = createRuntime({ model: model as never, limits: { answerMs: 50 } });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const { report } = await watch(session.turn("Go"));
  expect(report.outcome).toMatchObject({ kind: "stopped", code: "answer_limit" });
  expect(pulled).toBeGreaterThan(0);
});
