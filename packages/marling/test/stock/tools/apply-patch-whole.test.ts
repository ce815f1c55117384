// apply_patch: all or nothing.

import { mkdirSync, readdirSync, renameSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parsePatch } from "../../../src/stock/tools/apply-patch/parse-patch.ts";
import { planPatch } from "../../../src/stock/tools/apply-patch/patch-plan.ts";
import { writePlan } from "../../../src/stock/tools/apply-patch/write-plan.ts";
import { confinedRoot } from "../../../src/stock/tools/files/confined-folder.ts";
import { fileLimits } from "../../../src/stock/tools/files/file-limits.ts";
import { type FileBench, fileBench, SECRET } from "./file-bench.ts";

const failing = (bench: FileBench, ...lines: readonly string[]): ReturnType<FileBench["failPatch"]> =>
  bench.failPatch("*** Begin Patch", ...lines, "*** End Patch");

function planOf(
  bench: FileBench,
  ...lines: readonly string[]
): { readonly root: ReturnType<typeof confinedRoot>; readonly plan: ReturnType<typeof planPatch> } {
  const root = confinedRoot(bench.root, "test");
  const changes = parsePatch(["*** Begin Patch", ...lines, "*** End Patch"].join("\n"));
  return { root, plan: planPatch(changes, { root, limits: fileLimits(undefined, "test") }) };
}

test("[AP8] one hunk that does not fit, and nothing is written", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  bench.put("b.txt", "start\nalpha\nbeta\n");
  const { code, message } = await failing(
    bench,
    ...["*** Add File: deep/new.txt", "+x", "*** Update File: a.txt", "-one", "+two"],
    ...["*** Update File: b.txt", "@@", "-start", "+START", "@@", " alpha", "-gamma", "+delta"],
  );
  expect(code).toBe("no_match");
  expect(message).toBe(
    [
      "Nothing was written.",
      "b.txt, hunk 2 of 2: expected after line 1:",
      "  alpha",
      "  gamma",
      'found the nearest place at line 2, but at line 3 expected "gamma" and found "beta".',
    ].join("\n"),
  );
  expect(bench.names()).toEqual(["a.txt", "b.txt"]);
  expect(bench.text("a.txt")).toBe("one\n");
  expect(bench.text("b.txt")).toBe("start\nalpha\nbeta\n");
});

test("[AP8] all that does not fit is told at once, over hunks and files", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  const { message } = await failing(
    bench,
    ...["*** Update File: a.txt", "@@", "-two", "@@ header", "-three", "*** Delete File: gone.txt"],
  );
  expect(message).toContain("a.txt, hunk 1 of 2: expected:\n  two\nfound no line of it in the file.");
  expect(message).toContain('a.txt, hunk 2 of 2: expected the line "header" after line 0, found none.');
  expect(message).toContain("gone.txt: there is no file of this name.");
});

test("[AP8] a hunk made to take for ever is given up, and nothing is written", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a\n".repeat(40_000));
  const old = Array.from({ length: 20_000 }, () => "-a");
  const { code, message } = await failing(bench, "*** Update File: a.txt", "@@", ...old, "-b");
  expect(code).toBe("invalid_patch");
  expect(message).toContain("found one of 20001 lines that almost fits too often");
});

test("[AP8] the end of the file is told as what was found", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  expect((await failing(bench, "*** Update File: a.txt", "@@", " one", "-two")).message).toContain(
    'at line 2 expected "two" and found the end of the file.',
  );
});

test("[AP9] a file that is added must not exist, one that is changed must, and a move overwrites nothing", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a\n");
  bench.put("b.txt", "b\n");
  expect((await failing(bench, "*** Add File: a.txt", "+x")).code).toBe("already_exists");
  expect((await failing(bench, "*** Update File: c.txt", "-x")).code).toBe("not_found");
  expect((await failing(bench, "*** Update File: a.txt", "*** Move to: b.txt")).code).toBe("already_exists");
  expect((await failing(bench, "*** Add File: n", "+x", "*** Add File: n", "+y")).code).toBe(
    "already_exists",
  );
  expect((await failing(bench, "*** Delete File: .")).code).toBe("not_a_file");
  expect(bench.names()).toEqual(["a.txt", "b.txt"]);
});

test("[AP9] a file that was moved away or deleted leaves its name free", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a\n");
  await bench.patch(
    ...[
      "*** Begin Patch",
      "*** Update File: a.txt",
      "*** Move to: b.txt",
      "*** Add File: a.txt",
      "+new",
      "*** End Patch",
    ],
  );
  expect([bench.text("a.txt"), bench.text("b.txt")]).toEqual(["new\n", "a\n"]);
});

