// The program as it is built and installed, and processes of it for tests.

import { spawn } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildIfStale, root } from "../../../scripts/workspace.mjs";

const cli = join(root, "packages", "cli");

export const program: string = join(cli, "dist", "main.js");
export const buildCli: () => Promise<void> = buildIfStale;

/** A folder of its own, with its real path; removed by `close`. */
export function makeFolder(): { readonly path: string; close(): void } {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "marling-cli-")));
  return { path, close: () => rmSync(path, { recursive: true, force: true }) };
}

/** The environment of a test: none of this machine's keys and settings. */
export function cleanEnv(
  folder: string,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: folder,
    XDG_CONFIG_HOME: join(folder, "xdg"),
    TERM: "xterm-256color",
    LANG: "C.UTF-8",
    USER: "ada",
    ...more,
  };
}

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Piped in; without it, stdin is empty and no pipe. */
  readonly input?: string;
  /** Called with the process when stderr has these words. */
  readonly when?: readonly [words: string, act: (pid: number) => void];
}

/** Runs marling to its end. */
export function marling(args: readonly string[], { cwd, env, input, when }: RunOptions): Promise<Ran> {
  const child = spawn(process.execPath, [program, ...args], {
    cwd,
    env: cleanEnv(cwd, env),
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  let isDone = false;
  for (const name of ["stdout", "stderr"] as const)
    child[name]?.on("data", (chunk: Buffer) => {
      output[name] += chunk.toString("utf8");
      if (isDone || when === undefined || !output.stderr.includes(when[0])) return;
      isDone = true;
      when[1](child.pid ?? 0);
    });
  if (input !== undefined) child.stdin?.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...output }));
  });
}
