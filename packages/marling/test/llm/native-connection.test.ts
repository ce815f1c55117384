// The connections of native models against servers that do as they please: what is kept, what is not, what is sent
// twice, and whose context an answer runs in.

import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { createServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import type { Destination } from "../../src/llm/native/http-post.ts";
import { openAiChatWire } from "./chat-wire.ts";
import { viaChat } from "./native-calls.ts";
import { destination, posted } from "./native-posts.ts";
import { request } from "./port-calls.ts";
import { answerOf, listen, type RawServer, rawServer } from "./raw-server.ts";
import { wireServer } from "./wire-server.ts";

const ENDED = { kind: "ended" };
const BROKEN = { kind: "broken", thrown: { code: "ECONNRESET" } };
const OK = answerOf("ok");

/** Waits until so many connections of a server are open. */
async function expectOpen({ sockets }: RawServer, count: number): Promise<void> {
  const open = (): number => sockets.filter(({ destroyed }) => !destroyed).length;
  await expect.poll(open, { timeout: 30_000 }).toBe(count);
}

/** Posts one after the other, each of which is answered. */
async function expectAnswers(to: Destination, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) expect(await posted(to)).toEqual({ end: ENDED, text: "ok" });
}

describe("what is kept", () => {
  test("[LN5] a connection is used again, whatever its answers are", async () => {
    const answers = [
      OK,
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n",
      `HTTP/1.1 100 Continue\r\n\r\n${OK}`,
      answerOf("ok", "Keep-Alive: timeout=60", "Connection: keep-alive"),
    ];
    const server = await rawServer((socket, count) => socket.write(answers[count % answers.length] ?? ""));
    await expectAnswers(destination(server.url), 12);
    expect(server.sockets).toHaveLength(1);
  });

  test.each([
    ["says that it closes", answerOf("ok", "Connection: close")],
    ["speaks the version before", OK.replace("HTTP/1.1", "HTTP/1.0")],
    ["closes in a moment", answerOf("ok", "Keep-Alive: timeout=1")],
  ])("[LN5] a connection whose server %s is closed behind its answer", async (_title, answer) => {
    const server = await rawServer((socket) => socket.write(answer));
    await expectAnswers(destination(server.url), 2);
    expect(server.sockets).toHaveLength(2);
    await expectOpen(server, 0);
  });

  test("[LN5] an answer that ends with its connection is whole", async () => {
    const server = await rawServer((socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nok"));
    await expectAnswers(destination(server.url), 2);
    expect(server.sockets).toHaveLength(2);
  });

  test("[LN5] an idle connection is closed before the server does that", async () => {
    const server = await rawServer((socket) => socket.write(answerOf("ok", "Keep-Alive: timeout=2")));
    const to = destination(server.url);
    await expectAnswers(to, 2);
    expect(server.sockets).toHaveLength(1);
    await expectOpen(server, 0);
    expect(to.server.kept).toEqual([]);
    await expectAnswers(to, 1);
  });

  test("[LN5] at most 256 idle connections are kept", async () => {
    const waiting: Socket[] = [];
    const server = await rawServer((socket) => {
      waiting.push(socket);
      if (waiting.length === 300) for (const one of waiting) one.write(OK);
    });
    const to = destination(server.url);
    const ends = await Promise.all(Array.from({ length: 300 }, () => posted(to)));
    expect(ends).toEqual(Array.from({ length: 300 }, () => ({ end: ENDED, text: "ok" })));
    expect(to.server.kept).toHaveLength(256);
    await expectOpen(server, 256);
  });

  test("[LN5] an idle connection that the server closes is forgotten", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const to = destination(server.url);
    await expectAnswers(to, 1);
    server.sockets[0]?.end();
    await expect.poll(() => to.server.kept).toEqual([]);
    await expectAnswers(to, 1);
    expect(server.requests).toHaveLength(2);
  });

  test("[LN5] a name with an address that nobody listens at is reached by its other one", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const addresses = [
      { address: "::1", family: 6 },
      { address: "127.0.0.1", family: 4 },
    ];
    const url = new URL(server.url.href.replace("127.0.0.1", "two.invalid"));
    const to = destination(url, {}, { lookup: (_name, _options, found) => found(null, addresses as never) });
    await expectAnswers(to, 2);
    expect(server.requests[0]).toContain(`\r\nhost: two.invalid:${server.port}\r\n`);
  });
});