test("[AP9] a binary file can be deleted and not changed", async () => {
  const bench = fileBench();
  bench.put("a.bin", "x\0\n");
  expect((await failing(bench, "*** Update File: a.bin", "-x")).code).toBe("binary_file");
  await bench.patch("*** Begin Patch", "*** Delete File: a.bin", "*** End Patch");
  expect(bench.names()).toEqual([]);
});

test("[AP8] a patch that changes nothing is told, and so is a file that is or gets too large", async () => {
  const bench = fileBench({ limits: { writeBytes: 100 } });
  bench.put("a.txt", "x\n");
  expect((await failing(bench, "*** Update File: a.txt", "-x", "+x")).code).toBe("no_change");
  expect((await failing(bench, "*** Add File: b.txt", `+${"y".repeat(60)}`)).code).toBe("file_too_large");
  bench.put("big.txt", "");
  truncateSync(join(bench.root, "big.txt"), 2 ** 30);
  expect((await failing(bench, "*** Update File: big.txt", "-x", "+y")).code).toBe("file_too_large");
});

test("[AP10] a file that changed between the check and the writing stops the whole patch", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a\n");
  bench.put("b.txt", "b\n");
  const { root, plan } = planOf(
    bench,
    ...[
      "*** Add File: n/n.txt",
      "+x",
      "*** Update File: a.txt",
      "-a",
      "+A",
      "*** Update File: b.txt",
      "-b",
      "+B",
    ],
  );
  const files = await plan;
  writeFileSync(join(bench.root, "b.txt"), "changed\n");
  await expect(writePlan(root, files)).rejects.toMatchObject({ reason: "file_changed" });
  expect(bench.names()).toEqual(["a.txt", "b.txt"]);
  expect([bench.text("a.txt"), bench.text("b.txt")]).toEqual(["a\n", "changed\n"]);
});

test("[AP10] a file that appeared between the check and the writing is not overwritten", async () => {
  const bench = fileBench();
  const { root, plan } = planOf(bench, "*** Add File: d/a.txt", "+x", "*** Add File: d/b.txt", "+x");
  const files = await plan;
  bench.put("d/b.txt", "mine\n");
  await expect(writePlan(root, files)).rejects.toMatchObject({ reason: "file_changed" });
  expect(bench.names()).toEqual(["d", "d/b.txt"]);
  expect(bench.text("d/b.txt")).toBe("mine\n");
});

test("[AP10] [FT3] a folder that became a link to the outside between check and writing is not written through", async () => {
  const bench = fileBench();
  bench.put("d/a.txt", `${SECRET}\n`);
  const { root, plan } = planOf(
    bench,
    "*** Update File: d/a.txt",
    `-${SECRET}`,
    "+x",
    "*** Add File: d/n.txt",
    "+x",
  );
  const files = await plan;
  mkdirSync(join(bench.outside, "d"));
  writeFileSync(join(bench.outside, "d", "a.txt"), `${SECRET}\n`);
  renameSync(join(bench.root, "d"), join(bench.root, "e"));
  symlinkSync(join(bench.outside, "d"), join(bench.root, "d"));
  await expect(writePlan(root, files)).rejects.toMatchObject({ reason: "path_outside_root" });
  expect(readdirSync(join(bench.outside, "d"))).toEqual(["a.txt"]);
});

test("[AP8] [FT1] one path outside the root in a patch, and nothing of it is written", async () => {
  const bench = fileBench();
  symlinkSync(bench.outside, join(bench.root, "out"));
  bench.put("a.txt", "a\n");
  for (const path of ["../outside/n.txt", "out/n.txt", join(bench.outside, "n.txt")]) {
    expect((await failing(bench, "*** Add File: fine.txt", "+x", `*** Add File: ${path}`, "+x")).code).toBe(
      "path_outside_root",
    );
    expect((await failing(bench, "*** Update File: a.txt", `*** Move to: ${path}`)).code).toBe(
      "path_outside_root",
    );
    const diff = await bench.failPatch("--- /dev/null", `+++ ${path}`, "@@ -0,0 +1 @@", "+x");
    expect(diff.code).toBe("path_outside_root");
  }
  expect(readdirSync(bench.root)).toEqual(["a.txt", "out"]);
  expect(readdirSync(bench.outside)).toEqual(["secret.txt"]);
});
