// Starts a process that lives a scenario, and answers what it asks until it ends.

import { type ChildProcess, fork } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { CrashLedger } from "./crash-ledger.ts";
import type { Asked } from "./line.ts";

export interface LifeRequest {
  /** Of the scenario's module. */
  readonly url: string;
  readonly folder: string;
  /** Where the process ends; it lives to its end without. */
  readonly deadly?: string;
  /** Closes the runtime there, and ends then; killed without. */
  readonly close?: { readonly graceMs: number } | undefined;
  readonly timeoutMs: number;
}

export interface LifeOutcome {
  /** Whether it was ended at the boundary, in the way that was asked for. */
  readonly isKilled: boolean;
  /** Why the process did not come to its end although nobody killed it. */
  readonly trouble?: string;
}

/** The program that is killed: a file of the built package, also when this one runs from its source. */
const PROGRAM: string = join(
  createRequire(import.meta.url).resolve("marling/testing"),
  "..",
  "crash",
  "life.js",
);

export async function forkLife(ledger: CrashLedger, request: LifeRequest): Promise<LifeOutcome> {
  const { url, folder, deadly, close, timeoutMs } = request;
  const args = [url, folder, String(ledger.beginLife()), ...(deadly === undefined ? [] : [deadly])];
  if (deadly !== undefined && close !== undefined) args.push(String(close.graceMs));
  const child = fork(PROGRAM, args, { execArgv: [], stdio: ["ignore", "ignore", "pipe", "ipc"] });
  child.on("message", (asked: Asked) => void reply(child, asked, ledger));
  const said = textOf(child);
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill("SIGKILL");
  }, timeoutMs);
  const { code, signal } = await exitOf(child);
  clearTimeout(timer);
  if (isLate) return { isKilled: false, trouble: `it did not end within ${timeoutMs} ms` };
  if (signal === "SIGKILL" && deadly !== undefined && close === undefined) return { isKilled: true };
  if (code === 0 && ledger.wasClosed) return { isKilled: true };
  if (code === 0 && ledger.ended !== undefined) return { isKilled: false };
  return { isKilled: false, trouble: `it ended with ${signal ?? `code ${code}`}: ${said().trim()}` };
}

/** A child that was killed meanwhile does not hear the answer, and does not need to. */
async function reply(child: ChildProcess, { id, question }: Asked, ledger: CrashLedger): Promise<void> {
  const answer = await ledger.answer(question);
  if (child.connected) child.send({ id, answer }, () => undefined);
}

function textOf(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
  });
  return () => text;
}

function exitOf(
  child: ChildProcess,
): Promise<{ readonly code: number | null; readonly signal: string | null }> {
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ code, signal }));
  });
}
