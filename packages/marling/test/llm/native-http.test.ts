// The connections of the native models.

import { createHook } from "node:async_hooks";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { ModelPort, ModelStreamPart } from "marling";
import { expect, onTestFinished, test } from "vitest";
import { openaiModel } from "../../src/models.ts";
import { openAiChatWire } from "./chat-wire.ts";
import { destination, posted } from "./native-posts.ts";
import { call, failureOf, request, responseOf, textsOf } from "./port-calls.ts";
import { wireServer } from "./wire-server.ts";

const HI = openAiChatWire.events({ text: ["Hi."] }).join("");
const HALF = openAiChatWire.events({ text: ["Half a"] }, { cutOff: true });

interface Listening {
  readonly url: string;
  /** Connections that were made. */
  readonly sockets: readonly Socket[];
}

async function listen(answer: RequestListener): Promise<Listening> {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => answer(request, response));
  });
  server.on("connection", (socket) => {
    socket.unref(); // So that only the client's side counts below.
    sockets.push(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
}

const model = (url: string, idleMs?: number): ModelPort =>
  openaiModel({
    model: "m",
    baseUrl: `${url}/v1`,
    ...(idleMs === undefined ? {} : { timeouts: { idleMs } }),
  });

const sayHi: RequestListener = (_request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(HI);
};

test("[LN5] calls one after the other go over one connection", async () => {
  const { url, sockets } = await listen(sayHi);
  const port = model(url);
  for (let count = 0; count < 5; count += 1) responseOf(await call(port));
  expect(sockets).toHaveLength(1);
});

test("[LN5] two hundred calls at once do not wait for each other", async () => {
  const waiting: (() => void)[] = [];
  const { url, sockets } = await listen((request, response) => {
    waiting.push(() => sayHi(request, response as never));
    if (waiting.length === 200) for (const answer of waiting) answer();
  });
  const port = model(url);
  const calls = await Promise.all(Array.from({ length: 200 }, () => call(port)));
  expect(calls.map((called) => responseOf(called).finish)).toEqual(Array.from({ length: 200 }, () => "stop"));
  expect(sockets).toHaveLength(200);
});

test("[LN5] an idle connection keeps no process alive", async () => {
  const connections = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
  const during: number[] = [];
  const { url, sockets } = await listen((request, response) => {
    during.push(connections());
    sayHi(request, response as never);
  });
  const port = model(url);
  const before = connections();
  responseOf(await call(port));
  expect(during).toEqual([before + 1]);
  expect(connections()).toBe(before);
  expect(sockets[0]?.destroyed).toBe(false);
});

test("[LN6] a connection that the server closed in the meantime is replaced without a failure", async () => {
  const seen = new Set<Socket>();
  const { url, sockets } = await listen((request: IncomingMessage, response) => {
    if (seen.has(request.socket)) request.socket.resetAndDestroy();
    else sayHi(request, response as never);
    seen.add(request.socket);
  });
  const port = model(url);
  responseOf(await call(port));
  expect(responseOf(await call(port)).parts).toEqual([{ kind: "text", text: "Hi." }]);
  expect(sockets).toHaveLength(2);
});

test("[LN6] a new connection that breaks is a failure at once", async () => {
  const { url, sockets } = await listen((request) => request.socket.resetAndDestroy());
  const failure = failureOf(await call(model(url)));
  expect(failure).toMatchObject({ kind: "network", retryable: true });
  expect(failure.message).toMatch(/^the connection to 127\.0\.0\.1 failed: \S/);
  expect(sockets).toHaveLength(1);
});

test("[LN7] a server that says nothing is left, before its answer and within it", async () => {
  const server = await wireServer([
    { kind: "stream", events: [], end: "hang" },
    { kind: "stream", events: HALF, end: "hang" },
  ]);
  const port = model(server.url, 150);
  const timeout = { kind: "timeout", retryable: true, message: "the server said nothing for 150 ms" };
  expect(failureOf(await call(port))).toMatchObject(timeout);
  const called = await call(port);
  expect(failureOf(called)).toMatchObject(timeout);
  expect(textsOf(called)).toEqual(["Half a"]);
  await server.left;
});

test("[LN7] a connection that is not made is given up", async () => {
  const url = new URL("http://name.invalid/v1");
  const to = destination(url, { connectMs: 50 }, { lookup: () => {} }); // A name that is never found.
  expect((await posted(to)).end).toEqual({
    kind: "silent",
    message: "no connection was made within 50 ms",
  });
});

test("[LN7] an answer that stays open behind its end is taken", async () => {
  const server = await wireServer([{ kind: "stream", events: [HI], end: "hang" }]);
  expect(responseOf(await call(model(server.url))).finish).toBe("stop");
  await server.left;
});

test("[LA13] an abort before the answer begins ends the call, and the connection", async () => {
  const abort = new AbortController();
  const server = await wireServer([{ kind: "stream", events: [], end: "hang" }]);
  const calling = call(model(server.url), {}, abort.signal);
  await expect.poll(() => server.sent.length, { timeout: 10_000 }).toBe(1);
  abort.abort();
  expect(failureOf(await calling)).toEqual({
    kind: "cancelled",
    message: "the call was cancelled",
    retryable: false,
  });
  await server.left;
});

test("[LA13] nothing is shown behind an abort, not even of the same read", async () => {
  const events = [openAiChatWire.events({ text: ["One", "two", "three"] }).join("")];
  const server = await wireServer([{ kind: "stream", events }]);
  const abort = new AbortController();
  const parts: ModelStreamPart[] = [];
  const outcome = await model(server.url).call(request(), {
    signal: abort.signal,
    sink: (part) => {
      parts.push(part);
      abort.abort();
    },
  });
  expect(parts).toEqual([{ kind: "text_delta", text: "One" }]);
  expect(outcome).toMatchObject({ kind: "failure", failure: { kind: "cancelled" } });
});

test.each([10, 100_000])(
  "[LN4] %i times a text whose characters have several bytes arrives whole",
  async (count) => {
    const system = "h\u00e9 \ud83d\ude00".repeat(count);
    const server = await wireServer([{ kind: "stream", events: [HI] }]);
    responseOf(await call(model(server.url), { system }));
    const [sent] = server.sent;
    expect(sent?.headers["content-length"]).toBe(String(Buffer.byteLength(sent?.text ?? "")));
    expect(sent?.body).toMatchObject({ messages: [{ role: "system", content: system }, { role: "user" }] });
  },
);

test("[LN4] compressed answers are not asked for", async () => {
  const server = await wireServer([{ kind: "stream", events: [HI] }]);
  responseOf(await call(model(server.url)));
  expect(server.sent[0]?.headers["accept-encoding"]).toBeUndefined();
  expect(server.sent[0]?.headers.accept).toBe("text/event-stream");
});

test.each([
  ["a whole answer", 200, { choices: [] }, "unknown", "expected a stream of events, found a whole answer"],
  [
    "an error as a success",
    200,
    { error: { type: "overloaded_error", message: "Busy" } },
    "overloaded",
    "Busy",
  ],
  ["an error as a text", 400, { error: "no such thing" }, "invalid_request", "no such thing"],
  ["a message alone", 404, { message: "model not found" }, "invalid_request", "model not found"],
  ["a detail alone", 422, { detail: "bad body" }, "invalid_request", "bad body"],
  ["nothing", 502, {}, "overloaded", "the server answered 502"],
  ["another address", 307, {}, "unknown", "the server answered 307"],
] as const)("[LA5] %s instead of a stream is a failure", async (_title, status, body, kind, message) => {
  const server = await wireServer([{ kind: "refuse", status, body }]);
  expect(failureOf(await call(model(server.url)))).toMatchObject({ kind, message });
});

test("[LA5] a whole answer is one, however its type is spelled", async () => {
  const { url } = await listen((_request, response) => {
    response.writeHead(200, { "content-type": "Application/JSON; charset=utf-8" });
    response.end("{}");
  });
  const failure = failureOf(await call(model(url)));
  expect(failure.message).toBe("expected a stream of events, found a whole answer");
});

test("[LN3] a refusal without end is read as far as it may be of use", async () => {
  const { url } = await listen((_request, response) => {
    response.writeHead(500, { "content-type": "text/html" });
    const more = (): void => {
      while (!response.destroyed && response.write("x".repeat(16 * 1024)));
    };
    response.on("drain", more);
    more();
  });
  expect(failureOf(await call(model(url)))).toMatchObject({
    kind: "overloaded",
    message: "the server answered 500",
    raw: { status: 500 },
  });
});

test("[LN3] an event without end is refused", async () => {
  const { url } = await listen((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: ");
    const more = (): void => {
      while (!response.destroyed && response.write("x".repeat(256 * 1024)));
    };
    response.on("drain", more);
    more();
  });
  expect(failureOf(await call(model(url)))).toMatchObject({
    kind: "answer_limit",
    retryable: false,
    message: expect.stringContaining("limits.answerBytes"),
  });
});

test("[LN1] twenty thousand deltas arrive in order", async () => {
  const words = Array.from({ length: 20_000 }, (_, index) => `${index} `);
  const server = await wireServer([
    { kind: "stream", events: [openAiChatWire.events({ text: words }).join("")] },
  ]);
  const called = await call(model(server.url));
  expect(textsOf(called)).toEqual(words);
  expect(responseOf(called).parts).toEqual([{ kind: "text", text: words.join("") }]);
});

test("[LN1] a delta costs no promise and no timer", async () => {
  const made = async (count: number): Promise<number> => {
    const words = Array.from({ length: count }, (_, index) => `${index} `);
    const events = [openAiChatWire.events({ text: words }).join("")];
    const server = await wireServer([{ kind: "stream", events }]);
    const port = model(server.url);
    let resources = 0;
    const hook = createHook({
      init: (_id, type) => {
        if (type === "PROMISE" || type === "Timeout") resources += 1;
      },
    }).enable();
    const called = await call(port);
    hook.disable();
    expect(textsOf(called)).toHaveLength(count);
    return resources;
  };
  await made(10);
  const few = await made(10);
  expect((await made(10_000)) - few).toBeLessThan(100);
});
