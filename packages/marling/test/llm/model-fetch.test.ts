// The fetch that providers are given: llm/native/model-fetch.ts, rules LN18 and LN19, and those of connections.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { MarlingError } from "marling";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { modelFetch } from "../../src/models.ts";
import { answerOf, listen, rawServer } from "./raw-server.ts";

type Fetch = typeof globalThis.fetch;

const POST = { method: "POST", body: '{"a":"ä"}', headers: { "Content-Type": "application/json" } };
const MIB = 1024 * 1024;

afterEach(() => void vi.restoreAllMocks());

/** A server of Node that answers every request in one way; its address, and what it was sent. */
async function nodeServer(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ readonly url: string; readonly sent: readonly string[] }> {
  const sent: string[] = [];
  const server = createServer(async (request, response) => {
    const body = await request.toArray();
    sent.push(`${request.method} ${request.url} ${Buffer.concat(body).toString()}`);
    answer(request, response);
  });
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}`, sent };
}

/** What a fetch comes to, as whoever called it sees it. */
async function seen(fetch: Fetch, ...request: Parameters<Fetch>): Promise<unknown> {
  try {
    const response = await fetch(...request);
    const { status, statusText, ok, url } = response;
    const {
      date: _date,
      connection: _kept,
      "keep-alive": _hint,
      ...headers
    } = Object.fromEntries(response.headers);
    return {
      status,
      statusText,
      ok,
      url,
      headers,
      hasBody: response.body !== null,
      text: await response.text(),
    };
  } catch (thrown) {
    const { name, message, cause } = thrown as TypeError;
    return { name, message, code: (cause as { code?: unknown } | undefined)?.code };
  }
}

const watchPlatform = () => vi.spyOn(globalThis, "fetch");

describe("[LN18] a POST of a text comes to what the platform's fetch comes to", () => {
  test.each<readonly [string, (response: ServerResponse) => void]>([
    ["an answer of a length", (response) => response.setHeader("X-A", ["1", "2"]).end("hällo")],
    [
      "an answer in chunks",
      (response) => ["one, ", "two"].map((piece) => response.write(piece)) && response.end(),
    ],
    ["an empty answer", (response) => response.end()],
    ["no content", (response) => response.writeHead(204).end()],
    [
      "a refusal",
      (response) => response.writeHead(429, "Slow Down", { "retry-after": "3" }).end('{"error":1}'),
    ],
    ["a failure", (response) => response.writeHead(500).end("sorry")],
  ])("%s", async (_name, answer) => {
    const { url, sent } = await nodeServer((_request, response) => answer(response));
    const expected = await seen(globalThis.fetch, `${url}/v1/x?y=z`, POST);
    expect(await seen(modelFetch(), `${url}/v1/x?y=z`, POST)).toEqual(expected);
    expect(expected).toHaveProperty("status");
    expect(sent).toEqual(Array(2).fill(`POST /v1/x?y=z ${POST.body}`));
  });

  test("headers as objects, lists and Headers arrive alike, with those that are always sent", async () => {
    const { requests, url } = await rawServer((socket) => socket.write(answerOf("ok")));
    const fetch = modelFetch();
    const given = { "X-One": "1", "content-type": "a/b" };
    for (const headers of [given, Object.entries(given) as [string, string][], new Headers(given)])
      await (await fetch(url, { ...POST, headers })).text();
    await (await fetch(url, { method: "post", body: "x" })).text();
    const lines = requests.map((request) => request.split("\r\n").slice(1, -2).toSorted());
    expect(lines[0]).toEqual([
      "accept: */*",
      "content-length: 10",
      "content-type: a/b",
      `host: ${url.host}`,
      "user-agent: marling",
      "x-one: 1",
    ]);
    expect(lines[1]).toEqual(lines[0]);
    expect(lines[2]).toEqual(lines[0]);
    expect(lines[3]).toContain("content-type: text/plain;charset=UTF-8");
  });

  test("a header that is none is refused, and its value is in no message", async () => {
    const { requests, url } = await rawServer((socket) => socket.write(answerOf("ok")));
    const refused = modelFetch()(url, { ...POST, headers: { authorization: "secret\r\nx: y" } });
    await expect(refused).rejects.toThrow(TypeError);
    await expect(refused).rejects.not.toThrow(/secret/);
    expect(requests).toEqual([]);
  });
});

describe("[LN18] whatever else is asked for is the platform's", () => {
  test.each<readonly [string, (url: string) => Parameters<Fetch>]>([
    ["another method", (url) => [url]],
    ["a body of bytes", (url) => [url, { method: "POST", body: new Uint8Array([65]) }]],
    ["a request", (url) => [new Request(url, { method: "POST", body: "x" })]],
    ["an option that only the platform knows", (url) => [url, { ...POST, keepalive: true }]],
    ["an answer that may be packed", (url) => [url, { ...POST, headers: { "Accept-Encoding": "gzip" } }]],
  ])("%s", async (_name, request) => {
    const { url, sent } = await nodeServer((_request, response) => response.end("ok"));
    const platform = watchPlatform();
    expect(await (await modelFetch()(...request(url))).text()).toBe("ok");
    expect(platform).toHaveBeenCalledTimes(1);
    expect(sent).toHaveLength(1);
  });

  test.each(["not an address", "ftp://127.0.0.1/", "http://user:key@127.0.0.1:9/"])("%s", async (url) => {
    expect(await seen(modelFetch(), url, POST)).toEqual(await seen(globalThis.fetch, url, POST));
  });

  test.each(["follow", "error"] as const)("a redirect with %s", async (redirect) => {
    const { url, sent } = await nodeServer((request, response) => {
      if (request.url === "/new") response.end("moved");
      else response.writeHead(307, { location: "/new" }).end("elsewhere");
    });
    const expected = await seen(globalThis.fetch, `${url}/old`, { ...POST, redirect });
    const before = sent.length;
    expect(await seen(modelFetch(), `${url}/old`, { ...POST, redirect })).toEqual(expected);
    expect(sent.slice(before)).toContain(`POST /old ${POST.body}`);
  });

  test("a redirect that is asked for as it is", async () => {
    const { url } = await nodeServer((_request, response) =>
      response.writeHead(302, { location: "/" }).end("x"),
    );
    const platform = watchPlatform();
    const response = await modelFetch()(url, { ...POST, redirect: "manual" });
    expect([response.status, response.headers.get("location"), await response.text()]).toEqual([
      302,
      "/",
      "x",
    ]);
    expect(platform).not.toHaveBeenCalled();
  });
});

describe("[LN18] what fails says so as the platform's fetch does", () => {
  test("a server that is not there", async () => {
    const expected = { name: "TypeError", message: "fetch failed", code: "ECONNREFUSED" };
    expect(await seen(globalThis.fetch, "http://127.0.0.1:9/", POST)).toMatchObject({
      message: "fetch failed",
    });
    const { port } = await closedServer();
    expect(await seen(modelFetch(), `http://127.0.0.1:${port}/`, POST)).toEqual(expected);
  });

  test("an answer that is none", async () => {
    const { url } = await rawServer((socket) => socket.write("SSH-2.0\r\n\r\n"));
    expect(await seen(modelFetch(), url, POST)).toMatchObject({ name: "TypeError", message: "fetch failed" });
  });

  test("an answer that is packed, though nobody asked for that", async () => {
    const { url } = await rawServer((socket) => socket.write(answerOf("x", "Content-Encoding: gzip")));
    const failed = modelFetch()(url, POST);
    await expect(failed).rejects.toMatchObject({ message: "fetch failed", cause: { message: /gzip/ } });
  });

  test("a body that is cut off", async () => {
    const { url } = await rawServer((socket) =>
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    );
    const expected = await seen(globalThis.fetch, url, POST);
    expect(expected).toMatchObject({ name: "TypeError", message: "terminated" });
    expect(await seen(modelFetch(), url, POST)).toMatchObject({ name: "TypeError", message: "terminated" });
  });

  test("[LN7] a server that says nothing, before its answer and within it", async () => {
    const { url } = await rawServer((socket, count) => {
      if (count === 1) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    });
    const fetch = modelFetch({ timeouts: { idleMs: 30 } });
    expect(await seen(fetch, url, POST)).toEqual({
      name: "TypeError",
      message: "fetch failed",
      code: "ETIMEDOUT",
    });
    expect(await seen(fetch, url, POST)).toEqual({
      name: "TypeError",
      message: "terminated",
      code: "ETIMEDOUT",
    });
  });

  test("time limits that are none", () => {
    expect(() => modelFetch({ timeouts: { idleMs: 0 } })).toThrow(MarlingError);
    expect(() => modelFetch({ timeouts: { connectMs: 1.5 } })).toThrow(/connectMs: expected a whole number/);
  });
});

