// S6: the process is killed while the fifth of eight tool calls runs. A new one goes on as the framework documents it. What
// was repeated is counted by the server's log and by what the tool wrote down.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { median, number, table } from "../harness/figures.mjs";

const CASES = {
  sequence: { plan: { rounds: 8, calls: 1 }, hangsIn: "5,1", ended: 4 },
  parallel: { plan: { rounds: 1, calls: 8 }, hangsIn: "1,5", ended: 7 },
};
const CALLS = 8;
const REACH_LIMIT_MS = 20_000;
const SETTLE_MS = 500;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function kill(context) {
  const adapters = context.adapters.filter(
    (name) => !["nothing", "memory"].includes(context.about(name).keeps),
  );
  const rows = {};
  for (let round = 0; round < context.rounds; round += 1) {
    for (const adapter of round % 2 === 0 ? adapters : adapters.toReversed()) {
      for (const variant of variantsOf(context, adapter)) {
        const found = await context.withStore(adapter, (dir) =>
          killed(context, { adapter, dir, ...variant }),
        );
        rows[variant.name] ??= { adapter, ...variant, rounds: [] };
        rows[variant.name].rounds.push(found);
      }
    }
    context.note(`S6: round ${round + 1} of ${context.rounds}`);
  }
  for (const row of Object.values(rows)) Object.assign(row, summed(row.rounds));
  context.print("\n### S6 kill -9 while the fifth of eight tool calls runs, then go on\n");
  context.print(killTable(rows));
  return { title: "kill -9 in a tool", rows };
}

/** marling's tool is run once as one that may not be repeated, which is what it takes for granted, and once as safe. */
function variantsOf(context, adapter) {
  const replays = context.about(adapter).isOurs === true ? ["unsafe", "safe"] : [undefined];
  return Object.keys(CASES).flatMap((kind) =>
    replays.map((replay) => {
      const label = replay === undefined ? "" : `, ${replay} tool`;
      return {
        kind,
        replay,
        name: `${context.nameOf(adapter)}${label} ${kind}`,
        label: context.nameOf(adapter) + label,
      };
    }),
  );
}

async function killed(context, { adapter, dir, kind, replay }) {
  const { bench } = context;
  const { plan, hangsIn, ended } = CASES[kind];
  const ledger = join(dir, "ledger.txt");
  const read = (word) => {
    const lines = readFileSync(ledger, "utf8").split("\n");
    return lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1));
  };
  writeFileSync(ledger, "");
  await bench.server.reset();
  const options = { isNamed: true, ...(replay === undefined ? {} : { replay }) };
  const env = { BENCH_LEDGER: ledger, BENCH_HANGS_IN: hangsIn };
  const isReached = () => read("begin").includes(hangsIn) && read("end").length >= ended;
  const early = await killedWhen(bench.start(adapter, "hang", { plan, dir, env, options }), isReached);
  if (early !== undefined) return { error: early };
  const before = await bench.server.calls();
  const finished = read("end");
  writeFileSync(ledger, "");
  const resumed = await bench.work(adapter, "resume", {
    plan,
    dir,
    options,
    env: { BENCH_LEDGER: ledger },
    limitMs: 60_000,
  });
  const after = await bench.server.calls();
  const begun = resumed.ok?.isNextTurnFine === true ? read("begin").slice(0, -CALLS) : read("begin");
  const repeated = Object.entries(before).filter(([call]) => call.startsWith("killed/1/"));
  return {
    ...resumed.ok,
    ...(resumed.error === undefined ? {} : { error: resumed.error }),
    modelCalls: repeated.length,
    modelRepeated: repeated.reduce((sum, [call, count]) => sum + after[call] - count, 0),
    tools: finished.length,
    toolsRepeated: begun.filter((args) => finished.includes(args)).length,
    isInFlightRepeated: begun.includes(hangsIn),
  };
}

/** Kills a worker once something has come about, and what is written behind it has had its time. */
async function killedWhen(child, isReached) {
  const gone = new Promise((resolve) => child.once("exit", resolve));
  let early;
  child.once("message", (message) => {
    early = `it ended before it could be killed: ${JSON.stringify(message)}`;
  });
  const until = Date.now() + REACH_LIMIT_MS;
  while (early === undefined && !isReached() && Date.now() < until) await pause(20);
  if (early === undefined && !isReached())
    early = `it did not reach the fifth call in ${REACH_LIMIT_MS / 1000} s`;
  else await pause(SETTLE_MS);
  child.kill("SIGKILL");
  await gone;
  return early;
}

function summed(rounds) {
  const worst = (read) => Math.max(...rounds.map((round) => read(round) ?? 0));
  return {
    isCompleted: rounds.every(({ isCompleted }) => isCompleted === true),
    isNextTurnFine: rounds.every(({ isNextTurnFine }) => isNextTurnFine === true),
    modelCalls: worst(({ modelCalls }) => modelCalls),
    modelRepeated: worst(({ modelRepeated }) => modelRepeated),
    tools: worst(({ tools }) => tools),
    toolsRepeated: worst(({ toolsRepeated }) => toolsRepeated),
    isInFlightRepeated: rounds.some(({ isInFlightRepeated }) => isInFlightRepeated === true),
    resumeMs: median(rounds.map(({ ms }) => ms).filter((ms) => ms !== undefined)),
    error: rounds.find(({ error }) => error !== undefined)?.error,
  };
}

function killTable(rows) {
  const head = ["adapter", "calls", "completes", "model calls repeated", "finished tools repeated"];
  head.push("tool in flight repeated", "resume ms", "next turn", "error");
  const yes = (value) => (value ? "yes" : "no");
  return table(
    head,
    Object.values(rows).map((row) => [
      row.label,
      row.kind,
      yes(row.isCompleted),
      `${row.modelRepeated} of ${row.modelCalls}`,
      `${row.toolsRepeated} of ${row.tools}`,
      yes(row.isInFlightRepeated),
      number(row.resumeMs),
      yes(row.isNextTurnFine),
      (row.error ?? "").split("\n")[0].slice(0, 90).replaceAll("|", "/"),
    ]),
  );
}
