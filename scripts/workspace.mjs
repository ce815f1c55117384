// What every command needs first: dependencies that match the lock file and a build that matches the sources.
// Node builtins only, because it runs before anything is installed.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
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
    say(`Building with tsc (${stale}).`);
    await step("build", build, { say });
  }
}

/** Builds the packages. Outputs whose source is gone are removed by starting from an empty dist. */
export async function build() {
  for (const folder of built)
    if (outputsDisagree(folder) !== undefined) rmSync(join(folder, "dist"), { recursive: true, force: true });
  await quiet(process.execPath, [tsc, "-b", ...built]);
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
 * @param {{ cwd?: string }} [options]
 * @returns {Promise<void>}
 */
export function shown(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: options.cwd ?? root, stdio: "inherit" });
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
 * @param {string} folder
 * @returns {string | undefined}
 */
function whyStale(folder) {
  const disagreement = outputsDisagree(folder);
  if (disagreement !== undefined) return disagreement;
  const info = join(folder, "dist", ".tsbuildinfo");
  if (!existsSync(info)) return `${relative(root, folder)}/dist is missing`;
  const builtAt = statSync(info).mtimeMs;
  const inputs = [join(root, "tsconfig.base.json"), join(folder, "tsconfig.json")];
  for (const file of filesBelow(join(folder, "src"))) inputs.push(join(folder, "src", file));
  const newer = inputs.find((input) => statSync(input).mtimeMs > builtAt);
  return newer === undefined ? undefined : `${relative(root, newer)} changed`;
}

/**
 * Says which source lacks an output or which output lacks a source, if any.
 * @param {string} folder
 */
function outputsDisagree(folder) {
  const sources = filesBelow(join(folder, "src")).filter((file) => file.endsWith(".ts"));
  const outputs = filesBelow(join(folder, "dist")).filter((file) => file.endsWith(".js"));
  const expected = new Set(sources.map((file) => file.replace(/\.ts$/, ".js")));
  const found = new Set(outputs);
  const name = relative(root, folder);
  for (const file of expected) if (!found.has(file)) return `${name}/dist/${file} is missing`;
  for (const file of found) if (!expected.has(file)) return `${name}/dist/${file} has no source`;
  return undefined;
}
