// apply_patch: patches between *** Begin Patch and *** End Patch.

import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type FileBench, fileBench } from "./file-bench.ts";

const patchOf = (bench: FileBench, ...lines: readonly string[]): Promise<unknown> =>
  bench.patch("*** Begin Patch", ...lines, "*** End Patch");

test("[AP1] files are added, updated, moved and deleted at once", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\nthree\n");
  bench.put("old/m.txt", "left\nright\n", 0o750);
  bench.put("gone.txt", "x\n");
  const answer = await patchOf(
    bench,
    ...["*** Add File: new/deep/n.txt", "+first", "+", "+third"],
    ...["*** Update File: a.txt", "@@", " one", "-two", "+2", " three"],
    ...["*** Update File: old/m.txt", "*** Move to: fresh/m.txt", "@@", " left", "-right", "+RIGHT"],
    "*** Delete File: gone.txt",
  );
  expect(String(answer).split("\n")).toEqual([
    "Applied the patch: added new/deep/n.txt, updated a.txt, moved old/m.txt to fresh/m.txt, deleted gone.txt.",
    ...["--- /dev/null", "+++ b/new/deep/n.txt", "@@ -0,0 +1,3 @@", "+first", "+", "+third"],
    ...["--- a/a.txt", "+++ b/a.txt", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"],
    ...["--- a/old/m.txt", "+++ b/fresh/m.txt", "@@ -1,2 +1,2 @@", " left", "-right", "+RIGHT"],
    ...["--- a/gone.txt", "+++ /dev/null"],
  ]);
  expect(bench.names()).toEqual([
    ...["a.txt", "fresh", "fresh/m.txt", "new", "new/deep", "new/deep/n.txt", "old"],
  ]);
  expect(bench.text("new/deep/n.txt")).toBe("first\n\nthird\n");
  expect(bench.text("a.txt")).toBe("one\n2\nthree\n");
  expect(bench.text("fresh/m.txt")).toBe("left\nRIGHT\n");
  expect((statSync(join(bench.root, "fresh/m.txt")).mode & 0o777).toString(8)).toBe("750");
});

test("[AP1] a move alone moves, and an empty file can be added", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\n");
  await patchOf(bench, "*** Update File: a.txt", "*** Move to: b.txt", "*** Add File: empty");
  expect(bench.names()).toEqual(["b.txt", "empty"]);
  expect(bench.text("empty")).toBe("");
});

test("[AP1] text around the patch and a first hunk without @@ are no matter", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  await bench.patch(
    "apply this:",
    "```",
    "*** Begin Patch",
    "*** Update File: a.txt",
    "-one",
    "+1",
    "*** End Patch",
    "```",
  );
  expect(bench.text("a.txt")).toBe("1\n");
});

test("[AP1] a patch without its last line is refused, since it may be cut off", async () => {
  const bench = fileBench();
  const { code, message } = await bench.failPatch("*** Begin Patch", "*** Add File: a.txt", "+one");
  expect(code).toBe("invalid_patch");
  expect(message).toMatch(/expected \*\*\* End Patch as its last line, found none: the patch may be cut off/);
  expect(bench.names()).toEqual([]);
});

test.each([
  [["*** Add File: a", "no sign"], /patch line 3: expected a line of a that begins with \+, found "no sign"/],
  [
    ["*** Update File: a", "@@", "no sign"],
    /patch line 4: expected a line that begins with a space, \+ or -/,
  ],
  [["*** Update File: a"], /expected changes of a/],
  [["*** Add File:  ", "+x"], /patch line 2: expected a path/],
  [["*** Rename File: a"], /patch line 2: expected .*found "\*\*\* Rename File: a"/],
  [["*** Delete File: a", "-x"], /patch line 3: expected nothing after the deletion of a/],
  [[], /expected at least one file, found none/],
])("[AP3] %j is refused with its line", async (lines, message) => {
  const bench = fileBench();
  bench.put("a", "x\n");
  const failure = await bench.failPatch("*** Begin Patch", ...lines, "*** End Patch");
  expect(failure.code).toBe("invalid_patch");
  expect(failure.message).toMatch(message);
});

test("[AP3] what is neither form is refused and says which forms there are", async () => {
  const bench = fileBench();
  expect((await bench.failPatch("change a to b")).message).toMatch(
    /begins with \*\*\* Begin Patch, or a unified diff/,
  );
});

test("[AP4] white space at the ends of lines is no matter when nothing fits exactly, and context stays as it is", async () => {
  const bench = fileBench();
  bench.put("a.ts", "if (x) {  \n\treturn 1;\n\tdone();\n}\n");
  await patchOf(
    bench,
    "*** Update File: a.ts",
    "@@",
    " if (x) {",
    "-  return 1;",
    "+\treturn 2;",
    "   done();",
  );
  expect(bench.text("a.ts")).toBe("if (x) {  \n\treturn 2;\n\tdone();\n}\n");
});

