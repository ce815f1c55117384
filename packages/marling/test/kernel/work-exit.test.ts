// Processes of their own with tasks and monitors: what is left when they end, and that they do.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { sqliteStore } from "marling/sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import { isRunning } from "../work/monitor-support.ts";
import { database, live } from "./durable-support.ts";
import { eventually, jobs, states } from "./work-support.ts";

vi.setConfig({ testTimeout: 60_000 });

interface Child {
  readonly lines: readonly string[];
  readonly ended: Promise<number | null>;
  kill(): void;
}

function child(mode: string, path: string): Child {
  const file = fileURLToPath(new URL("work-child.mjs", import.meta.url));
  const process_ = spawn(process.execPath, [file, mode, path], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  process_.stdout.setEncoding("utf8").on("data", (text: string) => {
    lines.push(...text.split("\n").filter((line) => line !== ""));
  });
  const ended = new Promise<number | null>((resolve) => process_.on("close", (code) => resolve(code)));
  onTestFinished(() => void process_.kill("SIGKILL"));
  return { lines, ended, kill: () => void process_.kill("SIGKILL") };
}

test("[WT14] nothing keeps a process alive after runtime.close(), and its monitor is gone", async () => {
  const { lines, ended } = child("close", database());
  expect(await ended).toBe(0);
  expect(lines[1]).toBe("closed");
  expect(Number(lines[0])).toBeGreaterThan(1);
  expect(isRunning(Number(lines[0]))).toBe(false);
});

test("[WK3] a session that only waits for others keeps no process alive", async () => {
  const path = database();
  const { lines, ended } = child("idle", path);
  expect(await ended).toBe(0);
  expect(lines).toEqual(["open"]);
  const { session } = await live({ store: sqliteStore({ path }), plugins: [jobs().plugin] });
  expect(states(session.tasks.list())).toEqual(["elsewhere waiting"]);
});

test("[WT24] a process that is killed leaves its durable task to the next one, at once", async () => {
  const path = database();
  const { lines, ended, kill } = child("work", path);
  await vi.waitUntil(() => lines.length > 0, { timeout: 30_000 });
  kill();
  await ended;
  const { plugin, attempts } = jobs();
  const { session } = await live({ store: sqliteStore({ path }), plugins: [plugin] });
  await eventually(() => attempts.length).toBe(1);
  expect(attempts[0]?.context.record).toMatchObject({ id: "a", attempt: 2, progress: "two" });
  attempts[0]?.finish("done");
  await eventually(() => session.tasks.list()).toMatchObject([{ state: "completed", result: "done" }]);
});
