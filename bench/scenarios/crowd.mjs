// S5: many sessions at once in one process.

import { median, number, quantile, ratio, table, times } from "../harness/figures.mjs";
import { each, failures, inRounds } from "./rounds.mjs";

const FULL = { sessions: 200, turns: 5, limitMs: 15_000 };
const QUICK = { sessions: 20, turns: 2, limitMs: 5_000 };

export async function crowd(context) {
  const params = context.isQuick ? QUICK : FULL;
  const { figures, failed } = await inRounds(context, {
    id: "S5",
    rounds: context.rounds,
    adapters: context.adapters,
    measure: (adapter) =>
      context.withStore(adapter, (dir) => context.bench.work(adapter, "crowd", { plan: {}, dir, params })),
  });
  const rows = Object.fromEntries(Object.entries(figures).map(([name, rounds]) => [name, rowOf(rounds)]));
  for (const row of Object.values(rows)) {
    const others = Object.entries(rows);
    row.to = Object.fromEntries(others.map(([name, { perRound }]) => [name, ratio(row.perRound, perRound)]));
    row.rssTo = Object.fromEntries(
      others.map(([name, { rssPerRound }]) => [name, ratio(row.rssPerRound, rssPerRound)]),
    );
  }
  context.print(`\n### S5 ${params.sessions} sessions at once, ${params.turns} turns each\n`);
  context.print(crowdTable(context, { rows, failed, params }));
  return { title: `${params.sessions} sessions at once`, params, rows, failed };
}

function rowOf(rounds) {
  const known = rounds.filter(Boolean);
  const waits = known.flatMap((round) => round.waits);
  const of = (read) => median(known.map(read));
  return {
    perSecond: of(({ perSecond }) => perSecond),
    waitMs: median(waits),
    p95Ms: quantile(waits, 0.95),
    cpuMs: of(({ cpuPerTurn }) => cpuPerTurn),
    peakRssMb: of(({ peakRssMb }) => peakRssMb),
    done: Math.min(...known.map((round) => round.waits.length)),
    perRound: each(rounds, ({ perSecond }) => perSecond),
    rssPerRound: each(rounds, ({ peakRssMb }) => peakRssMb),
  };
}

function crowdTable(context, { rows, failed, params }) {
  const others = ["raw", "provider-alone", "pi-agent", "ai-sdk"];
  const head = [
    "adapter",
    "turns/s",
    "to raw",
    "to provider alone",
    "to pi Agent",
    "to ai-sdk",
    "turn median ms",
  ];
  head.push("p95 ms", "CPU ms a turn", "peak RSS MB", "RSS to raw", "turns done");
  const cells = Object.entries(rows).map(([name, row]) => [
    context.nameOf(name),
    number(row.perSecond),
    ...others.map((other) => times(row.to[other])),
    number(row.waitMs),
    number(row.p95Ms),
    number(row.cpuMs),
    number(row.peakRssMb),
    times(row.rssTo.raw),
    row.done === params.sessions * params.turns ? "all" : row.done,
  ]);
  return table(head, [...cells, ...failures(context, failed, head.length)]);
}
