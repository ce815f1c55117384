// What must hold in the end of a world, whatever was killed, paused or closed when: found in the ledger, which knows
// what happened outside, and in what the last process read from the store.

import { marked, noteOf, planIdOf, REPLAY } from "./soak-world.mjs";

/** @typedef {import("./soak-ledger.mjs").Entry} Entry */
/** @typedef {import("./soak-world.mjs").World} World */
/** @typedef {import("./soak-play.mjs").Violation} Violation */
/** @typedef {import("marling").HistoryNode} HistoryNode */
/**
 * @typedef {{ turns: Record<string, number>, before: Record<string, number>, after: Record<string, number>,
 *   tools: Record<string, number> }} Seen
 * @typedef {{ id: string, state: string, result?: unknown, failure?: { code: string, message: string } }} TaskEnd
 * @typedef {{ id: string, turnIndex: number, history: HistoryNode[], seen: Seen, tasks: TaskEnd[] }} SessionEnd
 * @typedef {{ sessions: SessionEnd[], isSame: boolean }} WorldEnd
 * @typedef {{ world: Pick<World, "acts" | "programs">, entries: readonly Entry[], end: WorldEnd }} Found
 * @typedef {(kind: string, text: string) => void} Report
 */

/** Codes that an act may meet because somebody else was faster, or because it came too early. */
const EXPECTED_CODES = [
  "lease_lost",
  "lease_held",
  "session_busy",
  "revision_conflict",
  "runtime_closed",
  "unknown_session",
];
/** Outcomes of turns that are ends, though not the wanted ones. */
const EXPECTED_STOPS = ["recovery_exhausted"];

/** Everything that is wrong. @param {Found} found @returns {Violation[]} */
export function violationsOf(found) {
  /** @type {Violation[]} */
  const violations = [];
  /** @type {Report} */
  const report = (kind, text) => void violations.push({ class: kind, text });
  if (!found.end.isSame) report("state", "opened again, the world is another one");
  checkInputs(found, report);
  checkAnswers(found, report);
  checkEffects(found.entries, report);
  checkModelCalls(found.entries, report);
  checkTasks(found, report);
  checkFailures(found.entries, report);
  for (const session of found.end.sessions) checkSession(found, session, report);
  return violations;
}

/** @param {SessionEnd} session */
const partsOf = ({ history }) =>
  history.flatMap((node) => (node.kind === "message" ? node.message.parts : []));

/** How often a text is in the history, as something that was said to the model. @param {SessionEnd} session @param {string} text */
function timesSaid({ history }, text) {
  return history.filter(
    (node) =>
      node.kind === "message" &&
      node.message.role !== "assistant" &&
      node.message.role !== "tool" &&
      node.message.parts.some((part) => part.kind === "text" && part.text.includes(text)),
  ).length;
}

/** Every accepted input is in the history of its session once. @param {Found} found @param {Report} report */
function checkInputs({ entries, end }, report) {
  /** @type {Map<string, Entry>} */
  const accepted = new Map();
  for (const entry of entries) {
    if (entry.kind !== "accepted") continue;
    const name = `${entry.session} ${entry.key}`;
    if (accepted.has(name) && entry.status === "accepted")
      report(
        "lost",
        `input ${entry.key} of ${entry.session} was accepted, and accepted anew by ${entry.life}`,
      );
    accepted.set(name, entry);
  }
  for (const { act, session: id, key } of accepted.values()) {
    const session = end.sessions.find((one) => one.id === id);
    if (session === undefined) {
      report("lost", `session ${id} is not there, its input ${key} was accepted`);
      continue;
    }
    const times = timesSaid(session, act === "steer" ? noteOf(key) : marked(key));
    if (times !== 1)
      report(times === 0 ? "lost" : "repeated", `input ${key} (${act}) is in ${id} ${times} times`);
  }
  for (const { session: id, key } of entries.filter(({ kind }) => kind === "watching")) {
    const session = end.sessions.find((one) => one.id === id);
    const lines = entries.filter((entry) => entry.kind === "line" && entry.key === key).length;
    const times = session === undefined ? 0 : timesSaid(session, `line <${key}>`);
    if (times > lines)
      report("repeated", `line of monitor ${key} was said ${lines} times and heard ${times} times`);
  }
}