test("[AP4] an exact place is taken before one that fits but for white space", async () => {
  const bench = fileBench();
  bench.put("a.txt", "  x\nx\n");
  await patchOf(bench, "*** Update File: a.txt", "@@", "-x", "+y");
  expect(bench.text("a.txt")).toBe("  x\ny\n");
});

test("[AP5] lines that are there twice are refused without a line after @@ and found with it", async () => {
  const bench = fileBench();
  const text = "class A\n  run() {\n    go();\n  }\nclass B\n  run() {\n    go();\n  }\n";
  bench.put("a.ts", text);
  const change = ["-    go();", "+    stop();"];
  const { code, message } = await bench.failPatch(
    ...["*** Begin Patch", "*** Update File: a.ts", "@@", ...change, "*** End Patch"],
  );
  expect(code).toBe("ambiguous_match");
  expect(message).toMatch(/a\.ts, hunk 1 of 1: expected its lines once, found them at lines 3, 7\./);
  expect(bench.text("a.ts")).toBe(text);
  await patchOf(bench, "*** Update File: a.ts", "@@ class B", "@@   run() {", ...change);
  expect(bench.text("a.ts")).toBe(
    "class A\n  run() {\n    go();\n  }\nclass B\n  run() {\n    stop();\n  }\n",
  );
});

test("[AP5] a line after @@ that is repeated as context, or shortened, is found", async () => {
  const bench = fileBench();
  bench.put("a.py", "def f(a):\n    return 1\n\ndef g(a):\n    return 1\n");
  await patchOf(
    bench,
    "*** Update File: a.py",
    "@@ def g(a):",
    " def g(a):",
    "-    return 1",
    "+    return 2",
  );
  expect(bench.text("a.py")).toBe("def f(a):\n    return 1\n\ndef g(a):\n    return 2\n");
  await patchOf(bench, "*** Update File: a.py", "@@ def f", "-    return 1", "+    return 0");
  expect(bench.text("a.py")).toBe("def f(a):\n    return 0\n\ndef g(a):\n    return 2\n");
});

test("[AP6] hunks are placed one after the other", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\na\nx\nb\nx\n");
  await patchOf(bench, "*** Update File: a.txt", "@@", " a", "-x", "+1", "@@", " b", "-x", "+2");
  expect(bench.text("a.txt")).toBe("x\na\n1\nb\n2\n");
  const { message } = await bench.failPatch(
    ...["*** Begin Patch", "*** Update File: a.txt", "@@", "-b", "@@", "-a", "*** End Patch"],
  );
  expect(message).toMatch(/hunk 2 of 2: expected after line 4:/);
});

test("[AP6] lines that are only added go after the line after @@, or to the end", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\n");
  await patchOf(bench, "*** Update File: a.txt", "@@ one", "+1b", "@@", "+three");
  expect(bench.text("a.txt")).toBe("one\n1b\ntwo\nthree\n");
});

test("[AP6] *** End of File looks at the end only", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\ny\nx\n");
  await patchOf(bench, "*** Update File: a.txt", "@@", "-x", "+z", "*** End of File");
  expect(bench.text("a.txt")).toBe("x\ny\nz\n");
  const { message } = await bench.failPatch(
    ...["*** Begin Patch", "*** Update File: a.txt", "@@", "-y", "*** End of File", "*** End Patch"],
  );
  expect(message).toMatch(/expected at the end of the file:\n {2}y\nfound it at line 2\./);
});

test("[AP7] line ends, the byte order mark and a missing newline at the end stay", async () => {
  const bench = fileBench();
  bench.put("w.txt", "\uFEFFone\r\ntwo\r\nthree");
  await patchOf(bench, "*** Update File: w.txt", "@@", "-one", "+1", "+1b", " two");
  expect(bench.text("w.txt")).toBe("\uFEFF1\r\n1b\r\ntwo\r\nthree");
  await patchOf(bench, "*** Update File: w.txt", "@@", " three", "+four");
  expect(bench.text("w.txt")).toBe("\uFEFF1\r\n1b\r\ntwo\r\nthree\r\nfour\r\n");
});

test("[AP9] two sections of one file build on each other, also by two names of it", async () => {
  const bench = fileBench();
  bench.put("d/a.txt", "one\n");
  await patchOf(
    bench,
    ...["*** Update File: d/a.txt", "-one", "+two", "*** Update File: d/../d/a.txt", "-two", "+three"],
  );
  expect(bench.text("d/a.txt")).toBe("three\n");
});
