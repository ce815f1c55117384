// S8 and S9: what no peer has. Hooks and forks of marling.

import { bytes, median, number, table } from "../harness/figures.mjs";
import { inRounds } from "./rounds.mjs";

const ADAPTER = "marling-native";
const CHUNKS = 20_000;
const BUSY = 20;

const HOOKS = {
  full: { text: { warmUp: 60, turns: 100, perSession: 20 }, chunks: { warmUp: 8, turns: 11, perSession: 1 } },
  quick: { text: { warmUp: 10, turns: 20, perSession: 5 }, chunks: { warmUp: 1, turns: 3, perSession: 1 } },
};
const FORKS = {
  full: { lengths: [10, 1_000], warmUp: 10, forks: 41 },
  quick: { lengths: [10, 100], warmUp: 3, forks: 9 },
};

const sizeOf = (context, sizes) => (context.isQuick ? sizes.quick : sizes.full);

export async function hooks(context) {
  const { text, chunks } = sizeOf(context, HOOKS);
  const run = (id, plan, params) =>
    inRounds(context, {
      id,
      rounds: context.rounds,
      adapters: [ADAPTER],
      measure: () =>
        context.withStore(ADAPTER, (dir) => context.bench.work(ADAPTER, "hooks", { plan, dir, params })),
    });
  const turns = await run("S8 text turn", {}, text);
  const streams = await run("S8 chunks", { chunks: CHUNKS }, chunks);
  const failed = { ...turns.failed, ...streams.failed };
  const rows = {};
  for (const name of ["none", "busy", "idle"]) {
    const of = ({ figures }, read) =>
      median((figures[ADAPTER] ?? []).filter(Boolean).map((round) => read(round[name])));
    rows[name] = {
      turnMs: of(turns, ({ ms }) => ms),
      turnOverMs: of(turns, ({ overMs }) => overMs),
      turnOverCpu: of(turns, ({ overCpu }) => overCpu),
      chunkOverMicros: (of(streams, ({ overCpu }) => overCpu) * 1000) / CHUNKS,
    };
  }
  rows.busy.perPluginAndChunkMicros = rows.busy.chunkOverMicros / BUSY;
  const labels = { none: "no plugins", busy: `${BUSY} plugins, every hook`, idle: "200 plugins, no hook" };
  context.print("\n### S8 hooks of marling native: a text turn of 64 chunks, and a chunk\n");
  const head = [
    "plugins",
    "turn ms",
    "over none ms",
    "over none CPU ms",
    "a chunk over none CPU µs",
    "a plugin and chunk µs",
  ];
  context.print(
    table(
      head,
      Object.entries(rows).map(([name, row]) => [
        labels[name],
        number(row.turnMs),
        number(row.turnOverMs),
        number(row.turnOverCpu),
        number(row.chunkOverMicros),
        number(row.perPluginAndChunkMicros),
      ]),
    ),
  );
  for (const error of Object.values(failed)) context.print(`\nfailed: ${error.split("\n")[0]}`);
  return { title: "hooks", rows, failed };
}

export async function forks(context) {
  const params = sizeOf(context, FORKS);
  const { figures, failed } = await inRounds(context, {
    id: "S9",
    rounds: context.rounds,
    adapters: [ADAPTER],
    measure: () =>
      context.withStore(ADAPTER, (dir) => context.bench.work(ADAPTER, "forks", { plan: {}, dir, params })),
  });
  const rows = {};
  for (const turns of params.lengths) {
    const of = (read) => median((figures[ADAPTER] ?? []).filter(Boolean).map((round) => read(round[turns])));
    rows[turns] = { ms: of(({ ms }) => ms), bytes: of((row) => row.bytes), pages: of(({ pages }) => pages) };
  }
  context.print("\n### S9 a fork\n");
  const cells = Object.entries(rows).map(([turns, row]) => [
    turns,
    number(row.ms),
    row.pages,
    bytes(row.bytes),
  ]);
  context.print(table(["turns of the session", "ms", "pages written", "bytes written"], cells));
  for (const error of Object.values(failed)) context.print(`\nfailed: ${error.split("\n")[0]}`);
  return { title: "fork", lengths: params.lengths, rows, failed };
}
