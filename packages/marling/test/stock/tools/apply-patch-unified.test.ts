// apply_patch: plain unified diffs and those of git.

import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { fileBench } from "./file-bench.ts";

test("[AP2] a plain diff is applied, with names as they are or with those of git", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\nthree\n");
  await bench.patch(
    "--- a.txt\t2020-01-01",
    "+++ a.txt\t2020-01-02",
    "@@ -1,3 +1,3 @@",
    " one",
    "-two",
    "+2",
    " three",
    "",
  );
  expect(bench.text("a.txt")).toBe("one\n2\nthree\n");
  await bench.patch("--- a/a.txt", "+++ b/a.txt", "@@ -2,1 +2,1 @@", "-2", "+two");
  expect(bench.text("a.txt")).toBe("one\ntwo\nthree\n");
});

test("[AP2] a folder that is called a is not taken for the prefix of git", async () => {
  const bench = fileBench();
  bench.put("a/f.txt", "x\n");
  await bench.patch("--- a/f.txt", "+++ a/f.txt", "@@ -1 +1 @@", "-x", "+y");
  expect(bench.text("a/f.txt")).toBe("y\n");
});

test("[AP2] what git writes is applied: new, deleted, renamed and changed files", async () => {
  const source = fileBench();
  const git = (...args: readonly string[]): string =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], {
      cwd: source.root,
      encoding: "utf8",
      env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    });
  const body = Array.from({ length: 40 }, (_, at) => `line ${at}\n`).join("");
  const target = fileBench();
  for (const bench of [source, target]) {
    bench.put("changed.txt", body);
    bench.put("moved.txt", `${body}tail`);
    bench.put("gone.txt", "x\ny\n");
    bench.put("comment.sql", "-- old\nselect 1;\n");
  }
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "one");
  git("rm", "-q", "gone.txt");
  git("mv", "moved.txt", "there.txt");
  source.put("there.txt", `${body.replace("line 3\n", "line three\n")}tail\n`);
  source.put("changed.txt", body.replace("line 5\n", "").replace("line 30\n", "line 30\nand more\n"));
  source.put("new/n.txt", "no newline");
  source.put("empty.txt", "");
  source.put("comment.sql", "-- new\nselect 1;\n");
  git("add", ".");
  await target.patch(git("diff", "--cached", "-M"));
  const withoutGit = (names: readonly string[]): readonly string[] =>
    names.filter((name) => !name.startsWith(".git"));
  expect(target.names()).toEqual(withoutGit(source.names()));
  for (const path of ["changed.txt", "there.txt", "new/n.txt", "empty.txt", "comment.sql"])
    expect([path, target.text(path)]).toEqual([path, source.text(path)]);
});

test("[AP2] a mail of git with its signature is applied", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  await bench.patch(
    ...["From 1 Mon Sep 17 00:00:00 2001", "Subject: [PATCH] x", "---", " a.txt | 2 +-", ""],
    ...[
      "diff --git a/a.txt b/a.txt",
      "index 1..2 100644",
      "--- a/a.txt",
      "+++ b/a.txt",
      "@@ -1 +1 @@",
      "-one",
      "+two",
    ],
    ...["-- ", "2.40.0", ""],
  );
  expect(bench.text("a.txt")).toBe("two\n");
});

test("[AP2] wrong counts and line numbers are no matter", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\nthree\n");
  bench.put("b.txt", "x\n");
  await bench.patch(
    ...["--- a/a.txt", "+++ b/a.txt", "@@ -90,7 +90,2 @@", " two", "-three", "+3"],
    ...["--- a/b.txt", "+++ b/b.txt", "@@ -1,9 +1,9 @@", "-x", "+y"],
  );
  expect(bench.text("a.txt")).toBe("one\ntwo\n3\n");
  expect(bench.text("b.txt")).toBe("y\n");
});

test("[AP5] of equal places the line number chooses the nearest", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\n-\nx\n-\nx\n");
  await bench.patch("--- a/a.txt", "+++ b/a.txt", "@@ -3,1 +3,1 @@", "-x", "+y");
  expect(bench.text("a.txt")).toBe("x\n-\ny\n-\nx\n");
});

test("[AP6] lines that are added without context go to their line", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\n");
  await bench.patch("--- a/a.txt", "+++ b/a.txt", "@@ -1,0 +2,1 @@", "+1b");
  expect(bench.text("a.txt")).toBe("one\n1b\ntwo\n");
});

test("[AP7] a newline at the end comes and goes as the diff says", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x");
  await bench.patch("--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@", "-x", "\\ No newline at end of file", "+y");
  expect(bench.text("a.txt")).toBe("y\n");
  await bench.patch("--- a/a.txt", "+++ b/a.txt", "@@ -1 +1 @@", "-y", "+z", "\\ No newline at end of file");
  expect(bench.text("a.txt")).toBe("z");
});

test("[AP9] a deletion whose lines are not all of the file is refused", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\ny\n");
  expect((await bench.failPatch("--- a/a.txt", "+++ /dev/null", "@@ -1 +0,0 @@", "-x")).code).toBe(
    "no_match",
  );
  expect(bench.text("a.txt")).toBe("x\ny\n");
});

test("[AP3] changes of binary files and hunks without a head are refused", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\n");
  expect(
    (await bench.failPatch("diff --git a/a.bin b/a.bin", "Binary files a/a.bin and b/a.bin differ")).message,
  ).toMatch(/patch line 2: expected changes of text/);
  expect((await bench.failPatch("--- a/a.txt", "+++ b/a.txt", "-x", "+y")).message).toMatch(
    /expected a hunk that begins/,
  );
  expect((await bench.failPatch("diff --git a/a.txt b/a.txt", "index 1..2")).message).toMatch(
    /changes of a.txt, found none/,
  );
});
