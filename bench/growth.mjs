// Whether a session costs the same however long it is: bytes written, file size, time of a turn, time to reopen.
// Every number is held against its bar; the exit code is 1 when one is missed. Times are compared within one run only,
// short and long by turns, as the quickest quarter of each: what else the machine does is not measured.
//
//   npm run bench -- growth [--turns=1000] [--runs=3] [--json]
//
// Bytes are all that the process writes (Linux, /proc/self/io): the log, and what is written back from it as it comes.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, definePlugin, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";

const TURNS = numberOption("turns", 1000);
const RUNS = numberOption("runs", 3);
const IS_JSON = process.argv.includes("--json");

/** The new text of a turn, 1.6 KB in all. */
const TEXTS = { input: 200, args: 100, result: 700, answer: 600 };
const TEXT_BYTES = Object.values(TEXTS).reduce((sum, bytes) => sum + bytes, 0);
/** Turns over which bytes are a mean. */
const WINDOW = Math.min(100, Math.floor(TURNS / 3));
/** Turns of a short and a long session that are timed by turns, so that both have the same machine. */
const TIMED = 40;
const EARLY = 10;
/** Turns in the active frame of a session that is reopened. */
const FRAME_TURNS = 5;
const REOPENINGS = 15;
const SESSION = "5f1d9c1e-0b52-4a0e-9a53-1f1f6a0f8f1";

function numberOption(name, otherwise) {
  const found = process.argv.find((argument) => argument.startsWith(`--${name}=`));
  const following = process.argv[process.argv.indexOf(`--${name}`) + 1];
  const given = found?.slice(name.length + 3) ?? (process.argv.includes(`--${name}`) ? following : undefined);
  const number = given === undefined ? otherwise : Number(given);
  if (Number.isSafeInteger(number) && number > 0) return number;
  throw new Error(`--${name}: expected a positive whole number, found ${given}`);
}

const quick = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 4)];
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const WORDS = "turn once commit whatever came before adds written frame node path outcome effect round".split(
  " ",
);

/** Words in an order that no other text has. */
function textOf(kind, turn) {
  let seed = (turn * 7919 + kind.length * 104_729) >>> 0;
  let text = `${kind} ${turn}:`;
  while (text.length < TEXTS[kind]) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    text += ` ${WORDS[seed % WORDS.length]}${seed % 97}`;
  }
  return text.slice(0, TEXTS[kind]);
}