describe("aborts", () => {
  test("[LN7] a request that was aborted is not sent", async () => {
    const { url, sockets } = await rawServer((socket) => socket.write(answerOf("ok")));
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(modelFetch()(url, { ...POST, signal })).rejects.toThrow("enough");
    expect(sockets).toHaveLength(0);
  });

  test("[LN7] before the answer, its connection is ended and the reason is what is thrown", async () => {
    const abort = new AbortController();
    const { url, sockets } = await rawServer(() => abort.abort(new Error("enough")));
    await expect(modelFetch()(url, { ...POST, signal: abort.signal })).rejects.toThrow("enough");
    await vi.waitFor(() => expect(sockets[0]?.destroyed).toBe(true));
  });

  test("[LN19] within the body, what was read stays and the rest is the reason", async () => {
    const abort = new AbortController();
    const { url, sockets } = await rawServer((socket) =>
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    );
    const response = await modelFetch()(url, { ...POST, signal: abort.signal });
    const reader = response.body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("half");
    abort.abort(new Error("enough"));
    await expect(reader?.read()).rejects.toThrow("enough");
    await vi.waitFor(() => expect(sockets[0]?.destroyed).toBe(true));
  });

  test("[LN7] one that comes after the end ends no connection, which may have another call by then", async () => {
    const { url, sockets } = await rawServer((socket) => socket.write(answerOf("ok")));
    const abort = new AbortController();
    const fetch = modelFetch();
    await (await fetch(url, { ...POST, signal: abort.signal })).text();
    const next = fetch(url, POST);
    abort.abort();
    expect(await (await next).text()).toBe("ok");
    expect(sockets).toHaveLength(1);
  });

  test("[LN19] a body that is left ends its connection", async () => {
    const { url, sockets } = await rawServer((socket) =>
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    );
    await (await modelFetch()(url, POST)).body?.cancel();
    await vi.waitFor(() => expect(sockets[0]?.destroyed).toBe(true));
  });
});

