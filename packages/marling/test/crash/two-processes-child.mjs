// One of the processes that share a file. Submits turns for ever, until it is killed, and says what was acknowledged:
//   accepted <session> <key> <deliver> <text>   settled <session> <key> <turn> <revision>   failed <session> <code>
//   cancelled <session> <key>                   appended <session> <node>                   takeover
//   compacted <session> <frame>                 forked <session> <fork> <nodes>
//   node two-processes-child.mjs <database> <log> <name> <seed>

import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime, MarlingError } from "marling";
import { sqliteStore } from "marling/sqlite";
import { SESSIONS, seeded, world } from "./two-processes-world.mjs";

/** @typedef {import("marling").Session} Session */

const [path = "", log = "", name = "", seed = "0"] = process.argv.slice(2);
const random = seeded(Number(seed));
const KINDS = [
  "text",
  "text",
  "safe",
  "unsafe",
  "pair",
  "join",
  "next",
  "cancel",
  "append",
  "compact",
  "fork",
];
let count = 0;

const runtime = createRuntime({
  ...world({ log, random }),
  store: watched(sqliteStore({ path })),
  owner: name,
  leaseMs: 3000,
});
for (const session of SESSIONS) void work(session);

/** One turn after the other in one session, and now and then several at once. @param {string} id */
async function work(id) {
  const session = await runtime.session(id);
  for (;;) {
    const ended = act(session).catch((thrown) => print(`failed ${id} ${codeOf(thrown)}`));
    if (random() < 0.7) await ended;
    else await delay(Math.floor(random() * 30));
  }
}

/** @param {Session} session */
async function act(session) {
  count += 1;
  const key = `${name}.${count}`;
  const kind = KINDS[Math.floor(random() * KINDS.length)] ?? "text";
  if (kind === "append") return append(session, key);
  if (kind === "compact") return compact(session, key);
  if (kind === "fork") return fork(session, key);
  if (kind === "join" || kind === "next") return enqueue(session, { key, kind });
  const text = `${kind === "cancel" ? "pair" : kind} ${key}`;
  const turn = session.turn(text, { key });
  await turn.accepted;
  print(`accepted ${session.id} ${key} - ${text}`);
  if (kind === "cancel") await cancel(session, { turn, key });
  const { turnId, revision } = await turn.result;
  print(`settled ${session.id} ${key} ${turnId} ${revision}`);
}

/** @param {Session} session @param {{ key: string, kind: string }} input */
async function enqueue(session, { key, kind }) {
  const deliver = kind === "join" ? "active_turn" : "next_turn";
  const text = `${kind} ${key}`;
  await session.enqueue(text, { key, deliver });
  print(`accepted ${session.id} ${key} ${deliver} ${text}`);
}

/** @param {Session} session @param {{ turn: import("marling").Turn, key: string }} wanted */
async function cancel(session, { turn, key }) {
  await delay(Math.floor(random() * 15));
  if ((await session.cancel(turn.id)) === "requested") print(`cancelled ${session.id} ${key}`);
}

/** A mark, and words that the model is shown. @param {Session} session @param {string} key */
async function append(session, key) {
  const result = await session.appendNodes([
    { kind: "plugin", type: "mark", body: { key } },
    { kind: "message", message: { role: "user", content: `note ${key}` } },
  ]);
  if (result.status === "appended")
    for (const node of result.nodeIds) print(`appended ${session.id} ${node}`);
}

/** The compactor takes its time; what is appended meanwhile overtakes it. @param {Session} session @param {string} key */
async function compact(session, key) {
  const compacted = session.compact();
  const appended = random() < 0.5 ? append(session, key) : undefined;
  if (await compacted) print(`compacted ${session.id} ${session.read().currentFrameId}`);
  await appended;
}

/** A fork of the newest commit, with a turn of its own. @param {Session} session @param {string} key */
async function fork(session, key) {
  const id = `${session.id}-fork-${key}`;
  const forked = await runtime.sessions.fork(session.id, { as: id });
  print(`forked ${session.id} ${id} ${(await forked.history()).length}`);
  await forked.turn(`text ${key}`, { key }).result;
  await forked.close();
}

/**
 * Says when a lease was taken over from somebody who did not let it go.
 * @param {import("marling").Store} store
 */
function watched(store) {
  const claim = store.claim.bind(store);
  const admit = store.admit.bind(store);
  const seen = (/** @type {Awaited<ReturnType<typeof claim>> | undefined} */ answer) => {
    if (answer?.kind === "claimed" && answer.isTakeover) print("takeover");
  };
  store.claim = async (session, request) => {
    const answer = await claim(session, request);
    seen(answer);
    return answer;
  };
  store.admit = async (input, lease) => {
    const answer = await admit(input, lease);
    seen(answer.claim);
    return answer;
  };
  return store;
}

/** @param {unknown} thrown */
function codeOf(thrown) {
  return MarlingError.is(thrown) ? thrown.code : String(thrown).replaceAll(/\s+/g, "_");
}

/** Straight to the pipe: a line that was written is there though the process dies. @param {string} line */
function print(line) {
  writeSync(1, `${line}\n`);
}
