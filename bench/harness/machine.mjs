// What a process has used, as the system counts it.

import {
  closeSync,
  existsSync,
  fdatasyncSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { median } from "./figures.mjs";

const PROBES = 50;

function field(file, name) {
  if (!existsSync(file)) return Number.NaN;
  return Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(file, "utf8"))?.[1] ?? Number.NaN);
}

const megabytes = (bytes) => Math.round(bytes / 100_000) / 10;

export const rssMb = () => megabytes(process.memoryUsage().rss);
export const peakRssMb = () => megabytes(field("/proc/self/status", "VmHWM") * 1024);

/** CPU of all threads of this process. */
export function cpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Everything that this process wrote, to files and to sockets. */
export const bytesWritten = () => field("/proc/self/io", "wchar");

/** Everything that a server and its children wrote; what they send is not counted by the system. */
export function bytesWrittenBy(pid) {
  const all = [pid, ...childrenOf(pid)].map((id) => quietly(() => field(`/proc/${id}/io`, "wchar")));
  return all.reduce((sum, bytes) => sum + (bytes || 0), 0);
}

function childrenOf(pid) {
  const ids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return ids.filter((id) => quietly(() => field(`/proc/${id}/status`, "PPid")) === pid);
}

function quietly(read) {
  try {
    return read();
  } catch {
    return 0; // The process is gone.
  }
}

export function folderBytes(folder) {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return files.reduce(
    (sum, { parentPath, name }) => sum + quietly(() => statSync(join(parentPath, name)).size),
    0,
  );
}

/** Load, and what a small write that is synced costs on this disk at the moment. */
export function machineNow(folder) {
  const path = join(folder, "probe");
  const file = openSync(path, "w");
  const block = Buffer.alloc(4096, 1);
  const syncs = [];
  for (let probe = 0; probe < PROBES; probe += 1) {
    writeSync(file, block);
    const started = performance.now();
    fdatasyncSync(file);
    syncs.push(performance.now() - started);
  }
  closeSync(file);
  rmSync(path);
  return { load: loadavg(), fdatasyncMs: median(syncs) };
}
