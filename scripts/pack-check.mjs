// The packages as their users get them: packs the library, installs the tarball into an empty project, imports every
// exports entry there and compiles against its types; then packs the command line and runs it from its own tarball.
// Nothing is there but what the tarballs ask for: optional peers are not. publint and attw read the same tarball.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  filesBelow,
  library,
  npm,
  prepareWorkspace,
  quiet,
  root,
  runSteps,
  StepFailed,
  step,
  tsc,
} from "./workspace.mjs";

const MAX_INSTALLED_PACKAGES = 15;
/** The package is ESM only: `require` gets ESM, and resolution without an exports map is not supported. */
const EXPECTED = { problem: "CJSResolvesToESM", resolution: "node10" };

const manifest = JSON.parse(readFileSync(join(library, "package.json"), "utf8"));
const entries = Object.keys(manifest.exports).map((subpath) => manifest.name + subpath.slice(1));
/** Entries that cannot be imported without a peer, and those whose types name types of one. All others need none. */
const NEED_PEERS = ["marling/otel"];
/** The types of the protocol's client need those of Node, or `skipLibCheck`. */
const MCP = "marling/mcp";
const NAME_PEERS = [...NEED_PEERS, MCP];
const lean = entries.filter((entry) => !NEED_PEERS.includes(entry));
const commandLine = join(root, "packages", "cli");
const project = mkdtempSync(join(tmpdir(), "marling-pack-"));
const cliProject = mkdtempSync(join(tmpdir(), "marling-pack-cli-"));

await runSteps(async () => {
  await prepareWorkspace();
  const tarball = await pack(library);
  await step(`install: at most ${MAX_INSTALLED_PACKAGES} packages`, () => install(project, [tarball]));
  await step("the package holds scripts, their maps and declarations, and each source once", checkFiles);
  await step("optional peers are not installed, and what needs one says so", checkPeers);
  for (const entry of lean) await step(`import ${entry}`, () => importEntry(entry));
  await step("types", () => compile(entries.filter((entry) => !NAME_PEERS.includes(entry))));
  await step("install the optional peers", installPeers);
  for (const entry of NEED_PEERS) await step(`import ${entry}`, () => importEntry(entry));
  await step("types with peers", () => compile(entries.filter((entry) => entry !== MCP)));
  await step("types of all entries", () => compile(entries, { skipLibCheck: true }));
  await step("publint", () => lint(tarball));
  await step("attw", () => analyse(tarball));
  const cli = await pack(commandLine);
  await step(`install marling on the command line: at most ${MAX_INSTALLED_PACKAGES} packages`, () =>
    install(cliProject, [tarball, cli]),
  );
  await step("marling --help, --version and a turn of the demo", runCommandLine);
});
for (const folder of [project, cliProject]) rmSync(folder, { recursive: true, force: true });

/**
 * @param {string} folder
 * @returns {Promise<string>} its tarball
 */
async function pack(folder) {
  const before = new Set(readdirSync(project));
  await step(`pack ${folder === library ? "the library" : "the command line"}`, () =>
    npm(["pack", "--pack-destination", project], { run: quiet, cwd: folder }),
  );
  const made = readdirSync(project).find((name) => name.endsWith(".tgz") && !before.has(name));
  return join(project, made ?? "no tarball");
}

/**
 * @param {string} into
 * @param {readonly string[]} tarballs
 */
