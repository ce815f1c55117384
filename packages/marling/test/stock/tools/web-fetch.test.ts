// web_fetch against servers on this machine, each allowed by its exact address.

import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { WebFetchOptions } from "../../../src/stock/tools/web-fetch/fetch-options.ts";
import { webFetchTool } from "../../../src/stock/tools/web-fetch/web-fetch-tool.ts";
import { type Bench, bench, until } from "./tool-bench.ts";
import { pages, serve, type TestServer } from "./web-fetch-server.ts";

interface Page {
  readonly url: string;
  readonly status: number;
  readonly contentType: string;
  readonly title?: string;
  readonly text: string;
  readonly truncated?: true;
}

function fetching(server: TestServer, options: WebFetchOptions = {}): Promise<Bench> {
  return bench({ tools: [webFetchTool({ allow: [server.host], ...options })] });
}

/** The usual quality takes its time over many megabytes. */
const quickBrotli = (bytes: Buffer): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
const MEGABYTE = 1_048_576;
const HTML = { "content-type": "text/html; charset=utf-8" };
const redirect = (location: string, status = 302): { status: number; headers: Record<string, string> } => ({
  status,
  headers: { location },
});

test("[WF7] a page is returned as text, its source when that is wanted", async () => {
  const body = "<title>T</title><h1>Hello</h1><script>no()</script>";
  const server = await pages({ "/": { headers: HTML, body } });
  const { value } = await fetching(server);
  const page = { url: server.url(), status: 200, contentType: "text/html" };
  expect(await value("web_fetch", { url: server.url() })).toEqual({ ...page, title: "T", text: "# Hello" });
  expect(await value("web_fetch", { url: server.url(), format: "raw" })).toEqual({ ...page, text: body });
});

test("[WF9] JSON is returned as it is, and a page that is not there with its status", async () => {
  const server = await pages({ "/a": { headers: { "content-type": "application/json" }, body: '{"a": 1}' } });
  const { value } = await fetching(server);
  expect((await value<Page>("web_fetch", { url: server.url("/a#part") })).text).toBe('{"a": 1}');
  expect(await value<Page>("web_fetch", { url: server.url("/b") })).toMatchObject({ status: 404, text: "" });
});

test("[WF9] what is no text is refused with its type and size", async () => {
  const png = Buffer.from([0x89, 0x50, 0, 1]);
  const server = await pages({
    "/png": { headers: { "content-type": "image/png", "content-length": "4" }, body: png },
    "/data": { headers: {}, body: png },
  });
  const { failure } = await fetching(server);
  expect(await failure("web_fetch", { url: server.url("/png") })).toMatchObject({
    code: "not_text",
    message: `Expected text at ${server.url("/png")}, found image/png of 4 bytes, which this tool does not read.`,
  });
  expect((await failure("web_fetch", { url: server.url("/data") })).message).toContain(
    "found data of 4 bytes",
  );
});

test("[WF1] security rule 7: without being allowed, this machine is not reached", async () => {
  const server = await pages({ "/": { body: "secret" } });
  const { failure } = await bench({ tools: [webFetchTool()] });
  const local = [server.url(), `http://localhost:${server.port}/`, `http://2130706433:${server.port}/`];
  for (const url of local)
    expect(await failure("web_fetch", { url })).toMatchObject({ code: "address_refused" });
  expect(server.requests).toHaveLength(0);
});

test("[WF5] security rule 7: the address is checked again on every redirect", async () => {
  const secret = await pages({ "/": { body: "secret" } });
  const server = await pages({
    "/port": redirect(secret.url()),
    "/local": redirect("http://127.0.0.2/"),
    "/name": redirect(`http://localhost:${secret.port}/`),
    "/meta": redirect("http://169.254.169.254/latest/meta-data/"),
    "/mapped": redirect(`http://[::ffff:127.0.0.1]:${secret.port}/`),
    "/zero": redirect(`http://0.0.0.0:${secret.port}/`),
    "/private": redirect("http://10.0.0.1/", 307),
    "/number": redirect(`http://0x7f000001:${secret.port}/`, 308),
  });
  const { failure } = await fetching(server);
  for (const path of ["/port", "/local", "/name", "/meta", "/mapped", "/zero", "/private", "/number"])
    expect([path, (await failure("web_fetch", { url: server.url(path) })).code]).toEqual([
      path,
      "address_refused",
    ]);
  expect(secret.requests).toHaveLength(0);
});