/** Settled inputs keep their outcome; answers to waiting calls arrive. @param {Found} found @param {Report} report */
function checkAnswers({ entries, end }, report) {
  /** @type {Map<string, string>} */
  const outcomes = new Map();
  for (const { kind, session, key, turn, outcome, life } of entries) {
    if (kind !== "settled") continue;
    const [name, now] = [`${session} ${key}`, JSON.stringify([turn, outcome])];
    const before = outcomes.get(name) ?? now;
    if (before !== now) report("repeated", `input ${name} had ended as ${before}, ${life} was told ${now}`);
    outcomes.set(name, now);
    if (outcome.kind === "stopped" && !EXPECTED_STOPS.includes(outcome.code))
      report("state", `turn ${turn} of input ${name} stopped: ${JSON.stringify(outcome)}`);
  }
  const results = end.sessions.flatMap(partsOf).filter((part) => part.kind === "tool_result");
  for (const { kind, plan, status } of entries)
    if (
      kind === "answered" &&
      status === "resolved" &&
      !results.some(({ text }) => text.includes(`"answer":"${plan}"`))
    )
      report("lost", `the answer to call ${plan} was taken and is in no history`);
}

/**
 * What had an outcome does not run again; what must not run twice runs once; what somebody had to allow was allowed.
 * A call has an outcome when the model is asked again in its turn. A process that was paused may begin, when it wakes,
 * what it had decided to do before.
 * @param {readonly Entry[]} entries
 * @param {Report} report
 */
function checkEffects(entries, report) {
  /** @type {Set<string>} */
  const paused = new Set();
  /** @type {Map<string, number>} */
  const begun = new Map();
  /** @type {Set<string>} */
  const allowed = new Set();
  const calls = callsOf(entries);
  for (const entry of entries) {
    const { kind, life, session, turn, plan } = entry;
    if (kind === "pause") paused.add(entry.of);
    if (kind === "deciding" && entry.decision === "allow") allowed.add(`${session} ${plan}`);
    if (kind !== "begin") {
      calls.follow(entry);
      continue;
    }
    const attempt = `${entry.key} ${entry.attempt}`;
    begun.set(attempt, (begun.get(attempt) ?? 0) + 1);
    if (entry.replay === "unsafe" && begun.get(attempt) === 2)
      report("repeated", `${entry.tool} ${plan} must not run twice and did, in ${life} (${entry.key})`);
    if (calls.areOver(turn, plan) && !paused.has(life))
      report("repeated", `${entry.tool} ${plan} had an outcome and ran again, in ${life} (${entry.key})`);
    if (entry.tool === "refund" && !allowed.has(`${session} ${plan}`))
      report("unguarded", `refund ${plan} ran in ${life} and nobody had allowed it`);
  }
}

/** Which calls have an outcome, as far as the ledger has been followed. @param {readonly Entry[]} entries */
function callsOf(entries) {
  /** The request that a call came from. @type {Map<string, string>} */
  const source = new Map();
  for (const { kind, request, plans } of entries)
    if (kind === "model_end") for (const plan of plans) source.set(`${turnOf(request)} ${plan}`, request);
  /** The newest round of each turn. @type {Map<string, number>} */
  const rounds = new Map();
  return {
    /** @param {Entry} entry */
    follow({ kind, request }) {
      if (kind === "model")
        rounds.set(turnOf(request), Math.max(roundOf(request), rounds.get(turnOf(request)) ?? 0));
    },
    /** @param {string} turn @param {string} plan */
    areOver(turn, plan) {
      for (const [name, request] of source)
        if (name === `${turnOf(request)} ${plan}` && turnOf(request).endsWith(`:${turn}`))
          return (rounds.get(turnOf(request)) ?? 0) > roundOf(request);
      return false;
    },
  };
}

