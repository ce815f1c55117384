// Native models whose requests are sent by a function that is given: llm/native/fetch-post.ts, rule LN17.

import { createRuntime, defineTool, type ModelStreamPart } from "marling";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { FetchFunction } from "../../src/llm/native/native-model-options.ts";
import { openAiChatWire } from "./chat-wire.ts";
import { viaChat, viaMessages } from "./native-calls.ts";
import { call, failureOf, request, responseOf, textsOf } from "./port-calls.ts";
import { PROVIDERS } from "./providers.ts";
import { wireServer } from "./wire-server.ts";

const HI = openAiChatWire.events({ text: ["Hi."] }).join("");
const HALF = openAiChatWire.events({ text: ["Half a"] }, { cutOff: true });
const ADDRESS = "http://127.0.0.1:9"; // Where nobody listens.
const CANCELLED = { kind: "cancelled", message: "the call was cancelled", retryable: false };
const never = (): Promise<never> => new Promise(() => {});

/** A body that says this and stays open, and whether it was left. */
function openBody(...pieces: readonly string[]): { readonly body: ReadableStream; isLeft(): boolean } {
  let isLeft = false;
  const body = new ReadableStream({
    start: (controller) => {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece));
    },
    cancel: () => {
      isLeft = true;
    },
  });
  return { body, isLeft: () => isLeft };
}

const streamed = (body: ReadableStream | string): Response =>
  new Response(body, { headers: { "content-type": "text/event-stream" } });

describe("global fetch", () => {
  test.each(["native anthropic by fetch", "native openai chat by fetch"])(
    "[LN17] %s runs a whole turn with a tool",
    async (name) => {
      const provider = PROVIDERS.find((one) => one.name === name);
      if (provider === undefined) throw new Error(`no provider ${name}`);
      const asked = { id: "call_1", name: "add", args: ['{"a":1,', '"b":2}'] };
      const { wire } = provider;
      const server = await wireServer([
        { kind: "stream", events: wire.events({ calls: [asked], finish: "calls" }), bytes: 7 },
        { kind: "stream", events: wire.events({ text: ["It is ", "3."] }), bytes: 7 },
      ]);
      const add = defineTool({
        name: "add",
        description: "Adds two numbers.",
        input: z.object({ a: z.number(), b: z.number() }),
        execute: ({ a, b }) => a + b,
      });
      const runtime = createRuntime({ model: provider.model(server.url), tools: [add] });
      onTestFinished(() => runtime.close());
      const report = await (await runtime.session("s")).turn("Add 1 and 2").result;
      expect(report.text).toBe("It is 3.");
      expect(report.toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["success"]);
      expect(server.sent).toHaveLength(2);
    },
  );

  test("[LN17] redirects are not followed", async () => {
    const server = await wireServer([
      { kind: "refuse", status: 307, body: {}, headers: { location: "/elsewhere" } },
    ]);
    const failure = failureOf(await call(viaChat(server.url, { fetch })));
    expect(failure.message).toBe("the server answered 307");
    expect(server.sent).toHaveLength(1);
  });

  test("[LN17] a server that is not there is a failure that may be retried", async () => {
    const failure = failureOf(await call(viaChat(ADDRESS, { fetch })));
    expect(failure).toMatchObject({ kind: "network", retryable: true });
  });
});

test("[LN17] the function is told what goes over the wire", async () => {
  const told: unknown[] = [];
  const sent: FetchFunction = async (url, { signal, headers, body, ...rest }) => {
    told.push({ url, rest, headers, isSignal: signal instanceof AbortSignal });
    expect(JSON.parse(String(body))).toMatchObject({ stream: true, messages: [{ role: "user" }] });
    return streamed(HI);
  };
  const model = viaChat(ADDRESS, { apiKey: "key", headers: { "X-A": "b" }, fetch: sent });
  expect(responseOf(await call(model)).parts).toEqual([{ kind: "text", text: "Hi." }]);
  expect(told).toEqual([
    {
      url: `${ADDRESS}/v1/chat/completions`,
      rest: { method: "POST", redirect: "manual" },
      headers: {
        "content-type": "application/json",
        accept: "text/event-stream",
        "user-agent": "marling",
        authorization: "Bearer key",
        "x-a": "b",
      },
      isSignal: true,
    },
  ]);
});

