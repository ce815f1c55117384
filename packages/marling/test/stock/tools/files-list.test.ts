// list_files and glob

import { expect, test } from "vitest";
import { type FileBench, fileBench } from "./file-bench.ts";

function tree(bench: FileBench, ...paths: readonly string[]): void {
  for (const path of paths) bench.put(path, "x\n");
}

const linesOf = (text: unknown): readonly string[] => String(text).split("\n");

test("[FT24] a folder is listed one level deep, sorted, folders with a slash", async () => {
  const bench = fileBench();
  tree(bench, "b.txt", "a/x.txt", "a/y/z.txt", "a.txt", ".hidden");
  expect(linesOf(await bench.succeed("list_files", {}))).toEqual([".hidden", "a.txt", "a/", "b.txt"]);
  expect(linesOf(await bench.succeed("list_files", { path: "a", depth: 2 }))).toEqual([
    "a/x.txt",
    "a/y/",
    "a/y/z.txt",
  ]);
});

test("[FT24] what is no folder is refused, and an empty one is told", async () => {
  const bench = fileBench();
  tree(bench, "a.txt");
  expect((await bench.fail("list_files", { path: "a.txt" })).code).toBe("not_a_directory");
  expect((await bench.fail("list_files", { path: "gone" })).code).toBe("not_found");
  expect((await bench.fail("glob", { pattern: "*", path: "gone/too" })).code).toBe("not_found");
  expect(await bench.succeed("glob", { pattern: "*.md" })).toBe("(Nothing found below the root.)");
});

test("[FT22] a pattern finds files in order of their paths, relative to the folder and shown from the root", async () => {
  const bench = fileBench();
  tree(bench, "src/b.ts", "src/a.ts", "src/a.tsx", "src/a/c.ts", "src/a/c.js", "test/a.ts", "a.ts");
  expect(linesOf(await bench.succeed("glob", { pattern: "src/**/*.{ts,tsx}" }))).toEqual([
    "src/a.ts",
    "src/a.tsx",
    "src/a/c.ts",
    "src/b.ts",
  ]);
  expect(linesOf(await bench.succeed("glob", { pattern: "*.ts", path: "src" }))).toEqual([
    "src/a.ts",
    "src/b.ts",
  ]);
  expect(linesOf(await bench.succeed("glob", { pattern: "*.ts" }))).toEqual(["a.ts"]);
});

test("[FT22] a pattern cannot climb out of its folder", async () => {
  const bench = fileBench();
  tree(bench, "a/x.txt");
  for (const pattern of ["../*", "../../**", "a/../../outside/*", "/etc/*"])
    expect(await bench.succeed("glob", { pattern, path: "a" })).toBe("(Nothing found below a.)");
  expect((await bench.fail("glob", { pattern: "{a,b}".repeat(20) })).code).toBe("invalid_pattern");
});

test("[FT23] what .gitignore leaves out is listed with includeIgnored only, and .git never", async () => {
  const bench = fileBench();
  tree(bench, "node_modules/p/i.js", "a.log", "a.js", ".git/config", "sub/.git/config", "sub/b.js");
  bench.put(".gitignore", "node_modules\n*.log\n");
  bench.put("sub/.gitignore", "b.js\n");
  expect(linesOf(await bench.succeed("glob", { pattern: "**/*" }))).toEqual([
    ".gitignore",
    "a.js",
    "sub/.gitignore",
  ]);
  expect(linesOf(await bench.succeed("glob", { pattern: "**/*", includeIgnored: true }))).toEqual([
    ".gitignore",
    "a.js",
    "a.log",
    "node_modules/p/i.js",
    "sub/.gitignore",
    "sub/b.js",
  ]);
  expect(await bench.succeed("list_files", { path: "sub" })).toBe("sub/.gitignore");
});

test("[FT23] rules above the folder where a walk begins hold in it", async () => {
  const bench = fileBench();
  tree(bench, "a/b/x.log", "a/b/x.txt", "a/b/y.txt");
  bench.put(".gitignore", "*.log\n");
  bench.put("a/.gitignore", "b/y.txt\n");
  expect(await bench.succeed("glob", { pattern: "**", path: "a/b" })).toBe("a/b/x.txt");
});

test("[FT23] patterns of the host hold always, and false turns .gitignore files off", async () => {
  const bench = fileBench({ ignore: ["*.min.js", "/dist"] });
  tree(bench, "a.min.js", "a.js", "dist/a.js", "src/dist/a.js", "b.log");
  bench.put(".gitignore", "*.log\n");
  expect(linesOf(await bench.succeed("glob", { pattern: "**/*.{js,log}" }))).toEqual([
    "a.js",
    "src/dist/a.js",
  ]);
  expect(linesOf(await bench.succeed("glob", { pattern: "**/*.{js,log}", includeIgnored: true }))).toEqual([
    "a.js",
    "b.log",
    "src/dist/a.js",
  ]);
  const open = fileBench({ ignore: false });
  tree(open, "b.log");
  open.put(".gitignore", "*.log\n");
  expect(await open.succeed("glob", { pattern: "*.log" })).toBe("b.log");
});

test("[FT23] a file that a crash left half-written is not listed", async () => {
  const bench = fileBench();
  tree(bench, "a.txt", ".marling-0123456789abcdef.tmp");
  expect(await bench.succeed("list_files", {})).toBe("a.txt");
});

test("[FT24] no more results than the limit, the first ones, and the answer says so", async () => {
  const bench = fileBench({ limits: { results: 2 } });
  tree(bench, "c", "a", "b");
  expect(await bench.succeed("glob", { pattern: "*" })).toBe(
    "a\nb\n(The first 2 paths; there are more. Use a narrower pattern or folder.)",
  );
  expect(await bench.succeed("glob", { pattern: "{a,c}" })).toBe("a\nc");
});

test("[FT24] no more files are looked at than the limit, and the answer says so", async () => {
  const bench = fileBench({ limits: { visits: 4 } });
  tree(bench, "a", "b", "d/e", "d/f", "g");
  expect(await bench.succeed("glob", { pattern: "**" })).toBe(
    "a\nb\nd/e\n(Stopped after 4 files and folders: name a smaller folder.)",
  );
});

test("[FT24] a folder with more names than one walk may visit is cut, not sorted as a whole", async () => {
  const bench = fileBench({ limits: { visits: 50 } });
  tree(bench, ...Array.from({ length: 60 }, (_, at) => `f${at}`));
  const lines = linesOf(await bench.succeed("glob", { pattern: "*" }));
  expect(lines).toHaveLength(51);
  expect(lines.at(-1)).toBe("(Stopped after 50 files and folders: name a smaller folder.)");
});

test("[FT26] a cancelled walk ends with the reason of the signal", async () => {
  const bench = fileBench();
  tree(bench, "a", "b");
  const reason = new Error("enough");
  const { signal } = { signal: AbortSignal.abort(reason) };
  await expect(bench.succeed("glob", { pattern: "**" }, { signal })).rejects.toBe(reason);
  await expect(bench.succeed("list_files", {}, { signal })).rejects.toBe(reason);
  await expect(bench.succeed("grep", { pattern: "x" }, { signal })).rejects.toBe(reason);
  await expect(bench.succeed("read_file", { path: "a" }, { signal })).rejects.toBe(reason);
});