async function install(into, tarballs) {
  writeFileSync(join(into, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await npm(["install", "--no-audit", "--no-fund", ...tarballs], { run: quiet, cwd: into });
  const record = JSON.parse(readFileSync(join(into, "node_modules", ".package-lock.json"), "utf8"));
  const installed = Object.keys(record.packages);
  if (installed.length <= MAX_INSTALLED_PACKAGES) return;
  throw new StepFailed(`${installed.length} packages were installed:\n${installed.join("\n")}`);
}

/** The text of a source is in the map of the one file that has its code. */
function checkFiles() {
  const folder = join(project, "node_modules", manifest.name);
  const files = filesBelow(folder);
  const odd = files.filter(
    (file) => !/^(package\.json|LICENSE|README\.md|dist\/.*\.(js|js\.map|d\.ts))$/.test(file),
  );
  const sources = files
    .filter((file) => file.endsWith(".js.map"))
    .flatMap((file) => JSON.parse(readFileSync(join(folder, file), "utf8")).sources)
    .map((/** @type {string} */ source) => source.replace(/^(\.\.\/)+/, ""));
  const twice = sources.filter((source, index) => sources.indexOf(source) !== index);
  if (odd.length + twice.length === 0) return Promise.resolve();
  return Promise.reject(new StepFailed(`not expected in the package:\n${[...odd, ...twice].join("\n")}`));
}

/** In the versions that the workspace is tested with. */
async function installPeers() {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const peers = Object.keys(manifest.peerDependencies).map((peer) => `${peer}@${devDependencies[peer]}`);
  await npm(["install", "--no-audit", "--no-fund", ...peers], { run: quiet, cwd: project });
}

async function checkPeers() {
  for (const peer of Object.keys(manifest.peerDependencies ?? {})) {
    if (manifest.peerDependenciesMeta?.[peer]?.optional !== true)
      throw new StepFailed(`${peer} is a peer dependency that is not optional`);
    if (existsSync(join(project, "node_modules", peer))) throw new StepFailed(`${peer} was installed`);
  }
  const program = `
    import { mcp } from "marling/mcp";
    const servers = mcp({ servers: { here: { command: process.execPath, args: ["--version"] } } });
    console.log(await servers.ready().then(() => "ready", (error) => error.code));
  `;
  const said = await quiet(process.execPath, ["--input-type=module", "-e", program], { cwd: project });
  if (said.trim() === "provider_unavailable") return;
  throw new StepFailed(
    `marling/mcp without a client of the protocol: expected provider_unavailable, found ${said}`,
  );
}

async function runCommandLine() {
  const program = join(cliProject, "node_modules", "@marling", "cli", "dist", "main.js");
  const env = { PATH: process.env.PATH ?? "", HOME: cliProject, NO_COLOR: "1" };
  const run = (/** @type {readonly string[]} */ args) =>
    quiet(process.execPath, [program, ...args], { cwd: cliProject, env });
  const help = await run(["--help"]);
  for (const command of ["chat", "run", "sessions", "show", "recover", "trace"])
    if (!help.includes(command)) throw new StepFailed(`marling --help does not name ${command}:\n${help}`);
  const { version } = JSON.parse(readFileSync(join(commandLine, "package.json"), "utf8"));
  const shown = await run(["--version"]);
  if (!shown.includes(version))
    throw new StepFailed(`marling --version: expected ${version}, found ${shown}`);
  const said = await run(["run", "What is 17 * 3?"]);
  if (!said.includes("51")) throw new StepFailed(`marling run: expected the demo to say 51, found ${said}`);
}

/** Node must see the values that the report in packages/marling/api lists. @param {string} entry */
async function importEntry(entry) {
  const program = `console.log(Object.keys(await import(${JSON.stringify(entry)})).sort().join("\\n"))`;
  const found = await quiet(process.execPath, ["--input-type=module", "-e", program], { cwd: project });
  const report = readFileSync(join(library, "api", `${entry.replaceAll("/", "-")}.api.md`), "utf8");
  const values = report.split("\n## Types")[0] ?? "";
  const listed = [...values.matchAll(/^- (.+)$/gm)].map((match) => match[1]);
  if (found.trim() === listed.join("\n")) return;
  throw new StepFailed(`${entry} exports:\n${found}\nits report lists:\n${listed.join("\n")}`);
}

/**
 * A program with no other types around must compile against the package.
 * @param {readonly string[]} imported
 * @param {{ skipLibCheck?: boolean }} [libraries]
 */
async function compile(imported, libraries = {}) {
  const lines = imported.map((entry, index) => `export * as entry${index} from "${entry}";`);
  writeFileSync(join(project, "use.ts"), lines.join("\n"));
  const options = { module: "nodenext", target: "es2023", lib: ["es2023", "dom", "esnext.disposable"] };
  const compilerOptions = { ...options, ...libraries, types: [], strict: true, noEmit: true };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
  await quiet(process.execPath, [tsc, "-p", project]);
}

/** @param {string} tarball */
async function lint(tarball) {
  const { publint } = await import("publint");
  const { formatMessage } = await import("publint/utils");
  const pack = { tarball: new Uint8Array(readFileSync(tarball)).buffer };
  const { messages, pkg } = await publint({ pack, strict: true });
  if (messages.length > 0) throw new StepFailed(messages.map((one) => formatMessage(one, pkg)).join("\n"));
}

/** @param {string} tarball */
async function analyse(tarball) {
  const { checkPackage, createPackageFromTarballData } = await import("@arethetypeswrong/core");
  const analysis = await checkPackage(createPackageFromTarballData(readFileSync(tarball)));
  if (analysis.types === false) throw new StepFailed("the package has no types");
  const problems = analysis.problems.filter(
    (problem) =>
      problem.kind !== EXPECTED.problem &&
      !("resolutionKind" in problem && problem.resolutionKind === EXPECTED.resolution),
  );
  if (problems.length > 0) throw new StepFailed(problems.map((one) => JSON.stringify(one)).join("\n"));
}
