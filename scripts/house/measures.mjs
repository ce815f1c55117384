// What `npm run house` counts in the sources.

import { SyntaxKind } from "typescript/unstable/ast";
import { blank, codeOf } from "../source-text.mjs";
import { ENTRIES, placeOf, pointsUp } from "./rooms.mjs";
import { walk } from "./sources.mjs";

/** @typedef {import("./sources.mjs").Source} Source */
/** @typedef {{ name: string; found: readonly string[] }} Measure one line of the table; each item is a place to look */

const BAGS = ["TurnRun", "ResidentSession", "KernelParts"];
const WIDE = ["LiveSession", "TurnState"];
const DIALECT = /\b(?:what (?:is|was)|whoever|somebody|nobody|goes on|comes to)\b/i;

/** Files whose `isPromise` refuses a promise of a synchronous callback, or stands in the path of every chunk. */
const MAY_ASK_PROMISE =
  /(?:^base\/deferred|\/(?:model-stream|slot-call|plugin-calls|plugin-instance|plugin-shape|schema-check|state-cell|session-trace|write-queue|schema))\.ts$/;

/**
 * @param {readonly Source[]} sources
 * @returns {Measure[]}
 */
export function measure(sources) {
  const kernel = sources.filter(({ path }) => path.startsWith("kernel/"));
  const edges = sources
    .filter(({ path }) => !ENTRIES.includes(path))
    .flatMap(({ path, imports }) => imports.map((to) => ({ from: path, to: to.path, isType: to.isType })));
  const upward = edges.filter(({ from, to }) => pointsUp(from, to));
  const shown = (/** @type {{ from: string; to: string }} */ edge) => `${edge.from} -> ${edge.to}`;
  return [
    { name: "files", found: sources.map(({ path }) => path) },
    { name: "files in kernel", found: kernel.map(({ path }) => path) },
    { name: "files of the fullest kernel room", found: fullest(sources, ["kernel"]) },
    { name: "files of the fullest other room", found: fullest(sources, ["plugin", "store", "llm", "work"]) },
    { name: "files without a room", found: sources.filter(isHomeless).map(({ path }) => path) },
    { name: "upward imports, value", found: upward.filter(({ isType }) => !isType).map(shown) },
    { name: "upward imports, type", found: upward.filter(({ isType }) => isType).map(shown) },
    { name: "files in the largest value cycle", found: largestCycle(sources, { types: false }) },
    { name: "files in the largest type cycle", found: largestCycle(sources, { types: true }) },
    ...importers(sources),
    { name: "exported type names defined twice", found: doubleTypes(sources) },
    { name: "functions that take a bag", found: functionsTaking(kernel, BAGS) },
    { name: "functions that take LiveSession or TurnState", found: functionsTaking(kernel, WIDE) },
    { name: "lines that reach through a bag", found: linesReachingThrough(kernel) },
    { name: "isPromise outside streams and contract checks", found: promiseQuestions(sources) },
    { name: "spreads of undefined", found: matches(sources, /=== undefined\s*\?\s*\{\}\s*:/g) },
    { name: "comment lines with dialect words", found: dialect(sources) },
    { name: "store contract types without a public export", found: unexportedTypes(sources) },
  ];
}

/** @param {Source} source */
function isHomeless({ path }) {
  return !ENTRIES.includes(path) && (placeOf(path)?.order ?? 0) < 0;
}

/**
 * @param {readonly Source[]} sources
 * @param {readonly string[]} folders
 */
function fullest(sources, folders) {
  /** @type {Map<string, string[]>} */
  const rooms = new Map();
  for (const { path } of sources) {
    const place = placeOf(path);
    if (place === undefined || !folders.includes(place.folder)) continue;
    const key = `${place.folder}/${place.room}`;
    rooms.set(key, [...(rooms.get(key) ?? []), path]);
  }
  return [...rooms.values()].reduce((most, files) => (files.length > most.length ? files : most), []);
}

/**
 * The largest strongly connected component with more than one file, by Tarjan's algorithm.
 * @param {readonly Source[]} sources
 * @param {{ types: boolean }} options
 */
