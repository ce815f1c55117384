// Files are named after what they hold. Their sizes are a question that `npm run house` asks, not a rule.

import { basename } from "node:path";
import { expect, test } from "vitest";
import { type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const KEBAB_CASE = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const EMPTY_WORDS = /(?:^|-)(?:utils?|helpers?|common|types?|managers?|services?)$/;
const ALLOWED = ["plugin/host-services.ts", "kernel/services.ts"];

test("file and folder names are kebab-case", () => {
  expect(sourceFiles().flatMap(oddNames)).toEqual([]);
});

test("no file is named after nothing in particular", () => {
  expect(sourceFiles().flatMap(emptyNames)).toEqual([]);
});

test("the check catches what it is for", () => {
  expect(oddNames(sourceFile("base/asyncQueue.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("store/types.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("plugin/plugin-manager.ts", ""))).toHaveLength(1);
  expect(emptyNames(sourceFile("kernel/services.ts", ""))).toEqual([]);
});

function oddNames({ path }: SourceFile): readonly string[] {
  const parts = path.replace(/\.ts$/, "").split("/");
  return parts.every((part) => KEBAB_CASE.test(part)) ? [] : [path];
}

function emptyNames({ path }: SourceFile): readonly string[] {
  return EMPTY_WORDS.test(basename(path, ".ts")) && !ALLOWED.includes(path) ? [path] : [];
}
