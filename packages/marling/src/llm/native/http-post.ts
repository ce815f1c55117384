// A POST over connections of its own.
//   LN4  bytes go to the reader in the read that brought them; the only thing that is waited for is the end.
//   LN5  connections are kept for the next call, as many as there are calls at once.
//   LN6  a connection that the server had closed while it was idle is no failure: the request goes out once more,
//        on a new one.
//   LN7  an answer that stays open behind its end is left. Nothing is sent or waited for after an abort.

import type { AnswerHead } from "./answer-head.ts";
import { type Caller, Connection, type Server } from "./connection.ts";
import type { CallTimeouts } from "./native-model-options.ts";
import {
  isStream,
  type PostEnd,
  type PostMessage,
  type PostSite,
  type PostTarget,
  Refusal,
  TRAILING_MS,
} from "./post.ts";
import { requestHead } from "./request-head.ts";

/** A longer text is made into bytes once; a shorter one is counted. */
const LONGEST_TEXT = 64 * 1024;

export function httpTarget(url: URL, timeouts: Required<CallTimeouts>): PostTarget {
  const server = serverOf(url, timeouts);
  return { url, post: (message, site) => post({ url, server }, message, site) };
}

export function serverOf(url: URL, timeouts: Required<CallTimeouts>): Server {
  const isSecure = url.protocol === "https:";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
  const isAddress = /^[\d.]+$|:/.test(host);
  const secure = isSecure ? { ALPNProtocols: ["http/1.1"], ...(isAddress ? {} : { servername: host }) } : {};
  const options = { host, port, noDelay: true, keepAlive: true, ...secure };
  return { isSecure, options, timeouts, kept: [] };
}

/** Where a posting goes. */
export interface Destination {
  readonly url: URL;
  readonly server: Server;
}

/** Sends a message over a connection that was kept, if it may be, else over a new one. Throws where its head is none. */
export function sendPost(
  { url, server }: Destination,
  message: PostMessage,
  { caller, mayBeKept }: { readonly caller: Caller; readonly mayBeKept: boolean },
): Connection {
  const body = message.body.length > LONGEST_TEXT ? Buffer.from(message.body) : message.body;
  const head = requestHead(url, message.headers, Buffer.byteLength(body));
  const connection = (mayBeKept ? server.kept.pop() : undefined) ?? new Connection(server);
  connection.send(head, body, caller);
  return connection;
}

export async function post(to: Destination, message: PostMessage, site: PostSite): Promise<PostEnd> {
  for (let isFirst = true; ; isFirst = false) {
    if (site.signal.aborted) return { kind: "cancelled" };
    const posting = new Posting(to, site);
    const end = await posting.run(message, isFirst);
    if (!isFirst || !posting.wasStale) return end;
  }
}

class Posting implements Caller {
  readonly #to: Destination;
  readonly #site: PostSite;
  #connection: Connection | undefined;
  #answer: AnswerHead | undefined;
  /** There when the answer is none that is streamed. */
  #refusal: Refusal | undefined;
  /** There until the posting has ended. */
  #resolve: ((end: PostEnd) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(to: Destination, site: PostSite) {
    this.#to = to;
    this.#site = site;
  }

  /** Whether it went over a connection that had been kept, which broke before anything came back. */
  get wasStale(): boolean {
    return this.#connection?.wasStale === true;
  }

  /** Sends the message, over a connection that was kept if it may. */
  async run(message: PostMessage, mayBeKept: boolean): Promise<PostEnd> {
    const { signal, reader } = this.#site;
    const cancel = (): void => {
      if (this.#resolve === undefined) return; // The connection may have another call by now.
      reader.abandon();
      this.#leave({ kind: "cancelled" });
    };
    try {
      return await new Promise<PostEnd>((resolve) => {
        this.#resolve = resolve;
        signal.addEventListener("abort", cancel, { once: true });
        this.#connection = sendPost(this.#to, message, { caller: this, mayBeKept });
      });
    } catch (thrown) {
      return { kind: "broken", thrown };
    } finally {
      clearTimeout(this.#timer);
      signal.removeEventListener("abort", cancel);
    }
  }

  onHead(answer: AnswerHead): void {
    this.#answer = answer;
    if (!isStream(answer.status, answer.contentType)) this.#refusal = new Refusal();
  }

  onBody(bytes: Buffer): void {
    const isWanted = this.#refusal?.take(bytes) ?? this.#site.reader.take(bytes);
    if (!isWanted) this.#leave(this.#ended());
  }

  onRead(): void {
    if (this.#resolve === undefined || !this.#site.reader.isOver) return;
    this.#timer ??= setTimeout(() => this.#leave({ kind: "ended" }), TRAILING_MS);
  }

  onEnd(): void {
    this.#settle(this.#ended());
  }

  onBreak(thrown: unknown): void {
    this.#settle({ kind: "broken", thrown });
  }

  onSilence(message: string): void {
    this.#settle({ kind: "silent", message });
  }

  #ended(): PostEnd {
    if (this.#answer === undefined || this.#refusal === undefined) return { kind: "ended" };
    return this.#refusal.end(this.#answer.status, this.#answer.headers());
  }

  #settle(end: PostEnd): void {
    this.#resolve?.(end);
    this.#resolve = undefined;
  }

  /** Ends the posting before the answer has ended, and the connection with it. */
  #leave(end: PostEnd): void {
    this.#settle(end);
    this.#connection?.destroy();
  }
}
