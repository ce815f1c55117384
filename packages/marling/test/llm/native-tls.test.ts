// Secure connections of the native models.

import { createServer } from "node:net";
import type { TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import type { Destination } from "../../src/llm/native/http-post.ts";
import { destination, posted } from "./native-posts.ts";
import { answerOf, listen, type RawServer, rawServer } from "./raw-server.ts";
import { selfSigned } from "./self-signed.ts";

const HERE = selfSigned("localhost", "127.0.0.1");
const ELSEWHERE = selfSigned("elsewhere.example", "127.0.0.2");
const ANSWERED = { end: { kind: "ended" }, text: "ok" };

const secureServer = (made = HERE): Promise<RawServer> =>
  rawServer((socket) => socket.write(answerOf("ok")), { ...made, ALPNProtocols: ["http/1.1"] });

/** Where a server is by a name, which is found here. */
function named({ port }: RawServer, name: string, ca: string = HERE.cert): Destination {
  const addresses = [{ address: "127.0.0.1", family: 4 }];
  return destination(
    new URL(`https://${name}:${port}/`),
    {},
    {
      ca,
      lookup: (_name, _options, found) => found(null, addresses as never),
    },
  );
}

test.each([
  ["localhost", "localhost"],
  ["127.0.0.1", false],
])(
  "[LN4] %s is reached when its certificate is trusted, and asked for by name if it has one",
  async (name, asked) => {
    const server = await secureServer();
    const to = named(server, name);
    for (let count = 0; count < 3; count += 1) expect(await posted(to)).toEqual(ANSWERED);
    const [socket, ...others] = server.sockets as readonly TLSSocket[];
    expect(others).toEqual([]); // [LN5] one after the other.
    expect(socket).toMatchObject({ alpnProtocol: "http/1.1", servername: asked });
  },
);

test.each([
  ["nobody trusts", "localhost", HERE, undefined, "DEPTH_ZERO_SELF_SIGNED_CERT"],
  ["another authority made", "localhost", HERE, ELSEWHERE.cert, "DEPTH_ZERO_SELF_SIGNED_CERT"],
  ["is another name's", "localhost", ELSEWHERE, ELSEWHERE.cert, "ERR_TLS_CERT_ALTNAME_INVALID"],
  ["is another address's", "127.0.0.1", ELSEWHERE, ELSEWHERE.cert, "ERR_TLS_CERT_ALTNAME_INVALID"],
] as const)(
  "[LN4] a certificate that %s is refused, and nothing is sent",
  async (_title, name, made, ca, code) => {
    const server = await secureServer(made);
    const to =
      ca === undefined ? destination(new URL(`https://${name}:${server.port}/`)) : named(server, name, ca);
    expect((await posted(to)).end).toMatchObject({ kind: "broken", thrown: { code } });
    expect(server.requests).toEqual([]);
    await expect.poll(() => server.sockets.every(({ destroyed }) => destroyed)).toBe(true);
  },
);

test("[LN4] large requests and answers arrive whole", async () => {
  const body = "x".repeat(3_000_000);
  const server = await rawServer((socket) => socket.write(answerOf(body)), HERE);
  const to = named(server, "localhost");
  for (let count = 0; count < 2; count += 1) {
    const { text } = await posted(to, { body });
    expect(text === body).toBe(true);
  }
  expect(server.requests.map((request) => request.endsWith(`\r\n\r\n${body}`))).toEqual([true, true]);
  expect(server.sockets).toHaveLength(1);
});

test("[LN5] an idle connection keeps no process alive", async () => {
  const alive = (): number =>
    process.getActiveResourcesInfo().filter((name) => /TCPSocket|TLS/.test(name)).length;
  const during: number[] = [];
  const server = await rawServer((socket) => {
    during.push(alive());
    socket.write(answerOf("ok"));
  }, HERE);
  const to = named(server, "localhost");
  await expect.poll(alive, { timeout: 30_000 }).toBe(0); // Those of other tests are gone.
  expect(await posted(to)).toEqual(ANSWERED);
  expect(during[0]).toBeGreaterThan(0);
  expect(alive()).toBe(0);
  expect(to.server.kept).toHaveLength(1);
});

test("[LN6] a connection that the server closed in the meantime is replaced without a failure", async () => {
  const server = await rawServer((socket, count) => {
    if (count === 1) socket.destroy();
    else socket.write(answerOf("ok"));
  }, HERE);
  const to = named(server, "localhost");
  for (let count = 0; count < 2; count += 1) expect(await posted(to)).toEqual(ANSWERED);
  expect(server.sockets).toHaveLength(2);
});

test("[LN7] a connection that does not become secure is given up", async () => {
  const port = await listen(createServer((socket) => void socket.on("error", () => {})));
  const { end } = await posted(destination(new URL(`https://127.0.0.1:${port}/`), { connectMs: 150 }));
  expect(end).toEqual({ kind: "silent", message: "no connection was made within 150 ms" });
});

test("[LN7] a server that speaks without security is a failure", async () => {
  const port = await listen(createServer((socket) => void socket.on("error", () => {}).end(answerOf("ok"))));
  const { end } = await posted(destination(new URL(`https://127.0.0.1:${port}/`)));
  expect(end).toMatchObject({
    kind: "broken",
    thrown: { message: expect.stringContaining("wrong version number") },
  });
});
