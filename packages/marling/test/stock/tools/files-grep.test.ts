// grep

import { expect, onTestFinished, test } from "vitest";
import { PatternSearch, type PatternSearchOptions } from "../../../src/stock/tools/files/pattern-search.ts";
import { fileBench } from "./file-bench.ts";

const CATASTROPHE = "(a+)+$";
const LONG_LINE = `${"a".repeat(5_000)}!`;

const options = (more: Partial<PatternSearchOptions> = {}): PatternSearchOptions => ({
  ignoreCase: false,
  context: 0,
  lineLength: 200,
  limitMs: 60_000,
  signal: new AbortController().signal,
  ...more,
});

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

test("[FT27] matches are shown with path and line, in order of the paths", async () => {
  const bench = fileBench();
  bench.put("b.txt", "one\ntwo\n");
  bench.put("a/c.txt", "x\r\ntwo too\r\n");
  expect(await bench.succeed("grep", { pattern: "^t.o\\b" })).toBe("a/c.txt:2:two too\nb.txt:2:two");
  expect(await bench.succeed("grep", { pattern: "two", path: "b.txt" })).toBe("b.txt:2:two");
  expect(await bench.succeed("grep", { pattern: "two", path: "a" })).toBe("a/c.txt:2:two too");
  expect(await bench.succeed("grep", { pattern: "three" })).toBe("(No match in 2 files.)");
});

test("[FT27] lines around a match are shown, and groups stand apart", async () => {
  const bench = fileBench();
  bench.put("a.txt", "1\nx2\n3\n4\n5\n6\nx7\nx8\n");
  bench.put("b.txt", "x\n");
  expect(await bench.succeed("grep", { pattern: "x", context: 1, path: "a.txt" })).toBe(
    "a.txt-1-1\na.txt:2:x2\na.txt-3-3\n--\na.txt-6-6\na.txt:7:x7\na.txt:8:x8",
  );
  expect(await bench.succeed("grep", { pattern: "x[28]", context: 0 })).toBe("a.txt:2:x2\na.txt:8:x8");
});

test("[FT27] include, ignoreCase and literal narrow or widen the search", async () => {
  const bench = fileBench();
  bench.put("src/a.ts", "Foo(a.b)\n");
  bench.put("src/deep/b.ts", "foo\n");
  bench.put("c.js", "foo a+b\n");
  expect(await bench.succeed("grep", { pattern: "foo", include: "*.ts" })).toBe("src/deep/b.ts:1:foo");
  expect(await bench.succeed("grep", { pattern: "foo", include: "src/*.ts", ignoreCase: true })).toBe(
    "src/a.ts:1:Foo(a.b)",
  );
  expect(await bench.succeed("grep", { pattern: "a+b", literal: true })).toBe("c.js:1:foo a+b");
  expect(await bench.succeed("grep", { pattern: "(a.b)", literal: true })).toBe("src/a.ts:1:Foo(a.b)");
});

test("[FT23] what .gitignore leaves out is searched with includeIgnored or by its own path", async () => {
  const bench = fileBench();
  bench.put(".gitignore", "gen/\n");
  bench.put("gen/a.txt", "needle\n");
  expect(await bench.succeed("grep", { pattern: "needle" })).toBe("(No match in 1 files.)");
  expect(await bench.succeed("grep", { pattern: "needle", includeIgnored: true })).toBe("gen/a.txt:1:needle");
  expect(await bench.succeed("grep", { pattern: "needle", path: "gen/a.txt" })).toBe("gen/a.txt:1:needle");
});

test("[FT28] no more matches than the limit, over all files, and the answer says so", async () => {
  const bench = fileBench({ limits: { matches: 3 } });
  bench.put("a.txt", "x\nx\n");
  bench.put("b.txt", "x\n");
  expect(await bench.succeed("grep", { pattern: "x" })).toBe("a.txt:1:x\na.txt:2:x\nb.txt:1:x");
  bench.put("c.txt", "x\n");
  expect(await bench.succeed("grep", { pattern: "x" })).toBe(
    "a.txt:1:x\na.txt:2:x\nb.txt:1:x\n(The first 3 matches; there are more. Use a narrower pattern, path or include.)",
  );
});

