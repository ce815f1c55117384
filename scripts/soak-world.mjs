// A world of the soak test, made from its seed: which sessions there are, what they are asked, which tools the model
// calls. The model answers by the request, so that every process says the same. And what must hold in the end.

import { createHash } from "node:crypto";

/** @typedef {{ name: string, replay: "safe" | "idempotent" | "unsafe", delayMs: number, attempts: number }} WorldTool */
/** @typedef {{ key: string, text: string, rounds: string[][] }} WorldInput */
/** @typedef {{ tools: WorldTool[], sessions: { id: string, inputs: WorldInput[] }[] }} World */
/** @typedef {import("marling").HistoryNode} HistoryNode */
/** @typedef {{ id: string, turnIndex: number, history: HistoryNode[], seen: Record<string, number> }} SessionEnd */
/** @typedef {{ unsettled: string[], sessions: SessionEnd[] }} WorldEnd */

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

/** @param {number} seed @returns {World} */
export function worldOf(seed) {
  const random = randomFrom(seed, "world");
  const upTo = (/** @type {number} */ most) => Math.floor(random() * (most + 1));
  const many = (/** @type {number} */ most, /** @type {(index: number) => any} */ make) =>
    Array.from({ length: most }, (_, index) => make(index));
  const policies = /** @type {const} */ (["safe", "idempotent", "unsafe"]);
  const tools = many(2 + upTo(3), (index) => ({
    name: `tool_${index}`,
    replay: policies[upTo(2)],
    delayMs: upTo(6),
    attempts: 1 + upTo(1),
  }));
  const call = () => tools[upTo(tools.length - 1)].name;
  const round = () => many(1 + upTo(3), call);
  const input = (/** @type {string} */ session, /** @type {number} */ index) => ({
    key: `${session}-${index}`,
    text: `input ${session}-${index}`,
    rounds: many(upTo(3), round),
  });
  const sessions = many(1 + upTo(3), (at) => ({
    id: `s${at}`,
    inputs: many(1 + upTo(3), (index) => input(`s${at}`, index)),
  }));
  return { tools, sessions };
}

/**
 * What the model says to a request: the next round of calls of the input, or words.
 * @param {World} world
 * @param {import("marling/host").ModelRequest} request
 */
export function roundFor(world, { messages }) {
  const at = messages.findLastIndex(({ role }) => role === "user");
  const part = messages[at]?.parts[0];
  const text = part?.kind === "text" ? part.text : "";
  const input = world.sessions.flatMap(({ inputs }) => inputs).find((one) => one.text === text);
  const done = messages.slice(at).filter(({ role }) => role === "tool").length;
  return { calls: input?.rounds[done], text };
}

/**
 * What is wrong with a world that has come to its end.
 * @param {World} world
 * @param {{ end: WorldEnd, accepted: ReadonlySet<string>, ran: readonly string[] }} found
 */
export function faultsOf(world, { end, accepted, ran }) {
  const faults = end.unsettled.map((id) => `session ${id} has inputs that are not settled`);
  for (const { id, inputs } of world.sessions) {
    const session = end.sessions.find((one) => one.id === id);
    if (session === undefined) faults.push(`session ${id} is not there`);
    else faults.push(...faultsOfSession(session, inputs, accepted).map((fault) => `session ${id}: ${fault}`));
  }
  const unsafe = ran.filter((line) => line.startsWith("unsafe "));
  for (const line of new Set(unsafe.filter((one, at) => unsafe.indexOf(one) !== at)))
    faults.push(`a call that must not run twice did: ${line}`);
  return faults;
}

/**
 * @param {SessionEnd} session
 * @param {readonly WorldInput[]} inputs
 * @param {ReadonlySet<string>} accepted
 */
function faultsOfSession({ turnIndex, history, seen }, inputs, accepted) {
  const faults = [];
  const parts = history.flatMap((node) => (node.kind === "message" ? node.message.parts : []));
  for (const { key, text } of inputs) {
    const times = parts.filter((part) => part.kind === "text" && part.text === text).length;
    const was = accepted.has(key) ? "accepted" : "asked for";
    if (times !== 1) faults.push(`input ${key} was ${was} and is in the history ${times} times`);
  }
  if (turnIndex !== inputs.length) faults.push(`${inputs.length} inputs became ${turnIndex} turns`);
  for (const [at, node] of history.entries())
    if (node.parentId !== history[at - 1]?.id || node.generation !== at)
      faults.push(`node ${node.id} does not follow the one before it`);
  const calls = parts.filter((part) => part.kind === "tool_call");
  const results = parts.filter((part) => part.kind === "tool_result");
  for (const { callId } of calls) {
    const times = results.filter((result) => result.callId === callId).length;
    if (times !== 1) faults.push(`call ${callId} has ${times} results`);
  }
  const wanted = inputs.flatMap(({ rounds }) => rounds.flat()).length;
  if (calls.length !== wanted) faults.push(`${wanted} calls were to be made, and ${calls.length} were`);
  const cut = results.filter(({ text }) => text.includes("may have taken effect")).length;
  const implied = { turns: turnIndex, before: calls.length, after: results.length - cut };
  for (const [name, count] of Object.entries(implied))
    if ((seen[name] ?? 0) !== count)
      faults.push(`the plugin counted ${seen[name] ?? 0} ${name}, and the history has ${count}`);
  return faults;
}
