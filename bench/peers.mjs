// marling beside its peers, on the same work and in one run. Tables go to standard output, progress to standard error,
// every figure to results.json.
//
//   npm run bench -- [S1 S2 ...] [--adapter a,b] [--rounds N] [--quick] [--check] [--out FILE] [--profile FOLDER]

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { floorTable, judge } from "./floors.mjs";
import { number, table } from "./harness/figures.mjs";
import { machineNow } from "./harness/machine.mjs";
import { Bench, startModelServer, workerNode } from "./harness/processes.mjs";
import { check } from "./scenarios/check.mjs";
import { crowd } from "./scenarios/crowd.mjs";
import { growth, reopening } from "./scenarios/growth.mjs";
import { kill } from "./scenarios/kill.mjs";
import { forks, hooks } from "./scenarios/ours.mjs";
import { warmTurns } from "./scenarios/warm-turns.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));

const SCENARIOS = {
  S1: (context) => warmTurns(context, "S1"),
  S2: (context) => warmTurns(context, "S2"),
  S3: growth,
  S4: reopening,
  S5: crowd,
  S6: kill,
  S7: (context) => warmTurns(context, "S7"),
  S7b: (context) => warmTurns(context, "S7b"),
  S8: hooks,
  S9: forks,
};

/** In the order of the tables. `floors` is short for those that the floors name. */
const ADAPTERS = [
  "raw",
  "provider-alone",
  "marling",
  "marling-memory",
  "marling-fetch",
  "marling-native",
  "ai-sdk",
  "ai-sdk-sqlite",
  "langgraph-memory",
  "langgraph-sqlite",
  "mastra",
  "mastra-durable",
  "openai-agents-memory",
  "openai-agents-sqlite",
  "pi-agent",
  "pi-harness-jsonl",
  "pi-harness-sqlite",
  "dbos",
  "restate",
];
const FLOOR_ADAPTERS = ["raw", "provider-alone", "marling", "marling-native", "ai-sdk", "pi-agent"];
const ROUNDS = 5;
const QUICK_ROUNDS = 1;

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      adapter: { type: "string" },
      rounds: { type: "string" },
      quick: { type: "boolean", default: false },
      check: { type: "boolean", default: false },
      out: { type: "string", default: join(here, "results.json") },
      profile: { type: "string" },
    },
  });
  const wanted = positionals.flatMap((names) => names.split(","));
  const scenarios =
    wanted.length === 0
      ? Object.keys(SCENARIOS)
      : [...new Set(wanted.flatMap((id) => (id === "S7" ? ["S7", "S7b"] : [id])))];
  const rounds = values.rounds === undefined ? (values.quick ? QUICK_ROUNDS : ROUNDS) : Number(values.rounds);
  if (!Number.isSafeInteger(rounds) || rounds < 1)
    throw new Error(`--rounds: expected a number from 1 on, found ${values.rounds}`);
  const stranger = scenarios.find((id) => SCENARIOS[id] === undefined);
  if (stranger !== undefined)
    throw new Error(`expected scenarios of ${Object.keys(SCENARIOS).join(", ")}, found ${stranger}`);
  return { ...values, scenarios, rounds, adapters: readAdapters(values.adapter) };
}

function readAdapters(given) {
  if (given === undefined) return ADAPTERS;
  const names = given.split(",").flatMap((name) => (name === "floors" ? FLOOR_ADAPTERS : [name]));
  const stranger = names.find((name) => !ADAPTERS.includes(name));
  if (stranger !== undefined)
    throw new Error(`--adapter: expected some of ${ADAPTERS.join(", ")}, found ${stranger}`);
  return ADAPTERS.filter((name) => name === "raw" || names.includes(name)); // The floor always runs.
}

const began = Date.now();
const note = (text) => process.stderr.write(`[${((Date.now() - began) / 1000).toFixed(0)} s] ${text}\n`);

/** What scenarios are given: who takes part, how often, and where. */
class Context {
  constructor({ bench, options, print }) {
    this.bench = bench;
    this.rounds = options.rounds;
    this.isQuick = options.quick;
    this.print = print;
    this.note = note;
    this.described = {};
    this.leftOut = {};
  }

