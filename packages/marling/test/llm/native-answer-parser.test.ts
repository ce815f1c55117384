// Answers of HTTP/1.1, however the bytes are cut: llm/native/answer-parser.ts and answer-head.ts, rule LN15.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerHead, MalformedAnswer } from "../../src/llm/native/answer-head.ts";
import { AnswerParser } from "../../src/llm/native/answer-parser.ts";

interface Answer {
  readonly head: AnswerHead | undefined;
  readonly body: string;
  /** Whether it was over before the connection ended, and whether it is then. */
  readonly isOver: boolean;
  readonly hasEnded: boolean;
  /** How many bytes were its own. */
  readonly size: number;
}

/** What these reads come to: an answer, or why they are none. */
function read(reads: readonly Buffer[]): Answer | string {
  const heads: AnswerHead[] = [];
  const pieces: string[] = [];
  const parser = new AnswerParser({
    onHead: (head) => heads.push(head),
    onBody: (bytes) => pieces.push(bytes.toString("latin1")),
  });
  let size = 0;
  try {
    for (const bytes of reads) if (!parser.isOver) size += parser.push(bytes);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(MalformedAnswer);
    return (thrown as MalformedAnswer).message;
  }
  expect(heads.length).toBeLessThanOrEqual(1);
  const { isOver } = parser;
  return { head: heads[0], body: pieces.join(""), isOver, hasEnded: parser.close(), size };
}

