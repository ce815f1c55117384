// .gitignore rules, on their own and as git itself reads them.

import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { isIgnored, parseIgnoreRules } from "../../../src/stock/tools/files/ignore-rules.ts";
import { fileBench } from "./file-bench.ts";

test.each([
  ["*.log", "a/b.log", true],
  ["/a.log", "b/a.log", false],
  ["/a.log", "a.log", true],
  ["doc/*.txt", "doc/a.txt", true],
  ["doc/*.txt", "x/doc/a.txt", false],
  ["# a", "# a", false],
  ["\\#a", "#a", true],
  ["\\!a", "!a", true],
  ["a ", "a", true],
  ["a\\ ", "a ", true],
  ["**/x", "p/q/x", true],
  ["a/**/b", "a/b", true],
  ["build/", "build", false],
  ["{a,b}", "a", false],
])("[FT23] the rule %j leaves the file %j out: %s", (rule, path, expected) => {
  const scopes = [{ depth: 0, rules: parseIgnoreRules(rule) }];
  expect(isIgnored(scopes, path.split("/"), { isFolder: false })).toBe(expected);
});

test("[FT23] the last rule that fits decides, and a deeper file comes after those above it", () => {
  const scopes = [
    { depth: 0, rules: parseIgnoreRules("*.log\n!keep.log\nbuild/") },
    { depth: 1, rules: parseIgnoreRules("keep.log\n/only.txt") },
  ];
  expect(isIgnored(scopes.slice(0, 1), ["keep.log"], { isFolder: false })).toBe(false);
  expect(isIgnored(scopes, ["d", "keep.log"], { isFolder: false })).toBe(true);
  expect(isIgnored(scopes, ["d", "only.txt"], { isFolder: false })).toBe(true);
  expect(isIgnored(scopes, ["d", "e", "only.txt"], { isFolder: false })).toBe(false);
  expect(isIgnored(scopes, ["build"], { isFolder: true })).toBe(true);
});

test("[FT23] a walk lists what git would add", async () => {
  const bench = fileBench();
  const rules = [
    "*.log",
    "!keep.log",
    "build/",
    "/top.txt",
    "deep/**/x.js",
    "a[0-9].md",
    "sp\\ ace",
    "**/cache",
  ];
  bench.put(".gitignore", `${rules.join("\n")}\n`);
  bench.put("sub/.gitignore", "!b.log\n*.tmp\n/local\n");
  const files = [
    ...["a.log", "keep.log", "top.txt", "x/top.txt", "build/out.js", "src/build/out.js", "src/build.ts"],
    ...["deep/x.js", "deep/p/q/x.js", "deep/y.js", "a1.md", "ab.md", "sp ace", "c/cache/f", "cached/f"],
    ...["sub/b.log", "sub/c.log", "sub/d.tmp", "sub/local", "sub/e/local", "build2"],
  ];
  for (const file of files) bench.put(file, "x\n");
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
  execFileSync("git", ["init", "-q"], { cwd: bench.root, env });
  const known = execFileSync("git", ["ls-files", "-o", "--exclude-standard"], {
    cwd: bench.root,
    encoding: "utf8",
    env,
  });
  const expected = known.trim().split("\n").sort();
  expect(expected).toContain("sub/b.log");
  const found = await bench.succeed("glob", { pattern: "**" });
  expect(String(found).split("\n")).toEqual(expected);
});