  /** Asks every adapter what it is; one that cannot be loaded, or whose server does not start, is left out. */
  async describe(adapters) {
    for (const adapter of adapters) {
      const { ok, error } = await this.bench.work(adapter, "describe", { dir: this.bench.folder });
      const problem = error ?? (await this.#serverProblem(adapter, ok.service));
      if (problem === undefined) this.described[adapter] = ok;
      else {
        this.leftOut[adapter] = problem.split("\n")[0];
        note(`${adapter} is left out: ${this.leftOut[adapter]}`);
      }
    }
    this.adapters = adapters.filter((adapter) => this.described[adapter] !== undefined);
  }

  async #serverProblem(adapter, service) {
    if (service === undefined) return undefined;
    try {
      await this.bench.withStore(adapter, service, async () => undefined);
      return undefined;
    } catch (error) {
      return String(error);
    }
  }

  about(adapter) {
    return this.described[adapter];
  }

  nameOf(adapter) {
    return this.described[adapter]?.name ?? adapter;
  }

  withStore(adapter, run) {
    return this.bench.withStore(adapter, this.described[adapter]?.service, run);
  }
}

const saidOf = ({ load, fdatasyncMs }) =>
  `load ${load.map((value) => number(value)).join(" ")}, fdatasync ${number(fdatasyncMs)} ms`;

function introduce(context, { results, print }) {
  const size = results.isQuick ? ", quick" : "";
  print(`# marling beside its peers, ${results.date}\n`);
  print(
    `${results.cpus} cores (${results.cpu}), Node ${results.node}, ${results.rounds} rounds${size}; at the start ${saidOf(results.before)}.\n`,
  );
  const cells = context.adapters.map((adapter) => {
    const { name, version, keeps, loadMs, rssMb } = context.about(adapter);
    return [name, version, keeps, number(loadMs), number(rssMb)];
  });
  print(table(["adapter", "version", "keeps sessions in", "module load ms", "RSS after load MB"], cells));
  for (const [adapter, reason] of Object.entries(context.leftOut))
    print(`\nLeft out: ${adapter} (${reason})`);
}

async function measureAll(context, { options, results, print }) {
  introduce(context, { results, print });
  for (const id of options.scenarios) {
    results.scenarios[id] = await SCENARIOS[id](context);
    writeFileSync(options.out, JSON.stringify(results, null, 1));
  }
  results.floors = judge(results.scenarios);
  results.after = machineNow(context.bench.folder);
  results.seconds = (Date.now() - began) / 1000;
  print(`\n### Floors\n\n${floorTable(results.floors)}`);
  print(`\nTook ${number(results.seconds)} s; at the end ${saidOf(results.after)}.`);
  writeFileSync(options.out, JSON.stringify(results, null, 1));
}

async function main() {
  const options = readArguments();
  mkdirSync(join(here, "tmp"), { recursive: true });
  const folder = mkdtempSync(join(here, "tmp", "run-"));
  chmodSync(folder, 0o755); // A storage server may have an account of its own.
  const printed = [];
  const print = (text) => {
    printed.push(text);
    console.log(text);
  };
  const server = await startModelServer({ isStrict: options.check });
  const bench = new Bench({ server, folder, profile: options.profile });
  try {
    const context = new Context({ bench, options, print });
    await context.describe(options.adapters);
    const results = {
      date: new Date().toISOString(),
      node: context.about("raw").version,
      isBundledNode: workerNode !== process.execPath,
      cpus: cpus().length,
      cpu: cpus()[0].model,
      rounds: options.rounds,
      isQuick: options.quick,
      adapters: context.described,
      leftOut: context.leftOut,
      scenarios: {},
      before: machineNow(folder),
    };
    if (options.check) {
      if (!(await check(context))) process.exitCode = 1;
      return;
    }
    await measureAll(context, { options, results, print });
    writeFileSync(options.out.replace(/(\.json)?$/, ".md"), `${printed.join("\n")}\n`);
  } finally {
    await bench.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
    if (readdirSync(join(here, "tmp")).length === 0) rmSync(join(here, "tmp"), { recursive: true });
  }
}

await main();
