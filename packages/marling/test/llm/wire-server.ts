// A server on this machine that answers as it is told, one answer for each request, and keeps what it was sent.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as immediately } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";

export type WireReply =
  | {
      readonly kind: "stream";
      /** Server-sent events, each written on its own. */
      readonly events: readonly string[];
      /** What comes behind them: the proper end, a broken connection, or nothing at all. */
      readonly end?: "close" | "reset" | "hang";
      /** Writes pieces of so many bytes instead, wherever that cuts. */
      readonly bytes?: number;
    }
  | {
      readonly kind: "refuse";
      readonly status: number;
      readonly body: JsonObject;
      readonly headers?: Readonly<Record<string, string>>;
    };

export interface SentRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: JsonObject;
  /** The body as it came. */
  readonly text: string;
}

export interface WireServer {
  readonly url: string;
  /** What was sent, oldest first. */
  readonly sent: readonly SentRequest[];
  /** Resolves when the client has left a reply that hangs. */
  readonly left: Promise<void>;
}

/** Starts a server that gives these replies in order; it is closed when the test ends. */
export async function wireServer(replies: readonly WireReply[]): Promise<WireServer> {
  const sent: SentRequest[] = [];
  const waiting = [...replies];
  let leave = (): void => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8");
      const body = JSON.parse(text) as JsonObject;
      sent.push({ path: request.url ?? "", headers: request.headers, body, text });
      response.on("close", leave);
      const reply = waiting.shift() ?? noReply(sent.length);
      give(response, reply).catch(() => response.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sent, left };
}

function noReply(count: number): WireReply {
  return { kind: "refuse", status: 418, body: { error: { message: `no reply for request ${count}` } } };
}

async function give(response: ServerResponse, reply: WireReply): Promise<void> {
  if (reply.kind === "refuse") {
    response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
    response.end(JSON.stringify(reply.body));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const piece of piecesOf(reply.events, reply.bytes)) {
    response.write(piece);
    await immediately(); // Each piece is a write of its own.
  }
  if (reply.end === "hang") return;
  if (reply.end !== "reset") {
    response.end();
    return;
  }
  await new Promise((resolve) => setTimeout(resolve, 20)); // What was written is read before the connection breaks.
  response.socket?.resetAndDestroy();
}

function piecesOf(events: readonly string[], bytes: number | undefined): readonly Uint8Array[] {
  if (bytes === undefined) return events.map((event) => Buffer.from(event, "utf8"));
  const all = Buffer.from(events.join(""), "utf8");
  const count = Math.ceil(all.length / bytes);
  return Array.from({ length: count }, (_, index) => all.subarray(index * bytes, (index + 1) * bytes));
}
