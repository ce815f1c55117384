// What the figures are held against. A floor is judged where its scenario ran with everybody it names, in one run.

import { number, table } from "./harness/figures.mjs";

const KIB = 1024;

/** `read` gives what was measured, or nothing; it holds when it is at most `limit`, or with `atLeast` at least that. */
const FLOORS = [
  { id: "S1", what: "marling to the AI SDK", limit: 0.6, read: ({ S1 }) => S1.rows.marling.to["ai-sdk"] },
  {
    id: "S1",
    what: "native to pi Agent",
    limit: 0.8,
    read: ({ S1 }) => S1.rows["marling-native"].to["pi-agent"],
  },
  { id: "S2", what: "marling to the AI SDK", limit: 0.8, read: ({ S2 }) => S2.rows.marling.to["ai-sdk"] },
  {
    id: "S2",
    what: "native to pi Agent",
    limit: 0.8,
    read: ({ S2 }) => S2.rows["marling-native"].to["pi-agent"],
  },
  ...["marling", "marling-native"].flatMap((name) => [
    {
      id: "S3",
      what: `${name}: bytes at the last mark to those at 100`,
      limit: 1.1,
      read: (run) => bytesRatio(run, name),
    },
    {
      id: "S3",
      what: `${name}: KiB a turn at the last mark`,
      limit: 12,
      read: (run) => kibAtLast(run, name),
    },
  ]),
  { id: "S3", what: "time over the provider, last mark to the tenth turn", limit: 1.5, read: timeRatio },
  ...[200, 1_000].map((turns) => ({
    id: "S4",
    what: `native to the fastest peer at ${turns} turns`,
    limit: 0.7,
    read: (run) => reopenRatio(run, turns),
  })),
  { id: "S4", what: "native: ms to load the modules", limit: 120, read: loadMs },
  {
    id: "S5",
    what: "native to pi Agent, turns/s",
    limit: 1.8,
    atLeast: true,
    read: ({ S5 }) => S5.rows["marling-native"].to["pi-agent"],
  },
  {
    id: "S5",
    what: "native to raw, peak RSS",
    limit: 1.4,
    read: ({ S5 }) => S5.rows["marling-native"].rssTo.raw,
  },
  {
    id: "S5",
    what: "marling to the provider alone, turns/s",
    limit: 0.9,
    atLeast: true,
    read: ({ S5 }) => S5.rows.marling.to["provider-alone"],
  },
  {
    id: "S6",
    what: "marling: cases that do not complete or repeat what they may not",
    limit: 0,
    read: wrongKills,
  },
  { id: "S6", what: "native to the fastest peer that repeats nothing", limit: 0.7, read: resumeRatio },
  ...["S7", "S7b"].flatMap((id) => [
    {
      id,
      what: "native over raw, CPU µs a chunk",
      limit: 2,
      read: (run) => chunkOver(run[id], "marling-native", "raw"),
    },
    {
      id,
      what: "marling over the provider alone, CPU µs a chunk",
      limit: 2,
      read: (run) => chunkOver(run[id], "marling", "provider-alone"),
    },
  ]),
  {
    id: "S8",
    what: "20 plugins with every hook: ms added to a text turn",
    limit: 1,
    read: ({ S8 }) => S8.rows.busy.turnOverMs,
  },
  {
    id: "S8",
    what: "20 plugins: µs a plugin and chunk",
    limit: 0.3,
    read: ({ S8 }) => S8.rows.busy.perPluginAndChunkMicros,
  },
  {
    id: "S8",
    what: "200 plugins without a hook: ms added to a text turn",
    limit: 0.05,
    read: ({ S8 }) => S8.rows.idle.turnOverMs,
  },
  {
    id: "S9",
    what: "pages of a fork, longest to shortest session",
    limit: 1,
    read: ({ S9 }) => lastOf(S9).pages / firstOf(S9).pages,
  },
  { id: "S9", what: "KiB that a fork writes", limit: 12, read: ({ S9 }) => lastOf(S9).bytes / KIB },
  { id: "S9", what: "ms that a fork takes", limit: 2, read: ({ S9 }) => lastOf(S9).ms },
];

const firstOf = ({ rows, lengths }) => rows[lengths[0]];
const lastOf = ({ rows, lengths }) => rows[lengths.at(-1)];

function bytesRatio({ S3 }, name) {
  const { written } = S3.rows[name];
  return written[S3.marks.at(-1)] / (written[100] ?? written[S3.marks[0]]);
}

function kibAtLast({ S3 }, name) {
  return S3.rows[name].written[S3.marks.at(-1)] / KIB;
}

function timeRatio({ S3 }) {
  const over = S3.rows.marling.over["provider-alone"];
  return over[S3.marks.at(-1)] / over[10];
}

function reopenRatio({ S4 }, turns) {
  const peers = Object.values(S4.rows).filter(
    (row) => row.turns === turns && !row.name.startsWith("marling"),
  );
  if (peers.length === 0) return undefined;
  return S4.rows[`marling-native ${turns}`].totalMs / Math.min(...peers.map(({ totalMs }) => totalMs));
}

function loadMs({ S4 }) {
  const ours = Object.values(S4.rows).filter(({ name }) => name === "marling-native");
  return Math.max(...ours.map((row) => row.loadMs));
}

const isOurs = ({ adapter }) => adapter.startsWith("marling");

function wrongKills({ S6 }) {
  const isWrong = (row) =>
    !row.isCompleted ||
    !row.isNextTurnFine ||
    row.modelRepeated > 0 ||
    row.toolsRepeated > 0 ||
    row.isInFlightRepeated !== (row.replay === "safe");
  return Object.values(S6.rows).filter((row) => isOurs(row) && isWrong(row)).length;
}

function resumeRatio({ S6 }) {
  const ratios = ["sequence", "parallel"].map((kind) => {
    const rows = Object.values(S6.rows).filter((row) => row.kind === kind && row.isCompleted);
    const peers = rows.filter((row) => !isOurs(row) && row.modelRepeated === 0 && row.toolsRepeated === 0);
    const ours = rows.filter(({ adapter }) => adapter === "marling-native");
    if (peers.length === 0 || ours.length === 0) return Number.NaN;
    return (
      Math.max(...ours.map(({ resumeMs }) => resumeMs)) / Math.min(...peers.map(({ resumeMs }) => resumeMs))
    );
  });
  return ratios.every(Number.isFinite) ? Math.max(...ratios) : undefined;
}

function chunkOver(scenario, name, floor) {
  const over = scenario.rows[name].cpuOver[floor];
  return over === undefined ? undefined : (over * 1000) / scenario.plan.chunks;
}

/** Every floor whose scenario ran: what was measured, and whether it holds. */
export function judge(scenarios) {
  return FLOORS.filter(({ id }) => scenarios[id] !== undefined).map(
    ({ id, what, limit, atLeast = false, read }) => {
      const value = readOrNothing(() => read(scenarios));
      if (value === undefined || Number.isNaN(value))
        return { id, what, limit, atLeast, verdict: "not measured" };
      const holds = atLeast ? value >= limit : value <= limit;
      return { id, what, limit, atLeast, value, verdict: holds ? "holds" : "MISSED" };
    },
  );
}

/** Somebody whom the floor names was not in the run. */
function readOrNothing(read) {
  try {
    return read();
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

export function floorTable(verdicts) {
  const cells = verdicts.map(({ id, what, limit, atLeast, value, verdict }) => [
    `${id} ${what}`,
    number(value),
    `${atLeast ? "at least" : "at most"} ${limit}`,
    verdict,
  ]);
  return table(["floor", "measured", "bar", ""], cells);
}
