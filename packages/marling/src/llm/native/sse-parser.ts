// Server-sent events out of the bytes of a response, as they are read from the socket.
//   LN1  an event costs its text: what one read holds is handed on in that read, without a promise, timer or copy.
//   LN2  lines and characters that are cut by the end of a read are put together; a line is searched through once.
//   LN3  what is kept of an unfinished event is bounded.

import { StringDecoder } from "node:string_decoder";
import { longestEvent } from "../answer-bytes.ts";

export interface SseParserOptions {
  /** Told the data of each event. Names, ids and comments are of no use to the wire formats here. */
  onData(data: string): void;
  /** The longest event that is taken, in UTF-16 units. */
  readonly longestEvent?: number;
}

export class SseParser {
  readonly #onData: (data: string) => void;
  readonly #longest: number;
  readonly #decoder = new StringDecoder("utf8");
  /** The line that has begun and not ended, in the pieces it came in. */
  #pieces: string[] = [];
  #held = 0;
  #data: string | undefined;
  #isFirst = true;
  /** Whether the read before ended in a carriage return, whose line feed may come now. */
  #isAfterReturn = false;

  constructor({ onData, longestEvent: longest = longestEvent() }: SseParserOptions) {
    this.#onData = onData;
    this.#longest = longest;
  }

  /** Takes the next bytes. False when an event is longer than is taken: nothing after that makes sense. */
  push(chunk: Uint8Array): boolean {
    this.#take(this.#decoder.write(chunk as Buffer));
    return this.#held + (this.#data?.length ?? 0) <= this.#longest;
  }

  /** The bytes are over. Servers leave the last empty line out, and some the end of the last line. */
  end(): void {
    this.#take(`${this.#decoder.end()}\n\n`);
  }

  #take(decoded: string): void {
    const text =
      this.#isFirst || this.#isAfterReturn || decoded.includes("\r") ? this.#clean(decoded) : decoded;
    let end = text.indexOf("\n");
    let start = 0;
    if (end >= 0 && this.#held > 0) {
      this.#pieces.push(text.slice(0, end));
      const line = this.#pieces.join("");
      this.#pieces = [];
      this.#held = 0;
      this.#line(line, 0, line.length);
      start = end + 1;
      end = text.indexOf("\n", start);
    }
    for (; end >= 0; end = text.indexOf("\n", start)) {
      this.#line(text, start, end);
      start = end + 1;
    }
    if (start < text.length) this.#hold(text.slice(start));
  }

  #hold(text: string): void {
    if (text === "") return;
    this.#pieces.push(text);
    this.#held += text.length;
  }

  #line(text: string, start: number, end: number): void {
    if (start === end) {
      const data = this.#data;
      this.#data = undefined;
      if (data !== undefined) this.#onData(data);
      return;
    }
    if (!text.startsWith("data:", start)) return;
    const value = text.slice(text.charCodeAt(start + 5) === 32 ? start + 6 : start + 5, end);
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
  }

  /** The text with a line feed for every end of a line, and without the mark that a text may begin with. */
  #clean(decoded: string): string {
    let text = decoded;
    if (this.#isFirst && text !== "") {
      this.#isFirst = false;
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    }
    if (this.#isAfterReturn && text !== "") {
      this.#isAfterReturn = false;
      if (text.charCodeAt(0) === 10) text = text.slice(1);
    }
    if (text.endsWith("\r")) this.#isAfterReturn = true;
    return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
  }
}
