// Paths as text: PA1 and PA2 of tool/path-access.ts.

import { expect, test } from "vitest";
import { isReachable, plainPath } from "../../src/tool/path-access.ts";
import { refusal } from "../base/refusal.ts";

test.each([
  ["docs", "docs"],
  ["docs/", "docs"],
  ["./docs//a/./b", "docs/a/b"],
  ["docs/../src", "src"],
  ["docs/a/../../src/x", "src/x"],
  ["", "."],
  [".", "."],
  ["a/..", "."],
  ["...", "..."],
  ["..a/b..", "..a/b.."],
  ["-rf", "-rf"],
  ["a b/ü", "a b/ü"],
])("[PA1] %j is the path %j", (path, plain) => {
  expect(plainPath(path)).toBe(plain);
});

test.each([
  "..",
  "../docs",
  "docs/../../x",
  "a/../..",
  "/etc/passwd",
  "/",
  "//docs",
  "docs\\..\\..\\x",
  "..\\x",
  "\\\\host\\share",
  "C:/windows",
  "c:docs",
  "docs/\0/x",
])("[PA1] %j leaves the root, is refused as a path and reaches nothing", (path) => {
  expect(refusal(() => plainPath(path)).code).toBe("invalid_input");
  expect(isReachable(path, ["."])).toBe(false);
  expect(isReachable(path, ["docs", "docs/x", "x"])).toBe(false);
});

test.each([
  ["docs", ["docs"], true],
  ["docs/a/b", ["docs"], true],
  ["docs/../docs/a", ["docs"], true],
  ["anything/at/all", ["."], true],
  [".", ["."], true],
  ["src/a", ["docs", "src"], true],
  [".", ["docs"], false],
  ["", ["docs"], false],
  ["docs", ["docs/a"], false],
  ["docs-private/key", ["docs"], false],
  ["docs/../private/key", ["docs"], false],
  ["Docs/a", ["docs"], false],
  ["docs", [], false],
  [".", [], false],
])("[PA2] whether %j is inside %j: %s", (path, paths, isInside) => {
  expect(isReachable(path, paths)).toBe(isInside);
});
