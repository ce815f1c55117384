// Process groups: a command and everything it started that stayed in its group.
//   PG1  a group is asked with SIGTERM first, and gets SIGKILL when it is still there after the grace period.
//   PG2  a group is gone when no process of it runs: dead ones that nobody has collected do not count.
//   PG3  a group that is seen to be gone is never signalled again: its number may belong to others by then.
// The grace period is a rule and follows the given clock; looking at the system follows the real one.

import { readdir, readFile } from "node:fs/promises";
import { type Clock, systemClock } from "../base/clock.ts";

export const GRACE_MS = 200;

const SHORTEST_POLL_MS = 10;
const LONGEST_POLL_MS = 50;
/** Where other commands keep this process busy, each wait for a file is a long one: many are waited for at once. */
const READ_AT_ONCE = 256;
/** A process that survives SIGKILL for so long hangs in the system, and no signal helps. */
const KILL_LIMIT_MS = 5_000;

/** Ends a process group. Resolves when it is gone, or out of reach after SIGKILL; never rejects. */
export async function endGroup(group: number, { clock }: { readonly clock: Clock }): Promise<void> {
  if (!signal(-group, "SIGTERM")) return;
  if (await isGoneWithin(GRACE_MS, { group, clock })) return;
  if (!signal(-group, "SIGKILL")) return;
  await isGoneWithin(KILL_LIMIT_MS, { group, clock: systemClock });
}

/** False when there is nobody left to signal. Where we may not signal anybody, there is nothing we can end. */
function signal(target: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(target, name);
  } catch {
    return false;
  }
}

async function isGoneWithin(
  ms: number,
  { group, clock }: { readonly group: number; readonly clock: Clock },
): Promise<boolean> {
  const due = clock.monotonic() + ms;
  let pauseMs = SHORTEST_POLL_MS;
  while (await isRunning(group)) {
    if (clock.monotonic() >= due) return false;
    await new Promise<void>((resolve) => void systemClock.after(pauseMs, resolve));
    pauseMs = Math.min(pauseMs * 2, LONGEST_POLL_MS);
  }
  return true;
}

/** The leader is our child, so it is collected when it dies; the others may be nobody's. */
async function isRunning(group: number): Promise<boolean> {
  return signal(-group, 0) && (signal(group, 0) || (await hasRunningMember(group)));
}

/** Orphans are collected by the first process of the machine; in a container it may be late, or never do so. */
async function hasRunningMember(group: number): Promise<boolean> {
  let hasMember = false;
  const ids = (await readdir("/proc").catch(() => [])).filter((id) => /^\d+$/.test(id));
  for (let from = 0; from < ids.length; from += READ_AT_ONCE) {
    const stats = await Promise.all(ids.slice(from, from + READ_AT_ONCE).map(readStat));
    const members = stats.filter((stat) => stat.group === group);
    if (members.some(({ state }) => state !== "Z" && state !== "X")) return true;
    hasMember ||= members.length > 0;
  }
  // Without a list of processes, as on macOS, the answer to the signal stands.
  return !hasMember;
}

async function readStat(id: string): Promise<ReturnType<typeof parseStat>> {
  return parseStat(await readFile(`/proc/${id}/stat`, "utf8").catch(() => ""));
}

/** `<pid> (<name>) <state> <parent> <group> ...`, where the name may hold anything. */
function parseStat(text: string): { readonly state: string; readonly group: number } {
  const [state = "", , group] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state, group: Number(group) };
}
