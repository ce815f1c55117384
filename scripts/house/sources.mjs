// The library's sources as syntax trees, and who imports whom.

import { readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";
import { SyntaxKind } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";
import { library } from "../workspace.mjs";

/**
 * @typedef {import("typescript/unstable/ast").Node} Node
 * @typedef {import("typescript/unstable/ast").SourceFile} Tree
 * @typedef {{ path: string; isType: boolean }} Edge one imported file; `isType` when only types are imported
 * @typedef {{ path: string; text: string; tree: Tree; imports: Edge[] }} Source
 */

const src = join(library, "src");

/**
 * Every source file of the library, sorted by path. The trees are valid while `use` runs.
 * @template T
 * @param {(sources: Source[]) => T | Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withSources(use) {
  const api = new API({ cwd: library });
  try {
    const config = join(library, "tsconfig.json");
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
    if (project === undefined) throw new Error(`${config} is no project`);
    const sources = [...project.rootFiles].sort().map((file) => {
      const tree = project.program.getSourceFile(file);
      if (tree === undefined) throw new Error(`${file} is not in the program`);
      const path = relative(src, file).replaceAll("\\", "/");
      return { path, text: readFileSync(file, "utf8"), tree, imports: importsOf(path, tree) };
    });
    return await use(sources);
  } finally {
    api.close();
  }
}

/**
 * @param {string} path
 * @param {Tree} tree
 * @returns {Edge[]} each imported file of the library once
 */
function importsOf(path, tree) {
  /** @type {Map<string, boolean>} */
  const found = new Map();
  for (const statement of tree.statements) {
    const specifier = /** @type {any} */ (statement).moduleSpecifier?.text;
    if (typeof specifier !== "string" || !specifier.startsWith(".")) continue;
    const target = posix.join(dirname(path), specifier);
    found.set(target, (found.get(target) ?? true) && isTypeOnly(statement));
  }
  return [...found].map(([target, isType]) => ({ path: target, isType }));
}

/** @param {any} statement an import or a re-export */
function isTypeOnly(statement) {
  if (statement.kind === SyntaxKind.ExportDeclaration)
    return statement.isTypeOnly === true || isAllTypes(statement.exportClause?.elements);
  const clause = statement.importClause;
  if (clause === undefined) return false;
  if (clause.isTypeOnly === true || clause.phaseModifier === SyntaxKind.TypeKeyword) return true;
  return clause.name === undefined && isAllTypes(clause.namedBindings?.elements);
}

/** @param {readonly { isTypeOnly?: boolean }[] | undefined} elements */
function isAllTypes(elements) {
  return elements !== undefined && elements.length > 0 && elements.every((each) => each.isTypeOnly === true);
}

/**
 * Calls `visit` for every node below one, itself included.
 * @param {Node} node
 * @param {(node: any) => void} visit
 */
export function walk(node, visit) {
  visit(node);
  node.forEachChild((child) => {
    walk(child, visit);
    return undefined;
  });
}
