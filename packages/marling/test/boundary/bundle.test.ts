// The package as it is built (scripts/bundle.mjs): what each entry loads, in a process of its own.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildIfStale, filesBelow, library } from "../../../../scripts/workspace.mjs";

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly types: string; readonly default: string }>>;
}

const manifest = JSON.parse(readFileSync(join(library, "package.json"), "utf8")) as Manifest;
const entries = Object.keys(manifest.exports).map((subpath) => `marling${subpath.slice(1)}`);
const dist = join(library, "dist");

beforeAll(buildIfStale, 180_000);

test("every exports entry has a file and its declarations", () => {
  const targets = Object.values(manifest.exports).flatMap((target) => [target.types, target.default]);
  expect(targets.filter((target) => !existsSync(join(library, target)))).toEqual([]);
});

test("every source is in exactly one file", () => {
  const sources = filesBelow(dist).filter(isScript).flatMap(sourcesIn).sort();
  expect(sources.filter((source, index) => source === sources[index - 1])).toEqual([]);
  expect(sources).toContain("base/errors.ts");
  expect(sources).toContain("stock/mcp/mcp.ts");
  expect(sources).toContain("testing/crash/life.ts");
});

test("[BU1] marling is its entry and one chunk", () => {
  expect(loadedBy("marling")).toEqual(["chunks/core.js", "index.js"]);
});

test("[BU1] an embedder's entries load nothing of the stock, of tests, or of a peer", () => {
  const files = loadedBy("marling", "marling/sqlite", "marling/models");
  expect(files).toEqual(["chunks/core.js", "chunks/sqlite.js", "index.js", "models.js", "sqlite.js"]);
  const folders = new Set(files.flatMap(sourcesIn).map((source) => source.split("/")[0]));
  expect([...folders].filter((folder) => folder === "stock" || folder === "testing")).toEqual([]);
  expect(folders).toContain("kernel");
});

test("an embedder's entries leave the builtins alone that take long to load", () => {
  const slow = ["child_process", "dgram", "http", "https", "net", "tls", "worker_threads"];
  const program = `
    for (const entry of ["marling", "marling/sqlite", "marling/models"]) await import(entry);
    console.log(JSON.stringify(process.moduleLoadList));
  `;
  const loaded = run(program) as readonly string[];
  expect(loaded).toContain("NativeModule crypto");
  expect(slow.filter((name) => loaded.includes(`NativeModule ${name}`))).toEqual([]);
});

test("a name that several entries export is the same value in all", () => {
  const program = `
    const seen = new Map();
    const differ = [];
    for (const entry of ${JSON.stringify(entries)})
      for (const [name, value] of Object.entries(await import(entry)))
        if (!seen.has(name)) seen.set(name, value);
        else if (seen.get(name) !== value) differ.push(entry + " " + name);
    console.log(JSON.stringify({ names: seen.size, differ }));
  `;
  expect(run(program)).toEqual({ names: expect.any(Number), differ: [] });
});

test("what entries throw is the MarlingError of marling", () => {
  const program = `
    const { MarlingError } = await import("marling");
    const calls = [["plugin", "definePlugin"], ["plugins", "modelFallback"], ["sqlite", "sqliteStore"],
      ["models", "openaiModel"], ["tools", "fileTools"]];
    const found = [];
    for (const [entry, name] of calls) {
      const exported = await import("marling/" + entry);
      try { exported[name]({}); } catch (error) { found.push(error instanceof MarlingError); }
    }
    console.log(JSON.stringify(found));
  `;
  expect(run(program)).toEqual([true, true, true, true, true]);
});

test("a stack trace names the source", () => {
  const program = `
    const { definePlugin } = await import("marling");
    try { definePlugin({}); } catch (error) { console.log(JSON.stringify(error.stack)); }
  `;
  expect(run(program, "--enable-source-maps")).toMatch(/[/\\]src[/\\]plugin[/\\]define-plugin\.ts:\d+:\d+/);
});

test("[BU4] what a first turn calls was compiled with its file, what it does not call was not", () => {
  const folder = mkdtempSync(join(tmpdir(), "marling-bundle-"));
  const log = join(folder, "functions.log");
  const program = `
    const { createRuntime } = await import("marling");
    const { say, scriptedModel } = await import("marling/testing");
    const runtime = createRuntime({ model: scriptedModel([say("Yes.")]) });
    const { text } = await (await runtime.session("a")).run("Is it?");
    await runtime.close();
    console.log(JSON.stringify(text));
  `;
  try {
    expect(run(program, "--no-logfile-per-isolate", "--log-function-events", `--logfile=${log}`)).toBe(
      "Yes.",
    );
    const parsed = readFileSync(log, "utf8")
      .split("\n")
      .map((line) => line.split(","));
    const namesOf = (event: string): readonly (string | undefined)[] =>
      parsed.filter(([kind, what]) => kind === "function" && what === event).map((fields) => fields[7]);
    expect(namesOf("full-parse")).toContain("runTurn");
    expect(namesOf("parse-function")).not.toContain("runTurn");
    expect(namesOf("preparse-resolution")).toContain("forkGraph");
    expect(namesOf("preparse-resolution")).not.toContain("runTurn");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("[BU4] a stack trace through such a function names its source", () => {
  const program = `
    const { createRuntime } = await import("marling");
    try { createRuntime({ turnBudget: "many" }); } catch (error) { console.log(JSON.stringify(error.stack)); }
  `;
  const stack = String(run(program, "--enable-source-maps"));
  const [, file, line] = /at createRuntime \((?:file:\/\/)?(.*):(\d+):\d+\)/.exec(stack) ?? [];
  expect(readFileSync(String(file), "utf8").split("\n")[Number(line) - 1]).toContain("checkRuntimeOptions(");
});

test("a bundle has no character that makes an engine keep it in twice the memory", () => {
  const wide = loadedBy("marling", "marling/sqlite", "marling/models").filter((file) =>
    /[\u0100-\uffff]/.test(readFileSync(join(dist, file), "utf8")),
  );
  expect(wide).toEqual([]);
});

const isScript = (file: string): boolean => file.endsWith(".js");

/** Below src, as the source map of a file of dist lists them; one that only passes on names has none. */
function sourcesIn(file: string): readonly string[] {
  const path = join(dist, `${file}.map`);
  if (!existsSync(path)) return [];
  const map = JSON.parse(readFileSync(path, "utf8")) as { readonly sources: readonly string[] };
  return map.sources.map((source) => source.replace(/^(\.\.\/)+src\//, ""));
}

/** The files of dist that a process has which imports these entries and nothing else. */
function loadedBy(...imported: readonly string[]): readonly string[] {
  const program = `
    import { Session } from "node:inspector";
    const session = new Session();
    const urls = [];
    session.connect();
    session.on("Debugger.scriptParsed", ({ params }) => urls.push(params.url));
    session.post("Debugger.enable");
    for (const entry of ${JSON.stringify(imported)}) await import(entry);
    console.log(JSON.stringify(urls.filter((url) => url.startsWith("file:"))));
  `;
  const urls = run(program) as readonly string[];
  return urls
    .filter((url) => url.endsWith(".js"))
    .map((url) => url.replace(/^.*\/dist\//, ""))
    .sort();
}

/** What a program prints that imports the package as its users do. */
function run(program: string, ...options: readonly string[]): unknown {
  const args = [...options, "--input-type=module", "-e", program];
  return JSON.parse(execFileSync(process.execPath, args, { cwd: library, encoding: "utf8" }));
}