function largestCycle(sources, { types }) {
  const targets = new Map(
    sources.map(({ path, imports }) => [
      path,
      imports.filter(({ isType }) => types || !isType).map((edge) => edge.path),
    ]),
  );
  /** @type {Map<string, { index: number; low: number; isOpen: boolean }>} */
  const seen = new Map();
  /** @type {string[]} */
  const stack = [];
  /** @type {string[]} */
  let largest = [];
  /** @param {string} path */
  const visit = (path) => {
    const own = { index: seen.size, low: seen.size, isOpen: true };
    seen.set(path, own);
    stack.push(path);
    for (const target of targets.get(path) ?? []) {
      const other = seen.get(target) ?? (targets.has(target) ? visit(target) : undefined);
      if (other?.isOpen === true) own.low = Math.min(own.low, other.low);
    }
    if (own.low === own.index) {
      const component = stack.splice(stack.indexOf(path));
      for (const each of component) /** @type {{ isOpen: boolean }} */ (seen.get(each)).isOpen = false;
      if (component.length > 1 && component.length > largest.length) largest = component;
    }
    return own;
  };
  for (const { path } of sources) if (!seen.has(path)) visit(path);
  return largest.sort();
}

/**
 * @param {readonly Source[]} sources
 * @returns {Measure[]}
 */
function importers(sources) {
  /** @type {Map<string, string[]>} */
  const by = new Map();
  for (const { path, imports } of sources)
    for (const to of imports) by.set(to.path, [...(by.get(to.path) ?? []), path]);
  const single = sources.filter(({ path }) => by.get(path)?.length === 1);
  const isFragment = (/** @type {Source} */ { path, text }) =>
    text.split("\n").length <= 40 &&
    !path.endsWith("/contract.ts") &&
    folderOf(path) === folderOf(by.get(path)?.[0] ?? "");
  return [
    { name: "files with one importer", found: single.map(({ path }) => path) },
    {
      name: "of these under 40 lines in its folder",
      found: single.filter(isFragment).map(({ path }) => path),
    },
  ];
}

/** @param {string} path */
function folderOf(path) {
  return path.slice(0, path.lastIndexOf("/"));
}

const TYPE_KINDS = [
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.ClassDeclaration,
];

/** @param {Source} source @returns {string[]} */
function exportedTypes({ tree }) {
  return tree.statements.flatMap((/** @type {any} */ statement) => {
    const isExported = statement.modifiers?.some(
      (/** @type {any} */ each) => each.kind === SyntaxKind.ExportKeyword,
    );
    return isExported && TYPE_KINDS.includes(statement.kind) ? [statement.name.text] : [];
  });
}

/** @param {readonly Source[]} sources */
function doubleTypes(sources) {
  /** @type {Map<string, string[]>} */
  const places = new Map();
  for (const source of sources)
    for (const name of exportedTypes(source)) places.set(name, [...(places.get(name) ?? []), source.path]);
  return [...places]
    .filter(([, files]) => files.length > 1)
    .map(([name, files]) => `${name}: ${files.join(", ")}`);
}

/** @param {readonly Source[]} sources */
function unexportedTypes(sources) {
  const contract = sources.find(({ path }) => path === "store/contract.ts");
  const entries = sources.filter(({ path }) => ENTRIES.includes(path)).map(({ text }) => codeOf(text));
  const isPublic = (/** @type {string} */ name) =>
    entries.some((code) => new RegExp(`\\b${name}\\b`).test(code));
  return contract === undefined ? [] : exportedTypes(contract).filter((name) => !isPublic(name));
}

/**
 * Top-level functions with a parameter of one of these types; a `Pick` of one is narrow.
 * @param {readonly Source[]} sources
 * @param {readonly string[]} names
 */
function functionsTaking(sources, names) {
  return sources.flatMap(({ path, tree }) =>
    topLevelFunctions(tree)
      .filter(({ node }) => node.parameters.some((/** @type {any} */ each) => mentions(each.type, names)))
      .map(({ name }) => `${path}: ${name}`),
  );
}

