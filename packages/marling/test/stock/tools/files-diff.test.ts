// Unified diffs, against what was written by hand and against git.

import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { diffLines } from "../../../src/stock/tools/files/diff-lines.ts";
import { unifiedDiff } from "../../../src/stock/tools/files/unified-diff.ts";
import { fileBench } from "./file-bench.ts";

const diff = (before: string | undefined, after: string | undefined, maxLines = 1_000): string =>
  unifiedDiff({ before, after }, { path: "f", bounds: { lines: maxLines, bytes: 10_000, lineLength: 50 } });

const numbered = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, at) => `${from + at}\n`).join("");

test("[FT31] changes that are far apart are hunks of their own", () => {
  const before = numbered(1, 20);
  const after = before.replace("2\n", "two\n").replace("18\n", "");
  expect(diff(before, after)).toBe(
    [
      ...["--- a/f", "+++ b/f", "@@ -1,5 +1,5 @@", " 1", "-2", "+two", " 3", " 4", " 5"],
      ...["@@ -15,6 +15,5 @@", " 15", " 16", " 17", "-18", " 19", " 20"],
    ].join("\n"),
  );
});

test("[FT31] new files, files that are gone and files that stayed", () => {
  expect(diff(undefined, "a\n")).toBe("--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a");
  expect(diff("a\n", undefined)).toBe("--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a");
  expect(diff("a\n", "a\n")).toBe("");
});

test("[FT31] a missing newline at the end is marked", () => {
  expect(diff("a", "a\n")).toBe("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a");
});

test("[FT31] a diff is cut at the limit and says how much is missing", () => {
  expect(diff("", numbered(1, 10), 3)).toBe(
    "--- a/f\n+++ b/f\n@@ -0,0 +1,10 @@\n+1\n+2\n... 8 more lines of the diff",
  );
});

test("[FT31] long lines and long diffs are cut", () => {
  expect(diff("", `${"x".repeat(60)}\n`)).toBe(`--- a/f\n+++ b/f\n@@ -0,0 +1,1 @@\n+${"x".repeat(49)} [cut]`);
  const lines = diff("", `${"y".repeat(40)}\n`.repeat(1_000)).split("\n");
  expect(lines).toHaveLength(2 + 237 + 1 + 1);
  expect(lines.at(-1)).toBe("... 763 more lines of the diff");
});

test("[FT31] the way from one text to the other is the shortest", () => {
  const changes = diffLines([..."abcabba"], [..."cbabac"]);
  expect(changes.filter(({ kind }) => kind !== "same")).toHaveLength(5);
  const side = (kind: string): string =>
    changes.flatMap((one) => (one.kind === kind ? [] : [one.line])).join("");
  expect(side("added")).toBe("abcabba");
  expect(side("removed")).toBe("cbabac");
});

test("[FT31] texts that have nothing in common are replaced as a whole, also large ones", () => {
  const lines = (sign: string): readonly string[] =>
    Array.from({ length: 20_000 }, (_, at) => `${sign}${at}\n`);
  const changes = diffLines(lines("a"), lines("b"));
  expect(changes).toHaveLength(40_000);
  expect(changes[19_999]).toEqual({ kind: "removed", line: "a19999\n" });
  expect(changes[20_000]).toEqual({ kind: "added", line: "b0\n" });
});

test("[FT31] git makes the new text of the old one, for many pairs of texts", () => {
  const bench = fileBench();
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  const text = (): string => {
    const lines = Array.from({ length: random(30) }, () => `${"abcde"[random(5)]}\n`).join("");
    return random(3) === 0 && lines.length > 1 ? lines.slice(0, -1) : lines;
  };
  for (let round = 0; round < 25; round += 1) {
    const [before, after] = [text(), text()];
    if (before === after) continue;
    bench.put("f", before);
    bench.put("d", `${diff(before, after)}\n`);
    execFileSync("git", ["apply", "d"], { cwd: bench.root, stdio: "pipe" });
    expect(bench.text("f")).toBe(after);
  }
});