/** A request is named `<session>:<turn>:<round>`. @param {string} request */
const turnOf = (request) => request.slice(0, request.lastIndexOf(":"));
/** @param {string} request */
const roundOf = (request) => Number(request.slice(request.lastIndexOf(":") + 1));

/** A finished answer of the model is not asked for again. @param {readonly Entry[]} entries @param {Report} report */
function checkModelCalls(entries, report) {
  /** @type {Set<string>} */
  const paused = new Set();
  /** Why the answer to a request was recorded. @type {Map<string, string>} */
  const recorded = new Map();
  /** The request that a call came from. @type {Map<string, string>} */
  const source = new Map();
  for (const { kind, life, of, request, session, plan, plans = [] } of entries) {
    if (kind === "pause") paused.add(of);
    if (kind === "model_end") for (const one of plans) source.set(`${session} ${one}`, request);
    if (kind === "begin") recorded.set(source.get(`${session} ${plan}`) ?? "", `its call ${plan} had begun`);
    if (kind === "response") recorded.set(request, "output.response had seen it");
    const why = recorded.get(request);
    if (kind === "model" && why !== undefined && !paused.has(life))
      report("repeated", `model call ${request} was made again in ${life}, and ${why}`);
  }
}

/** Tasks that were begun complete, and a stored step is not done again. @param {Found} found @param {Report} report */
function checkTasks({ entries, end }, report) {
  const order = ["one", "two", "three"];
  /** @type {Map<string, number>} */
  const reached = new Map();
  /** @type {Set<string>} */
  const paused = new Set();
  for (const { kind, life, of, session, task, step } of entries) {
    if (kind === "pause") paused.add(of);
    if (kind !== "step") continue;
    const [name, at] = [`${session} ${task}`, order.indexOf(step)];
    if (at < (reached.get(name) ?? 0) && !paused.has(life))
      report("repeated", `step ${step} of task ${name} was stored and done again, in ${life}`);
    reached.set(name, Math.max(at, reached.get(name) ?? 0));
  }
  for (const { id, tasks, ...session } of end.sessions) {
    for (const { id: task, state, failure } of tasks)
      if (state !== "completed")
        report("lost", `task ${task} of ${id} is ${state}: ${failure?.code}: ${failure?.message}`);
    for (const part of partsOf({ id, tasks, ...session })) {
      if (part.kind !== "tool_result" || part.name !== "begin_task" || part.isError) continue;
      const task = /"begun":"([^"]+)"/.exec(part.text)?.[1];
      const isOurs = entries.some(
        ({ kind, plan, session }) => kind === "begin" && plan === task && session === id,
      );
      if (isOurs && !tasks.some((one) => one.id === task))
        report("lost", `task ${task} of ${id} was begun and is not there`);
    }
  }
}

/** Acts fail for known reasons only. @param {readonly Entry[]} entries @param {Report} report */
function checkFailures(entries, report) {
  for (const { kind, life, what, code, message } of entries)
    if (kind === "failed" && !EXPECTED_CODES.includes(code))
      report("error", `${what} failed in ${life}: ${code}: ${message}`);
}

/** @param {Found} found @param {SessionEnd} session @param {Report} report */
function checkSession(found, session, report) {
  const { id, history, seen } = session;
  for (const [at, node] of history.entries())
    if (node.parentId !== history[at - 1]?.id || node.generation !== at)
      report("state", `${id}: node ${node.id} does not follow the one before it`);
  const ids = history.flatMap((node) => (node.kind === "message" ? [node.message.id] : []));
  for (const twice of new Set(ids.filter((one, at) => ids.indexOf(one) !== at)))
    report("duplicate", `${id}: message id ${twice} is there more than once`);
  checkCalls(found, session, report);
  checkPrograms(found, session, report);
  checkEffectsAreTold(found, session, report);
  for (const [turn, count] of Object.entries(seen.turns))
    if (count !== 1) report("state", `${id}: turn ${turn} was counted ${count} times`);
}

/**
 * Calls with their results, in order. Ids of calls are unique in a turn, and not in a session.
 * @param {SessionEnd} session
 * @param {Report} report
 */
