// One adapter, one task, one process. The job is in the arguments, the answer goes to the parent.

import { readFileSync } from "node:fs";
import { bytesWritten, bytesWrittenBy, cpuMs, folderBytes, peakRssMb, rssMb } from "./machine.mjs";
import { answerText, modelName, userText } from "./plan.mjs";

const job = JSON.parse(process.argv[2]);
const { adapter, task, params, plan, dir, url, service } = job;
const expected = answerText(plan);
const WARM_UP_LIMIT_MS = 5_000;

const loading = performance.now();
const { about, connect: connectAdapter } = await import(`../adapters/${adapter}.mjs`);
const loadMs = performance.now() - loading;

const connect = () => connectAdapter({ ...job.options, url, dir, service, model: modelName(plan) });

/** Runs a turn and holds its answer against what it must be. */
async function timedTurn({ agent, session, id, turn, how = "turn" }) {
  let deltas = 0;
  const onDelta = () => {
    deltas += 1;
  };
  const [cpu, started] = [cpuMs(), performance.now()];
  const text = await agent[how](session, userText(id, turn), onDelta);
  const figures = { ms: performance.now() - started, cpu: cpuMs() - cpu, deltas };
  if (text === expected) return figures;
  const found = `${text?.length} characters: ${JSON.stringify(String(text).slice(0, 100))}`;
  throw new Error(`expected an answer of ${expected.length} characters, found ${found}`);
}

/** Turns of other sessions before what is measured, so that the first of that are not those of a new process. */
async function warmedUp(agent, turns) {
  const until = performance.now() + WARM_UP_LIMIT_MS;
  for (let index = 0; index < turns && performance.now() < until; index += 5) {
    const id = `warm-${index}`;
    const session = await agent.open(id);
    for (let turn = 1; turn <= 5; turn += 1) await timedTurn({ agent, session, id, turn });
  }
}

/** Bytes that went to files: for a store in this process all it wrote without what the model server received. */
async function storeBytes() {
  if (service !== undefined) return bytesWrittenBy(service.pid);
  const { bytesIn } = await (await fetch(`${url}/stats`)).json();
  return bytesWritten() - bytesIn;
}

function versionOf() {
  if (about.version !== undefined) return about.version;
  if (about.package === undefined) return process.version;
  const manifest = new URL(`../node_modules/${about.package}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}

const TASKS = {
  describe: async () => ({ ...about, version: versionOf(), loadMs, rssMb: rssMb() }),

  /** Three turns with tools on a strict server. */
  async check() {
    const agent = await connect();
    const session = await agent.open("checked");
    const deltas = [];
    for (let turn = 1; turn <= 3; turn += 1)
      deltas.push((await timedTurn({ agent, session, id: "checked", turn })).deltas);
    return { deltas };
  },

  /** Turns of a process that has run some: so many per session, some of them only to warm up. */
  async warm() {
    const { warmUp, turns, perSession, limitMs, tag } = params;
    const agent = await connect();
    const samples = [];
    const started = performance.now();
    let session;
    for (let index = 0; index < warmUp + turns; index += 1) {
      const turn = (index % perSession) + 1;
      const id = `${tag}-${index - turn + 1}`;
      if (turn === 1) session = await agent.open(id);
      const figures = await timedTurn({ agent, session, id, turn });
      if (index >= warmUp || figures.ms > limitMs / 2) samples.push(figures);
      if (samples.length > 0 && performance.now() - started > limitMs) break;
    }
    return { samples, peakRssMb: peakRssMb() };
  },

  /** Goes on with one session up to a turn, or until the time is over. Bytes are means over ten turns. */
  async grow() {
    const { from, to, limitMs, warmUp = 0 } = params;
    const agent = await connect();
    await warmedUp(agent, warmUp);
    const session = from === 1 ? await agent.open("long") : await agent.reopen("long");
    const [times, cpus, written] = [[], [], {}];
    let bytes = await storeBytes();
    const started = performance.now();
    let turn = from;
    for (; turn <= to && performance.now() - started < limitMs; turn += 1) {
      const { ms, cpu } = await timedTurn({ agent, session, id: "long", turn });
      times.push(ms);
      cpus.push(cpu);
      if (turn % 10 !== 0) continue;
      const now = await storeBytes();
      written[turn] = (now - bytes) / 10;
      bytes = now;
    }
    await agent.close();
    return { last: turn - 1, times, cpus, written, stored: folderBytes(dir), peakRssMb: peakRssMb() };
  },

  /** A process that has just begun takes up a stored session and runs a turn. */
  async reopen() {
    const started = performance.now();
    const agent = await connect();
    const session = await agent.reopen("long");
    const openMs = performance.now() - started;
    await timedTurn({ agent, session, id: "long", turn: params.turn });
    const figures = { loadMs, openMs, totalMs: performance.now() - started, peakRssMb: peakRssMb() };
    await agent.close();
    return figures;
  },

  /** Many sessions at once. */
  async crowd() {
    const { sessions, turns, limitMs } = params;
    const agent = await connect();
    const first = await agent.open("first");
    for (let turn = 1; turn <= 5; turn += 1) await timedTurn({ agent, session: first, id: "first", turn });
    const waits = [];
    const [cpu, started] = [cpuMs(), performance.now()];
    const live = async (id) => {
      const session = await agent.open(id);
      for (let turn = 1; turn <= turns && performance.now() - started < limitMs; turn += 1)
        waits.push((await timedTurn({ agent, session, id, turn })).ms);
    };
    await Promise.all(Array.from({ length: sessions }, (_, index) => live(`s${index}`)));
    const ms = performance.now() - started;
    const perSecond = (waits.length / ms) * 1000;
    return { waits, perSecond, cpuPerTurn: (cpuMs() - cpu) / waits.length, peakRssMb: peakRssMb() };
  },

  /** A turn in which a tool hangs until somebody kills this process. */
  async hang() {
    const agent = await connect();
    const session = await agent.open("killed");
    await timedTurn({ agent, session, id: "killed", turn: 1 });
    return {};
  },

  /** What was killed goes on as its framework documents it; another turn shows that the session is whole. */
  async resume() {
    const started = performance.now();
    const agent = await connect();
    const session = await agent.reopen("killed");
    const outcome = { isCompleted: false, isNextTurnFine: false };
    try {
      await timedTurn({ agent, session, id: "killed", turn: 1, how: "resume" });
      outcome.isCompleted = true;
      outcome.ms = performance.now() - started;
      await timedTurn({ agent, session, id: "killed", turn: 2 });
      outcome.isNextTurnFine = true;
    } catch (error) {
      outcome.error = String(error?.message ?? error).slice(0, 300);
    }
    return outcome;
  },
};

const OWN_TASKS = { hooks: "./measure-hooks.mjs", forks: "./measure-forks.mjs" };

async function perform() {
  if (OWN_TASKS[task] === undefined) return TASKS[task]();
  const { measure } = await import(OWN_TASKS[task]);
  return measure({ params, plan, dir, url, expected });
}

const answer = await perform().then(
  (ok) => ({ ok }),
  (error) => ({ error: String(error?.stack ?? error).slice(0, 1_500) }),
);
process.send(answer, () => process.exit(0));
