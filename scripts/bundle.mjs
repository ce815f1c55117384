// What users of a package load, made of its sources: a file for each entry, and chunks for what entries share. A module is
// in exactly one of these files, so a class is the same class through every entry.
//   BU1  what `import "marling"` needs is one chunk: one large file loads faster than a dozen, and 300 take thrice as long.
//   BU2  nothing of another package is taken in: what is imported from one must be declared.
//   BU3  a file is written only when it differs, and one that no longer belongs to the bundle is removed.
//   BU4  what the first turns of a process run is compiled when it is loaded (compile-early.mjs).

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { rolldown } from "rolldown";
import { compileEarly } from "./compile-early.mjs";
import { filesBelow, quiet, StepFailed } from "./workspace.mjs";

/**
 * Started as processes, so they are files of their own: where they are looked for below dist, and their source.
 * @type {Record<string, Record<string, string>>}
 */
const PROGRAMS = {
  marling: { "testing/crash/life": "testing/crash/life.ts" },
  "@marling/cli": { "tour-life": "tour/tour-life.ts" },
};

/** @typedef {{ name: string; exports: Record<string, { default: string }>; bin?: Record<string, string>; dependencies?: object; peerDependencies?: object }} Manifest */

/**
 * Bundles a package into its dist.
 * @param {string} folder of the package
 * @returns {Promise<string[]>} the files, relative to dist, sorted
 */
export async function bundle(folder) {
  /** @type {Manifest} */
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const output = await generate(manifest, folder).catch((error) => {
    const reason = error instanceof StepFailed ? error.output : error.message;
    throw new StepFailed(`${manifest.name} cannot be bundled: ${reason}`);
  });
  refuseForeign(output, folder);
  return write(output, join(folder, "dist"));
}

/**
 * @param {Manifest} manifest
 * @param {string} folder
 */
async function generate(manifest, folder) {
  const front = manifest.exports["."] === undefined ? undefined : join(folder, "src", "index.ts");
  const build = await rolldown({
    cwd: folder,
    input: entriesOf(manifest, folder),
    platform: "node",
    external: externalsOf(manifest),
    transform: { target: "node20.19" },
    checks: { bundlerTimings: false },
    onLog: (level, log) => {
      if (level === "warn") throw new Error(log.message);
    },
  });
  /** @type {import("rolldown").OutputOptions} */
  const options = {
    dir: join(folder, "dist"),
    format: "esm",
    entryFileNames: "[name].js",
    // What finds files beside itself must be where its entry is: a program without a front door keeps all in one folder.
    chunkFileNames: front === undefined ? "[name].js" : "chunks/[name].js",
    sourcemap: true,
    ...(front === undefined ? {} : { codeSplitting: { groups: [{ name: coreOf(front) }] } }),
  };
  // Plugins see a file before it is minified.
  const draft = () => build.generate({ ...options, minify: false });
  const called = front === undefined ? {} : await calledFirst((await draft()).output, folder);
  const { output } = await build.generate({ ...options, plugins: [compileEarly(called)] });
  await build.close();
  return output;
}

/**
 * Runs first turns on a draft of the bundle, beside where it will be.
 * @param {readonly Output[]} output
 * @param {string} folder
 * @returns {Promise<Record<string, readonly number[]>>} by file, where the functions begin that were called
 */
async function calledFirst(output, folder) {
  const draft = join(folder, "dist", ".draft");
  try {
    write(output, draft);
    return JSON.parse(await quiet(process.execPath, [join(import.meta.dirname, "first-turn.mjs"), draft]));
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

/**
 * @param {Manifest} manifest
 * @param {string} folder
 * @returns {Record<string, string>} path below dist, without its extension, to source
 */
function entriesOf(manifest, folder) {
  const targets = [
    ...Object.values(manifest.exports).map((target) => target.default),
    ...Object.values(manifest.bin ?? {}),
  ];
  const names = targets.map((target) => target.replace(/^\.\/dist\/(.*)\.js$/, "$1"));
  const sources = {
    ...Object.fromEntries(names.map((name) => [name, `${name}.ts`])),
    ...PROGRAMS[manifest.name],
  };
  return Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [name, join(folder, "src", source)]),
  );
}

/** @param {Manifest} manifest */
function externalsOf({ dependencies = {}, peerDependencies = {} }) {
  const declared = Object.keys({ ...dependencies, ...peerDependencies });
  return (/** @type {string} */ id) =>
    id.startsWith("node:") || declared.some((name) => id === name || id.startsWith(`${name}/`));
}

/**
 * Names the chunk of a module: "core" for what the front door imports, directly or through others.
 * @param {string} front
 * @returns {(id: string, context: { getModuleInfo(id: string): { importedIds: string[] } | null }) => string | null}
 */
function coreOf(front) {
  /** @type {Set<string> | undefined} */
  let core;
  return (id, context) => {
    core ??= reachedFrom(front, (each) => context.getModuleInfo(each)?.importedIds ?? []);
    return core.has(id) ? "core" : null;
  };
}

/**
 * @param {string} start
 * @param {(id: string) => readonly string[]} importedBy
 */
function reachedFrom(start, importedBy) {
  const reached = new Set([start]);
  for (const id of reached) for (const imported of importedBy(id)) reached.add(imported);
  return reached;
}

/** @typedef {import("rolldown").OutputChunk | import("rolldown").OutputAsset} Output */

/**
 * @param {readonly Output[]} output
 * @param {string} folder
 */
function refuseForeign(output, folder) {
  const own = join(folder, "src");
  const modules = output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
  const foreign = modules.find((id) => !id.startsWith(own) && !id.startsWith("\0"));
  if (foreign === undefined) return;
  throw new StepFailed(`${relative(folder, foreign)} is imported but belongs to no declared dependency`);
}

/**
 * @param {readonly Output[]} output
 * @param {string} dist
 */
function write(output, dist) {
  const files = new Map(
    output.map((file) => [file.fileName, file.type === "chunk" ? file.code : String(file.source)]),
  );
  for (const [name, text] of files) {
    const path = join(dist, name);
    if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  for (const name of filesBelow(dist))
    if (/\.js(\.map)?$/.test(name) && !files.has(name)) rmSync(join(dist, name));
  return [...files.keys()].sort();
}
