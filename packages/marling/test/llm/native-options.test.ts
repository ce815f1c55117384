// How native models are made, and what becomes of their keys.

import { createRuntime } from "marling";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { promptMemory } from "../../src/llm/build-prompt.ts";
import { chatRequest, chatTools } from "../../src/llm/native/openai/chat-request.ts";
import { WrittenTools } from "../../src/llm/native/written-tools.ts";
import { anthropicModel, type OpenAiModelOptions, openaiModel } from "../../src/models.ts";
import { refusal } from "../base/refusal.ts";
import { openAiChatWire } from "./chat-wire.ts";
import { viaChat } from "./native-calls.ts";
import { call, failureOf, request, responseOf } from "./port-calls.ts";
import { wireServer } from "./wire-server.ts";

const KEY = "sk-very-secret-0123456789";

afterEach(() => vi.unstubAllEnvs());

describe("keys", () => {
  test.each([
    ["OPENAI_API_KEY", () => openaiModel({ model: "gpt-4o" }), "openai/gpt-4o"],
    ["ANTHROPIC_API_KEY", () => anthropicModel({ model: "claude-opus-4-6" }), "anthropic/claude-opus-4-6"],
  ])("[LN11] %s is read when no key is given, and missed when it is not there", (variable, make, id) => {
    vi.stubEnv(variable, "");
    const error = refusal(make);
    expect(error.code).toBe("invalid_options");
    expect(error.message).toBe(
      `option apiKey: expected a key, here or in the environment as ${variable}; found none`,
    );
    vi.stubEnv(variable, KEY);
    expect(make().id).toBe(id);
  });

  test("[LN11] a header with a key is one", () => {
    vi.stubEnv("OPENAI_API_KEY", "");
    expect(openaiModel({ model: "gpt-4o", headers: { Authorization: "Bearer x" } }).id).toBe("openai/gpt-4o");
  });

  test("[LN11] another address is not sent the key of the environment", async () => {
    vi.stubEnv("OPENAI_API_KEY", KEY);
    const server = await wireServer([{ kind: "stream", events: openAiChatWire.events({ text: ["Hi."] }) }]);
    responseOf(await call(viaChat(server.url)));
    expect(JSON.stringify(server.sent)).not.toContain(KEY);
  });

  test.each(["https://api.openai.com//v1", "https://api.openai.com//elsewhere.example/v1"])(
    "[LN11] a key of the environment goes to the provider at %s, whatever the path looks like",
    async (baseUrl) => {
      vi.stubEnv("OPENAI_API_KEY", KEY);
      const asked: string[] = [];
      const fetch = async (url: string): Promise<Response> => {
        asked.push(url);
        return new Response("", { status: 503 });
      };
      failureOf(await call(openaiModel({ model: "gpt-4o", baseUrl, fetch })));
      expect(asked).toEqual([`${baseUrl}/chat/completions`]);
    },
  );

  test("[LN9] a server that says the key in its refusal is not quoted", async () => {
    const body = { error: { message: `Incorrect API key provided: ${KEY}.`, code: `bad:${KEY}` } };
    const server = await wireServer([{ kind: "refuse", status: 401, body }]);
    const failure = failureOf(await call(viaChat(server.url, { apiKey: KEY })));
    expect(failure).toMatchObject({ kind: "auth", message: "Incorrect API key provided: [key]." });
    expect(JSON.stringify(failure)).not.toContain(KEY);
  });

  test("[LN9] keys of headers are not quoted either", async () => {
    const server = await wireServer([{ kind: "refuse", status: 400, body: { message: `what is ${KEY}?` } }]);
    const called = await call(viaChat(server.url), { headers: { "X-Auth": KEY } });
    expect(failureOf(called).message).toBe("what is [key]?");
  });

  test("[LN9] neither a model nor the refusal of a key holds the key", () => {
    expect(JSON.stringify(openaiModel({ model: "gpt-4o", apiKey: KEY }))).not.toContain(KEY);
    const error = refusal(() => openaiModel({ model: "gpt-4o", apiKey: `${KEY}\nx` }));
    expect(error.message).toBe("option apiKey: expected letters, digits and signs without spaces");
  });
});

