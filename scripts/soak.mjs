// `npm run soak`: random agents in processes that are killed, paused and closed at random times, until the time is up.
// A world is a database with some sessions and one to three processes, made from one seed (soak-world.mjs). It is played
// (soak-play.mjs), and what it left must be what was asked for, whole and once (soak-checks.mjs).

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { violationsOf } from "./soak-checks.mjs";
import { Figures } from "./soak-figures.mjs";
import { readLedger } from "./soak-ledger.mjs";
import { playWorld } from "./soak-play.mjs";
import { prepareWorkspace, runSteps } from "./workspace.mjs";

const HELP = `Usage: npm run soak -- [--minutes 5] [--kills 1000] [--seed 123] [--worlds 10] [--processes 2]

Runs random agents in one to three processes on one store. They call tools, sleep until somebody answers in another
process, run durable tasks, monitors and triggers, are steered, have children, fork, compact and switch frames, while
their processes are killed with -9, paused for longer than their leases, and closed in the middle of work, and have
clocks an hour apart. A ledger outside the store knows what happened; in the end nothing that was accepted is lost,
nothing that was finished is repeated, no call dangles, plugin state fits the history, and no process froze.

Options:
  --minutes    how long; 5 by default
  --kills      how many kills at least: it goes on beyond its minutes until there were so many; 0 by default
  --worlds     how many worlds at most; as many as there is time for by default
  --seed       the seed of the first world, the next has the next one; random by default
  --processes  how many processes each world has, 1 to 3; by the seed by default
  --help       show this text

It exits with 1 if anything was violated. A violation prints the seed of its world, keeps its folder (the database, the
ledger and what was found in the end) and says how to play that world again. The seed repeats what is asked for, the
clocks, and who is killed when, to the millisecond; what a process has come to by then is up to the machine.
Ctrl-c ends it with the figures so far.`;

const LANES = 2;

const options = readOptions();
if (options === "help") console.log(HELP);
else if (typeof options === "string") {
  console.error(`soak: ${options}\n\n${HELP}`);
  process.exitCode = 2;
} else
  await runSteps(async () => {
    await prepareWorkspace();
    await soak(options);
  });

/** @typedef {{ minutes: number, kills: number, worlds: number, seed: number, processes: number | undefined }} SoakOptions */

/** The options, or what is wrong with them. @returns {SoakOptions | string} */
function readOptions() {
  const text = { type: /** @type {const} */ ("string") };
  const flag = { type: /** @type {const} */ ("boolean") };
  let values;
  try {
    const known = { minutes: text, kills: text, worlds: text, seed: text, processes: text, help: flag };
    ({ values } = parseArgs({ options: known }));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  if (values.help === true) return "help";
  const seed = Math.floor(Math.random() * 2 ** 31);
  const { help: _, ...given } = values;
  const numbers = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, Number(value)]));
  const wrong = Object.entries(numbers).find(([, value]) => !(value >= 0));
  if (wrong !== undefined)
    return `--${wrong[0]}: expected a number, found ${values[/** @type {"seed"} */ (wrong[0])]}`;
  const { processes } = numbers;
  if (processes !== undefined && ![1, 2, 3].includes(processes)) return "--processes: expected 1, 2 or 3";
  return { minutes: 5, kills: 0, worlds: Number.POSITIVE_INFINITY, seed, processes: undefined, ...numbers };
}

/** @param {SoakOptions} options */
async function soak(options) {
  const folder = mkdtempSync(join(tmpdir(), "marling-soak-"));
  const started = performance.now();
  const seconds = () => Math.round((performance.now() - started) / 1000);
  const figures = new Figures();
  const interrupt = new AbortController();
  process.once("SIGINT", () => interrupt.abort());
  console.log(`soak: seed ${options.seed}, ${options.minutes} minutes, at least ${options.kills} kills`);
  const timer = setInterval(() => console.log(`${seconds()} s: ${figures.line()}`), 10_000);
  const isOver = () =>
    interrupt.signal.aborted ||
    figures.begun >= options.worlds ||
    (seconds() >= options.minutes * 60 && figures.count.kills >= options.kills);
  const lane = async () => {
    while (!isOver()) {
      const seed = options.seed + figures.begun;
      figures.begun += 1;
      await tryWorld(seed, { ...options, folder, figures, signal: interrupt.signal });
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  clearInterval(timer);
  console.log(
    `\n${interrupt.signal.aborted ? "interrupted after" : "done in"} ${seconds()} s, seeds from ${options.seed}`,
  );
  console.log(figures.text());
  if (figures.total > 0) process.exitCode = 1;
  else rmSync(folder, { recursive: true, force: true });
}

/**
 * @param {number} seed
 * @param {{ processes: number | undefined, folder: string, figures: Figures, signal: AbortSignal }} options
 */
async function tryWorld(seed, { processes, folder, figures, signal }) {
  const place = join(folder, String(seed));
  const onBlow = (/** @type {string} */ made) => figures.add(made);
  const { world, end, violations } = await playWorld({ seed, processes, folder: place, signal, onBlow });
  if (signal.aborted) return rmSync(place, { recursive: true, force: true });
  const entries = readLedger(place);
  if (end !== undefined) violations.push(...violationsOf({ world, entries, end }));
  figures.read(entries);
  figures.add("worlds");
  if (violations.length === 0) return rmSync(place, { recursive: true, force: true });
  for (const one of violations) figures.violate(one.class);
  const again = processes === undefined ? "" : ` --processes ${processes}`;
  console.log(`VIOLATED  seed ${seed}, ${world.processes} processes, folder ${place}`);
  for (const one of violations.slice(0, 12)) console.log(`  ${one.class}: ${one.text}`);
  if (violations.length > 12) console.log(`  and ${violations.length - 12} more`);
  console.log(`  again: npm run soak -- --seed ${seed} --worlds 1${again}`);
}
