// A world of the soak test, made from its seed alone: which sessions there are, what they are asked and by which
// process, which tools the model calls, whose clock is wrong, and who is killed, paused or closed when.
// An input names a program (`@p:<key>@`); the model goes by the request, so that every process says the same.

import { createHash } from "node:crypto";

/** One call of a program. `id` is unique in the world. @typedef {{ tool: string, id: string, program?: string }} Call */
/** What the model does about an input: rounds of calls. @typedef {{ key: string, rounds: Call[][] }} Program */
/**
 * @typedef {"turn" | "next" | "steer" | "emit" | "monitor" | "compact" | "fork"} ActKind
 * @typedef {{ kind: ActKind, session: string, key: string, slot: number, waitMs: number }} Act
 * @typedef {"kill" | "pause" | "close"} BlowKind
 * @typedef {{ kind: BlowKind, slot: number, afterMs: number, forMs: number, restMs: number }} Blow
 * @typedef {{
 *   seed: number, processes: number, leaseMs: number, toolConcurrency: number, sessions: string[],
 *   programs: Record<string, Program>, acts: Act[], blows: Blow[], clocks: number[],
 * }} World
 */

export const LEASE_MS = 1_500;
const HOUR_MS = 3_600_000;
const PLAIN_TOOLS = ["look", "put", "pay", "post", "retry", "tally", "stamp"];
const SLEEPING_TOOLS = ["wait", "refund"];
const OTHER_TOOLS = ["begin_task", "spawn", "delegate", "nest"];

/** What a crash in the middle of each tool may do. @type {Record<string, "safe" | "idempotent" | "unsafe">} */
export const REPLAY = {
  look: "safe",
  put: "idempotent",
  pay: "unsafe",
  post: "unsafe",
  retry: "idempotent",
  tally: "idempotent",
  stamp: "unsafe",
  wait: "safe",
  refund: "unsafe",
  begin_task: "safe",
  spawn: "safe",
  delegate: "safe",
  nest: "safe",
  leave: "safe",
};

/**
 * Numbers from 0 to 1 that depend on the seed and the name alone.
 * @param {number} seed
 * @param {string} name
 */
