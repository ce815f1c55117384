// What is offered, with which policies, and which options are mistakes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { applyPatchTool } from "../../../src/stock/tools/apply-patch/apply-patch.ts";
import { fileTools } from "../../../src/stock/tools/files/file-tools.ts";
import { fileBench } from "./file-bench.ts";

test("[FT10] [AP11] every tool declares what a crash may do, and those that write are serial", () => {
  const { root } = fileBench();
  const tools = [...fileTools({ root }), applyPatchTool({ root })];
  expect(tools.map(({ manifest: { name, replay, execution } }) => [name, replay, execution])).toEqual([
    ["read_file", "safe", undefined],
    ["list_files", "safe", undefined],
    ["glob", "safe", undefined],
    ["grep", "safe", undefined],
    ["write_file", "idempotent", "serial"],
    ["edit_file", "unsafe", "serial"],
    ["apply_patch", "unsafe", "serial"],
  ]);
});

test("[FT10] writing the same twice is the same file", async () => {
  const bench = fileBench();
  await bench.succeed("write_file", { path: "a", content: "x" });
  await bench.succeed("write_file", { path: "a", content: "x" });
  expect(bench.text("a")).toBe("x");
  expect(bench.names()).toEqual(["a"]);
});

test("[FT9] read-only tools cannot write", () => {
  const { root } = fileBench();
  expect(fileTools({ root, readOnly: true }).map(({ name }) => name)).toEqual([
    "read_file",
    "list_files",
    "glob",
    "grep",
  ]);
});

test("[FT8] a root that is no folder is refused where the tools are made", () => {
  const { root } = fileBench();
  writeFileSync(join(root, "file"), "");
  for (const bad of [join(root, "gone"), join(root, "file"), "", "a\0b", undefined]) {
    const options = { root: bad as string };
    expect(() => fileTools(options)).toThrow(/fileTools: root: expected the path of a folder/);
    expect(() => applyPatchTool(options)).toThrow(expect.objectContaining({ code: "invalid_options" }));
  }
});

test("[FT8] limits that are unknown or no whole numbers above 0, and patterns that are none, are refused", () => {
  const { root } = fileBench();
  expect(() => fileTools({ root, limits: { matches: 0 } })).toThrow(
    "fileTools: limits.matches: expected a whole number above 0, found 0",
  );
  expect(() => fileTools({ root, limits: { readLines: 1.5 } })).toThrow(/limits.readLines/);
  expect(() => fileTools({ root, limits: { lines: 5 } as object })).toThrow(
    /expected one of readLines, .* found lines/,
  );
  expect(() => fileTools({ root, ignore: "*.log" as never })).toThrow(
    /ignore: expected a list of patterns or false/,
  );
  expect(() => applyPatchTool({ root, limits: { writeBytes: -1 } })).toThrow(
    /applyPatchTool: limits.writeBytes/,
  );
});

test("[FT8] a limit of undefined is the default", async () => {
  const bench = fileBench({ limits: { readLines: undefined } as object });
  bench.put("a", "1\n2\n");
  expect(await bench.succeed("read_file", { path: "a" })).toBe("     1\t1\n     2\t2");
});
