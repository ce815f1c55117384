// Plays one world: starts its processes, kills, pauses and closes them as the world says, lets them come to rest, and has
// a last process see everything to its end. What cannot be seen in the ledger is found here: processes whose event loop
// stands still, that do not close, that end by themselves, or that never come to rest.

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openLedger } from "./soak-ledger.mjs";
import { pauseMs, worldOf } from "./soak-world.mjs";

/** @typedef {import("./soak-world.mjs").World} World */
/** @typedef {import("./soak-world.mjs").Blow} Blow */
/** @typedef {{ class: string, text: string }} Violation */
/** @typedef {{ kills: number, pauses: number, closes: number }} Blows */

const AGENT = fileURLToPath(new URL("./soak-agent.mjs", import.meta.url));
/** A process that was not stopped and whose event loop did not turn for so long is frozen. */
const FROZEN_MS = 15_000;
const BEGIN_MS = 60_000;
const CLOSE_MS = 30_000;
const REST_MS = 60_000;
const END_MS = 90_000;

/** One life of a process. */
class Life {
  isIdle = false;
  isPaused = false;
  /** Whether it was killed, and whether it may end by itself. */
  isKilled = false;
  mayEnd = false;
  stderr = "";
  /** What the last process says is left to do. @type {unknown} */
  left;
  #heardAt = performance.now();

  /** @param {Play} play @param {string} slot @param {string} name @param {number} clock */
  constructor(play, slot, name, clock) {
    this.play = play;
    this.name = name;
    const { seed, processes } = play.world;
    const args = [seed, processes, play.folder, slot, name, clock].map(String);
    this.child = fork(AGENT, args, { stdio: ["ignore", "ignore", "pipe", "ipc"] });
    this.closed = once(this.child, "close");
    this.child.stderr?.on("data", (piece) => {
      this.stderr = (this.stderr + piece).slice(0, 4_000);
    });
    this.begun = new Promise((resolve) => {
      this.child.on("message", (/** @type {any} */ message) => {
        this.#heardAt = performance.now();
        if (message.kind === "begun") resolve(true);
        if (message.kind === "idle") this.isIdle = true;
        if (message.kind === "left") this.left = message;
      });
      void this.closed.then(() => resolve(false));
    });
    this.#watch();
  }

  get isAlive() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  kill() {
    this.isKilled = true;
    this.child.kill("SIGKILL");
    return this.closed;
  }

  pause() {
    this.isPaused = true;
    this.child.kill("SIGSTOP");
  }

  resume() {
    this.#heardAt = performance.now();
    this.isPaused = false;
    this.child.kill("SIGCONT");
  }

  /** Looks whether its event loop still turns. */
  #watch() {
    let lookedAt = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      // Where even this process did not come to run, nobody did: the time does not count.
      if (this.isPaused || now - lookedAt > 2_000) this.#heardAt = now;
      lookedAt = now;
      if (now - this.#heardAt < FROZEN_MS || this.isKilled) return;
      this.play.violate("frozen", `process ${this.name} did not turn its event loop for ${FROZEN_MS} ms`);
      void this.kill();
    }, 500);
    void this.closed.then(([code, signal]) => {
      clearInterval(timer);
      if (!this.isKilled && !this.mayEnd)
        this.play.violate(
          "ended",
          `process ${this.name} ended by itself with ${code ?? signal}: ${this.stderr}`,
        );
    });
  }
}

class Play {
  /** @type {Violation[]} */
  violations = [];
  /** @type {Blows} */
  blows = { kills: 0, pauses: 0, closes: 0 };
  /** @type {Life[]} */
  lives = [];
  #count = 0;

  /** @param {World} world @param {string} folder */
  constructor(world, folder) {
    this.world = world;
    this.folder = folder;
    this.ledger = openLedger(folder, "play");
  }

  /** @param {string} kind @param {string} text */
  violate(kind, text) {
    this.violations.push({ class: kind, text });
  }

