// The kernel checklist: every row that is due is cited by a test as `[K<row>]`.
// A row that only `[K<row> stub]` tests cite is tested against a stand-in and is listed apart.
//
//   node scripts/checklist.mjs            fails when a due row has no test
//   node scripts/checklist.mjs --report   shows the table and never fails

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf, pieces } from "./source-text.mjs";
import { filesBelow, library } from "./workspace.mjs";

/** @typedef {{ row: number; due: boolean; says: string }} Row */

const tests = join(library, "test");
/** @type {Row[]} */
const rows = JSON.parse(readFileSync(join(tests, "coverage", "checklist.json"), "utf8"));
const known = new Set(rows.map(({ row }) => row));

/** Row number to the files that cite it. @type {{ full: Map<number, Set<string>>; stub: Map<number, Set<string>> }} */
const citations = { full: new Map(), stub: new Map() };
for (const file of filesBelow(tests).filter((name) => name.endsWith(".test.ts"))) {
  for (const { row, stub } of citedIn(readFileSync(join(tests, file), "utf8"))) {
    const map = stub ? citations.stub : citations.full;
    map.set(row, (map.get(row) ?? new Set()).add(file));
  }
}

const due = rows.filter((row) => row.due);
const untested = due.filter(({ row }) => !citations.full.has(row) && !citations.stub.has(row));
const stubbed = due.filter(({ row }) => !citations.full.has(row) && citations.stub.has(row));
const unknown = [...citations.full.keys(), ...citations.stub.keys()].filter((row) => !known.has(row));

const report = process.argv.includes("--report");
if (report) for (const row of rows) console.log(lineFor(row));
list("Due rows without a test", untested);
list("Due rows with stub tests only", stubbed);
for (const row of new Set(unknown)) console.log(`A test cites K${row}, which is not in the checklist.`);
const tested = due.length - untested.length - stubbed.length;
console.log(
  `checklist: ${tested} of ${due.length} due rows tested, ${stubbed.length} by stubs only, ` +
    `${untested.length} missing; ${rows.length - due.length} rows not due yet`,
);
if (!report && (untested.length > 0 || unknown.length > 0)) process.exitCode = 1;

/**
 * The rows that a test file's names cite. Any string may be a name (names live in tables too); comments and the
 * names of skipped and planned tests do not count.
 * @param {string} text
 */
function citedIn(text) {
  const code = codeOf(text);
  /** @type {{ row: number; stub: boolean }[]} */
  const cited = [];
  for (const { kind, start, end } of pieces(text)) {
    if (kind !== "string" && kind !== "template") continue;
    if (isIdle(calleeBefore(code, start))) continue;
    for (const match of text.slice(start, end).matchAll(/\[K(\d+)( stub)?\]/g)) {
      cited.push({ row: Number(match[1]), stub: match[2] !== undefined });
    }
  }
  return cited;
}

/** @param {string} callee */
function isIdle(callee) {
  return /\.(?:skip|todo)\b/.test(callee);
}

/**
 * The expression that is called with an argument at `at`, such as `test.skip.each(     )`.
 * @param {string} code with literals and comments blanked
 * @param {number} at
 */
function calleeBefore(code, at) {
  const open = code.slice(0, at).trimEnd().length - 1;
  if (code[open] !== "(") return "";
  let start = open;
  while (start > 0) {
    const previous = code.slice(0, start).trimEnd();
    if (previous.endsWith(")")) start = openingOf(previous);
    else if (/[\w$.]$/.test(previous)) start = previous.length - 1;
    else break;
  }
  return code.slice(start, open);
}

/** The offset of the parenthesis that the text's last character closes. @param {string} text */
function openingOf(text) {
  let depth = 0;
  for (let at = text.length - 1; at >= 0; at -= 1) {
    if (text[at] === ")") depth += 1;
    if (text[at] === "(") depth -= 1;
    if (depth === 0) return at;
  }
  return 0;
}

/** @param {Row} row */
function lineFor({ row, due: isDue, says }) {
  const state = citations.full.has(row)
    ? "test"
    : citations.stub.has(row)
      ? "stub"
      : isDue
        ? "MISSING"
        : "later";
  return `${String(row).padStart(3)}  ${state.padEnd(7)}  ${says}`;
}

/** @param {string} title @param {readonly Row[]} some */
function list(title, some) {
  if (some.length === 0) return;
  console.log(`${title}:`);
  for (const { row, says } of some) console.log(`  K${row}  ${says}`);
}
