// The repository speaks of itself, not of the machine it was written on.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { repository } from "./source-files.ts";

/** Absolute paths into somebody's home or working folder; `src/work/a.ts` and `./work/` are not. */
const MACHINE_PATH = /(?<![\w.*~}\])-])\/(?:home|root|work|Users)\/[\w.-]+/g;

test("no file contains an absolute path of a machine", () => {
  expect(repositoryFiles().flatMap((path) => machinePaths(path, readText(path)))).toEqual([]);
});

test("the lock file names no registry", () => {
  const lock: { packages: Record<string, { resolved?: string }> } = JSON.parse(readText("package-lock.json"));
  const resolved = Object.values(lock.packages).flatMap((entry) => entry.resolved ?? []);
  expect(resolved.filter((address) => address.includes("://"))).toEqual([]);
});

test("the check catches what it is for", () => {
  const place = ["", "work", "main"].join("/");
  expect(machinePaths("a.md", `see ${place}/x`)).toHaveLength(1);
  expect(machinePaths("a.md", `"${place}"`)).toHaveLength(1);
  expect(machinePaths("a.md", "src/work/task.ts, ../work/task.ts, marling/root/a")).toEqual([]);
});

function machinePaths(path: string, text: string): readonly string[] {
  return text
    .split("\n")
    .flatMap((line, at) => (line.match(MACHINE_PATH) ?? []).map((found) => `${path}:${at + 1}: ${found}`));
}

/** What git tracks, and what it would if all were added. */
function repositoryFiles(): readonly string[] {
  const output = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: repository,
    encoding: "utf8",
  });
  return output.split("\0").filter((path) => path !== "" && existsSync(repository + path));
}

function readText(path: string): string {
  return readFileSync(repository + path, "utf8");
}