/** A runtime whose turns call one tool, with a clock for what the model takes itself. */
function world(path) {
  const store = sqliteStore({ path });
  const own = { turn: 0, modelMs: 0 };
  const usage = { input: 900, output: 400, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
  const answer = ({ messages }) => {
    if (messages.at(-1).role === "tool") return { kind: "text", text: textOf("answer", own.turn) };
    const args = JSON.stringify({ about: textOf("args", own.turn) });
    return { kind: "tool_call", callId: `call_${own.turn}`, name: "look_up", args };
  };
  const model = {
    id: "bench",
    call: async (request) => {
      const started = performance.now();
      const part = answer(request);
      const finish = part.kind === "text" ? "stop" : "tool_calls";
      const response = { parts: [part], usage, finish };
      own.modelMs += performance.now() - started;
      return { kind: "response", response };
    },
  };
  const tool = defineTool({
    name: "look_up",
    description: "Looks something up.",
    input: { type: "object", properties: { about: { type: "string" } }, required: ["about"] },
    execute: async () => textOf("result", own.turn),
  });
  const compactor = definePlugin({
    id: "compactor",
    build: () => ({ context: { compact: { compact: summary } } }),
  });
  const runtime = createRuntime({ model, tools: [tool], plugins: [compactor()], store });
  return { own, store, runtime, open: (number = 0) => runtime.session(`${SESSION}${number}`) };
}

function summary() {
  const message = { role: "user", content: textOf("answer", 0) };
  return { initialNodes: [{ kind: "message", message }] };
}

/** Runs turns `from` to `to`; `each` is told how long each took beyond the model. */
async function runTurns({ own }, session, { from, to, each = () => {} }) {
  for (own.turn = from; own.turn <= to; own.turn += 1) {
    own.modelMs = 0;
    const started = performance.now();
    await session.run(textOf("input", own.turn));
    each(performance.now() - started - own.modelMs);
  }
}

async function inFolder(run) {
  const folder = mkdtempSync(join(tmpdir(), "marling-growth-"));
  try {
    return await run(join(folder, "bench.db"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function bytesWritten() {
  if (process.platform !== "linux") return Number.NaN;
  return Number(/wchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
}

/** One long session: bytes, times, size of the file. */
function growth() {
  return inFolder(async (path) => {
    const here = world(path);
    const session = await here.open();
    const start = bytesWritten();
    const marks = [start];
    const fixed = statSync(path).size;
    await runTurns(here, session, { from: 1, to: TURNS, each: () => marks.push(bytesWritten()) });
    const times = await turnTimes(here, session);
    await here.runtime.close();
    const size = statSync(path).size;
    return {
      early: (marks[WINDOW] - start) / WINDOW,
      late: (marks[TURNS] - marks[TURNS - WINDOW]) / WINDOW,
      all: (marks[TURNS] - start) / TURNS,
      fileRatio: (size - fixed) / ((TURNS + TIMED) * TEXT_BYTES),
      ...times,
    };
  });
}

/** The next turns of a long session, each beside the tenth turn of a new one. */
function turnTimes(long, session) {
  return inFolder(async (path) => {
    const short = world(path);
    const early = [];
    const late = [];
    for (let number = 0; number < TIMED; number += 1) {
      const fresh = await short.open(number);
      await runTurns(short, fresh, { from: 1, to: EARLY - 1 });
      const each = (ms) => early.push(ms);
      await runTurns(short, fresh, { from: EARLY, to: EARLY, each });
      const turn = TURNS + 1 + number;
      await runTurns(long, session, { from: turn, to: turn, each: (ms) => late.push(ms) });
      await fresh.close();
    }
    await short.runtime.close();
    return { earlyMs: quick(early), lateMs: quick(late) };
  });
}

/** A session of so many turns, compacted so that its active frame is the same for every number. */
async function compactedSession(path, turns) {
  const here = world(path);
  const session = await here.open();
  await runTurns(here, session, { from: 1, to: turns - FRAME_TURNS });
  await session.compact();
  await runTurns(here, session, { from: turns - FRAME_TURNS + 1, to: turns });
  await here.runtime.close();
}

/** Opens a file, a session of it, and runs a turn. */
async function reopenFile(path, turn) {
  const started = performance.now();
  const here = world(path);
  const session = await here.open();
  await runTurns(here, session, { from: turn, to: turn });
  const ms = performance.now() - started - here.own.modelMs;
  await here.runtime.close();
  return ms;
}

/** The same with a file that is open already. */
async function reopenSession(here, turn) {
  const started = performance.now();
  const session = await here.open();
  await runTurns(here, session, { from: turn, to: turn });
  const ms = performance.now() - started - here.own.modelMs;
  await session.close();
  return ms;
}

function reopening() {
  return inFolder((short) =>
    inFolder(async (long) => {
      await compactedSession(short, EARLY);
      await compactedSession(long, TURNS);
      const times = { short: [], long: [], shortSession: [], longSession: [] };
      for (let number = 1; number <= REOPENINGS; number += 1) {
        times.short.push(await reopenFile(short, EARLY + number));
        times.long.push(await reopenFile(long, TURNS + number));
      }
      const worlds = [world(short), world(long)];
      for (const { store } of worlds) await store.exists(`${SESSION}0`);
      for (let number = REOPENINGS + 1; number <= 2 * REOPENINGS; number += 1) {
        times.shortSession.push(await reopenSession(worlds[0], EARLY + number));
        times.longSession.push(await reopenSession(worlds[1], TURNS + number));
      }
      for (const { runtime } of worlds) await runtime.close();
      return Object.fromEntries(Object.entries(times).map(([name, values]) => [name, quick(values)]));
    }),
  );
}

/** What was measured, against what it may be. */
function barsOf(grown, reopened) {
  const of = (runs, value) => median(runs.map(value));
  const ms = (runs, name) => `${of(runs, (run) => run[name]).toFixed(2)} ms`;
  return [
    {
      name: `bytes of a turn, mean of the last ${WINDOW}`,
      value: of(grown, ({ late }) => late),
      limit: 12 * 1024,
      note: `${of(grown, ({ all }) => all).toFixed(0)} over all turns`,
    },
    {
      name: `bytes, last ${WINDOW} turns to first ${WINDOW}`,
      value: of(grown, ({ early, late }) => late / early),
      limit: 1.1,
      note: `first ${WINDOW}: ${of(grown, ({ early }) => early).toFixed(0)}`,
    },
    {
      name: "file without its fixed cost, to unique text",
      value: of(grown, ({ fileRatio }) => fileRatio),
      limit: 3,
      note: `${TEXT_BYTES} bytes of text a turn`,
    },
    {
      name: `time of turn ${TURNS} to turn ${EARLY}`,
      value: of(grown, ({ earlyMs, lateMs }) => lateMs / earlyMs),
      limit: 1.5,
      note: `${ms(grown, "earlyMs")} and ${ms(grown, "lateMs")}`,
    },
    {
      name: `reopening a file and running a turn, ${TURNS} turns to ${EARLY}`,
      value: of(reopened, ({ short, long }) => long / short),
      limit: 3,
      note: `${ms(reopened, "short")} and ${ms(reopened, "long")}`,
    },
    {
      name: `reopening a session and running a turn, ${TURNS} turns to ${EARLY}`,
      value: of(reopened, ({ shortSession, longSession }) => longSession / shortSession),
      limit: 3,
      note: `${ms(reopened, "shortSession")} and ${ms(reopened, "longSession")}`,
    },
  ].map((bar) => ({ ...bar, status: statusOf(bar) }));
}

function statusOf({ value, limit }) {
  if (Number.isNaN(value)) return "not measured here";
  return value <= limit ? "pass" : "fail";
}

const shown = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(2));

function print(bars) {
  if (IS_JSON) {
    console.log(JSON.stringify({ node: process.version, turns: TURNS, runs: RUNS, bars }, null, 2));
    return;
  }
  console.log(`# Growth (node ${process.version}, ${TURNS} turns, medians of ${RUNS} runs)\n`);
  console.log("| what | measured | at most | | |");
  console.log("|---|---:|---:|---|---|");
  for (const { name, value, limit, status, note } of bars)
    console.log(`| ${name} | ${shown(value)} | ${limit} | ${status} | ${note} |`);
}

/** Code that has run is faster than code that has not: the first turns must not pay for that. */
async function warmUp() {
  await inFolder(async (path) => compactedSession(path, 100));
}

await warmUp();
const grown = [];
const reopened = [];
for (let run = 0; run < RUNS; run += 1) {
  grown.push(await growth());
  reopened.push(await reopening());
}
const bars = barsOf(grown, reopened);
print(bars);
if (bars.some(({ status }) => status === "fail")) process.exitCode = 1;