function resultsOf(session, report) {
  /** @type {Map<string, string>} */
  const open = new Map();
  /** @type {{ name: string, plan: string, text: string, isError: boolean }[]} */
  const results = [];
  for (const part of partsOf(session)) {
    if (part.kind === "tool_call") {
      if (open.has(part.callId)) report("dangling", `${session.id}: call ${part.callId} is there twice`);
      open.set(part.callId, planIdOf(part.name, part.args));
    }
    if (part.kind !== "tool_result") continue;
    const plan = open.get(part.callId);
    if (plan === undefined) report("dangling", `${session.id}: result of ${part.callId} without a call`);
    else results.push({ name: part.name, plan, text: part.text, isError: part.isError === true });
    open.delete(part.callId);
  }
  for (const [callId, plan] of open)
    report("dangling", `${session.id}: call ${callId} (${plan}) has no result`);
  return results;
}

/**
 * Every call has one result, and one that it may have; what the plugin counted is what is in the history.
 * @param {Found} found
 * @param {SessionEnd} session
 * @param {Report} report
 */
function checkCalls({ entries }, session, report) {
  const { id, seen } = session;
  const denied = new Set(
    entries.flatMap(({ kind, decision, plan }) => (kind === "deciding" && decision === "deny" ? [plan] : [])),
  );
  for (const { name, plan, text, isError } of resultsOf(session, report)) {
    const mayFail = denied.has(plan) ? text.includes("denied") : REPLAY[name] === "unsafe" && isCut(text);
    if (isError && !mayFail) report("state", `${id}: ${name} ${plan} failed: ${text}`);
    const wanted = isError ? 0 : 1;
    if (!isError && (seen.before[plan] ?? 0) !== 1)
      report("state", `${id}: toolCalls.before counted ${name} ${plan} ${seen.before[plan] ?? 0} times`);
    if ((seen.after[plan] ?? 0) !== wanted)
      report(
        "state",
        `${id}: toolCalls.after counted ${name} ${plan} ${seen.after[plan] ?? 0} times, ${wanted} expected`,
      );
    const isCounted = name === "tally" || name === "stamp";
    if (isCounted && !isError && (seen.tools[plan] ?? 0) !== 1)
      report("state", `${id}: ${name} ${plan} counted itself ${seen.tools[plan] ?? 0} times`);
  }
}

/** Whether a result says that nobody knows. @param {string} text */
const isCut = (text) => text.includes("unknown_outcome") || text.includes("may have taken effect");

/** What happened outside is in the history, whatever became of its turn. @param {Found} found @param {SessionEnd} session @param {Report} report */
function checkEffectsAreTold({ entries }, session, report) {
  const told = new Set(callsIn(session));
  for (const { kind, tool, plan, session: id, turn } of entries)
    if (kind === "begin" && id === session.id && !plan.includes(".n") && !told.has(plan)) {
      report("lost", `${id}: ${tool} ${plan} of ${turn} ran and is not in the history`);
      told.add(plan);
    }
}

/** The plan's ids of the calls of a history. @param {SessionEnd} session */
const callsIn = (session) =>
  partsOf(session).flatMap((part) => (part.kind === "tool_call" ? [planIdOf(part.name, part.args)] : []));

/** A program of a turn that finished was done as a whole, each call once. @param {Found} found @param {SessionEnd} session @param {Report} report */
function checkPrograms({ world, entries }, session, report) {
  const calls = callsIn(session);
  const finished = entries.filter(
    ({ kind, session: id, outcome }) =>
      kind === "settled" && id === session.id && outcome.kind === "finished",
  );
  for (const key of new Set(finished.map((entry) => entry.key)))
    for (const { id, tool } of (world.programs[key]?.rounds ?? []).flat()) {
      const times = calls.filter((one) => one === id).length;
      if (times !== 1)
        report(
          times === 0 ? "lost" : "repeated",
          `${session.id}: call ${tool} ${id} is there ${times} times`,
        );
    }
}