test("[FT28] no more bytes than the limit are shown, lines around matches included", async () => {
  const bench = fileBench({ limits: { readBytes: 40 } });
  bench.put("a.txt", "x1\n2\nx3\n4\nx5\n");
  expect(await bench.succeed("grep", { pattern: "x", context: 1 })).toBe(
    "a.txt:1:x1\na.txt-2-2\na.txt:3:x3\n(The first 2 matches; there are more. Use a narrower pattern, path or include.)",
  );
});

test("[FT28] binary and large files are passed over and counted", async () => {
  const bench = fileBench({ limits: { searchBytes: 10 } });
  bench.put("a.bin", "x\0x");
  bench.put("big.txt", "x".repeat(11));
  bench.put("c.txt", "x\n");
  expect(await bench.succeed("grep", { pattern: "x" })).toBe(
    "c.txt:1:x\n(Files not searched: 1 binary, 1 larger than 10 bytes.)",
  );
});

test("[FT28] a long line is cut around its match", async () => {
  const bench = fileBench();
  bench.put("a.txt", `${"-".repeat(5_000)}needle${"-".repeat(5_000)}\n`);
  const text = String(await bench.succeed("grep", { pattern: "needle" }));
  expect(text).toBe(`a.txt:1:[...]${"-".repeat(100)}needle${"-".repeat(394)}[...]`);
});

test("[FT29] an expression that takes for ever is a failure of the tool", async () => {
  const bench = fileBench({ limits: { searchMs: 300 } });
  bench.put("a.txt", LONG_LINE);
  const { code, class: kind, message } = await bench.fail("grep", { pattern: CATASTROPHE });
  expect([code, kind]).toEqual(["search_timeout", "timeout"]);
  expect(message).toContain("expected an answer within 300 ms");
});

test("[FT29] the worker of an expression that takes for ever is gone after the search is closed", async () => {
  const search = await PatternSearch.start(CATASTROPHE, options({ limitMs: 200 }));
  expect(search.isAlive).toBe(true);
  await expect(search.search(bytesOf(LONG_LINE), 10)).rejects.toMatchObject({ reason: "search_timeout" });
  await search.close();
  expect(search.isAlive).toBe(false);
});

test("[FT29] a cancelled search rejects while its expression still runs, and its worker goes", async () => {
  const controller = new AbortController();
  const search = await PatternSearch.start(CATASTROPHE, options({ signal: controller.signal }));
  onTestFinished(() => search.close());
  const found = search.search(bytesOf(LONG_LINE), 10);
  controller.abort(new Error("enough"));
  await expect(found).rejects.toThrow("enough");
  await search.close();
  expect(search.isAlive).toBe(false);
});

test("[FT26] [FT29] a cancelled call of grep ends while its expression still runs", async () => {
  const bench = fileBench();
  bench.put("a.txt", LONG_LINE);
  const controller = new AbortController();
  const reason = new Error("enough");
  const call = bench.succeed("grep", { pattern: CATASTROPHE }, { signal: controller.signal });
  setTimeout(() => controller.abort(reason), 300);
  await expect(call).rejects.toBe(reason);
});

test("[FT29] the time of an expression is counted over all files", async () => {
  const search = await PatternSearch.start("(a+)+$", options({ limitMs: 400 }));
  onTestFinished(() => search.close());
  // Some milliseconds each: many of them are more than the limit.
  const many = async (): Promise<void> => {
    for (let at = 0; at < 2_000; at += 1) await search.search(bytesOf(`${"a".repeat(20)}!\n`), 10);
  };
  await expect(many()).rejects.toMatchObject({ reason: "search_timeout" });
});

test("[FT29] a worker that ends by itself is a failure, not a search that hangs", async () => {
  const search = await PatternSearch.start("x", options());
  const closed = search.close();
  await expect(search.search(bytesOf("x"), 10)).rejects.toMatchObject({ reason: "search_failed" });
  await closed;
});

test("[FT30] what is no expression is refused and says why", async () => {
  const bench = fileBench();
  const { code, message } = await bench.fail("grep", { pattern: "a(" });
  expect(code).toBe("invalid_pattern");
  expect(message).toContain("Unterminated group");
  expect((await bench.fail("grep", { pattern: "" })).code).toBe("invalid_pattern");
});
