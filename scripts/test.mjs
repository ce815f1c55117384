// `npm test`: types, tests, checklist, documentation, house and public surface. Arguments go to vitest as filters.
// Its last line is "N passed, N failed, N skipped", counted from vitest's own result.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prepareWorkspace, quiet, root, runSteps, shown, step, tsc, vitest } from "./workspace.mjs";

const folder = mkdtempSync(join(tmpdir(), "marling-test-"));
const resultFile = join(folder, "result.json");

await runSteps(async () => {
  await prepareWorkspace();
  await step("types of sources, tests, examples and scripts", () =>
    quiet(process.execPath, [tsc, "-p", join(root, "tsconfig.test.json")]),
  );
  await step("tests", () =>
    shown(process.execPath, [vitest, "run", ...reporters(), ...process.argv.slice(2)]),
  );
  await step("checklist: every row that is due has a test", () => script("checklist.mjs"));
  await step("documentation: code blocks equal the examples", () => script("docs.mjs"));
  await step("house: no figure is above its ceiling", () => script("house.mjs"));
  await step("public surface: the reports in packages/marling/api are current", () =>
    script("api-report.mjs"),
  );
});
printCounts();
rmSync(folder, { recursive: true, force: true });

function reporters() {
  return ["--reporter=default", "--reporter=json", `--outputFile.json=${resultFile}`];
}

/** @param {string} name */
function script(name) {
  return quiet(process.execPath, [join(root, "scripts", name)]);
}

/** A file that failed without a failing test of its own (it did not load) counts as one failure. */
function printCounts() {
  const result = readResult();
  if (result === undefined) return;
  const broken = result.testResults.filter(
    ({ status, assertionResults }) =>
      status === "failed" && !assertionResults.some((test) => test.status === "failed"),
  );
  const failed = result.numFailedTests + broken.length;
  const skipped = result.numPendingTests + result.numTodoTests;
  console.log(`${result.numPassedTests} passed, ${failed} failed, ${skipped} skipped`);
}

/**
 * @returns {undefined | {
 *   numPassedTests: number; numFailedTests: number; numPendingTests: number; numTodoTests: number;
 *   testResults: { status: string; assertionResults: { status: string }[] }[];
 * }}
 */
function readResult() {
  try {
    return JSON.parse(readFileSync(resultFile, "utf8"));
  } catch {
    return undefined; // an earlier step failed, so there is nothing to count and the exit code says so
  }
}