  /** @param {number} slot */
  start(slot) {
    this.#count += 1;
    const name = `p${slot}.${this.#count}`;
    const clock = this.world.clocks[(slot + this.#count) % this.world.clocks.length] ?? 0;
    this.lives[slot] = new Life(this, String(slot), name, clock);
  }

  /** @param {Blow} blow @param {(made: keyof Blows) => void} onBlow */
  async strike(blow, onBlow) {
    const life = this.lives[blow.slot];
    if (life === undefined) return;
    if (life.isAlive && !life.isPaused) await within(life.begun, BEGIN_MS);
    await delay(blow.afterMs);
    this.ledger.write(blow.kind, { of: life.name });
    const made = /** @type {const} */ ({ kill: "kills", pause: "pauses", close: "closes" })[blow.kind];
    this.blows[made] += 1;
    onBlow(made);
    if (blow.kind === "pause") return this.#pause(life, blow);
    if (blow.kind === "kill" || life.isPaused) await life.kill();
    else await this.#close(life, blow.forMs);
    await delay(blow.restMs);
    this.start(blow.slot);
  }

  /** Stops it for longer than its leases hold; meanwhile the world goes on. @param {Life} life @param {Blow} blow */
  #pause(life, blow) {
    life.pause();
    const timer = setTimeout(() => this.#resume(life), pauseMs(blow));
    void life.closed.then(() => clearTimeout(timer));
  }

  /** @param {Life} life */
  #resume(life) {
    if (!life.isPaused) return;
    this.ledger.write("resume", { of: life.name });
    life.resume();
  }

  /** @param {Life} life @param {number} graceMs */
  async #close(life, graceMs) {
    life.mayEnd = true;
    if (life.child.connected) life.child.send({ kind: "close", graceMs });
    if ((await within(life.closed, CLOSE_MS)) === undefined) {
      this.violate(
        "frozen",
        `process ${life.name} did not close within ${CLOSE_MS} ms, its grace was ${graceMs} ms`,
      );
      await life.kill();
      return;
    }
    const { exitCode, signalCode } = life.child;
    if (exitCode !== 0 && signalCode !== "SIGKILL")
      this.violate(
        "ended",
        `process ${life.name} was closed and ended with ${exitCode ?? signalCode}: ${life.stderr}`,
      );
  }

  /** Until every process has done its acts. */
  async rest() {
    const end = performance.now() + REST_MS;
    while (this.lives.some(({ isIdle, isAlive }) => isAlive && !isIdle)) {
      if (performance.now() > end) {
        const names = this.lives.filter(({ isIdle }) => !isIdle).map(({ name }) => name);
        this.violate("stuck", `processes ${names.join(", ")} did not come to rest within ${REST_MS} ms`);
        break;
      }
      await delay(20);
    }
    for (const life of this.lives) {
      this.#resume(life);
      await this.#close(life, 1_000);
    }
  }

  /** A process that ends all that is left, and what it found. */
  async end() {
    const life = new Life(this, "end", "end", 0);
    this.lives.push(life);
    life.mayEnd = true;
    const isOver = await within(life.closed, END_MS);
    if (isOver === undefined) {
      await life.kill();
      this.violate(
        "lost",
        `work is left that does not end within ${END_MS} ms: ${JSON.stringify(life.left)}`,
      );
      return undefined;
    }
    try {
      return JSON.parse(readFileSync(join(this.folder, "end.json"), "utf8"));
    } catch {
      this.violate(
        "ended",
        `the last process ended with ${life.child.exitCode ?? life.child.signalCode}: ${life.stderr}`,
      );
      return undefined;
    }
  }
}

/**
 * @param {{
 *   seed: number, processes?: number | undefined, folder: string, signal: AbortSignal,
 *   onBlow: (made: keyof Blows) => void,
 * }} options
 */
export async function playWorld({ seed, processes, folder, signal, onBlow }) {
  mkdirSync(folder, { recursive: true });
  const world = worldOf(seed, processes === undefined ? {} : { processes });
  const play = new Play(world, folder);
  const stop = () => {
    for (const life of play.lives) void life.kill();
  };
  signal.addEventListener("abort", stop, { once: true });
  for (let slot = 0; slot < world.processes; slot += 1) play.start(slot);
  for (const blow of world.blows) if (!signal.aborted) await play.strike(blow, onBlow);
  if (signal.aborted) stop();
  else await play.rest();
  const end = signal.aborted ? undefined : await play.end();
  signal.removeEventListener("abort", stop);
  play.ledger.close();
  return { world, end, blows: play.blows, violations: signal.aborted ? [] : play.violations };
}

/** What it comes to, or nothing when that takes too long. @template T @param {Promise<T>} work @param {number} ms */
async function within(work, ms) {
  const timer = new AbortController();
  const late = delay(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  const first = await Promise.race([work, late]);
  timer.abort();
  return first;
}
