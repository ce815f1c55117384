// A POST by a function that is given: a proxy, a gateway, a recorder, whatever watches `fetch`.
//   LN17  it is told what goes over the wire and nothing else, and what it answers is read as any other answer is. A
//         function that heeds no signal is left all the same.

import type { FetchFunction } from "./native-model-options.ts";
import {
  isStream,
  type PostEnd,
  type PostMessage,
  type PostSite,
  type PostTarget,
  Refusal,
  silence,
  TRAILING_MS,
} from "./post.ts";

export interface FetchTargetOptions {
  readonly fetch: FetchFunction;
  /** How long nothing may come, before the answer and within it. */
  readonly idleMs: number;
}

export function fetchTarget(url: URL, options: FetchTargetOptions): PostTarget {
  return {
    url,
    post: async (message, site) => {
      if (site.signal.aborted) return { kind: "cancelled" };
      return new FetchPosting(options, site).run(url, message);
    },
  };
}

class FetchPosting {
  readonly #options: FetchTargetOptions;
  readonly #site: PostSite;
  readonly #abort = new AbortController();
  #resolve: (end: PostEnd) => void = () => {};
  #idle: NodeJS.Timeout | undefined;
  #trailing: NodeJS.Timeout | undefined;

  constructor(options: FetchTargetOptions, site: PostSite) {
    this.#options = options;
    this.#site = site;
  }

  async run(url: URL, message: PostMessage): Promise<PostEnd> {
    const { signal, reader } = this.#site;
    const { idleMs } = this.#options;
    const cancel = (): void => {
      reader.abandon();
      this.#leave({ kind: "cancelled" });
    };
    try {
      return await new Promise<PostEnd>((resolve) => {
        this.#resolve = resolve;
        signal.addEventListener("abort", cancel, { once: true });
        this.#idle = setTimeout(() => this.#leave({ kind: "silent", message: silence(idleMs) }), idleMs);
        this.#ask(url, message).then(resolve, (thrown: unknown) => this.#leave({ kind: "broken", thrown }));
      });
    } finally {
      clearTimeout(this.#idle);
      clearTimeout(this.#trailing);
      signal.removeEventListener("abort", cancel);
    }
  }

  async #ask(url: URL, { headers, body }: PostMessage): Promise<PostEnd> {
    const { fetch } = this.#options;
    const { signal } = this.#abort;
    const request = { method: "POST", headers, body, signal, redirect: "manual" } as const;
    const response = await fetch(url.href, request);
    const { status } = response;
    if (isStream(status, response.headers.get("content-type"))) {
      await this.#read(response, (bytes) => this.#site.reader.take(bytes));
      return { kind: "ended" };
    }
    const refusal = new Refusal();
    await this.#read(response, (bytes) => refusal.take(bytes));
    return refusal.end(status, Object.fromEntries(response.headers));
  }

  /** Reads the body until it ends, is left, or has brought all that is wanted. */
  async #read({ body }: Response, take: (bytes: Uint8Array) => boolean): Promise<void> {
    const { signal } = this.#abort;
    const stream = body?.getReader();
    // A body whose sender heeds no signal is told in its own way.
    const drop = (): void => void stream?.cancel().catch(() => {});
    if (signal.aborted) drop();
    signal.addEventListener("abort", drop, { once: true });
    for (;;) {
      const read = await stream?.read();
      if (read === undefined || read.done || signal.aborted) return;
      this.#idle?.refresh();
      if (!take(read.value)) break;
      if (!this.#site.reader.isOver) continue;
      this.#trailing ??= setTimeout(() => this.#leave({ kind: "ended" }), TRAILING_MS);
    }
    this.#abort.abort();
  }

  #leave(end: PostEnd): void {
    this.#resolve(end);
    this.#abort.abort();
  }
}
