// The library's sources as text, for the tests in this folder.

import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { codeOf, type Import, importsOf, lineOf } from "../../../../scripts/source-text.mjs";
import { filesBelow } from "../../../../scripts/workspace.mjs";

export const repository: string = fileURLToPath(new URL("../../../../", import.meta.url));

export interface SourceFile {
  /** Relative to its package's `src`, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** The text with comments and literals blanked; lines and columns are kept. */
  readonly code: string;
  readonly imports: readonly Import[];
}

/** The TypeScript sources of one package. */
export function sourceFiles(packageName = "marling"): readonly SourceFile[] {
  const folder = `${repository}packages/${packageName}/src`;
  return filesBelow(folder)
    .filter((path) => path.endsWith(".ts"))
    .map((path) => sourceFile(path, readFileSync(`${folder}/${path}`, "utf8")));
}

export function packageNames(): readonly string[] {
  return readdirSync(`${repository}packages`);
}

/** A source file from its text, for samples of what a check must catch. */
export function sourceFile(path: string, text: string): SourceFile {
  return { path, text, code: codeOf(text), imports: importsOf(text) };
}

/** The file that a relative import names, relative to `src`; nothing for packages and builtins. */
export function importedPath(from: SourceFile, specifier: string): string | undefined {
  return specifier.startsWith(".") ? posix.join(posix.dirname(from.path), specifier) : undefined;
}

/** One problem per match of a pattern in the code, comments and literals aside. */
export function matchesIn(file: SourceFile, pattern: RegExp): readonly string[] {
  return [...file.code.matchAll(pattern)].map(
    (match) => `${file.path}:${lineOf(file.code, match.index)}: ${match[0].trim()}`,
  );
}
