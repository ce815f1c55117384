// What a process of the soak test does from outside: inputs of all kinds, forks, compactions, monitors. Everything that
// is accepted goes into the ledger at once. Each act may be done again, by a later life of its process.

import { setTimeout as delay } from "node:timers/promises";
import { MarlingError } from "marling";
import { ledgerPath, readLedger } from "./soak-ledger.mjs";
import { marked, noteOf } from "./soak-world.mjs";

/** @typedef {import("./soak-world.mjs").Act} Act */
/**
 * @typedef {{
 *   runtime: import("marling").Runtime, ledger: import("./soak-ledger.mjs").Ledger, folder: string,
 *   isClosing: () => boolean,
 * }} Place
 */

/** @param {Place} place @param {Act} act */
export async function doAct(place, act) {
  await delay(act.waitMs);
  const { runtime, ledger } = place;
  switch (act.kind) {
    case "turn":
      return turn(place, act.session, act.key);
    case "next":
    case "steer":
      return enqueue(place, act);
    case "emit": {
      const event = { source: "mail.received", topic: act.session, payload: { program: marked(act.key) } };
      const { status } = await runtime.triggers.emit({ ...event, key: act.key, at: 0 });
      return ledger.write("accepted", { act: act.kind, session: act.session, key: act.key, status });
    }
    case "monitor":
      return monitor(place, act);
    case "compact": {
      const session = await runtime.session(act.session);
      return ledger.write("compacted", { session: act.session, did: await session.compact() });
    }
    case "fork":
      return fork(place, act);
  }
}

/** Asks until it is told how the turn ended. @param {Place} place @param {string} id @param {string} key */
async function turn({ runtime, ledger, isClosing }, id, key) {
  for (;;) {
    try {
      const session = await runtime.session(id);
      const turn = session.turn(`do ${marked(key)}`, { key });
      const { status } = await turn.accepted;
      ledger.write("accepted", { act: "turn", session: id, key, status });
      const { turnId, outcome } = await turn.result;
      return ledger.write("settled", { session: id, key, turn: turnId, outcome });
    } catch (thrown) {
      if (isClosing() || !MarlingError.is(thrown) || thrown.advice !== "retry") throw thrown;
      ledger.write("retried", { session: id, key, code: thrown.code });
      await delay(50);
    }
  }
}

/** @param {Place} place @param {Act} act */
async function enqueue({ runtime, ledger }, { kind, session: id, key }) {
  const session = await runtime.session(id);
  const text = kind === "next" ? `do ${marked(key)}` : noteOf(key);
  const deliver = kind === "next" ? "next_turn" : "active_turn";
  const { status } = await session.enqueue(text, { key, deliver });
  ledger.write("accepted", { act: kind, session: id, key, status });
}

/** A command that says one line. One that was begun is not begun again. @param {Place} place @param {Act} act */
async function monitor({ runtime, ledger, folder }, { session: id, key }) {
  if (readLedger(folder).some((entry) => entry.kind === "watching" && entry.key === key)) return;
  const session = await runtime.session(id);
  const line = JSON.stringify({ at: 0, life: "monitor", kind: "line", session: id, key });
  const command = `printf '%s\\n' '${line}' >> '${ledgerPath(folder)}'; echo 'line <${key}>'`;
  await session.monitors.start({ id: key, command, timeoutMs: 10_000 });
  ledger.write("watching", { session: id, key });
}

/** @param {Place} place @param {Act} act */
async function fork(place, { session: id, key }) {
  const { runtime, ledger } = place;
  const as = `${key}-fork`;
  await runtime.session(id);
  if (!(await runtime.sessions.exists(as)))
    try {
      await runtime.sessions.fork(id, { as });
      ledger.write("forked", { session: id, as });
    } catch (thrown) {
      if (!(await runtime.sessions.exists(as))) throw thrown;
    }
  return turn(place, as, key);
}
