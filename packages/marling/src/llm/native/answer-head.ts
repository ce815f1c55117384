// The head of an HTTP/1.1 answer.
//   LN15  what is in doubt is refused: a length that is said twice or in two ways, a coding that is not known, a line
//         that is no header.

import { NAME_SIGN, VALUE_SIGN } from "./header-signs.ts";

/** An answer that is none; what it says of the server is safe to show. */
export class MalformedAnswer extends Error {
  override readonly name = "MalformedAnswer";
}

/** How long a body is: so many bytes, chunks, or all that comes until the connection ends. */
export type BodyLength = number | "chunked" | "rest";

export class AnswerHead {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly length: BodyLength;
  /** How long the connection may be kept for another request, as far as the server says. */
  readonly keptMs: number;
  readonly #text: string;

  /** The head that a text is, which ends before the empty line. */
  constructor(text: string) {
    if (!HEAD.test(text)) throw new MalformedAnswer("expected the head of an answer of HTTP/1.1, found none");
    const lowered = text.toLowerCase();
    const framing = {
      coding: headerOf(lowered, "transfer-encoding"),
      count: headerOf(lowered, "content-length"),
      connection: headerOf(lowered, "connection"),
      hint: headerOf(lowered, "keep-alive"),
    };
    this.#text = text;
    this.status = Number(text.slice(STATUS_LENGTH - 3, STATUS_LENGTH));
    this.contentType = headerOf(lowered, "content-type");
    this.length = lengthOf(this.status, framing);
    const isClosed = lowered.startsWith("http/1.0") || hasOpenEnd(this.length, framing);
    this.keptMs = isClosed ? 0 : keptMsOf(framing);
  }

  /** What the server says of the status, in words. */
  get reason(): string {
    const end = this.#text.indexOf("\r\n");
    return this.#text.slice(STATUS_LENGTH + 1, end < 0 ? undefined : end);
  }

  /** All headers by lower-case names. Of most answers nobody asks for them. */
  headers(): Readonly<Record<string, string>> {
    return headersOf(this.#text.split("\r\n"));
  }
}

/** What tells how an answer is read, as its headers say it, in lower case. */
interface Framing {
  readonly coding: string | undefined;
  readonly count: string | undefined;
  readonly connection: string | undefined;
  readonly hint: string | undefined;
}

/**
 * The status line and the headers, each a line of its own. Signs that are no text, a carriage return or line feed alone
 * among them, are in none.
 */
const HEAD = new RegExp(
  `^HTTP/1\\.[01] [1-5]\\d\\d(?: ${VALUE_SIGN}*)?(?:\\r\\n${NAME_SIGN}+:${VALUE_SIGN}*)*$`,
);
const STATUS_LENGTH = "HTTP/1.1 200".length;
/** A server that closes idle connections is given a second less than it says. */
const CLOSING_MS = 1_000;

/** The value of a header, from a head in lower case. Several of one name are one, as they stand for a list. */
function headerOf(head: string, name: string): string | undefined {
  const start = `\r\n${name}:`;
  let value: string | undefined;
  for (let at = head.indexOf(start); at >= 0; at = head.indexOf(start, at + 1)) {
    const end = head.indexOf("\r\n", at + start.length);
    const found = withoutSpace(head.slice(at + start.length, end < 0 ? undefined : end));
    value = value === undefined ? found : `${value}, ${found}`;
  }
  return value;
}

/** The headers of a head that is one, behind its status line. */
function headersOf(lines: readonly string[]): Readonly<Record<string, string>> {
  const headers = Object.create(null) as Record<string, string>;
  for (let index = 1; index < lines.length; index += 1) {
    const line = lines[index] as string;
    const end = line.indexOf(":");
    const name = line.slice(0, end).toLowerCase();
    const value = withoutSpace(line.slice(end + 1));
    const before = headers[name];
    headers[name] = before === undefined ? value : `${before}, ${value}`;
  }
  return headers;
}

/** Without spaces and tabs around it. `trim` takes other signs for spaces, too, and a length with these is none. */
function withoutSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start += 1;
  while (start < end && isSpace(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

function isSpace(text: string, index: number): boolean {
  return text[index] === " " || text[index] === "\t";
}

function lengthOf(status: number, { coding, count }: Framing): BodyLength {
  if (status < 200 || status === 204 || status === 304) return 0;
  if (coding !== undefined) {
    if (coding === "chunked" && count === undefined) return "chunked";
    throw new MalformedAnswer("expected one length of the body, found several or a coding that is not known");
  }
  if (count === undefined) return "rest";
  if (/^\d{1,15}$/.test(count)) return Number(count);
  throw new MalformedAnswer("expected the length of the body, found no number");
}

/** Whether nothing tells for certain where the answer ends: the connection, or a body where none may be. */
function hasOpenEnd(length: BodyLength, { coding, count = "0" }: Framing): boolean {
  return length === "rest" || (length === 0 && (coding !== undefined || Number(count) !== 0));
}

function keptMsOf({ connection, hint }: Framing): number {
  if (connection !== undefined && /\bclose\b/.test(connection)) return 0;
  const seconds = hint === undefined ? undefined : /\btimeout=(\d{1,6})\b/.exec(hint)?.[1];
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000 - CLOSING_MS;
}
