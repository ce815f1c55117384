// One POST of a JSON text whose answer is read as it comes.
//   LN4  bytes go to the reader in the read that brought them; the only thing that is waited for is the end.
//   LN5  connections are kept for the next call, as many as there are calls at once; an idle one keeps no process alive.
//   LN6  a connection that the server had closed while it was idle is no failure: the request goes out once more.
//   LN7  nothing hangs: not a connection that is not made, not an answer that falls silent, not one that stays open
//        behind its end. Nothing is sent or waited for after an abort.

import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, RequestOptions } from "node:http";
import type { CallTimeouts } from "./native-model-options.ts";

/** Where requests go, and the connections to it. */
export interface PostTarget {
  readonly host: string;
  readonly timeouts: Required<CallTimeouts>;
  readonly options: RequestOptions;
  send(options: RequestOptions): ClientRequest;
}

/** Reads an answer. */
export interface BodyReader {
  /** Takes the next bytes; false when no more of them are wanted. */
  take(chunk: Buffer): boolean;
  /** Whether all that counts has been said. */
  readonly isOver: boolean;
  /** Told of an abort at once, while whoever aborted still listens. */
  abandon(): void;
}

export interface PostSite {
  readonly reader: BodyReader;
  readonly signal: AbortSignal;
}

export type PostEnd =
  | { readonly kind: "ended" }
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: string;
    }
  | { readonly kind: "broken"; readonly thrown: unknown }
  | { readonly kind: "silent"; readonly message: string }
  | { readonly kind: "cancelled" };

/** How long an answer that has ended is read on, for usage and so that the connection can be used again. */
const TRAILING_MS = 1_000;
/** How much of a refusal is read. */
const LONGEST_REFUSAL = 64 * 1024;
/** Idle connections are closed before most servers do that. */
const KEPT_MS = 55_000;
const MOST_KEPT = 256;
/** A longer text is made into bytes once; a shorter one is counted, and goes out in one write with the headers. */
const LONGEST_TEXT = 64 * 1024;

/**
 * Where the requests to an address go. The builtin is taken here and not imported above: an import of `node:http` evaluates
 * all that it exports, a second client among it, and that takes as long as loading half of marling.
 */
export function openTarget(
  url: URL,
  { connectMs = 30_000, idleMs = 300_000 }: CallTimeouts = {},
): PostTarget {
  const { Agent, request } = process.getBuiltinModule(url.protocol === "http:" ? "node:http" : "node:https");
  const settings = { keepAlive: true, maxFreeSockets: MOST_KEPT, timeout: KEPT_MS };
  const options = {
    method: "POST",
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port,
    path: `${url.pathname}${url.search}`,
    agent: new Agent(settings),
    timeout: idleMs,
  };
  return {
    host: url.hostname,
    timeouts: { connectMs, idleMs },
    options,
    send: request,
  };
}

/** Sends a text and reads the answer. Never rejects. */
export async function post(
  target: PostTarget,
  message: { readonly headers: Readonly<Record<string, string>>; readonly body: string },
  site: PostSite,
): Promise<PostEnd> {
  for (let isFirst = true; ; isFirst = false) {
    if (site.signal.aborted) return { kind: "cancelled" };
    const posting = new Posting(target, site);
    const end = await posting.run(message);
    if (!isFirst || !posting.wasStale || end.kind !== "broken") return end;
  }
}

class Posting {
  readonly #target: PostTarget;
  readonly #site: PostSite;
  #request: ClientRequest | undefined;
  #hasAnswer = false;
  /** There until the posting has ended. */
  #resolve: ((end: PostEnd) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: PostTarget, site: PostSite) {
    this.#target = target;
    this.#site = site;
  }

  /** Whether it went over a connection that had been kept, and nothing came back. */
  get wasStale(): boolean {
    return this.#request?.reusedSocket === true && !this.#hasAnswer;
  }

  async run({ headers, body }: { readonly headers: object; readonly body: string }): Promise<PostEnd> {
    const { signal, reader } = this.#site;
    const cancel = (): void => {
      reader.abandon();
      this.#leave({ kind: "cancelled" });
    };
    try {
      return await new Promise<PostEnd>((resolve) => {
        this.#resolve = resolve;
        signal.addEventListener("abort", cancel, { once: true });
        const sent = body.length > LONGEST_TEXT ? Buffer.from(body) : body;
        this.#send({ ...headers, "content-length": String(Buffer.byteLength(sent)) }, sent);
      });
    } catch (thrown) {
      return { kind: "broken", thrown };
    } finally {
      clearTimeout(this.#timer);
      signal.removeEventListener("abort", cancel);
    }
  }

  #send(headers: Record<string, string>, body: string | Buffer): void {
    const { send, options, timeouts } = this.#target;
    const request = send({ ...options, headers });
    this.#request = request;
    request.on("error", (thrown) => this.#settle({ kind: "broken", thrown }));
    request.on("close", () => {
      if (this.#resolve !== undefined) this.#settle({ kind: "broken", thrown: new Error("socket closed") });
    });
    request.on("timeout", () => {
      this.#leave({ kind: "silent", message: `the server said nothing for ${timeouts.idleMs} ms` });
    });
    request.on("response", (response) => this.#read(response));
    request.on("socket", (socket) => {
      if (!socket.connecting) return;
      const message = `no connection was made within ${timeouts.connectMs} ms`;
      this.#timer = setTimeout(() => this.#leave({ kind: "silent", message }), timeouts.connectMs);
      socket.once("connect", () => clearTimeout(this.#timer));
    });
    request.end(body);
  }

  #read(response: IncomingMessage): void {
    this.#hasAnswer = true;
    response.on("error", (thrown) => this.#settle({ kind: "broken", thrown }));
    if (isStream(response)) this.#readStream(response);
    else this.#readRefusal(response);
  }

  #readStream(response: IncomingMessage): void {
    const { reader } = this.#site;
    response.on("end", () => this.#settle({ kind: "ended" }));
    response.on("data", (chunk: Buffer) => {
      try {
        if (!reader.take(chunk)) this.#leave({ kind: "ended" });
        else if (reader.isOver && !response.complete)
          this.#timer ??= setTimeout(() => this.#leave({ kind: "ended" }), TRAILING_MS);
      } catch (thrown) {
        this.#leave({ kind: "broken", thrown });
      }
    });
    this.#timer = undefined; // The connection is made.
  }

  #readRefusal(response: IncomingMessage): void {
    const { statusCode: status = 0, headers } = response;
    const chunks: Buffer[] = [];
    let size = 0;
    const refusal = (): PostEnd => {
      return { kind: "refused", status, headers, body: Buffer.concat(chunks).toString("utf8") };
    };
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > LONGEST_REFUSAL) this.#leave(refusal());
    });
    response.on("end", () => this.#settle(refusal()));
  }

  #settle(end: PostEnd): void {
    this.#resolve?.(end);
    this.#resolve = undefined;
  }

  /** Ends the posting before the answer has ended, and the connection with it. */
  #leave(end: PostEnd): void {
    this.#settle(end);
    this.#request?.destroy();
  }
}

/** Refusals, and the answers of servers that do not stream, are no streams. */
function isStream({ statusCode = 0, headers }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300 && !headers["content-type"]?.startsWith("application/json");
}
