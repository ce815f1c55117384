// `npm run house`: how easy the sources are to walk through, in figures. A figure above its ceiling fails; ceilings
// (house/ceilings.json) may only fall. Section "rooms" says what belongs where and how full it is.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { longParts, measure } from "./house/measures.mjs";
import { placeOf, ROOMS } from "./house/rooms.mjs";
import { withSources } from "./house/sources.mjs";
import { turnPath } from "./house/turn-path.mjs";
import { prepareWorkspace, root, runSteps, StepFailed } from "./workspace.mjs";

const HELP = `Usage: npm run house -- [--list NAME] [--lower]

Counts what makes the sources easy or hard to walk through, and fails when a figure is above its ceiling.

Options:
  --list NAME  prints the places behind one figure, for example --list "functions that take a bag"
  --lower      lowers the ceilings to today's figures; no ceiling is ever raised
  --help       shows this text`;

/** Figures that grow with what the library does: shown, and held to no ceiling. */
const FREE = ["files", "files in kernel", "lines"];

const CEILINGS = join(root, "scripts", "house", "ceilings.json");

/** @typedef {import("./house/measures.mjs").Measure} Measure */
/** @typedef {{ name: string; figure: number; found: readonly string[] }} Row */

await runSteps(async () => {
  const options = readOptions();
  if (options === undefined) return;
  await prepareWorkspace();
  const { rows, rooms, long } = await count();
  if (options.list !== undefined) return list(rows, options.list);
  print(rows, rooms);
  for (const part of long) console.log(`warning: long: ${part}`);
  if (options.lower) lower(rows);
  check(rows);
});

function readOptions() {
  try {
    const { values } = parseArgs({
      options: { list: { type: "string" }, lower: { type: "boolean" }, help: { type: "boolean" } },
    });
    if (values.help !== true) return { list: values.list, lower: values.lower === true };
    console.log(HELP);
  } catch (error) {
    console.error(`house: ${error instanceof Error ? error.message : error}\n\n${HELP}`);
    process.exitCode = 2;
  }
  return undefined;
}

async function count() {
  return withSources(async (sources) => {
    const path = await turnPath(sources);
    /** @type {Row[]} */
    const rows = [
      ...measure(sources).map(({ name, found }) => ({ name, found, figure: found.length })),
      {
        name: "lines",
        found: [],
        figure: sources.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0),
      },
      { name: "functions of one tool turn", found: path.functions, figure: path.functions.length },
      { name: "files of one tool turn", found: path.files, figure: path.files.length },
      { name: "changes of file in one tool turn", found: [], figure: path.changes },
    ];
    return { rows, rooms: roomFigures(sources), long: longParts(sources) };
  });
}

/** @param {readonly import("./house/sources.mjs").Source[]} sources */
function roomFigures(sources) {
  return Object.entries(ROOMS).flatMap(([folder, rooms]) =>
    Object.entries(rooms).map(([room, sentence]) => {
      const inside = sources.filter(({ path }) => {
        const place = placeOf(path);
        return place?.folder === folder && place.room === room;
      });
      const lines = inside.reduce((sum, { text }) => sum + text.split("\n").length - 1, 0);
      return { room: room === "" ? folder : `${folder}/${room}`, files: inside.length, lines, sentence };
    }),
  );
}

/**
 * @param {readonly Row[]} rows
 * @param {ReturnType<typeof roomFigures>} rooms
 */
function print(rows, rooms) {
  const ceilings = readCeilings();
  const width = Math.max(...rows.map(({ name }) => name.length));
  console.log(`${"measure".padEnd(width)}  found  ceiling`);
  for (const { name, figure } of rows) {
    const ceiling = ceilings[name];
    const mark = ceiling !== undefined && figure > ceiling ? "  TOO MANY" : "";
    console.log(
      `${name.padEnd(width)}  ${String(figure).padStart(5)}  ${String(ceiling ?? "-").padStart(7)}${mark}`,
    );
  }
  const wide = Math.max(...rooms.map(({ room }) => room.length));
  console.log(`\n${"room".padEnd(wide)}  files  lines`);
  for (const { room, files, lines, sentence } of rooms)
    console.log(
      `${room.padEnd(wide)}  ${String(files).padStart(5)}  ${String(lines).padStart(5)}  ${sentence}`,
    );
}

/**
 * @param {readonly Row[]} rows
 * @param {string} name
 */
function list(rows, name) {
  const row = rows.find((each) => each.name === name);
  if (row === undefined)
    throw refusal(`no figure is called "${name}"; there are: ${rows.map((each) => each.name).join(", ")}`);
  for (const place of row.found) console.log(place);
}

/** @param {readonly Row[]} rows */
function lower(rows) {
  const ceilings = readCeilings();
  const held = rows.filter(({ name }) => !FREE.includes(name));
  for (const { name, figure } of held) ceilings[name] = Math.min(ceilings[name] ?? figure, figure);
  writeFileSync(CEILINGS, `${JSON.stringify(ceilings, null, 2)}\n`);
}

/** @param {readonly Row[]} rows */
function check(rows) {
  const ceilings = readCeilings();
  const above = rows
    .filter(({ name }) => !FREE.includes(name))
    .filter(({ name, figure }) => figure > (ceilings[name] ?? Number.NEGATIVE_INFINITY));
  if (above.length === 0) return;
  const lines = above.map(
    ({ name, figure }) => `house: ${name}: ${figure}, at most ${ceilings[name] ?? "(no ceiling)"}`,
  );
  throw refusal([...lines, 'See the places with: npm run house -- --list "NAME"'].join("\n"));
}

/** @returns {Record<string, number>} */
function readCeilings() {
  return JSON.parse(readFileSync(CEILINGS, "utf8"));
}

/** @param {string} text */
function refusal(text) {
  console.error(text);
  return new StepFailed(text);
}
