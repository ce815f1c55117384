// Files do not need each other to be loaded. Type-only imports vanish when compiled and do not count.

import { expect, test } from "vitest";
import { importedPath, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

test("no file imports itself through others", () => {
  expect(cycles(sourceFiles())).toEqual([]);
});

test("the check catches what it is for", () => {
  const a = sourceFile("x/a.ts", 'import { b } from "./b.ts";');
  const back = sourceFile("x/b.ts", 'import { c } from "../y/c.ts";');
  expect(cycles([a, back, sourceFile("y/c.ts", 'export { a } from "../x/a.ts";')])).toEqual([
    "x/a.ts -> x/b.ts -> y/c.ts -> x/a.ts",
  ]);
  expect(cycles([a, back, sourceFile("y/c.ts", 'import type { A } from "../x/a.ts";')])).toEqual([]);
});

/** One path per cycle that a depth-first walk meets, from and to the same file. */
function cycles(files: readonly SourceFile[]): readonly string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const found: string[] = [];

  const visit = (path: string, trail: readonly string[]): void => {
    const seenAt = trail.indexOf(path);
    if (seenAt !== -1) found.push([...trail.slice(seenAt), path].join(" -> "));
    const file = byPath.get(path);
    if (seenAt !== -1 || done.has(path) || file === undefined) return;
    for (const target of loadedBy(file)) visit(target, [...trail, path]);
    done.add(path);
  };

  for (const { path } of files) visit(path, []);
  return found;
}

function loadedBy(file: SourceFile): readonly string[] {
  return file.imports.flatMap(({ specifier, typeOnly }) => {
    const target = typeOnly ? undefined : importedPath(file, specifier);
    return target === undefined ? [] : [target];
  });
}
