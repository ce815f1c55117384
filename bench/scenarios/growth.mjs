// S3 and S4: one session that becomes long, and taking it up in a new process.

import { bytes, mean, median, number, table, times } from "../harness/figures.mjs";
import { each, failures, inRounds } from "./rounds.mjs";

const FULL = { marks: [10, 100, 200, 1_000], limitMs: 25_000, warmUp: 60 };
const QUICK = { marks: [10, 50], limitMs: 4_000, warmUp: 10 };
const plan = {};

/** Keeps a session anywhere; the floors run beside them, since time is measured over theirs. */
const grows = ({ keeps, isFloor }) => isFloor === true || !["nothing", "memory"].includes(keeps);

export async function growth(context) {
  const { marks, limitMs, warmUp } = context.isQuick ? QUICK : FULL;
  const top = marks.at(-1);
  const adapters = context.adapters.filter((name) => grows(context.about(name)));
  const slow = new Set();
  const { figures, failed } = await inRounds(context, {
    id: "S3",
    rounds: context.rounds,
    adapters,
    measure: async (adapter) => {
      if (slow.has(adapter)) return { ok: undefined }; // Its bytes are known, its times would be those of fewer turns.
      const params = { from: 1, to: top, limitMs, warmUp };
      const found = await context.withStore(adapter, (dir) =>
        context.bench.work(adapter, "grow", { plan, dir, params, limitMs: limitMs + 60_000 }),
      );
      if (found.ok !== undefined && found.ok.last < top) slow.add(adapter);
      return found;
    },
  });
  const rows = Object.fromEntries(
    Object.entries(figures).map(([name, rounds]) => [name, rowOf(rounds.filter(Boolean), marks)]),
  );
  overProvider(rows, marks);
  context.print(`\n### S3 one session of text turns up to ${top}, at most ${limitMs / 1000} s\n`);
  context.print(growthTable(context, { rows, failed, marks }));
  return { title: `one session up to ${top} turns`, marks, rows, failed };
}

function rowOf(rounds, marks) {
  const at = (values, turn) => (values.length < turn ? undefined : median(values.slice(turn - 10, turn)));
  const overRounds = (read) => {
    const values = rounds.map(read).filter((value) => value !== undefined);
    return values.length === 0 ? undefined : median(values);
  };
  const byMark = (read) =>
    Object.fromEntries(marks.map((turn) => [turn, overRounds((round) => read(round, turn))]));
  return {
    reached: Math.min(...rounds.map(({ last }) => last)),
    ms: byMark(({ times: found }, turn) => at(found, turn)),
    cpu: byMark(({ cpus }, turn) => at(cpus, turn)),
    roundMs: rounds.map(({ times: found }) =>
      Object.fromEntries(marks.map((turn) => [turn, at(found, turn)])),
    ),
    written: byMark(({ written }, turn) => windowMean(written, turn)),
    stored: overRounds(({ stored }) => stored),
    peakRssMb: Math.max(...rounds.map(({ peakRssMb }) => peakRssMb)),
  };
}

/** Bytes of a turn: the mean of the last 100 turns up to a mark, of fewer where there were not so many. */
function windowMean(written, turn) {
  if (written[turn] === undefined) return undefined;
  const inside = Object.entries(written).filter(([at]) => Number(at) > turn - 100 && Number(at) <= turn);
  return mean(inside.map(([, value]) => value));
}

/** The time of a turn beyond that of the provider alone or of raw, in the same round. */
function overProvider(rows, marks) {
  for (const row of Object.values(rows)) {
    row.over = {};
    for (const floor of ["raw", "provider-alone"]) {
      const base = rows[floor]?.roundMs ?? [];
      const differences = (turn) =>
        row.roundMs
          .map((found, round) => found[turn] - base[round]?.[turn])
          .filter((value) => !Number.isNaN(value));
      row.over[floor] = Object.fromEntries(marks.map((turn) => [turn, median(differences(turn))]));
    }
  }
}

