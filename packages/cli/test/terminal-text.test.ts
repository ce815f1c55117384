// Text, keys and the line on their own: sections Text and Keys of SPEC.md.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Key, KeyReader } from "../src/key-reader.ts";
import { LineEditor } from "../src/line-editor.ts";
import { oneLine, PlainTextStream, plainText } from "../src/plain-text.ts";
import { chooseStyle } from "../src/style.ts";
import { fit, widthOf, wrapLine } from "../src/text-width.ts";

const ATTACKS: readonly (readonly [text: string, plain: string])[] = [
  ["a\x1b[31mb\x1b[0mc", "abc"],
  ["a\x1b]0;title\x07b", "ab"],
  ["a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"],
  ["a\x1bP+q544e\x1b\\b", "ab"],
  ["a\x1b_hidden\x1b\\b", "ab"],
  ["a\u009b31mb", "ab"],
  ["a\x1b[2J\x1b[Hb", "ab"],
  ["a\x1b(0b", "ab"],
  ["a\x1bcb", "ab"],
  ["a\x07\x08\x7fb\x00", "ab"],
  ["one\rtwo", "onetwo"],
  ["one\r\ntwo\tthree", "one\ntwo  three"],
  ["a\u202eb\u2066c", "abc"],
  ["a\x1b]52;c;c2VjcmV0", "a"],
];

test("[PT1] no escape sequence or control character is left in a text", () => {
  for (const [text, plain] of ATTACKS) expect(plainText(text), JSON.stringify(text)).toBe(plain);
  expect(oneLine(" a\n\x1b[1m b \t c ")).toBe("a b c");
});

test("[PT1] a sequence that is split over pieces is left out as well", () => {
  for (const [text, plain] of ATTACKS.filter(([each]) => !each.includes("\r"))) {
    for (let at = 1; at < text.length; at += 1) {
      const stream = new PlainTextStream();
      const pieces = stream.push(text.slice(0, at)) + stream.push(text.slice(at));
      expect(pieces, `${JSON.stringify(text)} at ${at}`).toBe(plain);
    }
  }
});

test("[PT1] a sequence that never ends holds back no more than a few kilobytes", () => {
  const stream = new PlainTextStream();
  stream.push("\x1b]");
  for (let at = 0; at < 100; at += 1) stream.push("x".repeat(100));
  expect(stream.push("still here")).toContain("still here");
});

test("[TW1] wide characters take two columns, marks none, emoji two", () => {
  expect(widthOf("tea")).toBe(3);
  expect(widthOf("日本")).toBe(4);
  expect(widthOf("e\u0301")).toBe(1);
  expect(widthOf("🍵")).toBe(2);
  expect(widthOf("👩\u200d🚀")).toBe(2);
  expect(widthOf("\x1b[31mred\x1b[39m")).toBe(3);
});

test("[TW3] lines break at spaces, long words inside, and never in a grapheme", () => {
  expect(wrapLine("one two three", 8)).toEqual(["one two", "three"]);
  expect(wrapLine("one two  three", 7)).toEqual(["one two", " three"]);
  expect(wrapLine("abcdefghij", 4)).toEqual(["abcd", "efgh", "ij"]);
  expect(wrapLine("日本語です", 5)).toEqual(["日本", "語で", "す"]);
  expect(wrapLine("    indented code here", 12)).toEqual(["    indented", "code here"]);
  expect(wrapLine("", 10)).toEqual([""]);
  for (const row of wrapLine("x 日本 ".repeat(50), 11)) expect(widthOf(row)).toBeLessThanOrEqual(11);
  expect(fit("abcdef", 4)).toBe("abc…");
  expect(fit("日本語", 4)).toBe("日…");
});

test("[TW3] rows before the last do not change when text is added", () => {
  const text = "the quick brown fox jumps over the lazy dog and 日本 goes on";
  for (let at = 1; at < text.length; at += 1) {
    const before = wrapLine(text.slice(0, at), 13).slice(0, -1);
    expect(wrapLine(text, 13).slice(0, before.length)).toEqual(before);
  }
});

test("[ST1] FORCE_COLOR wins over NO_COLOR, which wins over the terminal", () => {
  const red = (isTerminal: boolean, env: Record<string, string>): string =>
    chooseStyle({ isTerminal, env }).red("x");
  expect(red(false, {})).toBe("x");
  expect(red(true, {})).toBe("\x1b[31mx\x1b[39m");
  expect(red(true, { NO_COLOR: "1" })).toBe("x");
  expect(red(true, { TERM: "dumb" })).toBe("x");
  expect(red(false, { NO_COLOR: "1", FORCE_COLOR: "1" })).toBe("\x1b[31mx\x1b[39m");
  expect(red(true, { FORCE_COLOR: "0" })).toBe("x");
});

function keysOf(...chunks: readonly (string | Buffer)[]): {
  readonly keys: Key[];
  readonly reader: KeyReader;
} {
  const keys: Key[] = [];
  const reader = new KeyReader((key) => keys.push(key));
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  return { keys, reader };
}

test("[KR1] characters of many bytes arrive whole, however they are cut", () => {
  const bytes = Buffer.from("né🍵");
  const { keys } = keysOf(...[...bytes].map((byte) => Buffer.from([byte])));
  expect(keys.map((key) => (key.kind === "text" ? key.text : key))).toEqual(["n", "é", "🍵"]);
});

test("[KR1] a paste is one key, with whatever is in it", () => {
  const { keys } = keysOf("\x1b[200~one\r\x1b[A", "\ttwo\x1b[201~\r");
  expect(keys).toEqual([
    { kind: "paste", text: "one\r\x1b[A\ttwo" },
    { kind: "key", name: "enter" },
  ]);
});

test("[KR2] sequences are keys, also when they are cut; unknown ones are left out; a bare escape is Esc", async () => {
  const { keys, reader } = keysOf("\x1b[A\x1b[1;5D\x1b[99~x\x1b", "[B", "\x1b\r\x03");
  expect(keys).toEqual([
    { kind: "key", name: "up" },
    { kind: "key", name: "word_left" },
    { kind: "text", text: "x" },
    { kind: "key", name: "down" },
    { kind: "key", name: "newline" },
    { kind: "key", name: "interrupt" },
  ]);
  reader.push(Buffer.from("\x1b"));
  expect(keys).toHaveLength(6);
  while (keys.length < 7) await sleep(10);
  expect(keys[6]).toEqual({ kind: "key", name: "escape" });
});

test("[LE1] characters are deleted whole, and words to their beginning", () => {
  const editor = new LineEditor();
  editor.insert("tea e");
  editor.insert("\u0301");
  editor.apply("backspace");
  expect(editor.text).toBe("tea ");
  editor.insert("with 日本 milk");
  editor.apply("delete_word");
  editor.apply("left");
  editor.apply("backspace");
  expect(editor.text).toBe("tea with 日 ");
  expect(editor.beforeCursor).toBe("tea with 日");
  editor.apply("home");
  editor.apply("delete");
  editor.apply("end");
  editor.apply("newline");
  expect(editor.text).toBe("ea with 日 \n");
});

test("[LE2] Up and Down walk through what was sent and keep what was being written", () => {
  const editor = new LineEditor();
  for (const line of ["one", "two", "two"]) {
    editor.insert(line);
    editor.take();
  }
  editor.insert("draft");
  editor.apply("up");
  expect(editor.text).toBe("two");
  editor.apply("up");
  editor.apply("up");
  expect(editor.text).toBe("one");
  editor.apply("down");
  editor.apply("down");
  expect(editor.text).toBe("draft");
});
