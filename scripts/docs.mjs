// Code in documentation is code from the examples. Every ```ts and ```js block of README.md and docs/ stands right
// below a comment that names a file and a region of it, and equals that region:
//
//   <!-- code: examples/01-hello.ts#hello -->
//
//   node scripts/docs.mjs           fails when a block differs, naming it
//   node scripts/docs.mjs --write   rewrites the blocks from the files

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { filesBelow, root } from "./workspace.mjs";

const write = process.argv.includes("--write");
const pages = [
  ...(existsSync(join(root, "README.md")) ? ["README.md"] : []),
  ...filesBelow(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** @type {string[]} */
const problems = [];
let blocks = 0;
for (const page of pages) {
  const before = readFileSync(join(root, page), "utf8");
  const after = checkPage(page, before.split("\n")).join("\n");
  if (write && after !== before) {
    writeFileSync(join(root, page), after);
    console.log(`wrote ${page}`);
  }
}
for (const problem of problems) console.log(problem);
console.log(`docs: ${blocks} code blocks in ${pages.length} pages, ${problems.length} problems`);
if (problems.length > 0) process.exitCode = 1;

/**
 * The page with its blocks as they should be; what is wrong goes to `problems`.
 * @param {string} page
 * @param {readonly string[]} lines
 */
function checkPage(page, lines) {
  /** @type {string[]} */
  const output = [];
  for (let at = 0; at < lines.length; ) {
    const fence = /^(\s*)(`{3,}|~{3,})\s*(\w*)/.exec(lines[at] ?? "");
    if (fence === null) {
      output.push(lines[at] ?? "");
      at += 1;
      continue;
    }
    const [, indent = "", ticks = "", language = ""] = fence;
    const length = lines.slice(at + 1).findIndex((line) => line.trim() === ticks);
    const end = length === -1 ? lines.length : at + 1 + length;
    const body = lines.slice(at + 1, end);
    const wanted = isCode(language)
      ? wantedBody({ page, line: at + 1, body, above: lines[at - 1] ?? "" })
      : body;
    const indented = wanted === body ? body : wanted.map((line) => (line === "" ? "" : indent + line));
    output.push(lines[at] ?? "", ...indented, ...lines.slice(end, end + 1));
    at = end + 1;
  }
  return output;
}

/** @param {string} language */
function isCode(language) {
  return ["ts", "js", "typescript", "javascript"].includes(language);
}

/**
 * What a block should say. It is the block itself when it already does, or when nobody can know.
 * @param {{ page: string; line: number; body: readonly string[]; above: string }} block
 * @returns {readonly string[]}
 */
function wantedBody({ page, line, body, above }) {
  blocks += 1;
  const source = /^\s*<!-- code: (\S+)#(\S+) -->\s*$/.exec(above);
  if (source === null) {
    problems.push(`${page}:${line}: no <!-- code: file#region --> comment right above this code block`);
    return body;
  }
  const [, file = "", name = ""] = source;
  const region = readRegion(file, name);
  if (typeof region === "string") {
    problems.push(`${page}:${line}: ${region}`);
    return body;
  }
  const same = dedent(body).join("\n") === region.join("\n");
  if (!same && !write) problems.push(`${page}:${line}: differs from ${file}#${name}; run npm run docs`);
  return same ? body : region;
}

/**
 * The lines between `// #region name` and its `// #endregion`, or what is wrong.
 * @param {string} file
 * @param {string} name
 */
function readRegion(file, name) {
  if (!existsSync(join(root, file))) return `${file} does not exist`;
  const lines = readFileSync(join(root, file), "utf8").split("\n");
  const starts = lines.flatMap((line, index) => (line.trim() === `// #region ${name}` ? [index] : []));
  const [start] = starts;
  if (start === undefined) return `${file} has no region ${name}`;
  if (starts.length > 1) return `${file} has ${starts.length} regions ${name}`;
  const length = lines.slice(start + 1).findIndex((line) => /^\s*\/\/ #endregion\b/.test(line));
  if (length === -1) return `${file}: region ${name} does not end`;
  return dedent(lines.slice(start + 1, start + 1 + length));
}

/** @param {readonly string[]} lines */
function dedent(lines) {
  const depths = lines
    .filter((line) => line.trim() !== "")
    .map((line) => line.length - line.trimStart().length);
  const depth = depths.length === 0 ? 0 : Math.min(...depths);
  return lines.map((line) => line.slice(depth));
}
