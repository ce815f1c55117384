// The path of one turn through the sources: which functions it enters, in which files, and how often it changes the file.
// A copy of the library in which every function says that it was entered runs turns on SQLite, with one tool call each and one
// observer. The first turn warms up. Of the others the shortest counts: a timer may fire during any of them.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";
import { SyntaxKind } from "typescript/unstable/ast";
import { library, quiet } from "../workspace.mjs";
import { namedFunctions } from "./measures.mjs";

/** @typedef {import("./sources.mjs").Source} Source */
/** @typedef {{ functions: string[]; files: string[]; changes: number }} TurnPath */

const PROGRAM = `
import { createRuntime, defineTool } from "./index.ts";
import { sqliteStore } from "./sqlite.ts";
import { callTool, say, scriptedModel } from "./testing/index.ts";

const entered = globalThis.houseEntered;
const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
  replay: "safe",
  execute: ({ a, b }) => a + b,
});
const TURNS = 6;
const steps = Array.from({ length: TURNS }, (_, n) => [callTool("add", { a: n, b: 2 }), say(String(n + 2))]);
const model = scriptedModel(steps.flat());
const runtime = createRuntime({ model, tools: [add], store: sqliteStore({ path: process.argv[2] }) });
const session = await runtime.session("house");
const commits = session.observe()[Symbol.asyncIterator]();
const paths = [];
for (let turn = 0; turn < TURNS; turn += 1) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  entered.length = 0;
  const { result } = session.turn("add " + turn);
  while ((await commits.next()).value.kind !== "committed");
  await result;
  if (turn > 0) paths.push([...entered]);
}
await runtime.close();
process.stdout.write(JSON.stringify(paths));
`;

/**
 * @param {readonly Source[]} sources
 * @returns {Promise<TurnPath>}
 */
export async function turnPath(sources) {
  mkdirSync(join(library, "dist"), { recursive: true });
  const folder = mkdtempSync(join(library, "dist", ".house-")); // Below the library, so that its packages are found.
  try {
    const file = join(folder, "turn.mjs");
    writeFileSync(file, await instrumented(sources));
    const printed = await quiet(process.execPath, [file, join(folder, "house.db")], { cwd: library });
    /** @type {string[][]} */
    const paths = JSON.parse(printed);
    const [shortest] = paths.map(summary).sort((one, other) => one.functions.length - other.functions.length);
    if (shortest === undefined) throw new Error("no turn was counted");
    return shortest;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {readonly string[]} entered names of functions, in the order in which they were entered */
function summary(entered) {
  const own = entered.filter((name) => !name.startsWith("testing/"));
  const files = own.map((name) => name.slice(0, name.indexOf(":")));
  return {
    functions: [...new Set(own)],
    files: [...new Set(files)],
    changes: files.filter((file, at) => at > 0 && file !== files[at - 1]).length,
  };
}

/** @param {readonly Source[]} sources */
async function instrumented(sources) {
  const entry = join(library, "src", "house-turn.ts");
  const texts = new Map(sources.map((source) => [join(library, "src", source.path), markEntries(source)]));
  texts.set(entry, PROGRAM);
  const build = await rolldown({
    input: entry,
    platform: "node",
    external: (id) => !id.startsWith(".") && !id.startsWith("/"),
    plugins: [
      {
        name: "house",
        resolveId: (id) => (id === entry ? id : null),
        load: (id) =>
          texts.has(id) ? { code: /** @type {string} */ (texts.get(id)), moduleType: "ts" } : null,
      },
    ],
    onLog: () => undefined,
  });
  const { output } = await build.generate({
    format: "esm",
    banner: "globalThis.houseEntered = []; const houseEnter = (name) => globalThis.houseEntered.push(name);",
    codeSplitting: false,
  });
  await build.close();
  return output[0].code;
}

/**
 * The text of a file with a call at the beginning of every function.
 * @param {Source} source
 */
function markEntries({ path, text, tree }) {
  /** @type {{ at: number; text: string; order: number }[]} */
  const insertions = [];
  for (const [index, { name, node }] of namedFunctions(tree).entries()) {
    const call = `houseEnter(${JSON.stringify(`${path}:${name}`)})`;
    const { body } = node;
    if (body.kind === SyntaxKind.Block)
      insertions.push({ at: text.indexOf("{", body.pos) + 1, text: `${call};`, order: 0 });
    else {
      insertions.push({ at: body.pos, text: ` (${call}, (`, order: index });
      insertions.push({ at: body.end, text: "))", order: -index });
    }
  }
  insertions.sort((one, other) => one.at - other.at || one.order - other.order);
  let from = 0;
  let marked = "";
  for (const { at, text: inserted } of insertions) {
    marked += text.slice(from, at) + inserted;
    from = at;
  }
  return marked + text.slice(from);
}
