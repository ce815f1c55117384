// The command line is written as a third party would write it: on public names alone, and on nothing else.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { codeOf, importsOf } from "../../../scripts/source-text.mjs";
import { filesBelow } from "../../../scripts/workspace.mjs";

const folder = fileURLToPath(new URL("../src/", import.meta.url));
const files = filesBelow(folder).filter((path) => path.endsWith(".ts"));

const PUBLIC = /^marling(?:\/(?:sqlite|plugins|tools|models|mcp|testing))?$/;

test("imports are public names of marling, builtins of Node, or files of the package", () => {
  const odd = files.flatMap((path) =>
    importsOf(readFileSync(folder + path, "utf8"))
      .map(({ specifier }) => specifier)
      .filter((name) => !(name.startsWith(".") || name.startsWith("node:") || PUBLIC.test(name)))
      .map((name) => `${path}: ${name}`),
  );
  expect(odd).toEqual([]);
});

test("only the program itself touches the process; a life of the tour is a program, too", () => {
  const uses = files.filter((path) =>
    /\bprocess\.(?!pid\b)/.test(codeOf(readFileSync(folder + path, "utf8"))),
  );
  expect(uses.sort()).toEqual(["main.ts", "tour/tour-life.ts"]);
});

test("files have at most 400 lines", () => {
  const long = files.filter((path) => readFileSync(folder + path, "utf8").split("\n").length > 401);
  expect(long).toEqual([]);
});
