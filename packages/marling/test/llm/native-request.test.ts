// What native models send: llm/native/request-head.ts and http-post.ts, rule LN4.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serverOf } from "../../src/llm/native/http-post.ts";
import { DEFAULT_TIMEOUTS } from "../../src/llm/native/post.ts";
import { requestHead } from "../../src/llm/native/request-head.ts";
import { viaChat } from "./native-calls.ts";
import { destination, posted } from "./native-posts.ts";
import { call, failureOf } from "./port-calls.ts";
import { answerOf, rawServer } from "./raw-server.ts";

const OK = answerOf("ok");

test("[LN4] a request is what HTTP/1.1 says it is, and nothing else", async () => {
  const server = await rawServer((socket) => socket.write(OK));
  await posted(destination(server.url), { headers: { "x-a": "b", "x-empty": "" }, body: '{"a":1}' });
  const head = `POST /v1/x?y=z HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nx-a: b\r\nx-empty: \r\n`;
  expect(server.requests).toEqual([`${head}content-length: 7\r\n\r\n{"a":1}`]);
});

describe("[LN4] a header that would be another one, or another request, is refused and nothing is sent", () => {
  const expectRefused = async (headers: Record<string, string>, message: string): Promise<void> => {
    const server = await rawServer((socket) => socket.write(OK));
    const to = destination(server.url);
    expect((await posted(to, { headers })).end).toMatchObject({ kind: "broken", thrown: { message } });
    expect(to.server.kept).toEqual([]);
    expect(server.sockets).toEqual([]);
  };

  test.each([
    "a\r\nx-b: c",
    "a\nb",
    "a\rb",
    "a\0",
    "a\x7f",
    "a\x0bb",
    "a\r\n\r\nPOST / HTTP/1.1",
    "\u2028",
    "\u0142",
  ])("the value %j", (value) =>
    expectRefused({ "x-a": value }, "expected a header's value in x-a, found none"),
  );

  test.each(["", " ", "x a", "x-a:", "x-a\r\nx-b", "x-a\n", "\u00e4", "x/a", "(x)", "\0"])(
    "the name %j",
    (name) => expectRefused({ [name]: "a" }, "expected the name of a header, found something else"),
  );

  test.each(["host", "content-length", "connection"])("the value of %s", (name) =>
    expectRefused({ [name]: "a\r\nx-b: c" }, `expected a header's value in ${name}, found none`),
  );

  test("of a model, whose failure holds no value", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const called = await call(viaChat(server.url.origin), { headers: { "X-Note": "mine\r\nx: y" } });
    expect(failureOf(called)).toMatchObject({ kind: "unknown", retryable: false });
    expect(JSON.stringify(failureOf(called))).not.toContain("mine");
    expect(server.sockets).toEqual([]);
  });

  test("any other header is one line", () => {
    const url = new URL("http://127.0.0.1/");
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (name, value) => {
        let head: string;
        try {
          head = requestHead(url, { [name]: value }, 2);
        } catch {
          return;
        }
        expect(head.split("\r\n")).toHaveLength(6);
        expect(head).not.toMatch(/[^\r]\n|\r[^\n]|[^\t\r\n\x20-\x7e\x80-\xff]/);
      }),
    );
  });
});

test("[LN4] headers that say how a message is sent are not the caller's", async () => {
  const server = await rawServer((socket) => socket.write(OK));
  const headers = {
    "content-length": "0",
    "transfer-encoding": "chunked",
    connection: "close",
    upgrade: "h2c",
    host: "elsewhere.example",
  };
  await posted(destination(server.url), { headers });
  const head = "POST /v1/x?y=z HTTP/1.1\r\nhost: elsewhere.example\r\ncontent-length: 2\r\n\r\n";
  expect(server.requests).toEqual([`${head}{}`]);
});

test.each([10, 70_000])(
  "[LN4] a header beyond ASCII is a byte for each letter, beside %i letters of a body that are more",
  async (count) => {
    const server = await rawServer((socket) => socket.write(OK));
    const body = "\u00e9\u4e16\ud83d\ude00".repeat(count);
    const to = destination(server.url);
    for (const value of ["plain", "\u00e9\u00ff"]) await posted(to, { headers: { "x-a": value }, body });
    const sent = server.requests.map((text) => text.split("\r\n\r\n"));
    expect(sent.map(([head]) => /x-a: (.*)\r/.exec(head ?? "")?.[1])).toEqual(["plain", "\xe9\xff"]);
    for (const [, bytes = ""] of sent) {
      expect(bytes.length).toBe(9 * count);
      expect(Buffer.from(bytes, "latin1").toString("utf8") === body).toBe(true);
    }
    expect(server.sockets).toHaveLength(1);
  },
);

test.each([
  ["http://127.0.0.1:8080/v1", { isSecure: false, host: "127.0.0.1", port: 8080 }],
  ["http://name.example/", { isSecure: false, host: "name.example", port: 80 }],
  ["https://name.example/", { isSecure: true, host: "name.example", port: 443, servername: "name.example" }],
  ["https://127.0.0.1/", { isSecure: true, host: "127.0.0.1", port: 443 }],
  ["https://[::1]:8443/", { isSecure: true, host: "::1", port: 8443 }],
  ["http://0x7f.1/", { isSecure: false, host: "127.0.0.1", port: 80 }],
] as const)("[LN4] connections for %s go there", (address, expected) => {
  const { isSecure, options } = serverOf(new URL(address), DEFAULT_TIMEOUTS);
  const { host, port, servername } = options;
  expect({ isSecure, host, port, ...(servername === undefined ? {} : { servername }) }).toEqual(expected);
});

test.each([
  ["http://[::1]:8080/v1", "POST /v1 HTTP/1.1\r\nhost: [::1]:8080\r\n"],
  ["https://name.example:443/a%20b?c=d#e", "POST /a%20b?c=d HTTP/1.1\r\nhost: name.example\r\n"],
  ["http://n\u00e4me.example", "POST / HTTP/1.1\r\nhost: xn--nme-qla.example\r\n"],
  ["http://name.example/a\r\nb c", "POST /ab%20c HTTP/1.1\r\nhost: name.example\r\n"],
])("[LN4] the head of a request to %j", (address, expected) => {
  expect(requestHead(new URL(address), {}, 0)).toBe(`${expected}content-length: 0\r\n\r\n`);
});
