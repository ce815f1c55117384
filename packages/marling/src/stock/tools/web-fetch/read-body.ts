// The body of a page.
//   WF6  what is counted is what comes out of decompression; reading stops at the limit, so that a bomb never unfolds.

import type { IncomingMessage } from "node:http";
import { pipeline, Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";
import type { Checked } from "./reach.ts";

export interface PageBody {
  readonly bytes: Buffer;
  /** Whether there was more. */
  readonly isCut: boolean;
}

/** Rejects when the connection breaks or the compression is broken. */
export async function readBody(
  response: IncomingMessage,
  { maxBytes }: { readonly maxBytes: number },
): Promise<Checked<PageBody>> {
  const encoding = (response.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  const source = await decoded(response, encoding);
  if (source === undefined) {
    response.destroy();
    const message = `Expected a page as it is or in gzip, deflate or br, found one in ${encoding}.`;
    return { kind: "failed", failure: { code: "unsupported_encoding", class: "external", message } };
  }
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of source) {
    const bytes = part as Buffer;
    const kept = bytes.subarray(0, maxBytes - size);
    parts.push(kept);
    size += kept.length;
    if (kept.length < bytes.length) {
      response.destroy();
      return { kind: "ok", value: { bytes: Buffer.concat(parts), isCut: true } };
    }
  }
  return { kind: "ok", value: { bytes: Buffer.concat(parts), isCut: false } };
}

async function decoded(response: IncomingMessage, encoding: string): Promise<Readable | undefined> {
  switch (encoding) {
    case "":
    case "identity":
      return response;
    case "gzip":
    case "x-gzip":
      return through(response, createGunzip());
    case "br":
      return through(response, createBrotliDecompress());
    case "deflate":
      return inflated(response);
    default:
      return undefined;
  }
}

/** Errors of either end reach whoever reads; when the reading stops, both are closed. */
function through<T extends NodeJS.ReadWriteStream & Readable>(source: Readable, decoder: T): Readable {
  pipeline(source, decoder, () => undefined);
  return decoder;
}

/** Servers send `deflate` with and without its header; the first byte tells. */
async function inflated(response: IncomingMessage): Promise<Readable> {
  const parts: AsyncIterator<Buffer> = response[Symbol.asyncIterator]();
  const first = await parts.next();
  if (first.done === true) return Readable.from([]);
  const hasHeader = ((first.value[0] ?? 0) & 0x0f) === 8;
  async function* whole(): AsyncGenerator<Buffer> {
    yield first.value;
    for (let next = await parts.next(); next.done !== true; next = await parts.next()) yield next.value;
  }
  const source = Readable.from(whole());
  return hasHeader ? through(source, createInflate()) : through(source, createInflateRaw());
}
