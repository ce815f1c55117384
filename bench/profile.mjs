// Reads CPU profiles (--profile FOLDER of a run) and says where the time went: by function, by file, and with everything
// that a function called.
//
//   npm run bench -- profile FILE... [--top 25] [--from NAME]     with --from only what happened below functions of that name

import { existsSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { number, table } from "./harness/figures.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { top: { type: "string", default: "25" }, from: { type: "string" } },
});

const IDLE = new Set(["(idle)", "(program)", "(root)"]);

const placeOf = ({ url }) => url.replace(/^.*\/(src|dist|node_modules|bench)\//, "$1/") || "(native)";
const nameOf = (frame) => `${frame.functionName || "(anonymous)"} ${placeOf(frame)}:${frame.lineNumber + 1}`;
const maps = new Map();

for (const file of positionals) {
  const { self, whole, files, total, busy } = summed(JSON.parse(readFileSync(file, "utf8")));
  console.log(`\n## ${file}: ${number(busy / 1000)} ms busy of ${number(total / 1000)} ms\n`);
  const rows = (map) =>
    [...map]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, Number(values.top))
      .map(([name, micros]) => [name, `${((100 * micros) / busy).toFixed(1)}%`, number(micros / 1000)]);
  console.log(table(["function itself", "share", "ms"], rows(self)));
  console.log(`\n${table(["file", "share", "ms"], rows(files))}`);
  console.log(`\n${table(["function with what it calls", "share", "ms"], rows(whole))}`);
}

function summed({ nodes, samples, timeDeltas }) {
  const byId = new Map(nodes.map((node) => [node.id, { ...node, callFrame: inSource(node.callFrame) }]));
  const parents = new Map();
  for (const node of nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const [self, whole, files] = [new Map(), new Map(), new Map()];
  const add = (map, key, micros) => map.set(key, (map.get(key) ?? 0) + micros);
  const micros = new Map();
  samples.forEach((id, index) => {
    add(micros, id, timeDeltas[index]);
  });
  let [total, busy] = [0, 0];
  for (const [id, spent] of micros) {
    total += spent;
    const path = pathOf(id, { byId, parents });
    const [own] = path;
    if (IDLE.has(own.functionName)) continue;
    if (values.from !== undefined && !path.some(({ functionName }) => functionName === values.from)) continue;
    busy += spent;
    add(self, nameOf(own), spent);
    add(files, placeOf(own), spent);
    for (const name of new Set(path.map(nameOf))) add(whole, name, spent);
  }
  return { self, whole, files, total, busy };
}

function pathOf(id, { byId, parents }) {
  const path = [];
  for (let at = id; at !== undefined; at = parents.get(at)) path.push(byId.get(at).callFrame);
  return path;
}

/** Where a function of a bundle was written, if the bundle is still there with its source map. */
function inSource(frame) {
  if (!maps.has(frame.url)) maps.set(frame.url, sourceMapOf(frame.url));
  const entry = maps.get(frame.url)?.findEntry(frame.lineNumber, frame.columnNumber);
  if (entry?.originalSource === undefined) return frame;
  const functionName = frame.functionName.replace(/\$\d+$/, ""); // of two with one name, the bundle renames the second
  return { ...frame, functionName, url: entry.originalSource, lineNumber: entry.originalLine };
}

function sourceMapOf(url) {
  const file = url.startsWith("file:") ? `${fileURLToPath(url)}.map` : "";
  return existsSync(file) ? new SourceMap(JSON.parse(readFileSync(file, "utf8"))) : undefined;
}
