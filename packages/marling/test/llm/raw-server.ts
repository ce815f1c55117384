// A server on this machine that says what it is told, byte by byte, and keeps what it was sent.

import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createSecureServer, type TlsOptions } from "node:tls";
import { onTestFinished } from "vitest";

/** Told of a request when all of it has come; `count` is how many have come before it, on any connection. */
export type RequestHandler = (socket: Socket, count: number) => void;

export interface RawServer {
  readonly port: number;
  readonly url: URL;
  /** The connections that were made, oldest first. */
  readonly sockets: readonly Socket[];
  /** The requests as they came, a character for each byte. */
  readonly requests: readonly string[];
}

/** Starts a server; it is closed when the test ends. */
export async function rawServer(answer: RequestHandler, secure?: TlsOptions): Promise<RawServer> {
  const sockets: Socket[] = [];
  const requests: string[] = [];
  const serve = (socket: Socket): void => {
    sockets.push(socket);
    socket.unref(); // So that only the client's side keeps a process alive.
    socket.on("error", () => {}); // A client that leaves.
    socket.setNoDelay(true);
    let text = "";
    socket.on("data", (bytes: Buffer) => {
      text += bytes.toString("latin1");
      for (let end = endOf(text); end !== undefined; end = endOf(text)) {
        requests.push(text.slice(0, end));
        text = text.slice(end);
        answer(socket, requests.length - 1);
      }
    });
  };
  const server = secure === undefined ? createServer(serve) : createSecureServer(secure, serve);
  server.on("tlsClientError", () => {}); // A client that does not trust it.
  const port = await listen(server);
  const protocol = secure === undefined ? "http:" : "https:";
  return { port, url: new URL(`${protocol}//127.0.0.1:${port}/v1/x?y=z`), sockets, requests };
}

/** Listens on a free port of this machine until the test ends. */
export async function listen(server: Server): Promise<number> {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Where the first request of a text ends. */
function endOf(text: string): number | undefined {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return undefined;
  const length = Number(/^content-length: (\d+)\r$/im.exec(text.slice(0, head + 2))?.[1] ?? 0);
  return text.length < head + 4 + length ? undefined : head + 4 + length;
}

/** A whole answer with a body of a length. */
export function answerOf(body: string, ...headers: readonly string[]): string {
  const lines = ["HTTP/1.1 200 OK", `Content-Length: ${Buffer.byteLength(body)}`, ...headers, "", body];
  return lines.join("\r\n");
}
