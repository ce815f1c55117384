// The other tests of this folder read sources as text; this one holds what they rely on.

import { expect, test } from "vitest";
import { codeOf, importsOf } from "../../../../scripts/source-text.mjs";
import { sourceFiles } from "./source-files.ts";

test.each([
  ["a; // b\nc;", "a; \nc;"],
  ["a /* b\nc */ d", "a \n d"],
  [`f("a // b", 'c')`, "f( , )"],
  [`\`a \${b + \`c \${d}\`} e\``, " b + d "],
  [`\`\${{ a: 1 }.a}\``, " { a: 1 }.a "],
  ['x = /[/"]\\//.test(y)', "x = .test(y)"],
  ["a / b / c", "a / b / c"],
  ["'it\\'s' + a", " + a"],
])("comments and literals are blanked and code keeps its place: %j", (text, code) => {
  expect(codeOf(text).replace(/ +/g, " ")).toBe(code);
  expect(codeOf(text)).toHaveLength(text.length);
});

test("imports are found in all their forms, and only in code", () => {
  const text = [
    'import a from "./a.ts";',
    'import type {\n  B,\n} from "./b.ts";',
    'export { c } from "./c.ts";',
    'export type { D } from "./d.ts";',
    'import "./e.ts";',
    'const f = await import("./f.ts");',
    '// import "./no.ts"',
    "const no = 'import \"./no.ts\"';",
    'const from = "./no.ts";',
  ].join("\n");
  expect(importsOf(text)).toEqual([
    { specifier: "./a.ts", typeOnly: false, line: 1 },
    { specifier: "./b.ts", typeOnly: true, line: 2 },
    { specifier: "./c.ts", typeOnly: false, line: 5 },
    { specifier: "./d.ts", typeOnly: true, line: 6 },
    { specifier: "./e.ts", typeOnly: false, line: 7 },
    { specifier: "./f.ts", typeOnly: false, line: 8 },
  ]);
});

test("every source is read to its end: brackets in code are balanced", () => {
  const unbalanced = sourceFiles().filter(({ code }) =>
    ["{}", "()", "[]"].some(
      ([open = "", close = ""]) => code.split(open).length !== code.split(close).length,
    ),
  );
  expect(unbalanced.map(({ path }) => path)).toEqual([]);
});
