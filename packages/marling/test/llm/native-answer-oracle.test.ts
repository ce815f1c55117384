// Answers as the client of Node reads them: the connections of native models read the same.

import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { AnswerHead } from "../../src/llm/native/answer-head.ts";
import { Connection, type Server } from "../../src/llm/native/connection.ts";
import { serverOf } from "../../src/llm/native/http-post.ts";
import { DEFAULT_TIMEOUTS } from "../../src/llm/native/post.ts";
import { requestHead } from "../../src/llm/native/request-head.ts";
import { listen, rawServer } from "./raw-server.ts";

/** What was read of an answer that has ended; why it was refused otherwise. */
type Read = { readonly status: number; readonly headers: object; readonly body: string } | string;

/** One exchange over a connection of marling. */
function readByMarling(url: URL, server: Server = serverOf(url, DEFAULT_TIMEOUTS)): Promise<Read> {
  const { resolve, promise } = settledLater();
  let head: AnswerHead | undefined;
  let body = "";
  const connection = server.kept.pop() ?? new Connection(server);
  connection.send(requestHead(url, {}, 2), "{}", {
    onHead: (answer) => {
      head = answer;
    },
    onBody: (bytes) => {
      body += bytes.toString("latin1");
    },
    onRead: () => {},
    onEnd: () => resolve({ status: head?.status ?? 0, headers: { ...head?.headers(), date: "" }, body }),
    onBreak: (thrown) => resolve(String(thrown)),
    onSilence: resolve,
  });
  return promise;
}

/** One exchange by `node:http`. */
function readByNode(url: URL): Promise<Read> {
  const { resolve, promise } = settledLater();
  const sent = request(url, { method: "POST" }, (response: IncomingMessage) => {
    let body = "";
    response.setEncoding("latin1");
    response.on("data", (text: string) => {
      body += text;
    });
    response.on("error", (thrown) => resolve(String(thrown)));
    response.on("end", () => {
      resolve({ status: response.statusCode ?? 0, headers: headersOf(response), body });
    });
  });
  sent.on("error", (thrown) => resolve(String(thrown)));
  sent.on("upgrade", (_response, socket: Socket) => {
    socket.destroy();
    resolve("another protocol");
  });
  sent.end("{}");
  return promise;
}

function settledLater(): { readonly resolve: (read: Read) => void; readonly promise: Promise<Read> } {
  let resolve: (read: Read) => void = () => {};
  const promise = new Promise<Read>((settle) => {
    resolve = settle;
  });
  return { resolve, promise };
}

/** All headers of a name, in their order; the date is that of a second. */
function headersOf({ rawHeaders }: IncomingMessage): object {
  const headers: Record<string, string> = {};
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = "", value = ""] = rawHeaders.slice(index, index + 2);
    const before = headers[name.toLowerCase()];
    headers[name.toLowerCase()] = before === undefined ? value : `${before}, ${value}`;
  }
  return { ...headers, date: "" };
}

const header = fc.tuple(
  fc.stringMatching(/^[Xx]-[\w!#$%&'*+.^`|~-]{1,12}$/),
  fc.array(fc.stringMatching(/^[\x21-\x7e\xa1-\xff]([\t\x20-\x7e\xa1-\xff]{0,30}[\x21-\x7e\xa1-\xff])?$/), {
    minLength: 1,
    maxLength: 3,
  }),
);
const reply = fc.record({
  status: fc.constantFrom(200, 201, 202, 204, 301, 400, 404, 429, 500, 529),
  reason: fc.stringMatching(/^[\x20-\x7e\xa1-\xff]{0,20}$/),
  headers: fc.array(header, { maxLength: 5 }),
  writes: fc.array(fc.uint8Array({ minLength: 1, maxLength: 70_000, size: "max" }), { maxLength: 4 }),
  isChunked: fc.boolean(),
  hasEarlyHead: fc.boolean(),
});
type Reply = typeof reply extends fc.Arbitrary<infer Value> ? Value : never;

function give(response: ServerResponse, told: Reply): void {
  if (told.hasEarlyHead) response.writeProcessing();
  for (const [name, values] of told.headers) response.setHeader(name, values);
  const length = told.writes.reduce((size, bytes) => size + bytes.length, 0);
  if (!told.isChunked && told.status !== 204) response.setHeader("Content-Length", length);
  response.writeHead(told.status, told.reason);
  for (const bytes of told.status === 204 ? [] : told.writes) response.write(bytes);
  response.end();
}

test("[LN15] any answer of a server of Node is read as the client of Node reads it", async () => {
  let told: Reply | undefined;
  const port = await listen(
    createServer((asked, response) => {
      asked.resume();
      asked.on("end", () => give(response, told as Reply));
    }),
  );
  const url = new URL(`http://127.0.0.1:${port}/`);
  const server = serverOf(url, DEFAULT_TIMEOUTS);
  await fc.assert(
    fc.asyncProperty(reply, async (next) => {
      told = next;
      const expected = await readByNode(url);
      expect(expected).toMatchObject({ status: next.status });
      const mine = await readByMarling(url, server);
      expect({ ...(mine as object), headers: withoutHint(mine) }).toEqual({
        ...(expected as object),
        headers: withoutHint(expected),
      });
    }),
    { numRuns: 60 },
  );
  expect(server.kept).toHaveLength(1);
});

/** The headers but for those that answer what a client says of its connection. */
function withoutHint(read: Read): object {
  if (typeof read === "string") return {};
  return { ...read.headers, connection: "", "keep-alive": "" };
}

const WELL_FORMED = [
  "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nX: y\r\nZ: w\r\n\r\n",
  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
  "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
  "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n",
];
/** What may be put in. No tab: Node takes one behind `chunked` for a part of the word. */
const ODDITIES = [
  ...["\r\n", "\n", "\r", " ", ";", ":", ",", "0", "5", "f", "-", "+", "\0", "\x7f", "\x0b", "\xa0", "\xe9"],
  ...["chunked", "close", "\r\n ", "0\r\n\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"],
  ...["HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "ffffffffffffffff"],
];
const change = fc.record({
  at: fc.nat(200),
  removed: fc.nat(3),
  added: fc.constantFrom("", ...ODDITIES),
});

test("[LN15] of answers that are changed anywhere, none is read otherwise than by the client of Node", async () => {
  let told = "";
  const { url } = await rawServer((socket) => socket.end(told, "latin1"));
  let reads = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...WELL_FORMED),
      fc.array(change, { minLength: 1, maxLength: 2 }),
      async (text, changes) => {
        told = changes.reduce(
          (all, { at, removed, added }) => all.slice(0, at) + added + all.slice(at + removed),
          text,
        );
        const [mine, nodes] = await Promise.all([readByMarling(url), readByNode(url)]);
        if (typeof mine === "string" || typeof nodes === "string") return;
        reads += 1;
        expect(mine).toEqual(nodes);
      },
    ),
    { numRuns: 400 },
  );
  expect(reads).toBeGreaterThan(0);
});
