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

export interface AnswerHead {
  readonly status: number;
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly length: BodyLength;
  /** How long the connection may be kept for another request, as far as the server says. */
  readonly keptMs: number;
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

/** The head that a text is, which ends before the empty line. */
export function readHead(text: string): AnswerHead {
  if (!HEAD.test(text)) throw new MalformedAnswer("expected the head of an answer of HTTP/1.1, found none");
  const headers = headersOf(text.split("\r\n"));
  const status = Number(text.slice(STATUS_LENGTH - 3, STATUS_LENGTH));
  const length = lengthOf(status, headers);
  const keptMs = text.startsWith("HTTP/1.0") || hasOpenEnd(length, headers) ? 0 : keptMsOf(headers);
  return { status, headers, length, keptMs };
}

/** The headers of a head that is one, behind its status line. */
function headersOf(lines: readonly string[]): Record<string, string> {
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

function lengthOf(status: number, headers: Readonly<Record<string, string>>): BodyLength {
  const { "transfer-encoding": coding, "content-length": count } = headers;
  if (status < 200 || status === 204 || status === 304) return 0;
  if (coding !== undefined) {
    if (coding.toLowerCase() === "chunked" && count === undefined) return "chunked";
    throw new MalformedAnswer("expected one length of the body, found several or a coding that is not known");
  }
  if (count === undefined) return "rest";
  if (/^\d{1,15}$/.test(count)) return Number(count);
  throw new MalformedAnswer("expected the length of the body, found no number");
}

/** Whether nothing tells for certain where the answer ends: the connection, or a body where none may be. */
function hasOpenEnd(length: BodyLength, headers: Readonly<Record<string, string>>): boolean {
  const { "transfer-encoding": coding, "content-length": count = "0" } = headers;
  return length === "rest" || (length === 0 && (coding !== undefined || Number(count) !== 0));
}

function keptMsOf({ connection, "keep-alive": hint }: Readonly<Record<string, string>>): number {
  if (connection !== undefined && /\bclose\b/i.test(connection)) return 0;
  const seconds = hint === undefined ? undefined : /\btimeout=(\d{1,6})\b/i.exec(hint)?.[1];
  return seconds === undefined ? Number.POSITIVE_INFINITY : Number(seconds) * 1_000 - CLOSING_MS;
}
