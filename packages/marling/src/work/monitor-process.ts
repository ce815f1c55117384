// One running command of a monitor.
//   MP1  it runs in a login shell, in a process group of its own, without input.
//   MP2  its environment is the allow list and what its spec adds, nothing else of ours.
//   MP3  its output is always read, in bounded memory: a command is never held up by its reader.
//   MP4  it ended when the shell exited, nothing of its group runs, and its output was read to the end. What the shell
//        left behind in its group is ended too. What left the group (setsid) is out of reach.
// The profile that a login shell reads may set variables and print lines of its own.

import type { ChildProcessByStdio } from "node:child_process";
import { stat } from "node:fs/promises";
import { basename, resolve as resolvePath } from "node:path";
import type { Readable } from "node:stream";
import { type Clock, systemClock } from "../base/clock.ts";
import { deferred } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import type { MonitorSpec } from "./monitor.ts";
import { endGroup } from "./monitor-group.ts";
import { MonitorLines } from "./monitor-lines.ts";

export type MonitorSource = "stdout" | "stderr";

/** How the shell ended: a status, or the signal that ended it. */
export type MonitorExit =
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "signal"; readonly signal: string };

export interface LaunchOptions {
  /** For the grace period of `stop`. */
  readonly clock: Clock;
  /** Where the allow list takes its values from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** What the working directory of a spec is relative to. Default: that of this process. */
  readonly cwd?: string;
  /** Default: `SHELL` of the environment, or `/bin/sh`. */
  readonly shell?: string;
  /** Called with the lines that arrived together, and never after `ended`. Must not throw. */
  readonly onLines: (source: MonitorSource, lines: readonly string[]) => void;
}

export interface MonitorProcess {
  readonly pid: number;
  /** Whether the shell exited or was asked to. */
  readonly isEnding: boolean;
  /** Resolves when nothing of it is left; never rejects. */
  readonly ended: Promise<MonitorExit>;
  /** Ends the whole group: SIGTERM, 200 ms, SIGKILL. Resolves as `ended`; again does nothing. */
  stop(): Promise<MonitorExit>;
}

/**
 * Starts the command of a spec.
 * Throws `monitor_start_failed` when the working directory is none or the shell cannot be started, and
 * `host_service_unavailable` on Windows, which has no process groups.
 */
