// A process of the soak test: a runtime that does the acts of its slot, answers whoever waits, and goes on until it is
// killed or asked to close. The one without a slot does all acts again, sees everything to its end, and says what there is.
//   node soak-agent.mjs <seed> <processes> <folder> <slot | "end"> <life> <clock offset>

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createRuntime, MarlingError } from "marling";
import { sqliteStore } from "marling/sqlite";
import { doAct } from "./soak-acts.mjs";
import { followLedger, openLedger } from "./soak-ledger.mjs";
import { partsOf, shareOf } from "./soak-tools.mjs";
import { worldOf } from "./soak-world.mjs";

const [seed = "0", processes = "1", folder = "", slot = "end", life = "", offset = "0"] =
  process.argv.slice(2);
const isLast = slot === "end";
const world = worldOf(Number(seed), { processes: Number(processes) });
const ledger = openLedger(folder, life);
const path = join(folder, "soak.db");
const tell = (/** @type {object} */ message) => process.send?.(message);
let isClosing = false;

const beat = setInterval(() => tell({ kind: "beat" }), 200);
process.on("disconnect", () => process.exit(0)); // whoever looks after this process is gone
process.on("message", (/** @type {any} */ message) => {
  if (message.kind === "close") void close(message.graceMs);
});

let runtime = open();
await runtime.ready;
tell({ kind: "begun" });
if (isLast) await end();
else await live();

function open() {
  return createRuntime({
    ...partsOf({ world, ledger }),
    store: sqliteStore({ path }),
    owner: life,
    leaseMs: world.leaseMs,
    toolConcurrency: world.toolConcurrency,
    clock: shifted(Number(offset)),
  });
}

/** The clock of the system, so many milliseconds ahead. @param {number} ms @returns {import("marling").Clock} */
function shifted(ms) {
  return {
    now: () => Date.now() + ms,
    monotonic: () => performance.now(),
    sleep: async (wait, { signal }) => {
      await delay(wait, undefined, { signal }).catch((error) => {
        throw signal.aborted ? signal.reason : error;
      });
    },
    after: (wait, fn, options = {}) => {
      const timer = setTimeout(fn, Math.min(wait, 2 ** 31 - 1));
      if (options.isBackground === true) timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Does the acts of the slot, then waits to be ended. */
async function live() {
  void answer();
  for (const session of world.sessions) await attempt(subscribe(session), `subscribe ${session}`);
  const acts = world.acts.filter((act) => act.slot === Number(slot));
  await Promise.all(
    acts.map((act) => attempt(doAct({ runtime, ledger, folder, isClosing: () => isClosing }, act), act.key)),
  );
  tell({ kind: "idle" });
}

/** @param {string} id */
async function subscribe(id) {
  await runtime.session(id);
  await runtime.triggers.subscribe({
    sessionId: id,
    source: "mail.received",
    topic: id,
    name: "mail",
    input: "Read it.",
  });
}

/** What fails is in the ledger; the checks say what may. @param {Promise<unknown>} work @param {string} what */
async function attempt(work, what) {
  try {
    await work;
  } catch (thrown) {
    if (isClosing) return;
    const code = MarlingError.is(thrown) ? thrown.code : "thrown";
    ledger.write("failed", { what, code, message: String(thrown instanceof Error ? thrown.stack : thrown) });
  }
}

/** Answers calls that wait, of whichever process, and decides about those that need somebody's word. */
async function answer() {
  const news = followLedger(folder);
  /** @type {Map<string, string>} */
  const waiting = new Map();
  while (!isClosing) {
    for (const { kind, key, plan } of news()) {
      if (kind === "wait") waiting.set(key, plan);
      if (kind === "answered") waiting.delete(key);
    }
    for (const [key, plan] of waiting)
      if (isLast || Math.random() < 0.3) {
        await attempt(resolve(key, plan), `answer ${plan}`);
        waiting.delete(key);
      }
    await attempt(decide(), "decide");
    await delay(30 + Math.random() * 60);
  }
}

/** @param {string} key @param {string} plan */
async function resolve(key, plan) {
  const status = await runtime.resolve(key, { ok: { answer: plan } });
  ledger.write("answered", { key, plan, status });
}

async function decide() {
  for (const question of await runtime.approvals.list()) {
    if (!isLast && Math.random() < 0.5) continue;
    const plan = /** @type {any} */ (question.args).id;
    const decision = shareOf(world.seed, `decide ${plan}`) < 0.75 ? "allow" : "deny";
    ledger.write("deciding", { plan, session: question.sessionId, decision });
    const status = await runtime.approvals.decide(question, { decision, actor: life });
    ledger.write("decided", { plan, session: question.sessionId, decision, status });
  }
}

/** Ends politely, in the middle of whatever goes on. @param {number} graceMs */
async function close(graceMs) {
  isClosing = true;
  ledger.write("closing", { graceMs });
  await runtime.close({ graceMs });
  clearInterval(beat);
  ledger.write("closed");
  process.disconnect();
}

/** Sees everything to its end, twice the same, and writes it down. */
async function end() {
  await live();
  await runtime.recover();
  await settled();
  const first = await found();
  isClosing = true;
  await runtime.close();
  runtime = open();
  const again = await found();
  await runtime.close();
  writeFileSync(
    join(folder, "end.json"),
    JSON.stringify({ ...first, isSame: JSON.stringify(first) === JSON.stringify(again) }),
  );
  clearInterval(beat);
  process.disconnect();
}

/** Until no input is left and all tasks are over. */
async function settled() {
  const store = sqliteStore({ path });
  for (;;) {
    const left = await store.unsettled();
    const tasks = (await everySession()).flatMap((session) => session.tasks.list());
    const alive = tasks.filter(({ state }) => !["completed", "failed", "cancelled"].includes(state));
    if (left.length === 0 && alive.length === 0) break;
    tell({ kind: "left", left, tasks: alive.map(({ id, state }) => `${id} ${state}`) });
    await runtime.recover();
    await delay(50);
  }
  await store.close();
}

async function everySession() {
  const ids = [];
  for (let cursor; ; ) {
    const page = await runtime.sessions.list(cursor === undefined ? {} : { cursor });
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  return Promise.all(ids.map((id) => runtime.session(id)));
}

async function found() {
  const sessions = [];
  for (const session of await everySession())
    sessions.push({
      id: session.id,
      turnIndex: session.read().turnIndex,
      history: await session.history(),
      seen: await session.query("counting.seen"),
      tasks: session.tasks.list().map(({ id, state, result, failure }) => ({ id, state, result, failure })),
    });
  return { sessions };
}
