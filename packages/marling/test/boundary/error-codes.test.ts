// The table in base/errors.ts, its uses in the sources and its page in the docs name the same codes.
// The page has one table row per code that begins with the code: | `lease_lost` | ...

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { blank } from "../../../../scripts/source-text.mjs";
import { ERROR_CODES } from "../../src/base/errors.ts";
import { repository, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const TABLE = "base/errors.ts";
const CODES: readonly string[] = Object.keys(ERROR_CODES);

test("the table of codes is alphabetical", () => {
  expect(CODES).toEqual([...CODES].sort());
});

test("every code that is thrown is in the table", () => {
  const thrown = sourceFiles().flatMap(thrownCodes);
  expect(thrown.filter((code) => !CODES.includes(code))).toEqual([]);
});

test("every code of the table is used", () => {
  const used = new Set(
    sourceFiles()
      .filter(({ path }) => path !== TABLE)
      .flatMap(stringsIn),
  );
  expect(CODES.filter((code) => !used.has(code))).toEqual([]);
});

test("docs/errors.md documents every code and no other", () => {
  const page = readFileSync(`${repository}docs/errors.md`, "utf8");
  expect(documentedCodes(page)).toEqual(CODES);
});

test("the check catches what it is for", () => {
  const sample = sourceFile(
    "kernel/a.ts",
    'throw new MarlingError(\n  "nope", "m"); // new MarlingError("no")\nf("x");',
  );
  expect(thrownCodes(sample)).toEqual(["nope"]);
  expect(stringsIn(sample)).toEqual(["nope", "m", "x"]);
  expect(documentedCodes("| code |\n|---|\n| `b_c` | says |\n| `a` | says |\n\n`d`")).toEqual(["a", "b_c"]);
});

function thrownCodes(file: SourceFile): readonly string[] {
  const text = blank(file.text, ["comment"]);
  return [...text.matchAll(/new MarlingError\(\s*"([^"]*)"/g)].map((match) => match[1] ?? "");
}

function stringsIn(file: SourceFile): readonly string[] {
  const text = blank(file.text, ["comment", "template", "regex"]);
  return [...text.matchAll(/"([^"\n]*)"/g)].map((match) => match[1] ?? "");
}

function documentedCodes(page: string): readonly string[] {
  return [...page.matchAll(/^\| `([a-z_]+)` \|/gm)].map((match) => match[1] ?? "").sort();
}
