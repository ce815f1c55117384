// The peers are no dependencies of marling: they are installed into bench/node_modules when the benchmark is first used.
// What cannot be installed is named and left out; it stops nothing else.

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { npm, quiet, shown } from "../../scripts/workspace.mjs";

const bench = fileURLToPath(new URL("..", import.meta.url));
const QUIET = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];

export async function installPeers() {
  if (isInstalled()) return;
  console.error(
    "Installing the peers of the benchmark into bench/node_modules with npm ci, without their install scripts. " +
      "This happens once, takes a minute or two and about 900 MB.",
  );
  try {
    await npm(["ci", ...QUIET], { run: shown, cwd: bench });
  } catch {
    console.error("npm ci could not install all of them; finding out which.");
    await installWhatCanBe();
  }
}

/** npm keeps what it installed in node_modules/.package-lock.json; everything that is asked for must be there. */
function isInstalled() {
  const record = join(bench, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return false;
  if (existsSync(join(bench, "node_modules", ".partial"))) return true;
  const installed = JSON.parse(readFileSync(record, "utf8")).packages;
  return Object.entries(wanted()).every(
    ([name, version]) => installed[`node_modules/${name}`]?.version === version,
  );
}

/** @returns {{ name: string; type: string; dependencies: Record<string, string>; overrides: object }} */
const manifest = () => JSON.parse(readFileSync(join(bench, "package.json"), "utf8"));
const wanted = () => manifest().dependencies;

/** Tries each package alone, then installs those that can be. */
async function installWhatCanBe() {
  const folder = join(bench, "tmp", "install");
  /** @type {string[]} */
  const missing = [];
  /** @type {Record<string, string>} */
  const usable = {};
  /** @param {Record<string, string>} dependencies */
  const write = (dependencies) => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const { name, type, overrides } = manifest();
    writeFileSync(
      join(folder, "package.json"),
      JSON.stringify({ name, private: true, type, dependencies, overrides }),
    );
  };
  for (const [name, version] of Object.entries(wanted())) {
    write({ [name]: version });
    try {
      await npm(["install", "--package-lock-only", ...QUIET], { run: quiet, cwd: folder });
      usable[name] = version;
    } catch {
      missing.push(`${name}@${version}`);
    }
  }
  write(usable);
  await npm(["install", ...QUIET], { run: shown, cwd: folder });
  rmSync(join(bench, "node_modules"), { recursive: true, force: true });
  renameSync(join(folder, "node_modules"), join(bench, "node_modules"));
  writeFileSync(join(bench, "node_modules", ".partial"), missing.join("\n"));
  rmSync(folder, { recursive: true, force: true });
  console.error(`Could not be installed, so their adapters are left out: ${missing.join(", ")}`);
}
