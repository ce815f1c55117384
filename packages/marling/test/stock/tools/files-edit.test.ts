// edit_file

import { statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ConfinedFolder, confinedRoot } from "../../../src/stock/tools/files/confined-folder.ts";
import { checkUnchanged, readTextFile } from "../../../src/stock/tools/files/text-file.ts";
import { fileBench } from "./file-bench.ts";

test("[FT18] a text that is there once is replaced, and the answer is a diff", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n");
  expect(await bench.succeed("edit_file", { path: "a.txt", oldText: "four\n", newText: "4\n4b\n" })).toBe(
    [
      "Edited a.txt: 1 replacement.",
      "--- a/a.txt",
      "+++ b/a.txt",
      "@@ -1,6 +1,7 @@",
      " one",
      " two",
      " three",
      "-four",
      "+4",
      "+4b",
      " five",
      " six",
    ].join("\n"),
  );
  expect(bench.text("a.txt")).toBe("one\ntwo\nthree\n4\n4b\nfive\nsix\n");
});

test("[FT18] several matches are replaced with replaceAll only", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\ny\nx\n");
  const { code, message } = await bench.fail("edit_file", { path: "a.txt", oldText: "x", newText: "z" });
  expect(code).toBe("ambiguous_match");
  expect(message).toContain("found 2 matches, at lines 1, 3.");
  expect(bench.text("a.txt")).toBe("x\ny\nx\n");
  expect(
    await bench.succeed("edit_file", { path: "a.txt", oldText: "x", newText: "z", replaceAll: true }),
  ).toMatch(/^Edited a.txt: 2 replacements\./);
  expect(bench.text("a.txt")).toBe("z\ny\nz\n");
});

test("[FT18] both texts are plain: nothing in them has a meaning", async () => {
  const bench = fileBench();
  bench.put("a.txt", "a.*b $1\n");
  await bench.succeed("edit_file", { path: "a.txt", oldText: ".*", newText: "$&$1\\n" });
  expect(bench.text("a.txt")).toBe("a$&$1\\nb $1\n");
});

test("[FT18] an edit that says nothing is refused", async () => {
  const bench = fileBench();
  bench.put("a.txt", "x\n");
  expect((await bench.fail("edit_file", { path: "a.txt", oldText: "", newText: "y" })).message).toMatch(
    /write_file/,
  );
  expect((await bench.fail("edit_file", { path: "a.txt", oldText: "x", newText: "x" })).code).toBe(
    "no_change",
  );
  expect((await bench.fail("edit_file", { path: "b.txt", oldText: "x", newText: "y" })).code).toBe(
    "not_found",
  );
});

test("[FT19] a text that is not there is refused with the lines that come nearest", async () => {
  const bench = fileBench();
  bench.put("a.ts", "import a;\n\nfunction send(mail) {\n  post(mail);\n}\n");
  const { code, message } = await bench.fail("edit_file", {
    path: "a.ts",
    oldText: "function send(email) {",
    newText: "x",
  });
  expect(code).toBe("no_match");
  expect(message).toBe(
    "a.ts: expected oldText in the file, found 0 matches. The lines most like its first line:\n" +
      "     3\tfunction send(mail) {",
  );
});

test("[FT19] a text that is there with other white space is shown as it is", async () => {
  const bench = fileBench();
  bench.put("a.ts", "if (x) {\n\treturn 1;\n}\n");
  const { message } = await bench.fail("edit_file", {
    path: "a.ts",
    oldText: "if (x) {\n  return 1;\n}",
    newText: "",
  });
  expect(message).toContain(
    "with other white space is at lines 1-3:\n     1\tif (x) {\n     2\t\treturn 1;\n     3\t}",
  );
});

test("[FT19] nothing like it is told as well", async () => {
  const bench = fileBench();
  bench.put("a.ts", "abc\n");
  expect((await bench.fail("edit_file", { path: "a.ts", oldText: "xyz", newText: "" })).message).toMatch(
    /No line is like its first line\.$/,
  );
});

test("[FT20] Windows line ends, the byte order mark and the mode stay", async () => {
  const bench = fileBench();
  bench.put("a.txt", "\uFEFFone\r\ntwo\r\nthree\r\n", 0o640);
  await bench.succeed("edit_file", { path: "a.txt", oldText: "one\ntwo", newText: "1\n2" });
  await bench.succeed("edit_file", { path: "a.txt", oldText: "three", newText: "3\n4" });
  expect(bench.text("a.txt")).toBe("\uFEFF1\r\n2\r\n3\r\n4\r\n");
  expect((statSync(join(bench.root, "a.txt")).mode & 0o777).toString(8)).toBe("640");
});

test("[FT20] what is no text in UTF-8 is refused and stays as it is", async () => {
  const bench = fileBench();
  bench.put("latin1.txt", Buffer.from("caf\xe9 x", "latin1"));
  bench.put("a.bin", Buffer.from("x\0y"));
  for (const path of ["latin1.txt", "a.bin"])
    expect((await bench.fail("edit_file", { path, oldText: "x", newText: "y" })).code).toBe("binary_file");
  expect(bench.text("a.bin")).toBe("x\0y");
});

test("[FT20] an edit that makes a file too large is refused", async () => {
  const bench = fileBench({ limits: { writeBytes: 10 } });
  bench.put("a.txt", "12345");
  expect(
    (await bench.fail("edit_file", { path: "a.txt", oldText: "5", newText: "6".repeat(10) })).message,
  ).toBe("a.txt: expected at most 10 bytes after the edit, found 14.");
  expect(bench.names()).toEqual(["a.txt"]);
  expect(bench.text("a.txt")).toBe("12345");
});

test("[FT21] a file that somebody else changed after it was read is told apart", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one");
  const folder = await ConfinedFolder.openRoot(confinedRoot(bench.root, "test"));
  onTestFinished(() => folder.close());
  const { version } = await readTextFile(folder, "a.txt", { maxBytes: 100 });
  await checkUnchanged(folder, "a.txt", version);
  bench.put("a.txt", "two");
  utimesSync(join(bench.root, "a.txt"), 1, 1);
  await expect(checkUnchanged(folder, "a.txt", version)).rejects.toMatchObject({ reason: "file_changed" });
});

test("[FT26] an edit that was cancelled while it waited is not made", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n");
  const controller = new AbortController();
  const first = bench.succeed("write_file", { path: "b.txt", content: "x".repeat(1_000_000) });
  const args = { path: "a.txt", oldText: "one", newText: "two" };
  const second = bench.succeed("edit_file", args, { signal: controller.signal });
  const reason = new Error("enough");
  controller.abort(reason);
  await expect(second).rejects.toBe(reason);
  await first;
  expect(bench.text("a.txt")).toBe("one\n");
});

test("[FT21] edits of one file at once never lose one that succeeded", async () => {
  const bench = fileBench();
  bench.put("a.txt", Array.from({ length: 8 }, (_, at) => `<${at}>\n`).join(""));
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      bench.succeed("edit_file", { path: "a.txt", oldText: `<${at}>`, newText: `[${at}]` }).then(
        () => at,
        () => undefined,
      ),
    ),
  );
  const text = bench.text("a.txt");
  const done = answers.filter((at) => at !== undefined);
  expect(done.length).toBeGreaterThan(0);
  expect(done.filter((at) => !text.includes(`[${at}]`))).toEqual([]);
});
