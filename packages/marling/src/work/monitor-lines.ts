// Bytes of a stream become lines, in a fixed amount of memory whatever arrives.

import { StringDecoder } from "node:string_decoder";

export const LONGEST_LINE_BYTES = 8192;

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** What stands for a character that is no text. */
const REPLACEMENT = String.fromCharCode(0xfffd);

/** Splits a stream at its newlines. Blank lines are left out; the rest of a line that is too long is cut, and it says so. */
export class MonitorLines {
  readonly #partial = Buffer.allocUnsafe(LONGEST_LINE_BYTES);
  #length = 0;
  #isCut = false;

  /** The lines that these bytes complete. */
  read(bytes: Uint8Array): readonly string[] {
    const lines: string[] = [];
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, from)) {
      this.#keep(bytes.subarray(from, at));
      this.#takeInto(lines);
      from = at + 1;
    }
    this.#keep(bytes.subarray(from));
    return lines;
  }

  /** What is left when the stream ends without a newline. */
  end(): readonly string[] {
    const lines: string[] = [];
    this.#takeInto(lines);
    return lines;
  }

  #keep(bytes: Uint8Array): void {
    const room = LONGEST_LINE_BYTES - this.#length;
    const kept = bytes.length > room ? bytes.subarray(0, room) : bytes;
    this.#partial.set(kept, this.#length);
    this.#length += kept.length;
    if (kept.length < bytes.length) this.#isCut = true;
  }

  #takeInto(lines: string[]): void {
    const line = this.#isCut ? cutText(this.#partial.subarray(0, this.#length)) : this.#wholeText();
    this.#length = 0;
    this.#isCut = false;
    // Databases refuse a NUL inside a text.
    if (line.trim() !== "") lines.push(line.replaceAll("\0", REPLACEMENT));
  }

  #wholeText(): string {
    const hasReturn = this.#length > 0 && this.#partial[this.#length - 1] === CARRIAGE_RETURN;
    return this.#partial.toString("utf8", 0, hasReturn ? this.#length - 1 : this.#length);
  }
}

/** The decoder holds back a character whose bytes were cut apart. */
function cutText(bytes: Buffer): string {
  return `${new StringDecoder("utf8").write(bytes)} [cut: the line is longer than ${LONGEST_LINE_BYTES} bytes]`;
}
