// An HTTP/1.1 answer out of the bytes of a connection, as they are read.
//   LN1   the body is handed on in the read that brought it, without a copy.
//   LN15  what is in doubt is refused, and what is kept of a head or skipped between chunks is bounded.

import { AnswerHead, MalformedAnswer } from "./answer-head.ts";
import { NAME_SIGN } from "./header-signs.ts";

export interface AnswerSink {
  onHead(head: AnswerHead): void;
  /** Takes bytes of the body, which are there until it returns. */
  onBody(bytes: Buffer): void;
}

/** Where in an answer the next byte is. */
type Step =
  | "head"
  | "body"
  | "rest"
  | "size"
  | "size_space"
  | "extension"
  | "size_end"
  | "chunk"
  | "chunk_return"
  | "chunk_end"
  | "trailer"
  | "trailer_name"
  | "trailer_line"
  | "trailer_line_end"
  | "trailer_end"
  | "over";

const HEAD_END = "\r\n\r\n";
const LONGEST_HEAD = 32 * 1024;
/** Most heads are shorter; what is looked through first. */
const USUAL_HEAD = 2 * 1024;
/** What is of no use here: heads before the head, the extensions of a chunk, what follows the last one. */
const LONGEST_SKIPPED = 32 * 1024;
/** Hexadecimal digits of the size of a chunk. */
const MOST_DIGITS = 12;
const RETURN = 13;
const LINE_FEED = 10;
const TAB = 9;
const SPACE = 32;
const COLON = 58;
const SEMICOLON = 59;
const DELETE = 127;
const NAME = new RegExp(`^${NAME_SIGN}$`);

export class AnswerParser {
  readonly #sink: AnswerSink;
  #step: Step = "head";
  #head = "";
  /** Bytes of the body or of its chunk that have not come. */
  #left = 0;
  #digits = 0;
  #skipped = 0;

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  get isOver(): boolean {
    return this.#step === "over";
  }

  /** Takes the next bytes; says how many of them are the answer's. Throws when they are no answer. */
  push(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length && this.#step !== "over") at = this.#take(bytes, at);
    return at;
  }

  /** The connection has ended: whether the answer has, too. */
  close(): boolean {
    if (this.#step === "rest") this.#step = "over";
    return this.#step === "over";
  }

  /** Takes what is one thing from there on; says where the next begins. */
  #take(bytes: Buffer, at: number): number {
    switch (this.#step) {
      case "head":
        return this.#takeHead(bytes, at);
      case "rest":
        this.#sink.onBody(at === 0 ? bytes : bytes.subarray(at));
        return bytes.length;
      case "body":
      case "chunk":
        return this.#takeBody(bytes, at);
      default:
        this.#step = this.#next(this.#step, bytes[at] ?? 0);
        return at + 1;
    }
  }

  #takeHead(bytes: Buffer, at: number): number {
    if (this.#head !== "") return this.#takeCutHead(bytes, at);
    const text = bytes.toString("latin1", at, at + USUAL_HEAD);
    const end = text.indexOf(HEAD_END);
    if (end < 0) return this.#takeCutHead(bytes, at);
    this.#begin(new AnswerHead(text.slice(0, end)), end);
    return at + end + HEAD_END.length;
  }

  /** Takes a head that is long, or in several reads. */
  #takeCutHead(bytes: Buffer, at: number): number {
    const held = this.#head.length;
    const text = this.#head + bytes.toString("latin1", at, at + LONGEST_HEAD + HEAD_END.length);
    const end = text.indexOf(HEAD_END, Math.max(0, held - HEAD_END.length + 1));
    if (end < 0 ? text.length >= LONGEST_HEAD + HEAD_END.length : end > LONGEST_HEAD) throw tooLong();
    this.#head = end < 0 ? text : "";
    if (end < 0) return bytes.length;
    this.#begin(new AnswerHead(text.slice(0, end)), end);
    return at + end + HEAD_END.length - held;
  }

  #begin(head: AnswerHead, size: number): void {
    if (head.status === 101) throw new MalformedAnswer("expected an answer, found another protocol");
    if (head.status < 200) {
      this.#skip(size); // Another head follows.
      return;
    }
    if (head.length === "chunked") this.#step = "size";
    else if (head.length === "rest") this.#step = "rest";
    else this.#step = head.length === 0 ? "over" : "body";
    this.#left = typeof head.length === "number" ? head.length : 0;
    this.#sink.onHead(head);
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    if (this.#left === 0) this.#step = this.#step === "chunk" ? "chunk_return" : "over";
    this.#sink.onBody(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    return end;
  }

  /** The step behind a byte that is around a chunk. */
  #next(step: Step, byte: number): Step {
    switch (step) {
      case "size":
        return this.#sized(byte);
      case "size_space":
        return byte === SPACE || byte === TAB ? this.#skipByte(byte, "size_space") : behindSize(byte);
      case "extension":
        return byte === RETURN ? "size_end" : this.#skipByte(byte, "extension");
      case "size_end":
        expectByte(byte, LINE_FEED);
        this.#digits = 0;
        if (this.#left === 0) return "trailer";
        this.#skipped = 0;
        return "chunk";
      case "chunk_return":
        expectByte(byte, RETURN);
        return "chunk_end";
      case "chunk_end":
        expectByte(byte, LINE_FEED);
        return "size";
      case "trailer":
        return byte === RETURN ? "trailer_end" : this.#skipName(byte);
      case "trailer_name":
        return byte === COLON ? "trailer_line" : this.#skipName(byte);
      case "trailer_line":
        return byte === RETURN ? "trailer_line_end" : this.#skipByte(byte, "trailer_line");
      case "trailer_line_end":
        expectByte(byte, LINE_FEED);
        return "trailer";
      default:
        expectByte(byte, LINE_FEED);
        return "over";
    }
  }

  #sized(byte: number): Step {
    const digit = hexDigit(byte);
    if (digit >= 0 && this.#digits < MOST_DIGITS) {
      this.#left = this.#left * 16 + digit;
      this.#digits += 1;
      return "size";
    }
    if (digit >= 0 || this.#digits === 0) throw noSize();
    return byte === SPACE || byte === TAB ? "size_space" : behindSize(byte);
  }

  #skipByte(byte: number, step: Step): Step {
    if ((byte < SPACE && byte !== TAB) || byte === DELETE) throw noLine();
    this.#skip(1);
    return step;
  }

  #skipName(byte: number): Step {
    if (!NAME.test(String.fromCharCode(byte))) throw noLine();
    this.#skip(1);
    return "trailer_name";
  }

  #skip(bytes: number): void {
    this.#skipped += bytes;
    if (this.#skipped <= LONGEST_SKIPPED) return;
    throw new MalformedAnswer(`expected at most ${LONGEST_SKIPPED} bytes that are no answer, found more`);
  }
}

function tooLong(): MalformedAnswer {
  return new MalformedAnswer(`expected headers of at most ${LONGEST_HEAD} bytes, found more`);
}

function noSize(): MalformedAnswer {
  return new MalformedAnswer("expected the size of a chunk, found something else");
}

function noLine(): MalformedAnswer {
  return new MalformedAnswer("expected a line or its end, found something else");
}

function behindSize(byte: number): Step {
  if (byte === RETURN) return "size_end";
  if (byte === SEMICOLON) return "extension";
  throw noSize();
}

function expectByte(found: number, expected: number): void {
  if (found !== expected) throw noLine();
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