describe("what is in doubt", () => {
  test("[LN15] a connection whose answer is followed by more is not used again", async () => {
    const server = await rawServer((socket) =>
      socket.write(`${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`),
    );
    await expectAnswers(destination(server.url), 2);
    expect(server.sockets).toHaveLength(2);
    await expectOpen(server, 0);
  });

  test("[LN15] an idle connection that says something is closed", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const to = destination(server.url);
    await expectAnswers(to, 1);
    server.sockets[0]?.write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
    await expectOpen(server, 0);
    await expectAnswers(to, 1);
    expect(server.sockets).toHaveLength(2);
  });

  test("[LN15] a connection with a body where none may be is not used again", async () => {
    const answer = "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n";
    const server = await rawServer((socket) => socket.write(answer));
    const to = destination(server.url);
    for (let count = 0; count < 2; count += 1) expect((await posted(to)).end).toEqual(ENDED);
    expect(server.sockets).toHaveLength(2);
  });

  test("[LN15] a connection whose request was answered before it was sent is not used again", async () => {
    const answered: Socket[] = [];
    const port = await listen(
      createServer((socket) => {
        socket.on("error", () => {}); // The client leaves.
        socket.once("data", () => {
          answered.push(socket.pause()); // The rest is not read.
          socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
        });
      }),
    );
    const to = destination(new URL(`http://127.0.0.1:${port}/`));
    for (let count = 0; count < 2; count += 1) {
      const { end } = await posted(to, { body: "x".repeat(32 * 1024 * 1024) });
      expect(end).toMatchObject({ kind: "refused", status: 413, body: "no" });
    }
    expect(answered).toHaveLength(2);
  });

  test("[LN15] what is no answer is a failure that says what was expected, and the connection is closed", async () => {
    const server = await rawServer((socket) => socket.write("SSH-2.0-other\r\n\r\n"));
    const { end } = await posted(destination(server.url));
    expect(end).toMatchObject({
      kind: "broken",
      thrown: { message: "expected the head of an answer of HTTP/1.1, found none" },
    });
    await expectOpen(server, 0);
  });

  test.each([
    ["no answer", ""],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-"],
    ["half a body", OK.slice(0, -1)],
    ["half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"],
    ["chunks without the last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"],
  ])("[LA5] a connection that ends behind %s is a failure", async (_title, answer) => {
    const server = await rawServer((socket) => socket.end(answer));
    expect((await posted(destination(server.url))).end).toMatchObject(BROKEN);
    expect(server.requests).toHaveLength(1);
  });
});

