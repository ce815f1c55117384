// Who may import whom. The table is the architecture; a folder without a row is an error.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ENTRIES } from "../../../../scripts/house/rooms.mjs";
import { importedPath, repository, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const SEAMS = ["effects", "llm", "sandbox", "store", "tool", "trace"];
const CONTRACTS = SEAMS.map((seam) => `${seam}/contract.ts`);
const KERNEL = [
  "kernel",
  "work",
  "plugin",
  "turn",
  "session",
  "prompt",
  "model",
  "tool",
  "base",
  ...CONTRACTS,
];

/** A row names folders (all of it) and files (that file only). Every file may import its own folder. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  base: [],
  model: ["base"],
  session: ["model", "base"],
  prompt: ["model", "base"],
  turn: ["model", "base"],

  effects: ["model", "base"],
  llm: ["model", "base"],
  sandbox: ["model", "base"],
  store: ["model", "base"],
  tool: ["model", "base"],
  trace: ["model", "base"],

  plugin: [
    "model",
    "session",
    "prompt",
    "turn",
    "tool",
    "base",
    "work/task.ts",
    "work/monitor.ts",
    "work/trigger.ts",
    ...CONTRACTS,
  ],
  kernel: KERNEL,
  "kernel/create-runtime.ts": [...KERNEL, ...SEAMS],
  "kernel/runtime-options.ts": [...KERNEL, "llm"],
  work: ["model", "base"],

  wire: ["model", "base"],
  server: ["wire", "kernel", "base"],
  client: ["wire", "base"],
  stock: ENTRIES,
  testing: [...ENTRIES, "model", "base", ...CONTRACTS],
};

/** Folders that run anywhere: no builtins of Node. */
const NO_BUILTINS = ["model", "session", "prompt", "turn", "wire", "client"];

test("every import goes where the layer table allows", () => {
  expect(sourceFiles().flatMap(forbiddenImports)).toEqual([]);
});

test("packages that are imported are declared, and base imports none", () => {
  const declared = declaredPackages();
  expect(sourceFiles().flatMap((file) => forbiddenPackages(file, declared))).toEqual([]);
});

test("the pure folders, the browser-safe folders and the contracts use no builtin of Node", () => {
  expect(sourceFiles().flatMap(forbiddenBuiltins)).toEqual([]);
});

test("the check catches what it is for", () => {
  const problems = (path: string, specifier: string): readonly string[] =>
    forbiddenImports(sourceFile(path, `import { x } from "${specifier}";`));
  expect(problems("turn/step.ts", "../session/node.ts")).toHaveLength(1);
  expect(problems("store/contract.ts", "./memory.ts")).toHaveLength(1);
  expect(problems("kernel/commit.ts", "../store/memory.ts")).toHaveLength(1);
  expect(problems("kernel/commit.ts", "../store/contract.ts")).toEqual([]);
  expect(problems("kernel/create-runtime.ts", "../store/memory.ts")).toEqual([]);
  expect(problems("somewhere/new.ts", "../base/clock.ts")).toHaveLength(1);
  expect(forbiddenPackages(sourceFile("base/a.ts", 'import "zod";'), new Set(["zod"]))).toHaveLength(1);
  expect(forbiddenPackages(sourceFile("llm/a.ts", 'import "@a/b/c";'), new Set(["@a/b"]))).toEqual([]);
  expect(forbiddenBuiltins(sourceFile("model/a.ts", 'import "node:fs";'))).toHaveLength(1);
});

function forbiddenImports(file: SourceFile): readonly string[] {
  if (ENTRIES.includes(file.path)) return [];
  const allowed = rowFor(file.path);
  if (allowed === undefined) return [`${file.path}: its folder has no row in the layer table`];
  return file.imports.flatMap(({ specifier, line }) => {
    const target = importedPath(file, specifier);
    if (target === undefined || isCovered(target, allowed)) return [];
    return [`${file.path}:${line}: imports ${target}`];
  });
}

function rowFor(path: string): readonly string[] | undefined {
  const folder = folderOf(path);
  if (CONTRACTS.includes(path)) return ["model", "base"];
  const row = MAY_IMPORT[path] ?? MAY_IMPORT[folder];
  return row === undefined ? undefined : [folder, ...row];
}

function isCovered(target: string, allowed: readonly string[]): boolean {
  return allowed.includes(target) || allowed.includes(folderOf(target));
}

function folderOf(path: string): string {
  return path.split("/")[0] ?? path;
}

function forbiddenPackages(file: SourceFile, declared: ReadonlySet<string>): readonly string[] {
  return file.imports
    .filter(({ specifier }) => !specifier.startsWith(".") && !specifier.startsWith("node:"))
    .filter(({ specifier }) => folderOf(file.path) === "base" || !declared.has(packageOf(specifier)))
    .map(({ specifier, line }) => `${file.path}:${line}: imports ${specifier}`);
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function declaredPackages(): ReadonlySet<string> {
  const manifest = JSON.parse(readFileSync(`${repository}packages/marling/package.json`, "utf8"));
  return new Set(Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }));
}

function forbiddenBuiltins(file: SourceFile): readonly string[] {
  if (!NO_BUILTINS.includes(folderOf(file.path)) && !CONTRACTS.includes(file.path)) return [];
  return file.imports
    .filter(({ specifier }) => specifier.startsWith("node:"))
    .map(({ specifier, line }) => `${file.path}:${line}: imports ${specifier}`);
}
