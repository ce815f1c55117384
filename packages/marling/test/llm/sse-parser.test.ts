// Server-sent events, however the bytes are cut.

import { describe, expect, test } from "vitest";
import { SseParser } from "../../src/llm/native/sse-parser.ts";

/** The data of the events in these reads. */
function parse(...reads: readonly (string | Uint8Array)[]): readonly string[] {
  const found: string[] = [];
  const parser = new SseParser({ onData: (data) => found.push(data) });
  for (const read of reads) parser.push(typeof read === "string" ? Buffer.from(read) : read);
  parser.end();
  return found;
}

test.each([
  ["one line of data", "data: a\n\n", ["a"]],
  ["no space behind the colon", "data:a\n\n", ["a"]],
  ["only the first space is not data", "data:  a\n\n", [" a"]],
  ["several lines of data", "data: a\ndata: b\n\n", ["a\nb"]],
  ["an empty line of data", "data:\ndata: b\n\n", ["\nb"]],
  ["names, ids, comments and retry times", ": hi\nevent: x\nid: 1\nretry: 5\ndata: a\n\n", ["a"]],
  ["fields of similar names", "database: x\ndata: a\n\n", ["a"]],
  ["an event without data", "event: ping\n\ndata: a\n\n", ["a"]],
  ["carriage returns and line feeds", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
  ["carriage returns alone", "data: a\r\rdata: b\r\r", ["a", "b"]],
  ["a mark at the beginning", "\uFEFFdata: a\n\n", ["a"]],
  ["no empty line at the end", "data: a\n\ndata: b\n", ["a", "b"]],
  ["no end of the last line", "data: a\n\ndata: b", ["a", "b"]],
  ["nothing", "", []],
] as const)("[LN1] %s", (_title, text, expected) => {
  expect(parse(text)).toEqual(expected);
});

describe("[LN2] whatever is cut, and wherever", () => {
  const text =
    ': ok\r\ndata: {"a":\r\ndata: "Grüße 👩‍👩‍👧"}\r\n\r\ndata: 世界\ndata: two\n\nevent: x\ndata: three\n\n';
  const expected = ['{"a":\n"Grüße 👩‍👩‍👧"}', "世界\ntwo", "three"];

  test.each([1, 2, 3, 5, 7, 11, 64])("reads of %i bytes", (size) => {
    const bytes = Buffer.from(text);
    const reads = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size),
    );
    expect(parse(...reads)).toEqual(expected);
  });

  test("every place for a cut into two", () => {
    const bytes = Buffer.from(text);
    for (let at = 0; at <= bytes.length; at += 1) {
      expect(parse(bytes.subarray(0, at), bytes.subarray(at)), `cut at ${at}`).toEqual(expected);
    }
  });
});

test("[LN1] all events of a read are handed on within it, in their order", () => {
  const found: string[] = [];
  const parser = new SseParser({ onData: (data) => found.push(data) });
  parser.push(Buffer.from("data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4"));
  expect(found).toEqual(["1", "2", "3"]);
  parser.push(Buffer.from("2\n\n"));
  expect(found).toEqual(["1", "2", "3", "42"]);
});

test("[LN3] an event that is too long is refused, whether in one line or in many", () => {
  const parserOf = (): SseParser => new SseParser({ onData: () => {}, longestEvent: 20 });
  const line = parserOf();
  expect(line.push(Buffer.from("data: 0123456789"))).toBe(true);
  expect(line.push(Buffer.from("0123456789"))).toBe(false);
  const lines = parserOf();
  expect(lines.push(Buffer.from("data: 0123456789\n"))).toBe(true);
  expect(lines.push(Buffer.from("data: 0123456789\n"))).toBe(false);
  const many = parserOf();
  for (let count = 0; count < 10; count += 1) {
    expect(many.push(Buffer.from("data: 0123456789\n\n"))).toBe(true);
  }
});

test("[LN2] a line of eight mebibytes in small reads is put together once", () => {
  const piece = "x".repeat(8 * 1024);
  const reads = ["data: ", ...Array.from({ length: 1_024 }, () => piece), "\n\n"];
  expect(parse(...reads).map((data) => data.length)).toEqual([8 * 1024 * 1024]);
});
