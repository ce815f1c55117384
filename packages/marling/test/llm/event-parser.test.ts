// The events of a stream as JSON: llm/native/event-parser.ts, rule LN14.

import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { EventParser } from "../../src/llm/native/event-parser.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** Every event as it is read, and as it would be parsed by itself. */
function readAndParsed(events: readonly string[]): readonly (readonly [unknown, unknown])[] {
  const parser = new EventParser();
  return events.map((data) => {
    const parsed: unknown = JSON.parse(data);
    const isObject = typeof parsed === "object" && parsed !== null;
    return [structuredClone(parser.parse(data)), isObject ? parsed : {}];
  });
}

function expectSame(events: readonly string[]): void {
  for (const [read, parsed] of readAndParsed(events)) expect(read).toEqual(parsed);
}

const chat = (content: string, more: object = {}): string =>
  JSON.stringify({ id: "c1", choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more });

/** How many events are parsed as a whole. */
function parsedOf(events: readonly string[]): number {
  const parser = new EventParser();
  const parse = vi.spyOn(JSON, "parse");
  for (const data of events) parser.parse(data);
  return parse.mock.calls.filter(([text]) => text.startsWith("{")).length;
}

describe("[LN14] what is read is what parsing each event would give", () => {
  test.each<readonly [string, readonly string[]]>([
    ["texts in one place", ["Hel", "lo", "", " ", "there", "?"].map((text) => chat(text))],
    [
      "texts that JSON writes otherwise",
      ['a"b', "c\\d", "e\nf", "\u0001", "\ud83d\ude00", "\u2028", "g"].map((text) => chat(text)),
    ],
    ["texts that begin and end alike", ["aXa", "aYa", "a", "aa", "aXYa", "X"].map((text) => chat(text))],
    [
      "texts that are elsewhere, too",
      ["c1", "stop", "c1", "id", "?", "??"].map((text) => chat(text, { system: "?" })),
    ],
    [
      "another place in between",
      [
        chat("a"),
        chat("b"),
        JSON.stringify({ type: "delta", delta: { text: "a" } }),
        JSON.stringify({ type: "delta", delta: { text: "b" } }),
        chat("c"),
        chat("d"),
      ],
    ],
    ["numbers that differ", [1, 2, 30, 4].map((n) => JSON.stringify({ index: n, text: "same" }))],
    ["names that differ", ["a", "b", "c"].map((name) => JSON.stringify({ [name]: "same" }))],
    [
      "names of prototypes",
      ["a", "b", "c"].map((text) => `{"__proto__":"${text}","x":{"__proto__":"${text}"}}`),
    ],
    ["members that are there twice", ["a", "b", "c"].map((text) => `{"a":"${text}","a":"z"}`)],
    ["spaces", ["a", "b", "c"].map((text) => ` { "a" : "${text}" } `)],
    ["events that are no objects", ["1", "2", '"a"', '"b"', "null", '["a"]', '["b"]', '["c"]']],
    ["texts deep down", ["a", "b", "c"].map((text) => `${'{"x":['.repeat(30)}"${text}"${"]}".repeat(30)}`)],
  ])("%s", (_what, events) => {
    expectSame(events);
  });

  test("any events", () => {
    const words = fc.oneof(
      fc.string(),
      fc.string({ unit: "grapheme" }),
      fc.constantFrom("a", "?", '"', "\\", "\n"),
    );
    const event = fc.oneof(
      words.map((text) => chat(text)),
      fc.tuple(words, words).map(([one, other]) => JSON.stringify({ delta: { text: one, other } })),
      fc.json(),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), (events) => {
        expectSame(events);
      }),
      { numRuns: 500 },
    );
  });
});

test("[LN14] what is no JSON is told, also where it begins and ends as the events before", () => {
  const parser = new EventParser();
  for (const text of ["a", "b", "c"]) parser.parse(chat(text));
  expect(parser.parse(chat("x").replace('"x"', '"x"y"'))).toBeUndefined();
  expect(parser.parse(chat("x").replace('"x"', '"x\\"'))).toBeUndefined();
  expect(parser.parse(chat("x").replace('"x"', '"\t"'))).toBeUndefined();
  expect(parser.parse("{")).toBeUndefined();
  expect(parser.parse(chat("d"))).toEqual(JSON.parse(chat("d")));
});

test("[LN14] a text is parsed with what is around it once", () => {
  const events = Array.from({ length: 1_000 }, (_, index) => chat(`word ${index}`));
  expect(parsedOf(events)).toBeLessThan(10);
});

test("[LN14] however many signs of a text are alike, and however long an event is, comparing is cheap", () => {
  const events = ["?".repeat(100), "?!?!?".repeat(20), "a".repeat(3_000_000), "b".repeat(3_000_000)];
  expectSame([...events, ...events].map((text) => chat(text)));
});

test("[LN14] events that have nothing in common are compared a few times only", () => {
  const events = Array.from({ length: 1_000 }, (_, index) => chat(`word ${index}`, { salt: `s${index}` }));
  expect(parsedOf(events) - events.length).toBeLessThan(10);
});
