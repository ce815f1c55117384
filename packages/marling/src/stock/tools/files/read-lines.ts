// Reads some lines of a file of any size, with memory for those lines only.

import type { FileHandle } from "node:fs/promises";

const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 10;
/** What UTF-8 needs for one character of a JavaScript string, at most. */
const BYTES_PER_CHARACTER = 3;

export interface ReadLinesOptions {
  /** The first line, from 1. */
  readonly offset: number;
  readonly limit: number;
  /** Bytes of text in all; the first line is always read. */
  readonly bytes: number;
  readonly lineLength: number;
  readonly scanBytes: number;
  readonly signal: AbortSignal;
}

export interface ReadLine {
  readonly number: number;
  readonly text: string;
  /** Bytes of the line that are left out. */
  readonly leftOut: number;
}

export interface LinesRead {
  readonly lines: readonly ReadLine[];
  /** The next line that was not read, when there is one. */
  readonly next?: number;
  /** How many lines the file has, when it was looked through to its end. */
  readonly total?: number;
}

/** Reads from a line on, until one of the limits is met. */
export async function readLines(handle: FileHandle, options: ReadLinesOptions): Promise<LinesRead> {
  const collector = new LineCollector(options);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let position = 0;
  while (position < options.scanBytes) {
    options.signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    if (bytesRead === 0) return collector.end();
    collector.take(chunk.subarray(0, bytesRead));
    position += bytesRead;
  }
  return collector.stop();
}

class LineCollector {
  readonly #options: ReadLinesOptions;
  readonly #lines: ReadLine[] = [];
  #number = 1;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #lineBytes = 0;
  #usedBytes = 0;
  #next: number | undefined;

  constructor(options: ReadLinesOptions) {
    this.#options = options;
  }

  take(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#add(chunk.subarray(start, end));
      this.#endLine();
      start = end + 1;
    }
    this.#add(chunk.subarray(start));
  }

  end(): LinesRead {
    if (this.#lineBytes > 0) this.#endLine();
    const next = this.#next === undefined ? {} : { next: this.#next };
    return { lines: this.#lines, ...next, total: this.#number - 1 };
  }

  stop(): LinesRead {
    return { lines: this.#lines, next: this.#next ?? this.#number };
  }

  #isWanted(): boolean {
    return this.#next === undefined && this.#number >= this.#options.offset;
  }

  #add(part: Buffer): void {
    this.#lineBytes += part.length;
    const room = this.#options.lineLength * BYTES_PER_CHARACTER + 1 - this.#keptBytes;
    if (room <= 0 || part.length === 0 || !this.#isWanted()) return;
    const kept = Buffer.from(part.subarray(0, room));
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }

  #endLine(): void {
    if (this.#isWanted()) this.#keep(this.#lineText());
    this.#number += 1;
    this.#kept = [];
    this.#keptBytes = 0;
    this.#lineBytes = 0;
  }

  #lineText(): ReadLine {
    const whole = withoutMarks(Buffer.concat(this.#kept).toString("utf8"), this.#number === 1);
    const text = cutText(whole, this.#options.lineLength);
    const isCut = text.length < whole.length || this.#keptBytes < this.#lineBytes;
    const leftOut = isCut ? this.#lineBytes - Buffer.byteLength(text) : 0;
    return { number: this.#number, text, leftOut };
  }

  #keep(line: ReadLine): void {
    const bytes = Buffer.byteLength(line.text) + 1;
    const { limit } = this.#options;
    const isFull = this.#lines.length > 0 && this.#usedBytes + bytes > this.#options.bytes;
    if (isFull || this.#lines.length >= limit) {
      this.#next = this.#number;
      return;
    }
    this.#lines.push(line);
    this.#usedBytes += bytes;
  }
}

function withoutMarks(text: string, isFirst: boolean): string {
  const unmarked = isFirst && text.startsWith("\uFEFF") ? text.slice(1) : text;
  return unmarked.endsWith("\r") ? unmarked.slice(0, -1) : unmarked;
}

/** The start of a text, without half a character at its end. */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, isHalf ? length - 1 : length);
}
