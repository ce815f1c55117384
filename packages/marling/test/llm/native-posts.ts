// Posts of native models without a model: what is sent, and what comes back.

import { type Destination, post, serverOf } from "../../src/llm/native/http-post.ts";
import type { CallTimeouts } from "../../src/llm/native/native-model-options.ts";
import {
  type BodyReader,
  DEFAULT_TIMEOUTS,
  type PostEnd,
  type PostMessage,
} from "../../src/llm/native/post.ts";

type ServerOptions = Partial<Destination["server"]["options"]>;

/** Where posts to an address go, with these options of its connections. */
export function destination(url: URL, timeouts: CallTimeouts = {}, options: ServerOptions = {}): Destination {
  const server = serverOf(url, { ...DEFAULT_TIMEOUTS, ...timeouts });
  return { url, server: { ...server, options: { ...server.options, ...options } } };
}

export interface PostOptions extends Partial<PostMessage> {
  readonly signal?: AbortSignal;
  /** Told of each piece of the answer. */
  readonly onTake?: (text: string) => void;
}

/** Reads an answer into a text, a character for each byte. */
export class TextReader implements BodyReader {
  text = "";
  isOver = false;
  readonly #onTake: (text: string) => void;

  constructor(onTake: (text: string) => void = () => {}) {
    this.#onTake = onTake;
  }

  take(chunk: Uint8Array): boolean {
    const text = Buffer.from(chunk).toString("latin1");
    this.text += text;
    this.#onTake(text);
    return true;
  }

  abandon(): void {}
}

export async function posted(
  to: Destination,
  { headers = {}, body = "{}", signal = new AbortController().signal, onTake }: PostOptions = {},
): Promise<{ readonly end: PostEnd; readonly text: string }> {
  const reader = new TextReader(onTake);
  const end = await post(to, { headers, body }, { reader, signal });
  return { end, text: reader.text };
}
