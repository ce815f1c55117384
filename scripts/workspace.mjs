// What every command needs first: dependencies that match the lock file and a build that matches the sources.
// Node builtins only, because it runs before anything is installed.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));
export const library = join(root, "packages", "marling");
/** What is built, in the order in which it is. */
const built = [library, join(root, "packages", "cli")];

export const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
export const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
export const biome = join(root, "node_modules", "@biomejs", "biome", "bin", "biome");

/**
 * Installs and builds what is missing or stale, saying so; does nothing when all is current.
 * @param {{ say?: (line: string) => void }} [options] where it says so: standard output unless that is for something else
 */
export async function prepareWorkspace({ say = console.log } = {}) {
  requireNode(20, 19);
  const missing = whyNotInstalled();
  if (missing !== undefined) {
    say(`Installing dependencies with npm ci (${missing}); this takes about half a minute.`);
    await step("install", () => npm(["ci", "--no-audit", "--no-fund"], { run: quiet }), { say });
  }
  const stale = whyNotBuilt();
  if (stale !== undefined) {
    say(`Building (${stale}).`);
    await step("build", build, { say });
  }
}

/**
 * Builds the packages: tsc checks the types and writes declarations, then each package is bundled. The stamp is written
 * last and says what was there before the first of it, so a source that changes meanwhile leaves a stale build behind.
 * Until the types are right, the last build stays.
 */
export async function build() {
  const inputs = new Map(built.map((folder) => [folder, digests(folder)]));
  for (const folder of built) mendDeclarations(folder);
  await quiet(process.execPath, [tsc, "-b", ...built]);
  const { bundle } = await import("./bundle.mjs"); // Not before there are dependencies.
  for (const folder of built) {
    const outputs = await bundle(folder);
    writeFileSync(stampOf(folder), JSON.stringify({ inputs: inputs.get(folder), outputs }));
  }
}

/**
 * tsc leaves declarations behind whose source is gone, and does not miss those that it wrote and somebody removed.
 * @param {string} folder
 */
function mendDeclarations(folder) {
  const { missing, stray } = declarations(folder);
  for (const file of stray) rmSync(join(distOf(folder), file));
  const before = readStamp(folder)?.inputs;
  const isNew = (/** @type {string} */ file) =>
    before !== undefined && before[pathOf(folder, file)] === undefined;
  if (missing.every((file) => isNew(`src/${file.replace(/\.d\.ts$/, ".ts")}`))) return;
  rmSync(join(distOf(folder), ".tsbuildinfo"), { force: true });
}

/** Builds when the build is not that of the sources; of several processes that want it one builds, the others wait. */
export async function buildIfStale() {
  const lock = join(tmpdir(), `marling-build-${statSync(root).ino}`);
  for (let tries = 0; !claim(lock); tries += 1) {
    if (tries > 1_200) throw new Error(`${lock}: expected the build of another process to end`);
    await sleep(100);
  }
  try {
    if (whyNotBuilt() !== undefined) await build();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

/** @param {string} lock */
function claim(lock) {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false; // Somebody else builds.
  }
}

/**
 * Runs a script's steps; the first that fails ends it. The exit code is set, not forced, so that all output arrives.
 * @param {() => Promise<void>} steps
 */
export async function runSteps(steps) {
  try {
    await steps();
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    process.exitCode = 1;
  }
}

/**
 * Runs one named step and prints one line with its time; for a failing step, its output first.
 * @param {string} name
 * @param {() => Promise<unknown>} run
 * @param {{ say?: (line: string) => void }} [options]
 */
export async function step(name, run, { say = console.log } = {}) {
  const started = performance.now();
  const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;
  try {
    await run();
  } catch (error) {
    if (error instanceof StepFailed && error.output !== "") say(error.output);
    say(`FAILED  ${name}  (${seconds()})`);
    throw error;
  }
  say(`ok      ${name}  (${seconds()})`);
}

/** A step that ran and said no; its output is for the reader. */
export class StepFailed extends Error {
  /** @param {string} output */
  constructor(output) {
    super("step failed");
    this.output = output.trimEnd();
  }
}

/**
 * Runs a command whose output matters only if it fails.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string; env?: Record<string, string> }} [options]
 * @returns {Promise<string>} its standard output
 */
export function quiet(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const { cwd = root, env = process.env } = options;
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let all = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
      all += chunk;
    });
    child.stderr.on("data", (chunk) => {
      all += chunk;
    });
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve(output) : reject(new StepFailed(all))));
  });
}

/**
 * Runs a command that the reader watches.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string; env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<void>}
 */
export function shown(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const { cwd = root, env = process.env } = options;
    const child = spawn(command, args, { cwd, env, stdio: "inherit" });
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve() : reject(new StepFailed(""))));
  });
}

