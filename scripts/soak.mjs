// `npm run soak`: random agents in processes that are killed at random times, until the time is up.
// A world is a database with some sessions, made from one seed. Its process is killed a few times, then lives to its
// end; what it left must be what was asked for, whole and once (`faultsOf`).

import { fork } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { faultsOf, randomFrom, worldOf } from "./soak-world.mjs";
import { prepareWorkspace, runSteps } from "./workspace.mjs";

const HELP = `Usage: npm run soak -- [--minutes 5] [--seed 123] [--worlds 10]

Runs random agents in processes that are killed at random times, recovers them, and checks what they left:
inputs settled once, histories that are one path, calls with one result each, plugin state that fits the history,
calls that must not run twice run once.

Options:
  --minutes  how long; 5 by default
  --worlds   how many at most; as many as there is time for by default
  --seed     the seed of the first world, the next has the next one; random by default
  --help     show this text

A failure prints the seed of its world and keeps its folder. The seed repeats what is asked for and when the process
is killed, to the millisecond; what the process has come to by then is up to the machine.`;

/** A turn that was interrupted more often is ended instead: see RV1. */
const MAX_KILLS = 3;
const LIFE_LIMIT_MS = 120_000;
const LIFE = fileURLToPath(new URL("./soak-life.mjs", import.meta.url));

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    worlds: { type: "string", default: "Infinity" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    help: { type: "boolean", default: false },
  },
});
const [minutes, worlds, seed] = [values.minutes, values.worlds, values.seed].map(Number);

if (values.help) console.log(HELP);
else if ([minutes, worlds, seed].some(Number.isNaN)) {
  console.error(`soak: expected numbers, found ${JSON.stringify(values)}\n\n${HELP}`);
  process.exitCode = 2;
} else
  await runSteps(async () => {
    await prepareWorkspace();
    await soak({ minutes: minutes ?? 5, worlds: worlds ?? 1, seed: seed ?? 0 });
  });

/** @param {{ minutes: number, worlds: number, seed: number }} options */
async function soak(options) {
  console.log(`soak: seed ${options.seed}, ${options.minutes} minutes`);
  const started = performance.now();
  const seconds = () => Math.round((performance.now() - started) / 1000);
  const folder = mkdtempSync(join(tmpdir(), "marling-soak-"));
  const count = { worlds: 0, kills: 0, failures: 0 };
  const progress = () =>
    console.log(`${seconds()} s: ${count.worlds} worlds, ${count.kills} kills, ${count.failures} failures`);
  const timer = setInterval(progress, 10_000);
  const lane = async () => {
    while (seconds() < options.minutes * 60 && count.worlds < options.worlds) {
      const worldSeed = options.seed + count.worlds;
      count.worlds += 1;
      const place = join(folder, String(worldSeed));
      const { kills, faults } = await tryWorld(worldSeed, place);
      count.kills += kills;
      if (faults.length === 0) rmSync(place, { recursive: true, force: true });
      else {
        count.failures += 1;
        console.log(`FAILED  seed ${worldSeed}, database in ${place}\n  ${faults.join("\n  ")}`);
        console.log(`        again: npm run soak -- --seed ${worldSeed} --worlds 1`);
      }
    }
  };
  await Promise.all([lane(), lane()]);
  clearInterval(timer);
  progress();
  if (count.failures > 0) process.exitCode = 1;
  else rmSync(folder, { recursive: true, force: true });
}

/** @param {number} worldSeed @param {string} folder */
async function tryWorld(worldSeed, folder) {
  mkdirSync(folder, { recursive: true });
  const random = randomFrom(worldSeed, "kills");
  /** Keys of inputs that some process was told are accepted. @type {Set<string>} */
  const accepted = new Set();
  /** @type {string[]} */
  const faults = [];
  let kills = 0;
  for (let lives = 1 + Math.floor(random() * MAX_KILLS); lives > 0; lives -= 1) {
    const life = await live({ worldSeed, folder, accepted, killAfterMs: Math.floor(random() * 250) });
    if (life.isKilled) kills += 1;
    else if (life.code !== 0) faults.push(`a process ended with ${life.code}: ${life.stderr}`);
  }
  const last = await live({ worldSeed, folder, accepted });
  const again = await live({ worldSeed, folder, accepted });
  if (last.end === undefined || again.end === undefined)
    faults.push(`the last process ended with ${last.code ?? last.signal}: ${last.stderr}${again.stderr}`);
  else {
    if (JSON.stringify(again.end) !== JSON.stringify(last.end)) faults.push("opened again, it is another");
    faults.push(...faultsOf(worldOf(worldSeed), { end: last.end, accepted, ran: linesOf(folder) }));
  }
  return { kills, faults };
}

/**
 * One process. It is killed so many milliseconds after it has begun to work; without, it lives to its end.
 * @param {{ worldSeed: number, folder: string, accepted: Set<string>, killAfterMs?: number }} options
 * @returns {Promise<{
 *   isKilled: boolean, code: number | null, signal: string | null, stderr: string,
 *   end?: import("./soak-world.mjs").WorldEnd,
 * }>}
 */
function live({ worldSeed, folder, accepted, killAfterMs }) {
  return new Promise((resolve) => {
    const child = fork(LIFE, [String(worldSeed), folder], { stdio: ["ignore", "inherit", "pipe", "ipc"] });
    let stderr = "";
    let isLate = false;
    /** @type {import("./soak-world.mjs").WorldEnd | undefined} */
    let end;
    const limit = setTimeout(() => {
      isLate = true;
      stderr += `it did not end within ${LIFE_LIMIT_MS} ms`;
      child.kill("SIGKILL");
    }, LIFE_LIMIT_MS);
    child.stderr?.on("data", (piece) => {
      stderr += piece;
    });
    child.on("message", (/** @type {any} */ message) => {
      if (message.kind === "begun" && killAfterMs !== undefined)
        setTimeout(() => child.kill("SIGKILL"), killAfterMs);
      if (message.kind === "accepted") accepted.add(message.key);
      if (message.kind === "end") end = message.end;
    });
    child.on("close", (code, signal) => {
      clearTimeout(limit);
      const isKilled = signal === "SIGKILL" && !isLate;
      resolve({ isKilled, code, signal, stderr, ...(end === undefined ? {} : { end }) });
    });
  });
}

/** What tools wrote when they ran. @param {string} folder */
function linesOf(folder) {
  try {
    return readFileSync(join(folder, "ran.log"), "utf8").trim().split("\n");
  } catch {
    return []; // no tool ran
  }
}
