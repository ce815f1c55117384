// One POST of a JSON text whose answer is read as it comes: what is asked for and what it comes to, however it is sent.

import { LONGEST_REFUSAL } from "../answer-bytes.ts";
import type { CallTimeouts } from "./native-model-options.ts";

export interface PostMessage {
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Reads an answer. */
export interface BodyReader {
  /** Takes the next bytes, which are there until it returns; false when no more of them are wanted. */
  take(chunk: Uint8Array): boolean;
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
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    }
  | { readonly kind: "broken"; readonly thrown: unknown }
  | { readonly kind: "silent"; readonly message: string }
  | { readonly kind: "cancelled" };

/** Where requests go. */
export interface PostTarget {
  readonly url: URL;
  /** Sends a text and reads the answer. Never rejects. */
  post(message: PostMessage, site: PostSite): Promise<PostEnd>;
}

export const DEFAULT_TIMEOUTS: Required<CallTimeouts> = { connectMs: 30_000, idleMs: 300_000 };
/** How long an answer that has ended is read on, for usage and so that the connection can be used again. */
export const TRAILING_MS = 1_000;

/** Refusals, and the answers of servers that do not stream, are no streams. */
export function isStream(status: number, contentType: string | null | undefined): boolean {
  return status >= 200 && status < 300 && !/^application\/json/i.test(contentType ?? "");
}

export function silence(idleMs: number): string {
  return `the server said nothing for ${idleMs} ms`;
}

/** What is read of an answer that is no stream. */
export class Refusal {
  readonly #pieces: Uint8Array[] = [];
  #size = 0;

  /** Keeps a copy of these bytes; false when it has all that may be of use. */
  take(bytes: Uint8Array): boolean {
    this.#pieces.push(Uint8Array.from(bytes));
    this.#size += bytes.length;
    return this.#size <= LONGEST_REFUSAL;
  }

  end(status: number, headers: Readonly<Record<string, string>>): PostEnd {
    return { kind: "refused", status, headers, body: Buffer.concat(this.#pieces).toString("utf8") };
  }
}
