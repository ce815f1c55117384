// The front doors list their names one by one: the list is the review of the public surface.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { matchesIn, repository, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const EXPORT_STAR = /^export\s*(?:type\s*)?\*/gm;

test("no file re-exports everything of another", () => {
  expect(sourceFiles().flatMap(starsIn)).toEqual([]);
});

test("every exports entry of the package is built from a source file", () => {
  const sources = new Set(sourceFiles().map(({ path }) => path));
  expect(entrySources().filter((path) => !sources.has(path))).toEqual([]);
});

test("the check catches what it is for", () => {
  expect(
    starsIn(sourceFile("index.ts", 'export * from "./a.ts";\nexport type * from "./b.ts";')),
  ).toHaveLength(2);
  expect(starsIn(sourceFile("index.ts", 'export { a } from "./a.ts"; // export *'))).toEqual([]);
});

function starsIn(file: SourceFile): readonly string[] {
  return matchesIn(file, EXPORT_STAR);
}

function entrySources(): readonly string[] {
  const manifest = JSON.parse(readFileSync(`${repository}packages/marling/package.json`, "utf8"));
  return Object.values<{ default: string }>(manifest.exports).map((target) =>
    target.default.replace("./dist/", "").replace(/\.js$/, ".ts"),
  );
}
