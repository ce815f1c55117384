// Process groups: a command and everything it started that stayed in its group.
//   SH8  a group is asked with SIGTERM, and gets SIGKILL when something of it still runs after the grace time.
//   SH9  the processes of this host end with it when it exits by itself; only SIGKILL of the host leaves them running.

import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

const FIRST_LOOK_MS = 5;
const LONGEST_LOOK_MS = 50;
/** What survives SIGKILL for so long hangs in the system, and no signal helps. */
const KILL_LIMIT_MS = 5_000;

/** Ends a group. Resolves when nothing of it runs, or when it is out of reach; never rejects. */
export async function endGroup(group: number, { graceMs }: { readonly graceMs: number }): Promise<void> {
  if (!signalGroup(group, "SIGTERM")) return;
  if (await isGoneWithin(group, graceMs)) return;
  if (!signalGroup(group, "SIGKILL")) return;
  await isGoneWithin(group, KILL_LIMIT_MS);
}

/** The exit of a process concerns all that it started, so there is one list of them, and one listener. */
const groups = new Set<number>();

/** Kills a group when this process exits, until the returned function is called. */
export function endWithHost(group: number): () => void {
  if (groups.size === 0) process.on("exit", killAll);
  groups.add(group);
  return () => {
    groups.delete(group);
    if (groups.size === 0) process.off("exit", killAll);
  };
}

function killAll(): void {
  for (const group of groups) signalGroup(group, "SIGKILL");
}

/** False when nobody is left to signal. */
function signalGroup(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, name);
  } catch {
    return false; // Nobody there, or nobody whom we may signal: either way there is nothing to end.
  }
}

async function isGoneWithin(group: number, ms: number): Promise<boolean> {
  const due = performance.now() + ms;
  let pauseMs = FIRST_LOOK_MS;
  while (signalGroup(group, 0) && (await hasLiveMember(group))) {
    if (performance.now() >= due) return false;
    await delay(pauseMs);
    pauseMs = Math.min(pauseMs * 2, LONGEST_LOOK_MS);
  }
  return true;
}

/** Dead processes that nobody has collected answer signals too, in a container for ever; they do not count. */
async function hasLiveMember(group: number): Promise<boolean> {
  let isListed = false;
  for (const name of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    const stat = statOf(await readFile(`/proc/${name}/stat`, "utf8").catch(() => ""));
    if (stat.group !== group) continue;
    if (stat.state !== "Z" && stat.state !== "X") return true;
    isListed = true;
  }
  // Without a list of processes, as on macOS, the answer to the signal stands.
  return !isListed;
}

/** `<pid> (<name>) <state> <parent> <group> ...`, where the name may hold anything. */
function statOf(text: string): { readonly state: string; readonly group: number } {
  const [state = "", , group] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state, group: Number(group) };
}