function growthTable(context, { rows, failed, marks }) {
  const last = marks.at(-1);
  const head = ["adapter", ...marks.map((turn) => `ms at ${turn}`), "turns reached"];
  head.push(
    ...marks.map((turn) => `written at ${turn}`),
    `over provider at ${marks[0]} and ${last}`,
    "store",
    "peak RSS MB",
  );
  const cells = Object.entries(rows).map(([name, row]) => {
    const isFloor = context.about(name).isFloor === true;
    const over = row.over["provider-alone"];
    return [
      context.nameOf(name),
      ...marks.map((turn) => number(row.ms[turn])),
      row.reached,
      ...marks.map((turn) => (isFloor ? "-" : bytes(row.written[turn]))),
      isFloor ? "-" : `${number(over[marks[0]])} and ${number(over[last])}`,
      isFloor ? "-" : bytes(row.stored),
      number(row.peakRssMb),
    ];
  });
  return table(head, [...cells, ...failures(context, failed, head.length)]);
}

const REOPENED = { full: [200, 1_000], quick: [50] };

export async function reopening(context) {
  const lengths = context.isQuick ? REOPENED.quick : REOPENED.full;
  const adapters = context.adapters.filter((name) => {
    const { keeps, isFloor } = context.about(name);
    return isFloor !== true && !["nothing", "memory"].includes(keeps);
  });
  const stores = new Map();
  const rows = {};
  const allFailed = {};
  try {
    for (const turns of lengths) {
      const { ready, failed: short } = await fill(context, { adapters, turns, stores });
      const { figures, failed } = await inRounds(context, {
        id: `S4 at ${turns}`,
        rounds: context.rounds,
        adapters: ready,
        measure: (adapter) => {
          const store = stores.get(adapter);
          store.turn += 1;
          return context.bench.work(adapter, "reopen", {
            plan,
            dir: store.dir,
            params: { turn: store.turn },
          });
        },
      });
      Object.assign(allFailed, short, failed);
      for (const [name, rounds] of Object.entries(figures))
        rows[`${name} ${turns}`] = { name, turns, ...reopened(rounds) };
    }
  } finally {
    for (const [adapter, { dir }] of stores) await context.bench.closeStore(adapter, dir);
  }
  context.print(
    "\n### S4 a new process opens a stored session and runs a turn; loading modules not counted\n",
  );
  context.print(reopenTable(context, { rows, failed: allFailed, lengths }));
  return { title: "cold reopen and a turn", lengths, rows, failed: allFailed };
}

/** Brings every session to its length, in the time that there is for it. */
async function fill(context, { adapters, turns, stores }) {
  const failed = {};
  const ready = [];
  for (const adapter of adapters) {
    if (!stores.has(adapter))
      stores.set(adapter, {
        dir: await context.bench.openStore(adapter, context.about(adapter).service),
        turn: 0,
      });
    const store = stores.get(adapter);
    if (store.isOver) continue;
    const params = { from: store.turn + 1, to: turns, limitMs: FULL.limitMs };
    const { ok, error } = await context.bench.work(adapter, "grow", { plan, dir: store.dir, params });
    store.turn = ok?.last ?? store.turn;
    store.isOver = store.turn < turns;
    if (store.isOver)
      failed[adapter] = error ?? `${store.turn} of ${turns} turns in ${FULL.limitMs / 1000} s`;
    else ready.push(adapter);
    context.note(`S4: ${adapter} has ${store.turn} turns`);
  }
  return { ready, failed };
}

function reopened(rounds) {
  const of = (read) => median(each(rounds, read).filter((value) => value !== undefined));
  return {
    totalMs: of(({ totalMs }) => totalMs),
    openMs: of(({ openMs }) => openMs),
    loadMs: of(({ loadMs }) => loadMs),
    peakRssMb: of(({ peakRssMb }) => peakRssMb),
  };
}

function reopenTable(context, { rows, failed, lengths }) {
  const head = [
    "adapter",
    "turns",
    "open and turn ms",
    "to the fastest peer",
    "open ms",
    "module load ms",
    "peak RSS MB",
  ];
  const cells = lengths.flatMap((turns) => {
    const found = Object.values(rows).filter((row) => row.turns === turns);
    const peers = found.filter(({ name }) => context.about(name).isOurs !== true);
    const fastest = Math.min(...peers.map(({ totalMs }) => totalMs));
    return found
      .toSorted((a, b) => a.totalMs - b.totalMs)
      .map((row) => [
        context.nameOf(row.name),
        turns,
        number(row.totalMs),
        peers.length === 0 ? "-" : times(row.totalMs / fastest),
        number(row.openMs),
        number(row.loadMs),
        number(row.peakRssMb),
      ]);
  });
  return table(head, [...cells, ...failures(context, failed, head.length)]);
}