export function randomFrom(seed, name) {
  let state = createHash("sha256").update(`${seed} ${name}`).digest().readUInt32LE(0);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {() => number} random */
const dice = (random) => ({
  /** @param {number} most */
  upTo: (most) => Math.floor(random() * (most + 1)),
  /** @param {number} part */
  chance: (part) => random() < part,
  /** @template T @param {readonly T[]} list @returns {T} */
  pick: (list) => /** @type {T} */ (list[Math.floor(random() * list.length)]),
});

/** @param {number} seed @param {{ processes?: number }} [options] @returns {World} */
export function worldOf(seed, options = {}) {
  const { upTo, chance, pick } = dice(randomFrom(seed, "world"));
  const drawn = 1 + upTo(2);
  const processes = options.processes ?? drawn;
  const sessions = Array.from({ length: 1 + upTo(3) }, (_, at) => `s${at}`);
  const clocks = Array.from({ length: 3 }, () => (chance(0.5) ? 0 : pick([-HOUR_MS, HOUR_MS])));
  const programs = programsOf(seed);
  const acts = sessions.flatMap((session) => actsOf({ seed, session, processes }, programs));
  return {
    seed,
    processes,
    leaseMs: LEASE_MS,
    toolConcurrency: pick([1, 2, 8]),
    sessions,
    programs: programs.made,
    acts,
    blows: blowsOf(seed, processes),
    clocks: chance(0.4) ? clocks : [0, 0, 0],
  };
}

/** Makes programs, those that their calls need included. @param {number} seed */
function programsOf(seed) {
  const { upTo, chance, pick } = dice(randomFrom(seed, "programs"));
  /** @type {Record<string, Program>} */
  const made = {};
  const kindOf = () => (chance(0.55) ? pick(PLAIN_TOOLS) : pick([...SLEEPING_TOOLS, ...OTHER_TOOLS]));
  /** @param {string} key @param {number} depth */
  const make = (key, depth) => {
    const rounds = Array.from({ length: upTo(depth === 0 ? 3 : 1) }, (_, round) =>
      Array.from({ length: 1 + upTo(3) }, (_, at) => call(`${key}.${round}.${at}`, depth)),
    );
    if (depth === 0 && chance(0.15)) rounds.push([below("leave", `${key}.frame`, 2)]);
    made[key] = { key, rounds };
    return made[key];
  };
  /** @param {string} id @param {number} depth @returns {Call} */
  const call = (id, depth) => {
    const tool = kindOf();
    if (tool === "spawn" || tool === "delegate")
      return depth < 2 ? below(tool, id, depth + 1) : { tool: "look", id };
    return { tool, id };
  };
  /** @param {string} tool @param {string} id @param {number} depth @returns {Call} */
  const below = (tool, id, depth) => ({ tool, id, program: make(`${id}.p`, depth).key });
  return { made, make };
}

/**
 * @param {{ seed: number, session: string, processes: number }} where
 * @param {ReturnType<typeof programsOf>} programs
 * @returns {Act[]}
 */
function actsOf({ seed, session, processes }, programs) {
  const { upTo, chance, pick } = dice(randomFrom(seed, `acts ${session}`));
  /** @type {ActKind[]} */
  const kinds = [
    "turn",
    "turn",
    "turn",
    "turn",
    "next",
    "steer",
    "steer",
    "emit",
    "monitor",
    "compact",
    "fork",
  ];
  return Array.from({ length: 3 + upTo(6) }, (_, at) => {
    const kind = at === 0 ? "turn" : pick(kinds);
    const key = `${session}-${at}`;
    const hasProgram = kind === "turn" || kind === "next" || kind === "emit" || kind === "fork";
    if (hasProgram) programs.make(key, 0);
    return { kind, session, key, slot: upTo(processes - 1), waitMs: chance(0.5) ? upTo(20) : upTo(150) };
  });
}

/** Who is killed, paused or closed, one after the other. @param {number} seed @param {number} processes @returns {Blow[]} */
function blowsOf(seed, processes) {
  const { upTo, chance, pick } = dice(randomFrom(seed, "blows"));
  return Array.from({ length: 4 + upTo(8) }, () => ({
    kind: chance(0.74) ? "kill" : pick(["pause", "close"]),
    slot: upTo(processes - 1),
    afterMs: chance(0.3) ? upTo(60) : upTo(450),
    forMs: pick([0, 30, 400, 5_000]),
    restMs: chance(0.6) ? 0 : upTo(400),
  }));
}

/** How long a pause lasts: always longer than a lease. @param {Blow} blow */
export const pauseMs = ({ afterMs }) => Math.round(LEASE_MS * 1.3 + afterMs * 3);

/** The text by which an input, a task or an occurrence names its program. @param {string} key */
export const marked = (key) => `@p:${key}@`;

/** What is said to a turn that runs; it has no program. @param {string} key */
export const noteOf = (key) => `note <${key}>`;

/** The plan's id of a call, whichever tool it is of. @param {string} name @param {any} args @returns {string} */
export function planIdOf(name, args) {
  if (name !== "spawn") return String(args?.id);
  return (/@p:([^@]+)\.p@/.exec(String(args?.task)) ?? [])[1] ?? "";
}

/**
 * What the model does next: the calls of the next round of the newest program, or words.
 * @param {Pick<World, "programs">} world
 * @param {Pick<import("marling/host").ModelRequest, "messages">} request
 * @returns {{ key: string, calls: Call[] | undefined }}
 */
export function nextOf(world, { messages }) {
  let key = "";
  let at = -1;
  for (const [index, { role, parts }] of messages.entries()) {
    if (role === "assistant" || role === "tool") continue;
    for (const part of parts) {
      const found = part.kind === "text" ? /@p:([^@]+)@/.exec(part.text) : null;
      if (found?.[1] !== undefined) [key, at] = [found[1], index];
    }
  }
  const behind = messages.slice(at);
  const isOver = behind.some(
    ({ role, parts }) => role === "assistant" && !parts.some(({ kind }) => kind === "tool_call"),
  );
  const done = behind.filter(({ role }) => role === "tool").length;
  return { key, calls: isOver ? undefined : world.programs[key]?.rounds[done] };
}
