// The core decides and does nothing: the same input gives the same output, at once, on every machine.

import { expect, test } from "vitest";
import { matchesIn, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const PURE = ["model", "session", "prompt", "turn"];
/** As names on their own: not as a property (`job.process`) and not as a key (`process: ...`). */
const IMPURE =
  /(?<![\w$.#]|\?\.)(?:async|await|Date|crypto|performance|process|setTimeout|setInterval|setImmediate|queueMicrotask)\b(?!\s*\??:)|\bMath\.random\b/g;

test("the pure folders contain nothing asynchronous, no clock, no randomness and no process", () => {
  expect(sourceFiles().flatMap(impurities)).toEqual([]);
});

test("the check catches what it is for", () => {
  const problems = (line: string): readonly string[] => impurities(sourceFile("turn/step.ts", line));
  for (const line of [
    "const at = Date.now();",
    "async function f() {}",
    "const n = Math.random();",
    "process.env.HOME;",
    "crypto.randomUUID();",
    "setTimeout(f, 1);",
  ]) {
    expect(problems(line), line).toHaveLength(1);
  }
  expect(problems('// a Date\nconst kind = "async"; job.process();')).toEqual([]);
  expect(impurities(sourceFile("kernel/drive.ts", "Date.now()"))).toEqual([]);
});

function impurities(file: SourceFile): readonly string[] {
  return PURE.some((folder) => file.path.startsWith(`${folder}/`)) ? matchesIn(file, IMPURE) : [];
}
