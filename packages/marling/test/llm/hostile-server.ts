// A server on this machine that answers without end, as fast as it is read, until the client leaves.

import { createServer, type Socket } from "node:net";
import type { ModelPlay } from "marling/testing";
import type { Wire } from "./wire.ts";

export interface HostileServer {
  readonly url: string;
  /** Resolves when a client has left. */
  readonly left: Promise<void>;
  /** Bytes that were given to the connections. */
  sent(): number;
  close(): Promise<void>;
}

const MARK = "MARK";
const KIB = "x".repeat(1024);
/** Sent at once, so that the server is not what is slow. */
const BATCH = 16 * 1024;

/** What is sent first, and what is sent again and again behind it. */
interface Script {
  readonly head: string;
  readonly first: string;
  next(count: number): string;
  /** Milliseconds between pieces; as fast as they are read where it is missing. */
  readonly pauseMs?: number;
}

export async function hostileServer(wire: Wire, play: ModelPlay): Promise<HostileServer> {
  const isWhole = play.kind === "text" || play.kind === "refusal";
  const script = isWhole ? undefined : scriptOf(wire, play);
  const whole = isWhole ? wholeAnswer(wire, play) : "";
  const open = new Set<Socket>();
  let sent = 0;
  let leave = (): void => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      open.delete(socket);
      if (sent > 0) leave();
    });
    const count = (text: string): boolean => {
      sent += Buffer.byteLength(text, "latin1");
      return socket.write(text, "latin1");
    };
    socket.once("data", () => {
      if (script === undefined) socket.end(whole, "utf8");
      else pour(socket, script, count);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    left,
    sent: () => sent,
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function pour(socket: Socket, script: Script, write: (text: string) => boolean): void {
  let count = 0;
  write(script.head + script.first);
  const more = (): void => {
    for (;;) {
      if (socket.destroyed) return;
      let batch = "";
      while (batch.length < (script.pauseMs === undefined ? BATCH : 1)) {
        batch += script.next(count);
        count += 1;
      }
      if (!write(batch)) return void socket.once("drain", more);
      if (script.pauseMs === undefined) return void setImmediate(more);
      return void setTimeout(more, script.pauseMs);
    }
  };
  more();
}

const STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

function scriptOf(wire: Wire, play: Extract<ModelPlay, { kind: "endless" | "drip" }>): Script {
  if (play.kind === "drip") return { head: STREAM, first: "", next: () => ":", pauseMs: 2 };
  switch (play.of) {
    case "text":
      return repeated(wire.events({ text: ["a", MARK + KIB] }, { cutOff: true }));
    case "reasoning":
      return repeated(wire.events({ reasoning: ["a", MARK + KIB] }, { cutOff: true }));
    case "arguments":
      return repeated(
        wire.events(
          { calls: [{ id: "call_1", name: "add", args: ['{"a":"', MARK + KIB, '"}'] }] },
          { cutOff: true },
        ),
      );
    case "calls":
      return manyCalls(wire);
    case "line":
      return { head: STREAM, first: 'data: {"choices":"', next: () => KIB };
    case "comments":
      return { head: STREAM, first: "", next: (count) => (count % 2 === 0 ? ": ping\n\n" : `: ${KIB}\n`) };
    case "refusal":
      return {
        head: "HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n",
        first: '{"error":{"message":"',
        next: () => KIB,
      };
    case "headers":
      return { head: "HTTP/1.1 200 OK\r\n", first: "", next: (count) => `x-${count}: ${KIB}\r\n` };
  }
}

/** What comes before the marked event, and that event for ever. */
function repeated(events: readonly string[]): Script {
  const at = events.findIndex((text) => text.includes(MARK));
  return { head: STREAM, first: events.slice(0, at).join(""), next: () => events[at] ?? "" };
}

function manyCalls(wire: Wire): Script {
  const calls = Array.from({ length: 2_000 }, (_, n) => ({
    id: `call_${n}`,
    name: "add",
    args: ['{"a":1}'],
  }));
  const events = wire.events({ calls }, { cutOff: true });
  return { head: STREAM, first: "", next: (count) => events[count] ?? ": ping\n\n" };
}

function wholeAnswer(wire: Wire, play: Extract<ModelPlay, { kind: "text" | "refusal" }>): string {
  if (play.kind === "text") return STREAM + wire.events({ text: [play.text] }).join("");
  const { text } = play;
  const error = { message: text, code: text, type: text, status: text };
  const body = JSON.stringify({ type: "error", error });
  const shown = text.length > 4_096 ? "long" : text; // A server does not cut what it repeats in a header.
  const head = ["content-type: application/json", `x-request-id: ${shown}`, "connection: close"];
  const length = `content-length: ${Buffer.byteLength(body)}`;
  return [`HTTP/1.1 400 ${shown}`, ...head, length, "", body].join("\r\n");
}