test("[WF5] a redirect to what is allowed is followed, and the page says where it is", async () => {
  const server = await pages({
    "/a": redirect("/b?c=1", 301),
    "/b?c=1": redirect("//other.test:PORT/", 303),
    "/end": { body: "there" },
    "/start": redirect("end"),
  });
  const { value, failure } = await fetching(server);
  expect(await value<Page>("web_fetch", { url: server.url("/start") })).toMatchObject({
    url: server.url("/end"),
    text: "there",
  });
  expect((await failure("web_fetch", { url: server.url("/a") })).code).toBe("invalid_redirect");
});

test("[WF4] redirects are counted", async () => {
  const server = await serve(({ url = "" }, response) => {
    const step = Number(url.slice(1));
    response.writeHead(302, { location: `/${step + 1}` }).end();
  });
  const { failure } = await fetching(server, { maxRedirects: 3 });
  expect(await failure("web_fetch", { url: server.url("/0") })).toMatchObject({
    code: "too_many_redirects",
    message: `Expected at most 3 redirects, found more, the last to ${server.host}.`,
  });
  expect(server.requests.map(({ url }) => url)).toEqual(["/0", "/1", "/2", "/3"]);
});

test("[WF5] security rule 7: a name is resolved once per request, and the connection goes where it was checked", async () => {
  const server = await pages({ "/": redirect("/again"), "/again": { body: "ok" } });
  const asked: string[] = [];
  const answers = ["127.0.0.1", "127.0.0.1", "10.0.0.1"];
  const resolve = async (host: string): Promise<readonly string[]> => {
    asked.push(host);
    return [answers[asked.length - 1] ?? "10.0.0.1"];
  };
  const { value } = await bench({
    tools: [webFetchTool({ allow: [`site.test:${server.port}`], resolve })],
  });
  const page = await value<Page>("web_fetch", { url: `http://site.test:${server.port}/` });
  expect(page.text).toBe("ok");
  expect(asked).toEqual(["site.test", "site.test"]);
  expect(server.requests.map(({ headers }) => headers.host)).toEqual(
    Array(2).fill(`site.test:${server.port}`),
  );
});

test("[WF5] a name that changes its address between two requests is refused at the second", async () => {
  const server = await pages({ "/": redirect(`http://second.test:PORT/`.replace("PORT", "1")) });
  const resolve = async (): Promise<readonly string[]> => ["127.0.0.1"];
  const { failure } = await bench({
    tools: [webFetchTool({ allow: [`first.test:${server.port}`], resolve })],
  });
  expect(await failure("web_fetch", { url: `http://first.test:${server.port}/` })).toMatchObject({
    code: "address_refused",
    message: expect.stringContaining("found second.test at 127.0.0.1, which is loopback"),
  });
});

test.each([
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["deflate", deflateRawSync],
  ["br", brotliCompressSync],
])("[WF6] %s is read", async (encoding, compress) => {
  const headers = { "content-type": "text/plain", "content-encoding": encoding };
  const server = await pages({ "/": { headers, body: compress("hello ".repeat(1_000)) } });
  const { value } = await fetching(server);
  expect((await value<Page>("web_fetch", { url: server.url() })).text).toBe("hello ".repeat(1_000));
});

