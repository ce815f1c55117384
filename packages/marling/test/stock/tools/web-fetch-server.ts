// A server on this machine that says what a test wants, and remembers what it was asked.

import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface TestServer {
  readonly port: number;
  /** `127.0.0.1:<port>`, as the option `allow` takes it. */
  readonly host: string;
  readonly requests: readonly IncomingMessage[];
  url(path?: string): string;
}

export async function serve(listener: RequestListener): Promise<TestServer> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    listener(request, response);
  });
  await listening(server);
  const { port } = server.address() as AddressInfo;
  const host = `127.0.0.1:${port}`;
  return { port, host, requests, url: (path = "/") => `http://${host}${path}` };
}

/** A server whose paths have bodies; a function is asked, and a header may be given before a body. */
export function pages(
  table: Readonly<
    Record<
      string,
      {
        readonly headers?: Readonly<Record<string, string>>;
        readonly status?: number;
        readonly body?: string | Uint8Array;
      }
    >
  >,
): Promise<TestServer> {
  return serve(({ url = "" }, response) => {
    const {
      status = 200,
      headers = { "content-type": "text/plain" },
      body = "",
    } = table[url] ?? { status: 404 };
    response.writeHead(status, headers).end(body);
  });
}

async function listening(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
}