describe("what is sent twice", () => {
  /** A server that answers the first requests, and breaks what it is asked after them. */
  const faltering = (good: number, onMore: (socket: Socket) => void): Promise<RawServer> =>
    rawServer((socket, count) => (count < good ? socket.write(OK) : onMore(socket)));

  test("[LN6] a request goes out once more on a new connection, however many old ones there are", async () => {
    let isLater = false;
    const server = await rawServer((socket, count) => {
      if (isLater && server.sockets.indexOf(socket) < 2) socket.resetAndDestroy();
      else if (isLater) socket.write(OK);
      else if (count === 1) for (const one of server.sockets) one.write(OK);
    });
    const to = destination(server.url);
    await Promise.all([posted(to), posted(to)]);
    expect(to.server.kept).toHaveLength(2);
    isLater = true;
    await expectAnswers(to, 1);
    expect(server.requests).toHaveLength(4);
    expect(server.sockets).toHaveLength(3);
  });

  test("[LN6] a request goes out once more, and no more than that", async () => {
    const server = await faltering(1, (socket) => socket.resetAndDestroy());
    const to = destination(server.url);
    await expectAnswers(to, 1);
    expect((await posted(to)).end).toMatchObject(BROKEN);
    expect(server.requests).toHaveLength(3);
  });

  test("[LN6] a request whose answer had begun does not go out again", async () => {
    const server = await faltering(1, (socket) => socket.end("HTTP/1.1 "));
    const to = destination(server.url);
    await expectAnswers(to, 1);
    expect((await posted(to)).end).toMatchObject(BROKEN);
    expect(server.requests).toHaveLength(2);
  });

  test("[LN6] a request that nobody answers does not go out again", async () => {
    const server = await faltering(1, () => {});
    const to = destination(server.url, { idleMs: 150 });
    await expectAnswers(to, 1);
    expect((await posted(to)).end).toEqual({ kind: "silent", message: "the server said nothing for 150 ms" });
    expect(server.requests).toHaveLength(2);
    await expectOpen(server, 0);
  });
});

describe("connections beside each other", () => {
  test("[LN1] fifty answers at once do not mix, though all are read into one place", async () => {
    const server = await rawServer((socket, count) => {
      const piece = `${count}.`.repeat(10_000);
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${4 * piece.length}\r\n\r\n`);
      for (let index = 0; index < 4; index += 1) setImmediate(() => socket.write(piece));
    });
    const to = destination(server.url);
    const all = await Promise.all(Array.from({ length: 50 }, () => posted(to)));
    const found = all.map(({ text }) => text).sort();
    expect(found).toEqual(Array.from({ length: 50 }, (_, index) => `${index}.`.repeat(40_000)).sort());
  });

  test("[LN7] an abort behind the end of an answer leaves the connection to the call that has it now", async () => {
    const server = await rawServer((socket) => socket.write(OK));
    const to = destination(server.url);
    const abort = new AbortController();
    let next: ReturnType<typeof posted> | undefined;
    const onTake = (): void =>
      queueMicrotask(() => {
        next = posted(to);
        abort.abort();
      });
    expect(await posted(to, { signal: abort.signal, onTake })).toEqual({ end: ENDED, text: "ok" });
    expect(await next).toEqual({ end: ENDED, text: "ok" });
    expect(server.sockets).toHaveLength(1);
  });
});

describe("async context", () => {
  test("[LN16] an answer is read in the context of its call, whoever made the connection", async () => {
    const context = new AsyncLocalStorage<string>();
    const events = openAiChatWire.events({ text: ["Hi", "."] });
    const server = await wireServer([1, 2, 3].map(() => ({ kind: "stream", events, bytes: 40 })));
    const model = viaChat(server.url);
    for (const name of ["one", "two", "three"]) {
      const seen = new Set<string | undefined>();
      const sink = (): void => void seen.add(context.getStore());
      const { signal } = new AbortController();
      await context.run(name, () => model.call(request(), { signal, sink }));
      expect([...seen]).toEqual([name]);
      expect(context.getStore()).toBeUndefined();
    }
  });

  test("[LN16] the context of a call is let go when the call is over", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const made = new Set<number>();
    const ended = new Set<number>();
    const hook = createHook({
      init: (id, type) => void (type === "MarlingModelCall" && made.add(id)),
      destroy: (id) => void (made.has(id) && ended.add(id)),
    }).enable();
    const server = await rawServer((socket) => socket.write(OK));
    const to = destination(server.url);
    await expectAnswers(to, 5);
    const gone = (): number => {
      collect();
      return ended.size;
    };
    await expect.poll(gone, { timeout: 30_000 }).toBe(5);
    hook.disable();
    expect(made.size).toBe(5);
    expect(to.server.kept).toHaveLength(1);
  });
});