function cutAt(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const cuts = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

/** What a text comes to, as one read; expects the same of single bytes and of cuts anywhere. */
function readInEveryWay(text: string): Answer | string {
  const bytes = Buffer.from(text, "latin1");
  const whole = read([bytes]);
  expect(read([...bytes].map((byte) => Buffer.of(byte)))).toEqual(whole);
  const places = fc.array(fc.nat(), { maxLength: 6 });
  fc.assert(
    fc.property(places, (cuts) => {
      expect(read(cutAt(bytes, cuts))).toEqual(whole);
    }),
  );
  return whole;
}

const lines = (...all: readonly string[]): string => all.join("\r\n");
const headOf = (...headers: readonly string[]): string => lines("HTTP/1.1 200 OK", ...headers, "", "");
const CHUNKED = headOf("Transfer-Encoding: chunked");

describe("[LN15] an answer is read as it was meant, whatever is cut", () => {
  test.each<readonly [string, string, number, string]>([
    ["a body of a length", `${headOf("Content-Length: 5")}hello`, 200, "hello"],
    ["a body of no length", headOf("Content-Length: 0"), 200, ""],
    ["chunks", `${CHUNKED}5\r\nhello\r\n3\r\n, y\r\n2\r\nou\r\n0\r\n\r\n`, 200, "hello, you"],
    ["no chunk but the last", `${CHUNKED}0\r\n\r\n`, 200, ""],
    [
      "digits of either case",
      `${CHUNKED}0000a\r\n0123456789\r\nB\r\n0123456789a\r\n000\r\n\r\n`,
      200,
      "0123456789".repeat(2).concat("a"),
    ],
    ["chunks with extensions", `${CHUNKED}5;a=b;c="d e"\r\nhello\r\n0;last\r\n\r\n`, 200, "hello"],
    [
      "spaces around extensions",
      `${CHUNKED}5 \t ; a = b\r\nhello\r\n3 \r\nyou\r\n0\r\n\r\n`,
      200,
      "helloyou",
    ],
    ["trailers", `${CHUNKED}5\r\nhello\r\n0\r\nDigest: abc\r\nX-Empty:\r\n\r\n`, 200, "hello"],
    ["a coding in capitals", `${headOf("TRANSFER-ENCODING: Chunked")}2\r\n\r\n\r\n0\r\n\r\n`, 200, "\r\n"],
    [
      "a head in a body",
      `${headOf("Content-Length: 19")}HTTP/1.1 500 No\r\n\r\n`,
      200,
      "HTTP/1.1 500 No\r\n\r\n",
    ],
    ["no content", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", 204, ""],
    ["nothing new", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, ""],
    [
      "heads before the head",
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${headOf("Content-Length: 2")}ok`,
      200,
      "ok",
    ],
    ["the version before", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"],
    ["no words for a status", "HTTP/1.1 429\r\nContent-Length: 2\r\n\r\nno", 429, "no"],
    ["no words behind a space", "HTTP/1.1 500 \r\nContent-Length: 2\r\n\r\nno", 500, "no"],
    ["words beyond ASCII", "HTTP/1.1 404 N\xe3o h\xe1\r\nContent-Length: 2\r\n\r\n\xff\x00", 404, "\xff\x00"],
  ])("%s", (_title, text, status, body) => {
    const answer = { body, isOver: true, hasEnded: true, size: text.length };
    expect(readInEveryWay(text)).toMatchObject({ head: { status }, ...answer });
    expect(readInEveryWay(`${text}HTTP/1.1 200 OK\r\n`)).toMatchObject({ head: { status }, ...answer });
  });

  test("a body without a length goes on until the connection ends", () => {
    expect(readInEveryWay(`${headOf("X-A: b")}to the\r\n\r\nend`)).toMatchObject({
      head: { length: "rest", keptMs: 0 },
      body: "to the\r\n\r\nend",
      isOver: false,
      hasEnded: true,
    });
  });

  test.each([
    ["nothing", ""],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-Le"],
    ["a head before the head", "HTTP/1.1 100 Continue\r\n\r\n"],
    ["a body that is too short", `${headOf("Content-Length: 5")}hell`],
    ["half a chunk", `${CHUNKED}5\r\nhel`],
    ["chunks without the last", `${CHUNKED}5\r\nhello\r\n`],
    ["the last chunk without its end", `${CHUNKED}5\r\nhello\r\n0\r\n`],
    ["half a trailer", `${CHUNKED}0\r\nDigest: a`],
  ])("%s is no answer that has ended", (_title, text) => {
    expect(readInEveryWay(text)).toMatchObject({ isOver: false, hasEnded: false });
  });

  test("any body in any chunks", () => {
    const chunk = fc.tuple(
      fc.uint8Array({ minLength: 1, maxLength: 40 }),
      fc.stringMatching(/^(;[a-z]{0,9})?$/),
    );
    fc.assert(
      fc.property(fc.array(chunk), fc.array(fc.nat(), { maxLength: 20 }), (chunks, cuts) => {
        const sent = chunks.map(([data, extension]) => {
          const size = `${data.length.toString(16)}${extension}\r\n`;
          return Buffer.concat([Buffer.from(size), data, Buffer.from("\r\n")]);
        });
        const all = Buffer.concat([Buffer.from(CHUNKED), ...sent, Buffer.from("0\r\n\r\n")]);
        const body = Buffer.concat(chunks.map(([data]) => data)).toString("latin1");
        expect(read(cutAt(all, cuts))).toMatchObject({ body, isOver: true, size: all.length });
      }),
    );
  });

  test("[LN1] the body of a read is handed on without a copy", () => {
    const bytes = Buffer.from(`${CHUNKED}5\r\nhello\r\n`);
    const taken: Buffer[] = [];
    new AnswerParser({ onHead: () => {}, onBody: (piece) => taken.push(piece) }).push(bytes);
    expect(taken.map(({ buffer, length }) => [buffer === bytes.buffer, length])).toEqual([[true, 5]]);
  });
});

describe("[LN15] what is in doubt is refused, whatever is cut", () => {
  const NO_HEAD = "expected the head of an answer of HTTP/1.1, found none";
  const LENGTHS = "expected one length of the body, found several or a coding that is not known";
  const NO_NUMBER = "expected the length of the body, found no number";
  const NO_SIZE = "expected the size of a chunk, found something else";
  const NO_LINE = "expected a line or its end, found something else";

  test.each([
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 0",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: \xa0chunked",
    "Transfer-Encoding:",
  ])("the length in %j", (headers) => {
    expect(readInEveryWay(`${headOf(headers)}5\r\nhello\r\n0\r\n\r\n`)).toBe(LENGTHS);
  });

  test.each([
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5, 5",
    "Content-Length: -5",
    "Content-Length: +5",
    "Content-Length: 0x5",
    "Content-Length: 5.0",
    "Content-Length: 5 5",
    "Content-Length: 5\xa0",
    "Content-Length: 1000000000000000",
    "Content-Length:",
  ])("the length in %j", (headers) => {
    expect(readInEveryWay(`${headOf(headers)}hello`)).toBe(NO_NUMBER);
  });

  test.each([
    "no colon",
    "Space before : colon",
    " folded: line",
    ": no name",
    "N\xe4me: of other letters",
    "X: return \r alone",
    "X: feed \n alone",
    "X: a\n\r\nY: b",
    "X: zero \0",
    "X: bell \x07",
    "X: delete \x7f",
  ])("the header %j", (header) => {
    expect(readInEveryWay(`${headOf(header, "Content-Length: 2")}ok`)).toBe(NO_HEAD);
  });

  test.each([
    "HTTP/2 200 OK",
    "HTTP/1.2 200 OK",
    "http/1.1 200 OK",
    "HTTP/1.1 99 Low",
    "HTTP/1.1 600 High",
    "HTTP/1.1 2000 Long",
    "HTTP/1.1  200 OK",
    "HTTP/1.1\t200 OK",
    "HTTP/1.1 200OK",
    "HTTP/1.1 200 O\rK",
    "HTTP/1.1 200 OK\0",
    "ICY 200 OK",
    "\r\nHTTP/1.1 200 OK",
    "220 mail.example ready",
  ])("the first line %j", (line) => {
    expect(readInEveryWay(lines(line, "Content-Length: 2", "", "ok"))).toBe(NO_HEAD);
  });

  test.each(["", "g", "-5", "0x5", " 5", ";a", "5 5", "5,", "5\n", "0000000000005", "ffffffffffffffff"])(
    "the size %j of a chunk",
    (size) => {
      expect(readInEveryWay(`${CHUNKED}${size}\r\nhello\r\n0\r\n\r\n`)).toBe(NO_SIZE);
    },
  );

  test.each([
    ["a line feed alone in an extension", "5;a\nhello\r\n0\r\n\r\n"],
    ["a return alone in an extension", "5;a\rb\r\nhello\r\n0\r\n\r\n"],
    ["a zero in an extension", "5;a\0\r\nhello\r\n0\r\n\r\n"],
    ["a return alone behind a size", "5\rhello\r\n0\r\n\r\n"],
    ["a chunk that is longer", "5\r\nhello!\r\n0\r\n\r\n"],
    ["a chunk that is shorter", "6\r\nhello\r\n0\r\n\r\n"],
    ["a line feed alone behind a chunk", "5\r\nhello\n0\r\n\r\n"],
    ["a line feed alone behind the last chunk", "0\r\n\n"],
    ["a line feed alone behind a trailer", "0\r\nX: a\n\r\n"],
    ["a return alone in a trailer", "0\r\nX: a\rb\r\n\r\n"],
    ["a zero in a trailer", "0\r\nX: \0\r\n\r\n"],
    ["a trailer without a colon", "0\r\nnothing\r\n\r\n"],
    ["a trailer without a name", "0\r\n: a\r\n\r\n"],
    ["a trailer that is folded", "0\r\nX: a\r\n b\r\n\r\n"],
    ["another answer for a trailer", "0\r\nHTTP/1.1 200 OK\r\n\r\n"],
  ])("%s", (_title, chunks) => {
    expect(readInEveryWay(`${CHUNKED}${chunks}`)).toBe(NO_LINE);
  });

  test("another protocol", () => {
    const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n";
    expect(readInEveryWay(upgrade)).toBe("expected an answer, found another protocol");
  });
});

describe("[LN15] what is kept or skipped is bounded, to the byte and whatever is cut", () => {
  const LONGEST = 32 * 1024;
  const TOO_LONG = `expected headers of at most ${LONGEST} bytes, found more`;
  const TOO_MUCH = `expected at most ${LONGEST} bytes that are no answer, found more`;
  const cuts = [[], [1], [LONGEST - 1], [LONGEST, LONGEST + 1], [LONGEST + 2], [10, LONGEST + 3]] as const;
  const readInCuts = (text: string): Answer | string => {
    const bytes = Buffer.from(text, "latin1");
    const results = cuts.map((places) => read(cutAt(bytes, places)));
    for (const result of results) expect(result).toEqual(results[0]);
    return results[0] as Answer | string;
  };
  const headOfSize = (size: number): string => {
    const start = lines("HTTP/1.1 200 OK", "Content-Length: 2", "X: ");
    return `${start}${"x".repeat(size - start.length)}\r\n\r\nok`;
  };

  test("a head", () => {
    expect(readInCuts(headOfSize(LONGEST))).toMatchObject({ body: "ok", isOver: true });
    expect(readInCuts(headOfSize(LONGEST + 1))).toBe(TOO_LONG);
    expect(readInCuts(headOfSize(LONGEST * 3))).toBe(TOO_LONG);
    expect(readInCuts(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(LONGEST)}`)).toBe(TOO_LONG);
  });

  test("heads before the head", () => {
    const early = "HTTP/1.1 102 Processing";
    const count = Math.floor(LONGEST / early.length);
    const answer = `${headOf("Content-Length: 2")}ok`;
    expect(readInCuts(`${early}\r\n\r\n`.repeat(count) + answer)).toMatchObject({ body: "ok" });
    expect(readInCuts(`${early}\r\n\r\n`.repeat(count + 1) + answer)).toBe(TOO_MUCH);
  });

  test("the extension of a chunk, each for itself", () => {
    const chunk = (size: number): string => `1;${"x".repeat(size)}\r\na\r\n`;
    expect(readInCuts(`${CHUNKED}${chunk(LONGEST).repeat(3)}0\r\n\r\n`)).toMatchObject({ body: "aaa" });
    expect(readInCuts(`${CHUNKED}${chunk(1)}${chunk(LONGEST + 1)}0\r\n\r\n`)).toBe(TOO_MUCH);
  });

  test("trailers, and the extension before them", () => {
    const trailers = (count: number): string => `0;xx\r\n${"X:xx\r\n".repeat(count)}\r\n`;
    const count = Math.floor((LONGEST - 2) / 3);
    expect(readInCuts(CHUNKED + trailers(count))).toMatchObject({ isOver: true });
    expect(readInCuts(CHUNKED + trailers(count + 1))).toBe(TOO_MUCH);
  });
});

describe("heads", () => {
  test("[LN15] headers are by lower-case names, and those of one name are one", () => {
    const text = lines(
      "HTTP/1.1 200 OK",
      "X-A: 1",
      "set-cookie: a",
      "x-a:\t2 \t",
      "X-Empty:",
      "X-B: \xa0\xfc ",
    );
    const headers = new AnswerHead(text).headers();
    expect({ ...headers }).toEqual({ "x-a": "1, 2", "set-cookie": "a", "x-empty": "", "x-b": "\xa0\xfc" });
  });

  test("[LN15] names of prototypes are names like others", () => {
    const headers = new AnswerHead("HTTP/1.1 200 OK\r\n__proto__: a\r\nconstructor: b").headers();
    expect(Object.entries(headers)).toEqual([
      ["__proto__", "a"],
      ["constructor", "b"],
    ]);
    expect(new AnswerHead("HTTP/1.1 200 OK").headers().constructor).toBeUndefined();
  });

  test.each<readonly [string, number]>([
    ["HTTP/1.1 200 OK\r\nContent-Length: 1", Number.POSITIVE_INFINITY],
    ["HTTP/1.1 200 OK\r\nContent-Length: 0", Number.POSITIVE_INFINITY],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", Number.POSITIVE_INFINITY],
    ["HTTP/1.1 204 No Content", Number.POSITIVE_INFINITY],
    ["HTTP/1.1 204 No Content\r\nContent-Length: 0", Number.POSITIVE_INFINITY],
    ["HTTP/1.1 204 No Content\r\nContent-Length: 5", 0],
    ["HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked", 0],
    ["HTTP/1.1 304 Not Modified\r\nContent-Length: 5", 0],
    ["HTTP/1.1 200 OK", 0],
    ["HTTP/1.0 200 OK\r\nContent-Length: 1", 0],
    ["HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive", 0],
    ["HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", 0],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close", 0],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x-a, Close", 0],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nConnection: close", 0],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: timeout=5", 4_000],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: max=9, Timeout=72", 71_000],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: timeout=1", 0],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: timeout=0", -1_000],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nKeep-Alive: max=9", Number.POSITIVE_INFINITY],
  ])("[LN5] a connection behind %j is kept as long as is safe", (text, keptMs) => {
    expect(new AnswerHead(text).keptMs).toBe(keptMs);
  });
});