test.each([
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["br", quickBrotli],
])(
  "[WF6] security rule 7: limits count after decompression: a bomb in %s stops at the limit",
  async (encoding, compress) => {
    const body = compress(Buffer.alloc(64 * MEGABYTE, "a"));
    expect(body.length).toBeLessThan(MEGABYTE / 8);
    const server = await pages({
      "/": { headers: { "content-type": "text/plain", "content-encoding": encoding }, body },
    });
    const { value } = await fetching(server, { maxChars: 10 * MEGABYTE });
    const before = process.memoryUsage().arrayBuffers;
    const page = await value<Page>("web_fetch", { url: server.url(), maxBytes: 100_000 });
    expect([page.text.length, page.truncated]).toEqual([100_000, true]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(40 * MEGABYTE);
  },
);

test("[WF6] a page that never ends stops at the limit", async () => {
  const server = await serve((_request, response) => {
    response.writeHead(200, { "content-type": "text/plain" });
    const more = (): void => {
      if (!response.destroyed) response.write("x".repeat(65_536), () => setImmediate(more));
    };
    more();
  });
  const { value } = await fetching(server, { maxBytes: 200_000, maxChars: 300_000 });
  const page = await value<Page>("web_fetch", { url: server.url() });
  expect([page.text.length, page.truncated]).toEqual([200_000, true]);
});

test("[WF6] a page of exactly the limit is whole, and text beyond what is shown is cut", async () => {
  const server = await pages({ "/": { body: "0123456789" } });
  const { value } = await fetching(server, { maxBytes: 10, maxChars: 10 });
  expect((await value<Page>("web_fetch", { url: server.url() })).truncated).toBeUndefined();
  const { value: shorter } = await fetching(server, { maxChars: 4 });
  expect(await shorter<Page>("web_fetch", { url: server.url() })).toMatchObject({
    text: "0123",
    truncated: true,
  });
});

test("[WF6] other encodings, several of them, and broken ones are failures", async () => {
  const text = (encoding: string): Record<string, string> => ({
    "content-type": "text/plain",
    "content-encoding": encoding,
  });
  const server = await pages({
    "/zstd": { headers: text("zstd"), body: "x" },
    "/two": { headers: text("gzip, gzip"), body: gzipSync(gzipSync("x")) },
    "/broken": { headers: text("gzip"), body: "not gzip" },
    "/short": { headers: text("gzip"), body: gzipSync("x".repeat(10_000)).subarray(0, 20) },
  });
  const { failure } = await fetching(server);
  const codes: string[] = [];
  for (const path of ["/zstd", "/two", "/broken", "/short"])
    codes.push((await failure("web_fetch", { url: server.url(path) })).code);
  expect(codes).toEqual(["unsupported_encoding", "unsupported_encoding", "fetch_failed", "fetch_failed"]);
});

test.each([
  ["says nothing", () => undefined],
  [
    "says a little, slowly",
    (response: Parameters<Parameters<typeof serve>[0]>[1]) => {
      response.writeHead(200, { "content-type": "text/plain" });
      const drip = setInterval(() => response.write("x"), 20);
      response.on("close", () => clearInterval(drip));
    },
  ],
])("[WF8] a server that %s is given up", async (_what, answer) => {
  const server = await serve((_request, response) => answer(response));
  const { failure } = await fetching(server, { timeoutMs: 300 });
  expect(await failure("web_fetch", { url: server.url() })).toMatchObject({
    code: "fetch_timeout",
    class: "timeout",
    retry: { kind: "safe" },
    message: `Expected ${server.host} to answer within 300 ms, found that it did not.`,
  });
});

test("[WF8] a name that takes for ever is given up", async () => {
  const { failure } = await bench({
    tools: [webFetchTool({ timeoutMs: 200, resolve: () => new Promise(() => undefined) })],
  });
  expect((await failure("web_fetch", { url: "http://slow.test/" })).code).toBe("fetch_timeout");
});

test("[WF8] a cancelled turn closes the connection", async () => {
  const closed: string[] = [];
  const server = await serve((_request, response) => {
    response.on("close", () => closed.push("closed"));
  });
  const { session, begin } = await fetching(server);
  const turn = begin("web_fetch", { url: server.url() });
  await until(() => server.requests.length === 1);
  await session.cancel(turn.id);
  expect((await turn.result).toolCalls[0]?.output.outcome.kind).toBe("cancelled");
  await until(() => closed.length === 1);
});

test("[WF8] a server that is not there is a failure that may be tried again", async () => {
  const { failure } = await bench({ tools: [webFetchTool({ allow: ["127.0.0.1:1"] })] });
  expect(await failure("web_fetch", { url: "http://127.0.0.1:1/" })).toMatchObject({
    code: "fetch_failed",
    class: "external",
    retry: { kind: "safe" },
    message: expect.stringContaining("ECONNREFUSED"),
  });
});

test("[WF10] security rule 7: no ambient proxy, cookies or credentials", async () => {
  const proxy = await pages({});
  const server = await pages({
    "/": { status: 302, headers: { location: "/in", "set-cookie": "id=1" } },
    "/in": { status: 401, headers: { "content-type": "text/plain", "www-authenticate": "Basic" } },
  });
  const names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"];
  for (const name of names) process.env[name] = proxy.url();
  const { value } = await fetching(server);
  const page = await value<Page>("web_fetch", { url: server.url() });
  for (const name of names) delete process.env[name];
  expect(page.status).toBe(401);
  expect(proxy.requests).toHaveLength(0);
  expect(server.requests.map(({ headers }) => Object.keys(headers).sort())).toEqual(
    Array(2).fill(["accept", "accept-encoding", "connection", "host", "user-agent"]),
  );
  expect(server.requests[0]?.headers["user-agent"]).toBe("marling");
});

test("[WF3] an address with credentials, or of another kind, is refused before anything is asked", async () => {
  const server = await pages({});
  const { failure } = await fetching(server);
  for (const url of [`http://a:b@${server.host}/`, "file:///etc/passwd", "not an address"])
    expect((await failure("web_fetch", { url })).code).toBe("invalid_url");
  expect(server.requests).toHaveLength(0);
  expect((await failure("web_fetch", { url: server.url(), maxBytes: 6 * MEGABYTE })).code).toBe(
    "invalid_tool_args",
  );
});

test("[WF8] reading a page may be repeated after a crash", () => {
  expect(webFetchTool().manifest).toMatchObject({ name: "web_fetch", replay: "safe" });
});
