// A connection to a server, which has one request at a time.
//   LN5   it is kept for the next request, unless the server says otherwise; idle, it keeps no process alive.
//   LN7   nothing hangs: not a connection that is not made, not an answer that falls silent.
//   LN15  a connection whose answer was in doubt, or was followed by more than was asked for, is not used again.
//   LN16  what comes runs in the async context of the call it came for, whoever made the connection.

import { AsyncResource } from "node:async_hooks";
import type { Socket, TcpNetConnectOpts } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { AnswerParser, type AnswerSink } from "./answer-parser.ts";
import type { CallTimeouts } from "./native-model-options.ts";
import { silence } from "./post.ts";

/** Where connections go to, and those that wait for a request. */
export interface Server {
  readonly isSecure: boolean;
  readonly options: TcpNetConnectOpts & ConnectionOptions;
  readonly timeouts: Required<CallTimeouts>;
  /** Idle connections, the last used one last. */
  readonly kept: Connection[];
}

/** Who is told what comes back. */
export interface Caller extends AnswerSink {
  /** Told at the end of a read that did not end the answer. */
  onRead(): void;
  onEnd(): void;
  onBreak(thrown: unknown): void;
  onSilence(message: string): void;
}

/** Idle connections are closed before most servers do that. */
const KEPT_MS = 55_000;
const MOST_KEPT = 256;

export class Connection {
  readonly #server: Server;
  readonly #socket: Socket;
  #caller: Caller | undefined;
  /** The async context of the call. */
  #context: AsyncResource | undefined;
  #parser: AnswerParser | undefined;
  #keptMs = 0;
  #requests = 0;
  #hasRead = false;
  #isBroken = false;

  constructor(server: Server) {
    this.#server = server;
    this.#socket = openSocket(server, (bytes) => this.#read(bytes));
    const { idleMs, connectMs } = server.timeouts;
    const connecting = setTimeout(() => {
      this.#silence(`no connection was made within ${connectMs} ms`);
    }, connectMs);
    this.#socket
      .once(server.isSecure ? "secureConnect" : "connect", () => clearTimeout(connecting))
      .once("close", () => clearTimeout(connecting))
      .on("timeout", () => this.#silence(silence(idleMs)))
      .on("error", (thrown) => this.#break(thrown))
      .on("end", () => this.#close())
      .on("close", () => this.#close());
  }

  /** Whether it broke under a request that was not its first, and to which nothing came back. */
  get wasStale(): boolean {
    return this.#isBroken && this.#requests > 1 && !this.#hasRead;
  }

  /** Whether all of the request is on its way: a server may answer before it has read that. */
  get #hasSent(): boolean {
    return this.#socket.writableLength === 0;
  }

  /** Sends a request; the caller is told what comes back. */
  send(head: string, body: string | Buffer, caller: Caller): void {
    this.#caller = caller;
    this.#context = new AsyncResource("MarlingModelCall");
    this.#requests += 1;
    this.#hasRead = false;
    this.#parser = new AnswerParser({
      onHead: (answer) => {
        this.#keptMs = Math.min(KEPT_MS, answer.keptMs);
        this.#caller?.onHead(answer);
      },
      onBody: (bytes) => this.#caller?.onBody(bytes),
    });
    const socket = this.#socket.setTimeout(this.#server.timeouts.idleMs).ref();
    if (typeof body === "string" && isAscii(head)) socket.write(head + body);
    else {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body, "utf8");
      socket.uncork();
    }
  }

  /** Reads nothing until it goes on. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends it, with what it is used for. */
  destroy(): void {
    this.#caller = undefined;
    const { kept } = this.#server;
    const index = kept.indexOf(this);
    if (index >= 0) kept.splice(index, 1);
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    this.#hasRead = true;
    if (this.#caller === undefined) this.destroy();
    else this.#context?.runInAsyncScope(this.#parse, this, bytes);
  }

  #parse(bytes: Buffer): void {
    const parser = this.#parser;
    const caller = this.#caller;
    try {
      const isAll = parser?.push(bytes) === bytes.length;
      if (parser?.isOver) this.#end(isAll);
      else caller?.onRead();
    } catch (thrown) {
      this.#break(thrown);
    }
  }

  #end(isKept: boolean): void {
    const caller = this.#caller;
    if (caller === undefined) return; // It was left within this read.
    this.#caller = undefined;
    this.#context = undefined;
    const { kept } = this.#server;
    if (isKept && this.#keptMs > 0 && this.#hasSent && kept.length < MOST_KEPT) {
      this.#socket.setTimeout(this.#keptMs).unref();
      kept.push(this);
    } else this.destroy();
    caller.onEnd();
  }

  #close(): void {
    if (this.#caller === undefined) this.destroy();
    else if (this.#parser?.close()) this.#context?.runInAsyncScope(this.#end, this, false);
    else this.#break(new ConnectionClosed("the server closed the connection"));
  }

  #break(thrown: unknown): void {
    const caller = this.#caller;
    this.#isBroken = true;
    this.destroy();
    this.#context?.runInAsyncScope(() => caller?.onBreak(thrown));
  }

  #silence(message: string): void {
    const caller = this.#caller;
    this.destroy();
    this.#context?.runInAsyncScope(() => caller?.onSilence(message));
  }
}

class ConnectionClosed extends Error {
  readonly code = "ECONNRESET";
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text);
}

/**
 * Taken here and not imported above: only what a model needs of the two is loaded, and when it is needed. All sockets
 * read into one buffer, since what is read has been used when `onRead` returns.
 */
function openSocket({ isSecure, options }: Server, onRead: (bytes: Buffer) => void): Socket {
  if (isSecure) return process.getBuiltinModule("node:tls").connect(options).on("data", onRead);
  const callback = (size: number, buffer: Uint8Array): boolean => {
    onRead((buffer as Buffer).subarray(0, size));
    return true;
  };
  readBuffer ??= Buffer.allocUnsafeSlow(READ_SIZE);
  return process
    .getBuiltinModule("node:net")
    .connect({ ...options, onread: { buffer: readBuffer, callback } });
}

const READ_SIZE = 64 * 1024;
let readBuffer: Buffer | undefined;
