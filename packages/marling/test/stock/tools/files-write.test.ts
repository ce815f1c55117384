// write_file

import { chmodSync, readdirSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fileBench } from "./file-bench.ts";

test("[FT15] a new file is created with the folders above it", async () => {
  const bench = fileBench();
  expect(await bench.succeed("write_file", { path: "a/b/c.txt", content: "tschüß\n" })).toEqual({
    path: "a/b/c.txt",
    status: "created",
    bytes: 9,
  });
  expect(bench.text("a/b/c.txt")).toBe("tschüß\n");
});

test("[FT15] a file that is there is overwritten", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a long text that was here before");
  expect(await bench.succeed("write_file", { path: "./a.txt", content: "" })).toEqual({
    path: "a.txt",
    status: "overwritten",
    bytes: 0,
  });
  expect(bench.text("a.txt")).toBe("");
});

test("[FT15] a link to a name inside that is free creates the file there", async () => {
  const bench = fileBench();
  symlinkSync("real/new.txt", join(bench.root, "link"));
  expect(await bench.succeed("write_file", { path: "link", content: "x" })).toMatchObject({
    path: "real/new.txt",
    status: "created",
  });
});

test("[FT16] the mode of a file is kept, and a new file follows the umask", async () => {
  const bench = fileBench();
  bench.put("run.sh", "old", 0o750);
  await bench.succeed("write_file", { path: "run.sh", content: "new" });
  await bench.succeed("write_file", { path: "new.txt", content: "new" });
  expect((statSync(join(bench.root, "run.sh")).mode & 0o7777).toString(8)).toBe("750");
  expect(statSync(join(bench.root, "new.txt")).mode & 0o777).toBe(0o666 & ~process.umask());
});

test("[FT16] a file is replaced by a rename: who has it open reads the old one to its end", async () => {
  const bench = fileBench();
  bench.put("a.txt", "old");
  const before = statSync(join(bench.root, "a.txt")).ino;
  await bench.succeed("write_file", { path: "a.txt", content: "new" });
  expect(statSync(join(bench.root, "a.txt")).ino).not.toBe(before);
  expect(readdirSync(bench.root)).toEqual(["a.txt"]);
});

test("[FT16] many writers at once leave one whole content and nothing beside it", async () => {
  const bench = fileBench();
  const contents = Array.from({ length: 12 }, (_, at) => String(at % 10).repeat(100_000));
  await Promise.all(contents.map((content) => bench.succeed("write_file", { path: "a.txt", content })));
  expect(contents).toContain(bench.text("a.txt"));
  expect(bench.names()).toEqual(["a.txt"]);
});

test("[FT17] a folder in the place of a file is refused, and nothing is left beside it", async () => {
  const bench = fileBench();
  bench.put("d/a.txt", "x");
  expect((await bench.fail("write_file", { path: "d", content: "x" })).code).toBe("not_a_file");
  expect((await bench.fail("write_file", { path: ".", content: "x" })).code).toBe("not_a_file");
  expect((await bench.fail("write_file", { path: "d/a.txt/b", content: "x" })).code).toBe("not_a_directory");
  expect(bench.names()).toEqual(["d", "d/a.txt"]);
});

test("[FT17] more than the limit is refused before anything is made", async () => {
  const bench = fileBench({ limits: { writeBytes: 4 } });
  expect((await bench.fail("write_file", { path: "d/a.txt", content: "äää" })).message).toBe(
    "d/a.txt: expected at most 4 bytes, found 6. Write less at once.",
  );
  expect(bench.names()).toEqual([]);
});

test("[FT17] a file that is read-only is refused by every tool that writes", async () => {
  const bench = fileBench();
  bench.put("a.txt", "old\n");
  chmodSync(join(bench.root, "a.txt"), 0o444);
  const patch = "*** Begin Patch\n*** Update File: a.txt\n-old\n+new\n*** End Patch";
  expect((await bench.fail("write_file", { path: "a.txt", content: "new" })).code).toBe("permission_denied");
  expect((await bench.fail("edit_file", { path: "a.txt", oldText: "old", newText: "new" })).code).toBe(
    "permission_denied",
  );
  expect((await bench.fail("apply_patch", { patch })).code).toBe("permission_denied");
  expect(bench.text("a.txt")).toBe("old\n");
  expect(bench.names()).toEqual(["a.txt"]);
});
