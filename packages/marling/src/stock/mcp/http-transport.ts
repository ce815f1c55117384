// A server behind an address: the library's transport, over a fetch that reads in bounded memory.
//   MC13  redirects are followed within the origin of the address only, so headers never leave it.
//   MC14  one message is at most as large as the options say; reading stops there.

import { TransformStream } from "node:stream/web";
import type { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { ClientLibrary } from "./client-library.ts";
import type { McpTarget } from "./options.ts";

export interface HttpTransportOptions {
  readonly target: McpTarget & { readonly kind: "http" };
  readonly maxMessageBytes: number;
  /** Told when a message was too large to be read. */
  onTooLarge(reason: string): void;
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

export function httpTransport(
  { StreamableHTTPClientTransport: HttpTransport }: ClientLibrary,
  { target, ...limit }: HttpTransportOptions,
): StreamableHTTPClientTransport {
  return new HttpTransport(target.url, {
    requestInit: { headers: { ...target.headers } },
    redirectPolicy: "same-origin",
    fetch: boundedFetch(limit),
  });
}

/** Bodies of events are counted by line, since a stream of them may be open for days; others as a whole. */
function boundedFetch(limit: Limit): Fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (response.body === null) return response;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const body = response.body.pipeThrough(bounded(limit, isStream));
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}

const NEWLINE = 10;

type Limit = Omit<HttpTransportOptions, "target">;

function bounded(
  { maxMessageBytes, onTooLarge }: Limit,
  isByLine: boolean,
): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      const first = isByLine ? chunk.indexOf(NEWLINE) : -1;
      const last = isByLine ? chunk.lastIndexOf(NEWLINE) : -1;
      if (bytes + (first === -1 ? chunk.byteLength : first) > maxMessageBytes) {
        const reason = `it sent a message larger than ${maxMessageBytes} bytes`;
        controller.error(new Error(reason));
        onTooLarge(reason);
        return;
      }
      controller.enqueue(chunk);
      bytes = last === -1 ? bytes + chunk.byteLength : chunk.byteLength - last - 1;
    },
  });
}