/**
 * Every file below a folder, as paths with forward slashes relative to it, sorted. A missing folder is empty.
 * @param {string} folder
 * @returns {string[]}
 */
export function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
    .sort();
}

/**
 * Runs npm, the same one that runs this script if one does.
 * @param {readonly string[]} args
 * @param {{ run: typeof quiet | typeof shown; cwd?: string }} options
 * @returns {Promise<unknown>}
 */
export function npm(args, { run, cwd = root }) {
  const cli = process.env.npm_execpath;
  return cli === undefined ? run("npm", args, { cwd }) : run(process.execPath, [cli, ...args], { cwd });
}

/**
 * @param {number} major
 * @param {number} minor
 */
function requireNode(major, minor) {
  const [haveMajor = 0, haveMinor = 0] = process.versions.node.split(".").map(Number);
  if (haveMajor > major || (haveMajor === major && haveMinor >= minor)) return;
  console.error(`marling needs Node ${major}.${minor} or newer; this is ${process.versions.node}.`);
  process.exit(1);
}

/** npm keeps what it installed in node_modules/.package-lock.json; that must agree with package-lock.json. */
function whyNotInstalled() {
  const record = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return "nothing is installed";
  const installed = readLock(record);
  for (const [path, wanted] of Object.entries(readLock(join(root, "package-lock.json")))) {
    if (!path.startsWith("node_modules/")) continue;
    const found = installed[path];
    if (found === undefined && wanted.optional === true) continue;
    if (found?.version !== wanted.version) return `${path} is missing or has another version`;
    if (!existsSync(join(root, path))) return `${path} is missing`;
  }
  return undefined;
}

/**
 * @param {string} path
 * @returns {Record<string, { version?: string; optional?: boolean }>}
 */
function readLock(path) {
  return JSON.parse(readFileSync(path, "utf8")).packages ?? {};
}

/** @returns {string | undefined} */
export function whyNotBuilt() {
  return built.map(whyStale).find((reason) => reason !== undefined);
}

/**
 * Why a build is missing or not that of the sources. What tsc alone writes (`npm run check`) makes no build current.
 * @param {string} folder
 * @returns {string | undefined}
 */
function whyStale(folder) {
  const name = relative(root, folder);
  const stamp = readStamp(folder);
  if (stamp === undefined) return `${name} is not built`;
  const { inputs, outputs } = stamp;
  const current = digests(folder);
  for (const file of Object.keys(inputs)) if (current[file] === undefined) return `${file} is gone`;
  for (const file of Object.keys(current)) if (inputs[file] !== current[file]) return `${file} changed`;
  const { missing, stray } = declarations(folder);
  const [lost] = [...outputs.filter((file) => !existsSync(join(distOf(folder), file))), ...missing];
  if (lost !== undefined) return `${name}/dist/${lost} is missing`;
  return stray.length === 0 ? undefined : `${name}/dist/${stray[0]} has no source`;
}

/** @param {string} folder */
const distOf = (folder) => join(folder, "dist");
/** @param {string} folder */
const stampOf = (folder) => join(distOf(folder), ".build.json");

/**
 * @param {string} folder
 * @returns {{ inputs: Record<string, string>; outputs: string[] } | undefined}
 */
function readStamp(folder) {
  const path = stampOf(folder);
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}

/**
 * @param {string} folder
 * @param {string} file
 */
const pathOf = (folder, file) => relative(root, join(folder, file)).replaceAll("\\", "/");

/**
 * Everything that a build is made of, by path.
 * @param {string} folder
 * @returns {Record<string, string>}
 */
function digests(folder) {
  const own = ["package.json", "tsconfig.json", ...sourcesOf(folder).map((file) => `src/${file}`)];
  const scripts = ["bundle", "compile-early", "first-turn"].map((name) => `scripts/${name}.mjs`);
  const shared = ["package-lock.json", "tsconfig.base.json", ...scripts];
  const files = [...shared, ...own.map((file) => pathOf(folder, file))];
  return Object.fromEntries(files.map((file) => [file, digest(readFileSync(join(root, file)))]));
}

/** @param {Buffer} content */
function digest(content) {
  return createHash("sha1").update(content).digest("base64");
}

/** @param {string} folder */
function sourcesOf(folder) {
  return filesBelow(join(folder, "src")).filter((file) => file.endsWith(".ts"));
}

/**
 * Which declarations there should be but are not, and which have no source.
 * @param {string} folder
 */
function declarations(folder) {
  const expected = new Set(sourcesOf(folder).map((file) => file.replace(/\.ts$/, ".d.ts")));
  const found = new Set(filesBelow(distOf(folder)).filter((file) => file.endsWith(".d.ts")));
  return {
    missing: [...expected].filter((file) => !found.has(file)),
    stray: [...found].filter((file) => !expected.has(file)),
  };
}
