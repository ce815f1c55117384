// The public surface as files: packages/marling/api/<entry>.api.md lists what each exports entry offers.
// A change of the surface is therefore a diff that somebody reviews.
//
//   node scripts/api-report.mjs           fails when a report is missing or differs
//   node scripts/api-report.mjs --write   writes the reports

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blank } from "./source-text.mjs";
import { filesBelow, library } from "./workspace.mjs";

const write = process.argv.includes("--write");
const reports = join(library, "api");
/** @type {{ exports: Record<string, { types: string }> }} */
const manifest = JSON.parse(readFileSync(join(library, "package.json"), "utf8"));

/** File name to content. @type {Map<string, string>} */
const wanted = new Map();
for (const [subpath, target] of Object.entries(manifest.exports)) {
  const name = subpath === "." ? "marling" : `marling/${subpath.slice(2)}`;
  const source = readFileSync(
    join(library, target.types.replace("./dist/", "src/").replace(/\.d\.ts$/, ".ts")),
    "utf8",
  );
  wanted.set(`${name.replaceAll("/", "-")}.api.md`, reportOf(name, source));
}

let stale = 0;
for (const [file, content] of wanted) {
  const path = join(reports, file);
  if (existsSync(path) && readFileSync(path, "utf8") === content) continue;
  stale += 1;
  if (!write) console.log(`api/${file} is not current; run npm run api\n${difference(path, content)}`);
  else {
    mkdirSync(reports, { recursive: true });
    writeFileSync(path, content);
    console.log(`wrote api/${file}`);
  }
}
for (const file of filesBelow(reports).filter((name) => !wanted.has(name))) {
  stale += 1;
  if (!write) console.log(`api/${file} belongs to no exports entry; run npm run api`);
  else rmSync(join(reports, file));
}
console.log(`api: ${wanted.size} entries, ${stale} ${write ? "written or removed" : "not current"}`);
if (!write && stale > 0) process.exitCode = 1;

/**
 * @param {string} name
 * @param {string} source
 */
function reportOf(name, source) {
  const exported = exportsOf(source).sort((a, b) => compare(a.name, b.name) || compare(a.kind, b.kind));
  const values = exported.filter(({ kind }) => kind === "value");
  const types = exported.filter(({ kind }) => kind === "type");
  const section = (/** @type {string} */ title, /** @type {{ name: string }[]} */ some) =>
    some.length === 0 ? [] : [`## ${title}`, "", ...some.map((one) => `- ${one.name}`), ""];
  return [`# ${name}`, "", ...section("Values", values), ...section("Types", types)].join("\n");
}

/**
 * The names an entry file exports. Entry files list their names, so the text says it all.
 * @param {string} source
 * @returns {{ name: string; kind: "value" | "type" }[]}
 */
function exportsOf(source) {
  const code = blank(source, ["comment", "template", "regex"]);
  /** @type {{ name: string; kind: "value" | "type" }[]} */
  const found = [];
  for (const [, typeOnly, list = ""] of code.matchAll(/^export\s+(type\s+)?\{([^}]*)\}/gm)) {
    for (const item of list.split(",").map((text) => text.trim())) {
      if (item === "") continue;
      const name = item.replace(/^type\s+/, "").replace(/^.*\sas\s+/, "");
      found.push({ name, kind: typeOnly !== undefined || item.startsWith("type ") ? "type" : "value" });
    }
  }
  const declaration =
    /^export\s+(?:declare\s+|abstract\s+|async\s+)*(function\*?|const|let|class|interface|type)\s+([\w$]+)/gm;
  for (const [, keyword = "", name = ""] of code.matchAll(declaration)) {
    found.push({ name, kind: keyword === "interface" || keyword === "type" ? "type" : "value" });
  }
  if (/^export\s*\*/m.test(code)) throw new Error("an entry file may not use `export *`: list the names");
  return found;
}

/** By code unit, so that every machine sorts alike. @param {string} a @param {string} b */
function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @param {string} path @param {string} content */
function difference(path, content) {
  const old = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const now = content.split("\n");
  const gone = old.filter((line) => line !== "" && !now.includes(line)).map((line) => `  - ${line}`);
  const come = now.filter((line) => line !== "" && !old.includes(line)).map((line) => `  + ${line}`);
  return [...gone, ...come].join("\n");
}