test("[LN17] the function is called as a function, not as a method", async () => {
  const seen: unknown[] = [];
  const sent = async function (this: unknown): Promise<Response> {
    seen.push(this);
    return streamed(HI);
  };
  responseOf(await call(viaChat(ADDRESS, { fetch: sent as FetchFunction })));
  expect(seen).toEqual([undefined]);
});

test("[LN17] a signal is not aborted by a call that ends well", async () => {
  const signals: (AbortSignal | null | undefined)[] = [];
  const sent: FetchFunction = async (_url, { signal }) => {
    signals.push(signal);
    return streamed(HI);
  };
  responseOf(await call(viaChat(ADDRESS, { fetch: sent })));
  expect(signals.map((signal) => signal?.aborted)).toEqual([false]);
});

describe("what is no answer", () => {
  test("[LN17] a refusal is read as any other", async () => {
    const body = JSON.stringify({ error: { type: "overloaded_error", message: "Busy" } });
    const headers = { "content-type": "application/json", "retry-after": "7" };
    const sent: FetchFunction = async () => new Response(body, { status: 529, headers });
    expect(failureOf(await call(viaMessages(ADDRESS, { fetch: sent })))).toMatchObject({
      kind: "overloaded",
      message: "Busy",
      retryAfterMs: 7_000,
      raw: { status: 529 },
    });
  });

  test("[LN3] a refusal without end is read as far as it may be of use, and left", async () => {
    let sentBytes = 0;
    let isLeft = false;
    const body = new ReadableStream({
      pull: (controller) => {
        sentBytes += 16 * 1024;
        controller.enqueue(Buffer.alloc(16 * 1024, "x"));
      },
      cancel: () => {
        isLeft = true;
      },
    });
    const sent: FetchFunction = async () => new Response(body, { status: 500 });
    const failure = failureOf(await call(viaChat(ADDRESS, { fetch: sent })));
    expect(failure.message).toBe("the server answered 500");
    expect(sentBytes).toBeLessThan(256 * 1024);
    expect(isLeft).toBe(true);
  });

  test.each<readonly [string, FetchFunction]>([
    ["rejects", () => Promise.reject(new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } }))],
    [
      "throws",
      () => {
        throw new TypeError("fetch failed");
      },
    ],
  ])("[LN17] a function that %s is a failure that says so", async (_title, sent) => {
    const failure = failureOf(await call(viaChat(ADDRESS, { fetch: sent })));
    expect(failure).toMatchObject({ kind: "network", retryable: true });
    expect(failure.message).toBe("the connection to 127.0.0.1 failed: fetch failed");
  });

  test.each<readonly [string, () => Response]>([
    ["nothing", () => undefined as unknown as Response],
    ["an answer without a body", () => new Response(null)],
    [
      "an answer that somebody reads already",
      () => {
        const response = streamed(HI);
        response.body?.getReader();
        return response;
      },
    ],
  ])("[LN17] a function that answers %s is a failure", async (_title, answer) => {
    failureOf(await call(viaChat(ADDRESS, { fetch: async () => answer() })));
  });

  test("[LN17] an answer that breaks is a failure, with what was said before it shown", async () => {
    const server = await wireServer([{ kind: "stream", events: HALF, end: "reset" }]);
    const called = await call(viaChat(server.url, { fetch }));
    expect(failureOf(called)).toMatchObject({ kind: "network", retryable: true });
    expect(textsOf(called)).toEqual(["Half a"]);
  });

  test("[LN17] an answer whose reader throws is left", async () => {
    const { body, isLeft } = openBody(...HALF);
    const outcome = await viaChat(ADDRESS, { fetch: async () => streamed(body) }).call(request(), {
      signal: new AbortController().signal,
      sink: () => {
        throw new Error("full");
      },
    });
    expect(outcome).toMatchObject({ kind: "failure", failure: { message: "full" } });
    expect(isLeft()).toBe(true);
  });
});

