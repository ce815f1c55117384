// read_file

import { truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { attachment } from "../../../src/index.ts";
import { fileBench } from "./file-bench.ts";

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
const count = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at}\n`).join("");

test("[FT11] lines are numbered from 1, and the last needs no end", async () => {
  const bench = fileBench();
  bench.put("a.txt", "one\n\n  three");
  expect(await bench.succeed("read_file", { path: "a.txt" })).toBe("     1\tone\n     2\t\n     3\t  three");
});

test("[FT11] offset and limit choose lines, and the answer says how to go on", async () => {
  const bench = fileBench();
  bench.put("a.txt", count(1, 10));
  expect(await bench.succeed("read_file", { path: "a.txt", offset: 4, limit: 2 })).toBe(
    "     4\tline 4\n     5\tline 5\n\n(Lines 4-5 of 10. Read on with offset 6.)",
  );
  expect(await bench.succeed("read_file", { path: "a.txt", offset: 9, limit: 2 })).toBe(
    "     9\tline 9\n    10\tline 10",
  );
});

test("[FT11] Windows line ends and a byte order mark are no text", async () => {
  const bench = fileBench();
  bench.put("a.txt", "\uFEFFone\r\ntwo\r\n");
  expect(await bench.succeed("read_file", { path: "a.txt" })).toBe("     1\tone\n     2\ttwo");
});

test("[FT11] an empty file and an offset after the end are told", async () => {
  const bench = fileBench();
  bench.put("empty", "");
  bench.put("short", "1\n2\n");
  expect(await bench.succeed("read_file", { path: "empty" })).toBe("(empty is empty.)");
  expect(await bench.succeed("read_file", { path: "short", offset: 3 })).toBe(
    "(short has 2 lines; there is no line 3.)",
  );
});

test("[FT11] a file and a folder that cannot be read as one are failures", async () => {
  const bench = fileBench();
  bench.put("d/a", "x");
  expect(await bench.fail("read_file", { path: "gone" })).toMatchObject({
    code: "not_found",
    class: "invalid_request",
    message: "gone: there is no file of this name.",
  });
  expect((await bench.fail("read_file", { path: "d" })).message).toBe("d: expected a file, found a folder.");
  expect((await bench.fail("read_file", { path: "." })).code).toBe("not_a_file");
  expect((await bench.fail("read_file", { path: "d/a/b" })).code).toBe("not_a_directory");
});

test("[FT12] no more lines than the limit are shown, whatever is asked for", async () => {
  const bench = fileBench({ limits: { readLines: 3 } });
  bench.put("a.txt", count(1, 5));
  expect(await bench.succeed("read_file", { path: "a.txt", limit: 100 })).toBe(
    "     1\tline 1\n     2\tline 2\n     3\tline 3\n\n(Lines 1-3 of 5. Read on with offset 4.)",
  );
});

test("[FT12] no more bytes than the limit are shown, and whole lines", async () => {
  const bench = fileBench({ limits: { readBytes: 12 } });
  bench.put("a.txt", "12345\n12345\n12345\n");
  expect(await bench.succeed("read_file", { path: "a.txt" })).toBe(
    "     1\t12345\n     2\t12345\n\n(Lines 1-2 of 3. Read on with offset 3.)",
  );
  bench.put("b.txt", "ääääääää\nb\n");
  expect(await bench.succeed("read_file", { path: "b.txt" })).toBe(
    "     1\tääääääää\n\n(Lines 1-1 of 2. Read on with offset 2.)",
  );
});

test("[FT12] a long line is cut, not within a character, and says how much is missing", async () => {
  const bench = fileBench({ limits: { lineLength: 4 } });
  bench.put("a.txt", `abc\u{1F600}def\nabcd\r\nabcde\n`);
  expect(await bench.succeed("read_file", { path: "a.txt" })).toBe(
    "     1\tabc [cut: 7 more bytes in this line]\n     2\tabcd\n     3\tabcd [cut: 1 more bytes in this line]",
  );
});

test("[FT13] a line of many megabytes is read with little memory", async () => {
  const bench = fileBench();
  bench.put("a.txt", `${"x".repeat(20_000_000)}\nsecond\n`);
  const before = process.memoryUsage().arrayBuffers;
  const text = String(await bench.succeed("read_file", { path: "a.txt" }));
  expect(text.length).toBeLessThan(3_000);
  expect(text).toContain("[cut: 19998000 more bytes in this line]");
  expect(text).toContain("     2\tsecond");
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8_000_000);
});

test("[FT13] a file of 1 GB with holes is described or read at its start, and edits refuse it", async () => {
  const bench = fileBench();
  bench.put("holes.bin", "");
  truncateSync(join(bench.root, "holes.bin"), 2 ** 30);
  expect(await bench.succeed("read_file", { path: "holes.bin" })).toBe(
    "holes.bin is binary data of 1073741824 bytes; it is not shown as text.",
  );
  bench.put("big.txt", `${"text\n".repeat(2_000)}`);
  truncateSync(join(bench.root, "big.txt"), 2 ** 30);
  const before = process.memoryUsage().rss;
  expect(await bench.succeed("read_file", { path: "big.txt", limit: 1 })).toBe(
    "     1\ttext\n\n(Lines 1-1 of a file with more. Read on with offset 2.)",
  );
  expect((await bench.fail("edit_file", { path: "big.txt", oldText: "a", newText: "b" })).code).toBe(
    "file_too_large",
  );
  expect(await bench.succeed("grep", { pattern: "text" })).toContain("2 larger than 5242880 bytes");
  expect(process.memoryUsage().rss - before).toBeLessThan(300_000_000);
});

test("[FT13] a line that is further than one call looks is told", async () => {
  const bench = fileBench({ limits: { scanBytes: 65_536 } });
  bench.put("a.txt", "x\n".repeat(100_000));
  expect(await bench.succeed("read_file", { path: "a.txt", offset: 90_000 })).toBe(
    "(Line 90000 of a.txt is further into the file than one call looks. Use grep to find what you need.)",
  );
});

test("[FT14] binary files are described", async () => {
  const bench = fileBench();
  bench.put("a.pdf", "%PDF-1.7\nrest");
  bench.put("a.bin", Buffer.from([1, 2, 0, 3]));
  bench.put("a.utf16", Buffer.from("\uFEFFhello", "utf16le"));
  expect(await bench.succeed("read_file", { path: "a.pdf" })).toBe(
    "a.pdf is a PDF document of 13 bytes; it is not shown as text.",
  );
  expect(await bench.succeed("read_file", { path: "a.bin" })).toMatch(/binary data of 4 bytes/);
  expect(await bench.succeed("read_file", { path: "a.utf16" })).toMatch(/UTF-16 text of 12 bytes/);
});

test("[FT14] an image is an attachment", async () => {
  const bench = fileBench();
  bench.put("a.dat", PNG);
  const stored: unknown[] = [];
  const put = async (bytes: Uint8Array, mediaType: string): Promise<ReturnType<typeof attachment>> => {
    stored.push([Buffer.from(bytes).toString("hex"), mediaType]);
    return attachment({ kind: "stored", mediaType, ref: "r1", bytes: bytes.length });
  };
  expect(await bench.succeed("read_file", { path: "a.dat" }, { attachments: { put } })).toEqual({
    path: "a.dat",
    mediaType: "image/png",
    bytes: 16,
    image: {
      $marling: "attachment",
      source: { kind: "stored", mediaType: "image/png", ref: "r1", bytes: 16 },
    },
  });
  expect(stored).toEqual([["89504e470d0a1a0a0000000d49484452", "image/png"]]);
});

test("[FT14] an image that is too large is described", async () => {
  const bench = fileBench({ limits: { imageBytes: 15 } });
  bench.put("a.png", PNG);
  expect(await bench.succeed("read_file", { path: "a.png" })).toBe(
    "a.png is an image (image/png) of 16 bytes; at most 15 bytes are shown.",
  );
});