/** @param {any} type @param {readonly string[]} names @returns {boolean} */
function mentions(type, names) {
  if (type === undefined) return false;
  if (type.kind === SyntaxKind.FunctionType) return false;
  if (type.kind === SyntaxKind.TypeReference) {
    const name = type.typeName.text;
    if (names.includes(name)) return true;
    if (name === "Pick" || name === "Parameters") return false;
  }
  let found = false;
  type.forEachChild((/** @type {any} */ child) => {
    found ||= mentions(child, names);
    return undefined;
  });
  return found;
}

/**
 * @param {import("./sources.mjs").Tree} tree
 * @returns {{ name: string; node: any }[]}
 */
export function topLevelFunctions(tree) {
  return tree.statements.flatMap((/** @type {any} */ statement) => {
    if (statement.kind === SyntaxKind.FunctionDeclaration && statement.body !== undefined)
      return [{ name: statement.name?.text ?? "default", node: statement }];
    if (statement.kind !== SyntaxKind.VariableStatement) return [];
    return statement.declarationList.declarations
      .filter((/** @type {any} */ each) => isFunction(each.initializer))
      .map((/** @type {any} */ each) => ({ name: each.name.text, node: each.initializer }));
  });
}

/** @param {any} node */
function isFunction(node) {
  return node?.kind === SyntaxKind.ArrowFunction || node?.kind === SyntaxKind.FunctionExpression;
}

/** @param {readonly Source[]} kernel */
function linesReachingThrough(kernel) {
  const outside = kernel.filter(({ path }) => !/^kernel\/(?:scope|session)\//.test(path));
  return matches(outside, /\b(?:session\.parts|turn\.session)\b/g);
}

/** @param {readonly Source[]} sources */
function promiseQuestions(sources) {
  return matches(
    sources.filter(({ path }) => !MAY_ASK_PROMISE.test(path)),
    /\bisPromise\(/g,
  );
}

/**
 * @param {readonly Source[]} sources
 * @param {RegExp} pattern
 */
function matches(sources, pattern) {
  return sources.flatMap(({ path, text }) => {
    const code = codeOf(text);
    return [...code.matchAll(pattern)].map(
      ({ index }) => `${path}:${code.slice(0, index).split("\n").length}`,
    );
  });
}

/** @param {readonly Source[]} sources */
function dialect(sources) {
  return sources.flatMap(({ path, text }) => {
    const comments = blank(text, ["code", "string", "template", "regex"]).split("\n");
    return comments.flatMap((line, at) => (DIALECT.test(line) ? [`${path}:${at + 1}: ${line.trim()}`] : []));
  });
}

const LONG_FILE = 600;
const LONG_FUNCTION = 60;

/**
 * Files and functions that are long enough to ask whether they are one idea or several. A question, not a rule.
 * @param {readonly Source[]} sources
 * @returns {string[]}
 */
export function longParts(sources) {
  const lines = (/** @type {string} */ text) => text.trimEnd().split("\n").length;
  const files = sources
    .filter(({ text }) => lines(text) > LONG_FILE)
    .map(({ path, text }) => `${path}: ${lines(text)} lines`);
  const functions = sources.flatMap(({ path, text, tree }) =>
    namedFunctions(tree)
      .map(({ name, node }) => ({ name, count: lines(text.slice(node.body.pos, node.body.end)) }))
      .filter(({ count }) => count > LONG_FUNCTION)
      .map(({ name, count }) => `${path}: ${name}: ${count} lines`),
  );
  return [...files, ...functions];
}

const FUNCTION_KINDS = [
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
];

/**
 * Every function that has a body and a name: its own, that of its class, or that of the variable or member that it is
 * written to. Functions that are written as arguments are part of the function around them.
 * @param {import("./sources.mjs").Tree} tree
 * @returns {{ name: string; node: any }[]}
 */
export function namedFunctions(tree) {
  /** @type {{ name: string; node: any }[]} */
  const found = [];
  walk(tree, (node) => {
    if (!FUNCTION_KINDS.includes(node.kind) || node.body === undefined) return;
    const name =
      node.kind === SyntaxKind.Constructor ? "constructor" : (node.name ?? node.parent?.name)?.text;
    if (name === undefined) return;
    const isMethod = node.parent?.kind === SyntaxKind.ClassDeclaration;
    found.push({ name: isMethod ? `${node.parent.name?.text}.${name}` : name, node });
  });
  return found;
}
