// An abort of a native call, at every moment there is: it ends at once, and no connection is left behind.

import { getEventListeners } from "node:events";
import { createServer } from "node:net";
import { setImmediate as immediately } from "node:timers/promises";
import { expect, test } from "vitest";
import { destination, type PostOptions, posted } from "./native-posts.ts";
import { answerOf, listen, type RawServer, rawServer } from "./raw-server.ts";

const CANCELLED = { kind: "cancelled" };
const STREAM = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

async function expectLeft({ sockets }: Pick<RawServer, "sockets">): Promise<void> {
  expect(sockets.length).toBeGreaterThan(0);
  await expect.poll(() => sockets.every(({ destroyed }) => destroyed), { timeout: 30_000 }).toBe(true);
}

/** Aborts when the client has read what was written. */
async function abortSoon(abort: AbortController): Promise<void> {
  for (let count = 0; count < 5; count += 1) await immediately();
  abort.abort();
}

test.each<readonly [string, string]>([
  ["before an answer", ""],
  ["within a head before the head", "HTTP/1.1 100 Cont"],
  ["behind a head before the head", "HTTP/1.1 100 Continue\r\n\r\n"],
  ["within a head", "HTTP/1.1 200 OK\r\nTransfer-"],
  ["behind a head", STREAM],
  ["within the size of a chunk", `${STREAM}5`],
  ["within an extension", `${STREAM}5;a`],
  ["within a chunk", `${STREAM}5\r\nhel`],
  ["behind a chunk", `${STREAM}5\r\nhello\r\n`],
  ["behind the last chunk", `${STREAM}5\r\nhello\r\n0\r\n`],
  ["within trailers", `${STREAM}0\r\nX: `],
  ["within a body of a length", answerOf("hello").slice(0, -2)],
  ["within a body that ends with its connection", "HTTP/1.1 200 OK\r\n\r\nhello"],
  ["within a refusal", "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhel"],
])("[LA13] an abort %s ends the call and its connection", async (_title, said) => {
  const abort = new AbortController();
  const server = await rawServer((socket) => {
    socket.write(said);
    abortSoon(abort).catch(() => {}); // Never: it only waits.
  });
  const to = destination(server.url);
  expect((await posted(to, { signal: abort.signal })).end).toEqual(CANCELLED);
  await expectLeft(server);
  expect(server.requests).toHaveLength(1);
  expect(to.server.kept).toEqual([]);
});

test("[LA13] an abort on a connection that was kept ends the call and the connection", async () => {
  const abort = new AbortController();
  const server = await rawServer((socket, count) => {
    if (count === 0) socket.write(answerOf("ok"));
    else abort.abort();
  });
  const to = destination(server.url);
  await posted(to);
  expect((await posted(to, { signal: abort.signal })).end).toEqual(CANCELLED);
  await expectLeft(server);
  expect(server.requests).toHaveLength(2);
});

test("[LA13] an abort between the two connections of a request ends it", async () => {
  const abort = new AbortController();
  const server = await rawServer((socket, count) => {
    if (count === 0) socket.write(answerOf("ok"));
    else if (count === 1) socket.resetAndDestroy();
    else abort.abort();
  });
  const to = destination(server.url);
  await posted(to);
  expect((await posted(to, { signal: abort.signal })).end).toEqual(CANCELLED);
  await expectLeft(server);
  expect(server.requests).toHaveLength(3);
});

test("[LA13] an abort by whoever reads the answer ends the call, and what else the read holds is not read", async () => {
  const server = await rawServer((socket) => socket.write(`${STREAM}3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n`));
  const abort = new AbortController();
  const to = destination(server.url);
  const onTake = (): void => abort.abort();
  expect(await posted(to, { signal: abort.signal, onTake })).toEqual({ end: CANCELLED, text: "one" });
  await expectLeft(server);
});

test("[LA13] an abort while a request is sent ends the call and the connection", async () => {
  const abort = new AbortController();
  const sockets: RawServer["sockets"][number][] = [];
  const port = await listen(
    createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {}); // The client leaves.
      socket.once("data", () => abort.abort());
    }),
  );
  const options: PostOptions = { body: "x".repeat(32 * 1024 * 1024), signal: abort.signal };
  const { end } = await posted(destination(new URL(`http://127.0.0.1:${port}/`)), options);
  expect(end).toEqual(CANCELLED);
  await expectLeft({ sockets });
});

test("[LA13] an abort while a name is looked up ends the call, and nothing is sent when it is found", async () => {
  const server = await rawServer(() => {});
  const url = new URL(server.url.href.replace("127.0.0.1", "late.invalid"));
  const abort = new AbortController();
  let found = (): void => {};
  const to = destination(
    url,
    {},
    {
      lookup: (_name, _options, answer) => {
        found = () => answer(null, [{ address: "127.0.0.1", family: 4 }] as never);
      },
    },
  );
  const posting = posted(to, { signal: abort.signal });
  abort.abort();
  expect((await posting).end).toEqual(CANCELLED);
  found();
  await posted(destination(server.url, { idleMs: 100 })); // The next one is made and left meanwhile.
  expect(server.sockets).toHaveLength(1);
});

test("[LA13] an abort while a connection is made secure ends the call and the connection", async () => {
  const abort = new AbortController();
  const sockets: RawServer["sockets"][number][] = [];
  const port = await listen(
    createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {}); // The client leaves.
      socket.once("data", () => abort.abort()); // It says hello and is not answered.
    }),
  );
  const to = destination(new URL(`https://127.0.0.1:${port}/`));
  expect((await posted(to, { signal: abort.signal })).end).toEqual(CANCELLED);
  await expectLeft({ sockets });
});

test("[LA13] a call that was aborted before makes no connection", async () => {
  const server = await rawServer(() => {});
  const { end } = await posted(destination(server.url), { signal: AbortSignal.abort() });
  expect(end).toEqual(CANCELLED);
  expect(server.sockets).toEqual([]);
});

test("[LN7] a signal has no listener of a call that has ended", async () => {
  const server = await rawServer((socket, count) => {
    if (count < 2) socket.write(answerOf("ok"));
    else socket.resetAndDestroy();
  });
  const { signal } = new AbortController();
  const to = destination(server.url);
  for (let count = 0; count < 3; count += 1) {
    const posting = posted(to, { signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await posting;
    expect(getEventListeners(signal, "abort")).toEqual([]);
  }
  expect(server.requests).toHaveLength(4); // The last one was sent twice.
});
