// What a walk leaves out: the rules of .gitignore files, read as git reads them.
//   IR1  the last rule that fits decides; a rule of a deeper file comes after those above it.
//   IR2  what is below a folder that is left out stays out, whatever rules say about it.

import { type PathPattern, segmentPattern } from "./path-pattern.ts";

export interface IgnoreRule {
  readonly pattern: PathPattern;
  readonly isNegated: boolean;
  readonly isForFolders: boolean;
}

/** Rules that hold below one folder. */
export interface IgnoreScope {
  /** How deep the folder is: paths are compared without so many names in front. */
  readonly depth: number;
  readonly rules: readonly IgnoreRule[];
}

/** Reads the text of a .gitignore file. Lines that say nothing are passed over. */
export function parseIgnoreRules(text: string): readonly IgnoreRule[] {
  return text.split(/\r?\n/).flatMap((line) => parseRule(line) ?? []);
}

function parseRule(line: string): IgnoreRule | undefined {
  let text = withoutTrailingSpaces(line);
  if (text === "" || text.startsWith("#")) return undefined;
  const isNegated = text.startsWith("!");
  if (isNegated) text = text.slice(1);
  const isForFolders = text.endsWith("/") && !text.endsWith("\\/");
  if (isForFolders) text = text.replace(/\/+$/, "");
  if (text === "") return undefined;
  const isAnchored = text.includes("/");
  const pattern = segmentPattern(isAnchored ? text : `**/${text}`);
  return { pattern, isNegated, isForFolders };
}

/** A space at the end counts only after a backslash. */
function withoutTrailingSpaces(line: string): string {
  let end = line.length;
  while (end > 0 && line[end - 1] === " " && line[end - 2] !== "\\") end -= 1;
  return line.slice(0, end);
}

/** Whether a path is left out. Contract: none of the folders above it is. */
export function isIgnored(
  scopes: readonly IgnoreScope[],
  path: readonly string[],
  options: { readonly isFolder: boolean },
): boolean {
  for (let scope = scopes.length - 1; scope >= 0; scope -= 1) {
    const { depth = 0, rules = [] } = scopes[scope] ?? {};
    const below = path.slice(depth);
    for (let at = rules.length - 1; at >= 0; at -= 1) {
      const rule = rules[at];
      if (rule === undefined || (rule.isForFolders && !options.isFolder)) continue;
      if (rule.pattern.matches(below)) return !rule.isNegated;
    }
  }
  return false;
}
