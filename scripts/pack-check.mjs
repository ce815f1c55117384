// The package as its users get it: packs the library, installs the tarball into an empty project, imports every
// exports entry there and compiles against its types. publint and attw read the same tarball.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { library, npm, prepareWorkspace, quiet, runSteps, StepFailed, step, tsc } from "./workspace.mjs";

const MAX_INSTALLED_PACKAGES = 15;
/** The package is ESM only: `require` gets ESM, and resolution without an exports map is not supported. */
const EXPECTED = { problem: "CJSResolvesToESM", resolution: "node10" };

const manifest = JSON.parse(readFileSync(join(library, "package.json"), "utf8"));
const entries = Object.keys(manifest.exports).map((subpath) => manifest.name + subpath.slice(1));
const project = mkdtempSync(join(tmpdir(), "marling-pack-"));

await runSteps(async () => {
  await prepareWorkspace();
  await step("pack", () => npm(["pack", "--pack-destination", project], { run: quiet, cwd: library }));
  const tarball = join(project, readdirSync(project).find((name) => name.endsWith(".tgz")) ?? "");
  await step(`install: at most ${MAX_INSTALLED_PACKAGES} packages`, () => install(tarball));
  for (const entry of entries) await step(`import ${entry}`, () => importEntry(entry));
  await step("types", compile);
  await step("publint", () => lint(tarball));
  await step("attw", () => analyse(tarball));
});
rmSync(project, { recursive: true, force: true });

/** @param {string} tarball */
async function install(tarball) {
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await npm(["install", "--no-audit", "--no-fund", tarball], { run: quiet, cwd: project });
  const record = JSON.parse(readFileSync(join(project, "node_modules", ".package-lock.json"), "utf8"));
  const installed = Object.keys(record.packages);
  if (installed.length <= MAX_INSTALLED_PACKAGES) return;
  throw new StepFailed(`${installed.length} packages were installed:\n${installed.join("\n")}`);
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

/** A program with no other types around must compile against the package. */
async function compile() {
  const lines = entries.map((entry, index) => `export * as entry${index} from "${entry}";`);
  writeFileSync(join(project, "use.ts"), lines.join("\n"));
  const options = { module: "nodenext", target: "es2023", lib: ["es2023", "dom", "esnext.disposable"] };
  const compilerOptions = { ...options, types: [], strict: true, noEmit: true };
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
