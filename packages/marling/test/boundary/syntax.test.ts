// Syntax that the house does without: names instead of default exports, unions instead of enums, files instead of
// namespaces, and a library that prints nothing.

import { expect, test } from "vitest";
import { matchesIn, packageNames, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const REFUSED: Readonly<Record<string, RegExp>> = {
  "default exports": /^export\s+default\b|\bas\s+default\b/gm,
  enums: /(?<![\w$.])enum\s+[\w$]+\s*\{/g,
  namespaces: /^(?:export\s+)?(?:declare\s+)?(?:namespace|module)\s+[\w$.]+\s*\{/gm,
  "console calls": /(?<![\w$.])console\s*\./g,
};

test.each(Object.entries(REFUSED))("the sources contain no %s", (_name, pattern) => {
  const problems = packageNames().flatMap((name) =>
    sourceFiles(name).flatMap((file) => matchesIn(file, pattern)),
  );
  expect(problems).toEqual([]);
});

test("the check catches what it is for", () => {
  expect(refused("export default f;")).toEqual(["default exports"]);
  expect(refused("export { f as default };")).toEqual(["default exports"]);
  expect(refused("export const enum A { x }")).toEqual(["enums"]);
  expect(refused("declare namespace A { }")).toEqual(["namespaces"]);
  expect(refused("  console.log(1);")).toEqual(["console calls"]);
  expect(refused('const text = "console.log"; // export default')).toEqual([]);
});

function refused(text: string): readonly string[] {
  const file: SourceFile = sourceFile("base/a.ts", text);
  return Object.entries(REFUSED).flatMap(([name, pattern]) =>
    matchesIn(file, pattern).length > 0 ? [name] : [],
  );
}