describe("options", () => {
  test.each([
    ["model", { model: " " }, "option model: expected the name of a model"],
    [
      "an address of another kind",
      { baseUrl: "ftp://x" },
      "option baseUrl: expected an address that begins with http:// or https://",
    ],
    [
      "no address",
      { baseUrl: "localhost" },
      "option baseUrl: expected an address that begins with http:// or https://",
    ],
    [
      "an address with a password",
      { baseUrl: "http://u:p@x/v1" },
      "option baseUrl: expected an address without a user and a password; keys belong in `apiKey` or `headers`",
    ],
    ["a time limit", { timeouts: { idleMs: 0 } }, "option idleMs: expected a whole number from 1, found 0"],
    ["a header", { headers: { "x-a": 1 } }, "option headers.x-a: expected a text"],
    ["what sends", { fetch: "fetch" }, "option fetch: expected a function"],
  ])("[LN11] %s that is wrong is refused by name", (_title, options, message) => {
    const given = {
      model: "m",
      baseUrl: "http://127.0.0.1:9/v1",
      ...options,
    } as unknown as OpenAiModelOptions;
    const error = refusal(() => openaiModel(given));
    expect(error.code).toBe("invalid_options");
    expect(error.message).toBe(message);
  });

  test("a model has the id and the limits it is given", () => {
    const options = { model: "m", baseUrl: "http://127.0.0.1:9", contextWindow: 5, maxOutputTokens: 2 };
    expect(openaiModel(options)).toMatchObject({
      id: "openai-compatible/m",
      contextWindow: 5,
      maxOutputTokens: 2,
    });
    expect(anthropicModel({ ...options, id: "mine" }).id).toBe("mine");
  });

  test.each(["/v1", "/v1/", "/api/v2?version=1"])("the address %s is where paths begin", async (base) => {
    const server = await wireServer([{ kind: "stream", events: openAiChatWire.events({ text: ["Hi."] }) }]);
    responseOf(await call(openaiModel({ model: "m", baseUrl: `${server.url}${base}` })));
    const [path, query] = base.split("?");
    const expected = `${path?.replace(/\/$/, "")}/chat/completions${query === undefined ? "" : `?${query}`}`;
    expect(server.sent[0]?.path).toBe(expected);
  });

  test.each([
    ["not given", { connectMs: undefined, idleMs: undefined }],
    ["longer than any timer", { connectMs: Number.MAX_SAFE_INTEGER, idleMs: Number.MAX_SAFE_INTEGER }],
  ])("[LN7] time limits that are %s end no call", async (_title, timeouts) => {
    const events = openAiChatWire.events({ text: ["Hi."] });
    const server = await wireServer([1, 2].map(() => ({ kind: "stream", events })));
    for (const way of [{}, { fetch: globalThis.fetch }]) {
      const options = { ...way, timeouts } as Partial<OpenAiModelOptions>;
      expect(responseOf(await call(viaChat(server.url, options))).finish).toBe("stop");
    }
  });

  test("a runtime takes a native model as it is", async () => {
    const server = await wireServer([{ kind: "stream", events: openAiChatWire.events({ text: ["Hi."] }) }]);
    const runtime = createRuntime({ model: viaChat(server.url) });
    onTestFinished(() => runtime.close());
    const session = await runtime.session("s");
    expect((await session.turn("Hello").result).text).toBe("Hi.");
  });
});

describe("OpenAI itself", () => {
  const builder = (modelId: string): Parameters<typeof chatRequest>[0] => ({
    id: `openai/${modelId}`,
    model: { specificationVersion: "v4", provider: "openai" },
    modelId,
    isOfficial: true,
    maxOutputTokens: 50,
    tools: new WrittenTools(chatTools),
    ...promptMemory(),
    written: new WeakMap(),
  });
  const site = { blobs: undefined, withheld: new Set<string>() };

  test.each([
    ["gpt-4o", {}, { temperature: 0.5 }, []],
    ["gpt-5", {}, {}, [{ type: "unsupported", feature: "temperature" }]],
    ["o3-mini", {}, {}, [{ type: "unsupported", feature: "temperature" }]],
    ["gpt-5-chat-latest", {}, { temperature: 0.5 }, []],
    ["gpt-5.1", { reasoning: "none" }, { temperature: 0.5, reasoning_effort: "none" }, []],
  ])("[LA16] %s is sent what it takes", async (modelId, more, expected, warnings) => {
    const asked = request({ parameters: { temperature: 0.5, ...more } });
    const written = await chatRequest(builder(modelId), asked, site);
    expect(JSON.parse(written.body)).toEqual({
      model: modelId,
      stream: true,
      stream_options: { include_usage: true },
      max_completion_tokens: 50,
      messages: [{ role: "user", content: "Hello" }],
      ...expected,
    });
    expect(written.warnings).toEqual(warnings);
  });
});