export async function launchMonitor(spec: MonitorSpec, options: LaunchOptions): Promise<MonitorProcess> {
  refuseWindows(spec);
  const cwd = resolvePath(options.cwd ?? ".", spec.cwd ?? ".");
  await requireDirectory(spec, cwd);
  const shell = options.shell ?? loginShell(options.environment);
  const { spawn } = process.getBuiltinModule("node:child_process"); // Needed by few, and every import would pay for it.
  try {
    const child = spawn(shell, ["-l", "-c", spec.command], {
      cwd,
      env: monitorEnvironment(options.environment, spec.env),
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    return await new Promise((resolve, reject) => {
      child.once("spawn", () => resolve(new RunningCommand(child, options)));
      child.on("error", reject);
    });
  } catch (error) {
    throw startFailed(spec, `expected to start ${shell}, found: ${messageOf(error)}`, error);
  }
}

class RunningCommand implements MonitorProcess {
  readonly pid: number;
  readonly ended: Promise<MonitorExit>;
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #ending = deferred<void>();
  #isEnding = false;
  #exit: MonitorExit | undefined;

  constructor(child: ChildProcessByStdio<null, Readable, Readable>, options: LaunchOptions) {
    this.pid = child.pid ?? Number.NaN;
    this.#child = child;
    const closed = new Promise<void>((resolve) => void child.once("close", () => resolve()));
    child.once("exit", (code, signal) => {
      this.#exit =
        code === null ? { kind: "signal", signal: signal ?? "unknown" } : { kind: "status", status: code };
      this.#end();
    });
    const flushes = [readLines(child.stdout, "stdout", options), readLines(child.stderr, "stderr", options)];
    this.ended = this.#ending.promise.then(() => this.#finish({ clock: options.clock, closed, flushes }));
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  stop(): Promise<MonitorExit> {
    this.#end();
    return this.ended;
  }

  #end(): void {
    this.#isEnding = true;
    this.#ending.resolve();
  }

  async #finish({ clock, closed, flushes }: Finish): Promise<MonitorExit> {
    await endGroup(this.pid, { clock });
    await settledWithin(closed, DRAIN_LIMIT_MS);
    this.#child.stdout.destroy();
    this.#child.stderr.destroy();
    this.#child.unref();
    for (const flush of flushes) flush();
    return this.#exit ?? { kind: "signal", signal: "SIGKILL" };
  }
}

interface Finish {
  readonly clock: Clock;
  readonly closed: Promise<void>;
  readonly flushes: readonly (() => void)[];
}

/** What left the group may hold the output open for ever. */
const DRAIN_LIMIT_MS = 1_000;

/** Reads a stream until the returned function is called, which hands out the last line. */
function readLines(stream: Readable, source: MonitorSource, { onLines }: LaunchOptions): () => void {
  const reader = new MonitorLines();
  const pass = (lines: readonly string[]): void => {
    if (lines.length > 0) onLines(source, lines);
  };
  const read = (bytes: Buffer): void => pass(reader.read(bytes));
  stream.on("data", read);
  // The stream closes after an error, and that ends the reading.
  stream.on("error", () => undefined);
  return () => {
    stream.off("data", read);
    pass(reader.end());
  };
}

async function settledWithin(work: Promise<void>, ms: number): Promise<void> {
  let cancel = (): void => undefined;
  const limit = new Promise<void>((resolve) => {
    cancel = systemClock.after(ms, resolve);
  });
  await Promise.race([work, limit]);
  cancel();
}

/** What a locale is made of, name by name: a host may keep a key under any other name that begins with `LC_`. */
const LOCALE = [
  "LC_ADDRESS",
  "LC_ALL",
  "LC_COLLATE",
  "LC_CTYPE",
  "LC_IDENTIFICATION",
  "LC_MEASUREMENT",
  "LC_MESSAGES",
  "LC_MONETARY",
  "LC_NAME",
  "LC_NUMERIC",
  "LC_PAPER",
  "LC_TELEPHONE",
  "LC_TIME",
];
const INHERITED = new Set(["PATH", "HOME", "LANG", ...LOCALE, "TERM", "TMPDIR", "USER", "SHELL"]);

/** The allow list, and over it what the spec gives. */
function monitorEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  added: Readonly<Record<string, string>>,
): Record<string, string | undefined> {
  const inherited = Object.entries(environment).filter(([name]) => INHERITED.has(name));
  return { ...Object.fromEntries(inherited), ...added };
}

/** Accounts that nobody logs in to name a program that only refuses. */
function loginShell({ SHELL: shell = "" }: Readonly<Record<string, string | undefined>>): string {
  const isShell = shell.startsWith("/") && !["false", "nologin"].includes(basename(shell));
  return isShell ? shell : "/bin/sh";
}

async function requireDirectory(spec: MonitorSpec, cwd: string): Promise<void> {
  const found = await stat(cwd).catch((error: unknown) => {
    throw startFailed(spec, `cwd: expected a directory, found: ${messageOf(error)}`, error);
  });
  if (!found.isDirectory()) throw startFailed(spec, `cwd: expected a directory, found a file at ${cwd}`);
}

function refuseWindows({ id }: MonitorSpec): void {
  if (process.platform !== "win32") return;
  const message = `monitor ${id}: expected a system with process groups, found Windows, where monitors are unavailable`;
  throw new MarlingError("host_service_unavailable", message, {
    details: { service: "monitors", monitorId: id },
  });
}

function startFailed({ id }: MonitorSpec, reason: string, cause?: unknown): MarlingError {
  return new MarlingError("monitor_start_failed", `monitor ${id}: ${reason}`, {
    cause,
    details: { monitorId: id },
  });
}
