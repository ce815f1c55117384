// A process and what it started, which stayed in its group.

import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 20;

/** Ends a group whose leader is our child: its input is over, then SIGTERM, then SIGKILL. Never rejects. */
export async function endProcessGroup(
  child: ChildProcess,
  { graceMs }: { readonly graceMs: number },
): Promise<void> {
  const { pid } = child;
  if (pid === undefined) return;
  child.stdin?.end();
  if (await isGoneWithin(pid, graceMs)) return;
  signalGroup(pid, "SIGTERM");
  if (await isGoneWithin(pid, graceMs)) return;
  signalGroup(pid, "SIGKILL");
  await isGoneWithin(pid, 5_000);
}

const AT_EXIT = new Set<number>();

/** Kills a group when this process ends before it was ended; the returned function says that it was. */
export function killAtExit(pid: number): () => void {
  if (AT_EXIT.size === 0) process.on("exit", killAll);
  AT_EXIT.add(pid);
  return () => {
    AT_EXIT.delete(pid);
    if (AT_EXIT.size === 0) process.off("exit", killAll);
  };
}

function killAll(): void {
  for (const pid of AT_EXIT) signalGroup(pid, "SIGKILL");
}

/** False when there is nobody left. */
function signalGroup(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, name);
  } catch {
    return false;
  }
}

async function isGoneWithin(pid: number, ms: number): Promise<boolean> {
  for (let waitedMs = 0; signalGroup(pid, 0); waitedMs += POLL_MS) {
    if (waitedMs >= ms) return false;
    await delay(POLL_MS);
  }
  return true;
}
