// One concept, one word. VOCABULARY.md lists the words to avoid as lines `_Avoid_: iteration, cycle`; none of them
// may be part of a name in the sources. A word with a remark, such as `run (for a turn)`, is advice and not checked.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { repository, type SourceFile, sourceFile, sourceFiles } from "./source-files.ts";

const IDENTIFIER = /[A-Za-z_$][\w$]*/g;

test("no name contains a word that the vocabulary avoids", () => {
  const avoided = avoidedTerms(readFileSync(`${repository}VOCABULARY.md`, "utf8"));
  expect(sourceFiles().flatMap((file) => avoidedNames(file, avoided))).toEqual([]);
});

test("the check catches what it is for", () => {
  const avoided = avoidedTerms(
    "**Round**: ...\n_Avoid_: iteration, `loopIndex`, tool response, run (for a turn).\n",
  );
  expect(avoided).toEqual([["iteration"], ["loop", "index"], ["tool", "response"]]);
  const problems = (text: string): readonly string[] => avoidedNames(sourceFile("turn/a.ts", text), avoided);
  expect(problems("const iterations = 1;")).toHaveLength(1);
  expect(problems("let maxLoopIndex;")).toHaveLength(1);
  expect(problems("type ToolResponse = 1;")).toHaveLength(1);
  expect(problems("const TOOL_RESPONSE = 1;")).toHaveLength(1);
  expect(problems('run(); // iteration\nconst a = "iteration"; reiteration();')).toEqual([]);
  expect(avoidedNames(sourceFile("turn/tool-response.ts", ""), avoided)).toHaveLength(1);
});

/** Each avoided term as its words. */
function avoidedTerms(page: string): readonly (readonly string[])[] {
  return [...page.matchAll(/^\s*(?:[-*] )?_Avoid_:(.*)$/gm)]
    .flatMap((match) => (match[1] ?? "").split(","))
    .map((term) =>
      term
        .replaceAll("`", "")
        .replace(/\.\s*$/, "")
        .trim(),
    )
    .filter((term) => term !== "" && !term.includes("("))
    .map(wordsOf);
}

function avoidedNames(file: SourceFile, avoided: readonly (readonly string[])[]): readonly string[] {
  const names = new Set([file.path.replace(/\.ts$/, ""), ...(file.code.match(IDENTIFIER) ?? [])]);
  return [...names].flatMap((name) => {
    const words = wordsOf(name);
    return avoided
      .filter((term) => contains(words, term))
      .map((term) => `${file.path}: ${name} (${term.join(" ")})`);
  });
}

/** `maxToolCalls`, `max_tool_calls` and `max tool calls` have the words max, tool, call. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== "")
    .map((word) => word.toLowerCase().replace(/(?<=..)(?<!s)s$/, ""));
}

function contains(words: readonly string[], term: readonly string[]): boolean {
  return words.some((_, at) => term.every((word, offset) => words[at + offset] === word));
}
