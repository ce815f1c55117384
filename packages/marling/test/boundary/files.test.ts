// Files are named after what they hold and are small enough to read in one sitting.
// A file whose first line is `// long: <reason>` is exempt from the sizes, not from the names.

import { basename } from "node:path";
import { expect, test } from "vitest";
import { type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const MAX_FILE_LINES = 400;
const MAX_FUNCTION_LINES = 40;

const KEBAB_CASE = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const EMPTY_WORDS = /(?:^|-)(?:utils?|helpers?|common|types?|managers?|services?)$/;
const ALLOWED = ["plugin/host-services.ts", "kernel/services.ts"];

test("file and folder names are kebab-case", () => {
  expect(sourceFiles().flatMap(oddNames)).toEqual([]);
});

test("no file is named after nothing in particular", () => {
  expect(sourceFiles().flatMap(emptyNames)).toEqual([]);
});

test(`files have at most ${MAX_FILE_LINES} lines`, () => {
  expect(sourceFiles().flatMap(longFiles)).toEqual([]);
});

test(`functions and methods have at most ${MAX_FUNCTION_LINES} lines of code`, () => {
  expect(sourceFiles().flatMap(longFunctions)).toEqual([]);
});

test("the check catches what it is for", () => {
  expect(oddNames(sourceFile("base/asyncQueue.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("store/types.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("plugin/plugin-manager.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("kernel/services.ts", ""))).toEqual([]);
  expect(longFiles(sourceFile("base/a.ts", "\n".repeat(400)))).toEqual([]);
  expect(longFiles(sourceFile("base/a.ts", "\n".repeat(401)))).toHaveLength(1);
  expect(longFiles(sourceFile("base/a.ts", `// long: a table\n${"\n".repeat(500)}`))).toEqual([]);

  const body = (lines: number, indent: string): string => `${indent}  run();\n`.repeat(lines);
  const samples = (lines: number): readonly string[] => [
    `export function f(a: number): void {\n${body(lines, "")}}\n`,
    `export async function f(\n  a: number,\n): Promise<void> {\n${body(lines, "")}}\n`,
    `const f = (a: number): void => {\n${body(lines, "")}};\n`,
    `class A {\n  #f(a: number): void {\n${body(lines, "  ")}  }\n}\n`,
    `class A {\n  static async f(\n    a: number,\n  ): Promise<void> {\n${body(lines, "  ")}  }\n}\n`,
  ];
  for (const text of samples(41)) expect(longFunctions(sourceFile("base/a.ts", text)), text).toHaveLength(1);
  for (const text of samples(40)) expect(longFunctions(sourceFile("base/a.ts", text)), text).toEqual([]);
  const comments = `function f(): void {\n${"  // why\n\n".repeat(50)}}\n`;
  expect(longFunctions(sourceFile("base/a.ts", comments))).toEqual([]);
});

function oddNames({ path }: SourceFile): readonly string[] {
  const parts = path.replace(/\.ts$/, "").split("/");
  return parts.every((part) => KEBAB_CASE.test(part)) ? [] : [path];
}

function emptyNames({ path }: SourceFile): readonly string[] {
  return EMPTY_WORDS.test(basename(path, ".ts")) && !ALLOWED.includes(path) ? [path] : [];
}

function longFiles(file: SourceFile): readonly string[] {
  const lines = file.text.split("\n").length - (file.text.endsWith("\n") ? 1 : 0);
  return lines > MAX_FILE_LINES && !hasReason(file) ? [`${file.path}: ${lines} lines`] : [];
}

function hasReason(file: SourceFile): boolean {
  return /^\/\/ long: \S/.test(file.text);
}

/** Top-level functions and methods of classes. The formatter's indentation tells where each one starts and ends. */
function longFunctions(file: SourceFile): readonly string[] {
  if (hasReason(file)) return [];
  const lines = file.code.split("\n").map((line) => line.trimEnd());
  let inClass = false;
  return lines.flatMap((line, start) => {
    if (/^(?:export\s+)?(?:abstract\s+)?class\b/.test(line)) inClass = true;
    if (line.startsWith("}")) inClass = false;
    const indent = startsFunction(line) ? "" : inClass && startsMethod(line) ? "  " : undefined;
    const count = indent === undefined ? 0 : bodyLines(lines.slice(start), indent);
    return count > MAX_FUNCTION_LINES ? [`${file.path}:${start + 1}: ${count} lines: ${line.trim()}`] : [];
  });
}

function startsFunction(line: string): boolean {
  return (
    /^(?:export\s+)?(?:async\s+)?function\b/.test(line) ||
    /^(?:export\s+)?const\s+[\w$]+.*=\s*(?:async\s*)?(?:<.*>)?(?:\($|\(.*=>\s*\{$)/.test(line)
  );
}

function startsMethod(line: string): boolean {
  return /^ {2}(?:(?:static|async|get|set|override)\s+|\*)*(?:#?[\w$]+|\[[\w$.]+\])(?:<.*>)?\(/.test(line);
}

/** Lines of code between a signature, which may span several lines, and the brace that closes the body. */
function bodyLines(lines: readonly string[], indent: string): number {
  const last = lines.findIndex((line, at) =>
    at === 0 ? /[{};]$/.test(line) : line.startsWith(`${indent})`),
  );
  if (last === -1 || !lines[last]?.endsWith("{")) return 0;
  const end = lines.findIndex((line, at) => at > last && line.startsWith(`${indent}}`));
  return lines.slice(last + 1, end).filter((line) => line !== "").length;
}