describe("connections", () => {
  test("[LN5] are kept for the next request, each server's for its own", async () => {
    const one = await rawServer((socket) => socket.write(answerOf("one")));
    const two = await rawServer((socket) => socket.write(answerOf("two")));
    const fetch = modelFetch();
    const texts: string[] = [];
    for (const { url } of [one, two, one, two]) texts.push(await (await fetch(url, POST)).text());
    expect(texts).toEqual(["one", "two", "one", "two"]);
    expect([one.sockets.length, two.sockets.length]).toEqual([1, 1]);
  });

  test("[LN6] one that the server closed while it was idle is no failure", async () => {
    const { url, sockets, requests } = await rawServer((socket, count) => {
      if (count === 1) socket.destroy();
      else socket.write(answerOf(`${count}`));
    });
    const fetch = modelFetch();
    expect(await (await fetch(url, POST)).text()).toBe("0");
    expect(await (await fetch(url, POST)).text()).toBe("2");
    expect([sockets.length, requests.length]).toEqual([2, 3]);
  });

  test("[LN6] a server that falls silent on one that was kept is sent nothing twice", async () => {
    const { url, requests } = await rawServer((socket, count) => {
      if (count === 0) socket.write(answerOf("ok"));
    });
    const fetch = modelFetch({ timeouts: { idleMs: 30 } });
    expect(await (await fetch(url, POST)).text()).toBe("ok");
    expect(await seen(fetch, url, POST)).toMatchObject({ message: "fetch failed", code: "ETIMEDOUT" });
    expect(requests).toHaveLength(2);
  });

  test("[LN19] a body that nobody reads is left with the server, and whole when somebody does", async () => {
    const body = Buffer.alloc(64 * MIB, "0123456789");
    const { url, sockets } = await rawServer((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`);
      socket.write(body);
    });
    const response = await modelFetch()(url, POST);
    const left = (): number => sockets[0]?.writableLength ?? 0;
    await vi.waitFor(() => expect(left()).toBeGreaterThan(0));
    expect(left()).toBeGreaterThan(body.length / 2);
    expect(Buffer.from(await response.arrayBuffer()).equals(body)).toBe(true);
  });
});

/** The port of a server that has been closed. */
async function closedServer(): Promise<{ readonly port: number }> {
  const server = createServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  onTestFinished(() => void server.close());
  return { port };
}
