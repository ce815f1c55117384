// One running command.
//   SH1  it runs in a process group of its own, without input, with the allow list and what the options add as its
//        environment; stdout and stderr are one stream, in the order in which they were written.
//   SH2  it has ended when its shell has exited, nothing of its group runs any more and its output was read. What its
//        shell left behind in the group is ended too. What left the group (setsid) is out of reach.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { endGroup, endWithHost } from "./process-group.ts";
import type { ShellLimits } from "./shell-options.ts";
import { ShellOutput } from "./shell-output.ts";
import type { SpillFolder } from "./spill-folder.ts";

/** How a command ended: with an exit code, or by a signal. */
export type ShellExit = { readonly exitCode: number } | { readonly signal: string };

export interface ShellStart {
  readonly command: string;
  readonly cwd: string;
  readonly limits: ShellLimits;
  readonly spills: SpillFolder;
}

/** What left the group may hold the output open for ever. */
const DRAIN_LIMIT_MS = 1_000;

/** Both streams of the command are the one that is read. */
const JOINED = 'exec "$0" -c "$1" 2>&1';

export class ShellProcess {
  readonly pid: number;
  readonly output: ShellOutput;
  /** Resolves when nothing of it is left; never rejects. */
  readonly ended: Promise<ShellExit>;
  /** Called after output came. */
  onOutput: () => void = () => undefined;
  readonly #child: ChildProcessByStdio<null, Readable, null>;
  readonly #graceMs: number;
  readonly #startedAt = performance.now();
  #group: Promise<void> | undefined;
  #exit: ShellExit | undefined;
  #endedAt: number | undefined;

  /** Starts a command; resolves when it runs, and rejects when it cannot be started. */
  static start({ command, cwd, limits, spills }: ShellStart): Promise<ShellProcess> {
    return new Promise((resolve, reject) => {
      const child = spawn("/bin/sh", ["-c", JOINED, limits.shell, command], {
        cwd,
        env: limits.env,
        detached: true,
        stdio: ["ignore", "pipe", "ignore"],
      });
      child.on("error", reject);
      if (child.pid === undefined) return;
      resolve(new ShellProcess(child, { pid: child.pid, limits, spills }));
    });
  }

  private constructor(
    child: ChildProcessByStdio<null, Readable, null>,
    init: { readonly pid: number; readonly limits: ShellLimits; readonly spills: SpillFolder },
  ) {
    const { pid, limits, spills } = init;
    this.pid = pid;
    this.output = new ShellOutput(limits.outputBytes, spills);
    this.#child = child;
    this.#graceMs = limits.graceMs;
    this.ended = this.#run(endWithHost(pid));
  }

  /** How it ended, once it has. */
  get exit(): ShellExit | undefined {
    return this.#endedAt === undefined ? undefined : this.#exit;
  }

  /** Whether its shell has exited, though what it left behind may still be ending. */
  get hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  get durationMs(): number {
    return Math.round((this.#endedAt ?? performance.now()) - this.#startedAt);
  }

  /** Ends the whole group. Resolves as `ended`; again does nothing. */
  async stop(): Promise<ShellExit> {
    this.#group ??= endGroup(this.pid, { graceMs: this.#graceMs });
    return this.ended;
  }

  async #run(release: () => void): Promise<ShellExit> {
    const read = this.#read();
    const exit = await new Promise<ShellExit>((resolve) => {
      this.#child.once("exit", (code, signal) =>
        resolve(code === null ? { signal: signal ?? "unknown" } : { exitCode: code }),
      );
    });
    this.#group ??= endGroup(this.pid, { graceMs: this.#graceMs });
    await this.#group;
    release();
    await this.#drain(read);
    await this.output.end();
    this.#exit = exit;
    this.#endedAt = performance.now();
    return exit;
  }

  async #read(): Promise<void> {
    try {
      for await (const bytes of this.#child.stdout) {
        await this.output.push(bytes as Buffer);
        this.onOutput();
      }
    } catch {
      // The stream was closed because somebody out of reach holds it open; what came is there.
    }
  }

  async #drain(read: Promise<void>): Promise<void> {
    const over = new AbortController();
    const limit = delay(DRAIN_LIMIT_MS, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([read, limit.then(() => void this.#child.stdout.destroy())]);
    over.abort();
    await read;
  }
}
