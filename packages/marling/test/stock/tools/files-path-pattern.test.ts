// Patterns of paths, on their own.

import { expect, test } from "vitest";
import { expandBraces, parsePathPattern } from "../../../src/stock/tools/files/path-pattern.ts";

test.each([
  ["*.ts", "a.ts", true],
  ["*.ts", "src/a.ts", false],
  ["*.ts", "a.tsx", false],
  ["**/*.ts", "a.ts", true],
  ["**/*.ts", "x/y/a.ts", true],
  ["src/**", "src", false],
  ["src/**", "src/a", true],
  ["src/**", "src/a/b", true],
  ["src/**/b", "src/b", true],
  ["src/**/b", "src/x/y/b", true],
  ["src/**/b", "src/x/bb", false],
  ["a?c", "abc", true],
  ["a?c", "ac", false],
  ["[a-c]x", "bx", true],
  ["[!a-c]x", "bx", false],
  ["[^a-c]x", "dx", true],
  ["[]]x", "]x", true],
  ["[ab", "[ab", true],
  ["\\*", "*", true],
  ["\\*", "a", false],
  ["*a*b*c", "xxaxxbxxc", true],
  ["*a*b*c", "xxaxxcxxb", false],
  ["{a,b}.ts", "b.ts", true],
  ["{a,b}.ts", "c.ts", false],
  ["src/{x,y/**}/*.{ts,js}", "src/y/z/q.js", true],
  ["{a}", "{a}", true],
  ["__proto__", "__proto__", true],
  [".*", ".env", true],
  ["./a", "a", true],
])("[FT22] %s stands for %s: %s", (pattern, path, expected) => {
  expect(parsePathPattern(pattern).matches(path.split("/"))).toBe(expected);
});

test.each([
  ["src/*.ts", "src", true],
  ["src/*.ts", "lib", false],
  ["src/*.ts", "src/x", false],
  ["**/*.ts", "any/where", true],
  ["{a,b}/c", "b", true],
])("[FT22] %s may stand for something below %s: %s", (pattern, path, expected) => {
  expect(parsePathPattern(pattern).reaches(path.split("/"))).toBe(expected);
});

test("[FT22] braces are expanded in order, nested ones too", () => {
  expect(expandBraces("a{b,c{d,e}}f")).toEqual(["abf", "acdf", "acef"]);
  expect(expandBraces("a\\{b,c}")).toEqual(["a\\{b,c}"]);
  expect(expandBraces("a{b,c")).toEqual(["a{b,c"]);
});

test("[FT22] a pattern made to take for ever answers, and braces that multiply are refused", () => {
  const name = "a".repeat(5_000);
  expect(parsePathPattern(`${"*a".repeat(500)}b`).matches([name])).toBe(false);
  const deep = Array.from({ length: 60 }, () => "a");
  expect(parsePathPattern(`${"**/a/".repeat(30)}b`).matches(deep)).toBe(false);
  expect(() => parsePathPattern("{a,b}".repeat(12))).toThrow(/at most 256 alternatives/);
  expect(() => parsePathPattern("a".repeat(2_001))).toThrow(/at most 2000 characters/);
});
