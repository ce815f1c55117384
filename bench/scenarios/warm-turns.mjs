// S1, S2, S7 and S7b: turns of a process that has warmed up, beside the floor and the peers that the floors name.

import { difference, mean, median, number, quantile, ratio, table, times } from "../harness/figures.mjs";
import { each, failures, inRounds } from "./rounds.mjs";

const SCENARIOS = {
  S1: {
    title: "warm text turn, 64 chunks, history of up to 5 turns",
    plan: {},
    full: { warmUp: 60, turns: 80, perSession: 5, limitMs: 20_000 },
    quick: { warmUp: 10, turns: 20, perSession: 5, limitMs: 10_000 },
  },
  S2: {
    title: "turn of 8 rounds of 4 tool calls, then text: 9 model calls, 32 tool calls",
    plan: { rounds: 8, calls: 4 },
    full: { warmUp: 8, turns: 15, perSession: 1, limitMs: 20_000 },
    quick: { warmUp: 2, turns: 4, perSession: 1, limitMs: 10_000 },
  },
  S7: {
    title: "a streamed chunk, answer of 20,000 in large reads",
    plan: { chunks: 20_000 },
    full: { warmUp: 15, turns: 15, perSession: 1, limitMs: 30_000 },
    quick: { warmUp: 1, turns: 2, perSession: 1, limitMs: 10_000 },
  },
  S7b: {
    title: "a streamed chunk, answer of 5,000, each in a socket write of its own",
    plan: { chunks: 5_000, isPaced: true },
    full: { warmUp: 15, turns: 15, perSession: 1, limitMs: 30_000 },
    quick: { warmUp: 1, turns: 2, perSession: 1, limitMs: 10_000 },
  },
};

export async function warmTurns(context, id) {
  const { title, plan, full, quick } = SCENARIOS[id];
  const params = context.isQuick ? quick : full;
  const { figures, failed } = await inRounds(context, {
    id,
    rounds: context.rounds,
    adapters: context.adapters,
    measure: (adapter, round) =>
      context.withStore(adapter, (dir) =>
        context.bench.work(adapter, "warm", { plan, dir, params: { ...params, tag: `r${round}` } }),
      ),
  });
  const rows = Object.fromEntries(Object.entries(figures).map(([name, rounds]) => [name, rowOf(rounds)]));
  const chunks = id.startsWith("S7") ? plan.chunks : undefined;
  addRatios(rows);
  context.print(`\n### ${id} ${title}\n`);
  context.print(
    chunks === undefined ? turnTable(context, rows, failed) : chunkTable(context, { rows, failed, chunks }),
  );
  return { title, plan, params, rows, failed };
}

function rowOf(rounds) {
  const roundMs = each(rounds, ({ samples }) => median(samples.map(({ ms }) => ms)));
  const roundCpu = each(rounds, ({ samples }) => mean(samples.map(({ cpu }) => cpu)));
  const known = roundMs.filter((value) => value !== undefined);
  const all = rounds.flatMap((round) => round?.samples.map(({ ms }) => ms) ?? []);
  return {
    ms: median(known),
    p95Ms: quantile(all, 0.95),
    cpuMs: median(roundCpu.filter((value) => value !== undefined)),
    spread: Math.max(...known) / Math.min(...known),
    peakRssMb: Math.max(...rounds.map((round) => round?.peakRssMb ?? 0)),
    roundMs,
    roundCpu,
  };
}

/** Ratios and differences are of the same round; their median is kept. */
function addRatios(rows) {
  for (const row of Object.values(rows)) {
    row.to = {};
    row.cpuTo = {};
    row.cpuOver = {};
    for (const [other, { roundMs, roundCpu }] of Object.entries(rows)) {
      row.to[other] = ratio(row.roundMs, roundMs);
      row.cpuTo[other] = ratio(row.roundCpu, roundCpu);
      row.cpuOver[other] = difference(row.roundCpu, roundCpu);
    }
  }
}

function turnTable(context, rows, failed) {
  const head = ["adapter", "median ms", "p95 ms", "to raw", "to provider alone", "to ai-sdk", "to pi Agent"];
  head.push("CPU ms", "CPU to ai-sdk", "CPU to pi Agent", "peak RSS MB", "spread");
  const cells = Object.entries(rows).map(([name, row]) => [
    context.nameOf(name),
    number(row.ms),
    number(row.p95Ms),
    ...["raw", "provider-alone", "ai-sdk", "pi-agent"].map((other) => times(row.to[other])),
    number(row.cpuMs),
    ...["ai-sdk", "pi-agent"].map((other) => times(row.cpuTo[other])),
    number(row.peakRssMb),
    times(row.spread),
  ]);
  return table(head, [...cells, ...failures(context, failed, head.length)]);
}

function chunkTable(context, { rows, failed, chunks }) {
  const micro = (ms) => (ms === undefined ? "-" : number((ms * 1000) / chunks));
  const head = ["adapter", "median µs", "CPU µs", "CPU over raw µs", "CPU over provider alone µs"];
  head.push("peak RSS MB", "spread");
  const cells = Object.entries(rows).map(([name, row]) => [
    context.nameOf(name),
    micro(row.ms),
    micro(row.cpuMs),
    micro(row.cpuOver.raw),
    micro(row.cpuOver["provider-alone"]),
    number(row.peakRssMb),
    times(row.spread),
  ]);
  return table(head, [...cells, ...failures(context, failed, head.length)]);
}