describe("what does not end", () => {
  test("[LN17] a function that never answers is left when nothing has come for too long", async () => {
    const signals: (AbortSignal | null | undefined)[] = [];
    const sent: FetchFunction = (_url, { signal }) => {
      signals.push(signal);
      return never();
    };
    const model = viaChat(ADDRESS, { fetch: sent, timeouts: { idleMs: 100 } });
    expect(failureOf(await call(model))).toMatchObject({
      kind: "timeout",
      retryable: true,
      message: "the server said nothing for 100 ms",
    });
    expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
  });

  test("[LN7] a server that falls silent is left", async () => {
    const server = await wireServer([{ kind: "stream", events: HALF, end: "hang" }]);
    const called = await call(viaChat(server.url, { fetch, timeouts: { idleMs: 150 } }));
    expect(failureOf(called)).toMatchObject({ kind: "timeout", retryable: true });
    expect(textsOf(called)).toEqual(["Half a"]);
    await server.left;
  });

  test("[LN17] a body that heeds no signal is left when it falls silent", async () => {
    const { body, isLeft } = openBody(...HALF);
    const model = viaChat(ADDRESS, { fetch: async () => streamed(body), timeouts: { idleMs: 100 } });
    expect(failureOf(await call(model))).toMatchObject({ kind: "timeout" });
    expect(isLeft()).toBe(true);
  });

  test("[LN7] an answer that stays open behind its end is taken, and left", async () => {
    const server = await wireServer([{ kind: "stream", events: [HI], end: "hang" }]);
    const { body, isLeft } = openBody(HI);
    const models = [viaChat(server.url, { fetch }), viaChat(ADDRESS, { fetch: async () => streamed(body) })];
    const calls = await Promise.all(models.map((model) => call(model)));
    expect(calls.map((called) => responseOf(called).finish)).toEqual(["stop", "stop"]);
    await server.left;
    expect(isLeft()).toBe(true);
  });
});

describe("aborts", () => {
  test("[LN17] a function that heeds no signal is left, before its answer", async () => {
    const abort = new AbortController();
    const sent: FetchFunction = () => {
      queueMicrotask(() => abort.abort());
      return never();
    };
    expect(failureOf(await call(viaChat(ADDRESS, { fetch: sent }), {}, abort.signal))).toEqual(CANCELLED);
  });

  test("[LN17] an answer that comes when its call was left is left, too", async () => {
    const abort = new AbortController();
    const { body, isLeft } = openBody(HI);
    let answer = (_response: Response): void => {};
    const sent: FetchFunction = () => {
      queueMicrotask(() => abort.abort());
      return new Promise((resolve) => {
        answer = resolve;
      });
    };
    const called = await call(viaChat(ADDRESS, { fetch: sent }), {}, abort.signal);
    expect(failureOf(called)).toEqual(CANCELLED);
    answer(streamed(body));
    await expect.poll(isLeft).toBe(true);
    expect(called.parts).toEqual([]);
  });

  test("[LN17] a body that heeds no signal is left, and nothing more of it is shown", async () => {
    const abort = new AbortController();
    const { body, isLeft } = openBody(openAiChatWire.events({ text: ["One", "two"] }).join(""));
    const parts: ModelStreamPart[] = [];
    const outcome = await viaChat(ADDRESS, { fetch: async () => streamed(body) }).call(request(), {
      signal: abort.signal,
      sink: (part) => {
        parts.push(part);
        abort.abort();
      },
    });
    expect(outcome).toEqual({ kind: "failure", failure: CANCELLED });
    expect(parts).toEqual([{ kind: "text_delta", text: "One" }]);
    expect(isLeft()).toBe(true);
  });

  test("[LN17] a call that was aborted before asks for nothing", async () => {
    let count = 0;
    const sent: FetchFunction = () => {
      count += 1;
      return never();
    };
    const called = await call(viaChat(ADDRESS, { fetch: sent }), {}, AbortSignal.abort());
    expect(failureOf(called)).toEqual(CANCELLED);
    expect(count).toBe(0);
  });
});
