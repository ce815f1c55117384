// Monitors on real shells. Nothing here waits for time to pass: it waits until something is so.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { MonitorEvent, MonitorStatus, MonitorWake } from "../../src/work/monitor.ts";
import { MonitorRegistry, type MonitorRegistryOptions } from "../../src/work/monitor-registry.ts";

export interface Watched {
  readonly registry: MonitorRegistry;
  readonly wakes: readonly MonitorWake[];
  /** How often the registry said that its state moved. */
  changes(): number;
}

/** A registry that is closed after the test. */
export function watch(options: Partial<MonitorRegistryOptions> = {}): Watched {
  const wakes: MonitorWake[] = [];
  let changes = 0;
  const registry = new MonitorRegistry({
    shell: "/bin/sh",
    onWake: (wake) => wakes.push(wake),
    onChange: () => {
      changes += 1;
    },
    ...options,
  });
  onTestFinished(() => registry.close());
  return { registry, wakes, changes: () => changes };
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

export function statusOf(registry: MonitorRegistry, id: string): MonitorStatus {
  const status = registry.peek().monitors.find(({ spec }) => spec.id === id);
  if (status === undefined) throw new Error(`no monitor ${id}`);
  return status;
}

/** Resolves when a monitor has said so many lines. */
export async function said(registry: MonitorRegistry, id: string, count: number): Promise<void> {
  await until(() => statusOf(registry, id).eventCount >= count);
}

export const messages = (events: readonly MonitorEvent[]): readonly string[] =>
  events.map(({ message }) => message);

/** The process ids that a monitor printed, each on a line of its own. */
export async function takePids(registry: MonitorRegistry): Promise<readonly number[]> {
  const { events } = await registry.takeUpdates();
  return events.map(({ message }) => Number(message)).filter((pid) => pid > 1);
}

/** A dead process that nobody collected does not run. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return stateOf(pid) !== "Z";
}

function stateOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2)[0];
  } catch {
    return undefined;
  }
}

export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "marling-monitor-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface Puppet {
  /** A shell that says what it is told, and exits when there is nothing more. */
  readonly command: string;
  /** A line on stdout; on stderr with `err:` before it. Only after the command was started. */
  say(...lines: readonly string[]): Promise<void>;
  finish(): Promise<void>;
}

export function puppet(): Puppet {
  const pipe = join(folder(), "pipe");
  execFileSync("mkfifo", [pipe]);
  let opened: Promise<FileHandle> | undefined;
  const handle = (): Promise<FileHandle> => {
    opened ??= open(pipe, "w");
    return opened;
  };
  const finish = async (): Promise<void> => {
    const last = opened;
    opened = undefined;
    await (await last)?.close();
  };
  onTestFinished(finish);
  return {
    command: `while IFS= read -r line; do case "$line" in err:*) echo "\${line#err:}" >&2;; *) echo "$line";; esac; done < '${pipe}'`,
    say: async (...lines) => {
      await (await handle()).write(lines.map((line) => `${line}\n`).join(""));
    },
    finish,
  };
}
