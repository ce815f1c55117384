// A runtime for one tool after another: each call is a turn of its own, with a model that only calls it.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Runtime, RuntimeOptions, Session, ToolOutput, Turn, TurnEvent } from "marling";
import { callTool, type ScriptedModel, say } from "marling/testing";
import { onTestFinished, vi } from "vitest";
import { failureOf, play, stage, successOf } from "../../kernel/tools-support.ts";

// Real processes and sockets on a busy machine take their time.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

export interface Called {
  readonly output: ToolOutput;
  readonly events: readonly TurnEvent[];
}

export interface Bench {
  readonly runtime: Runtime;
  readonly session: Session;
  readonly model: ScriptedModel;
  /** Starts a turn that makes the call, in the session "s" unless another is given. */
  begin(name: string, args: unknown, options?: { readonly session?: Session }): Turn;
  call(name: string, args: unknown): Promise<Called>;
  /** The value of a call that must succeed. */
  value<T = Readonly<Record<string, unknown>>>(name: string, args: unknown): Promise<T>;
  /** The failure of a call that must fail. */
  failure(name: string, args: unknown): Promise<ReturnType<typeof failureOf>>;
}

export async function bench(options: Omit<RuntimeOptions, "model">): Promise<Bench> {
  const wanted: (readonly [string, unknown])[] = [];
  const { runtime, session, model } = await stage({
    ...options,
    script: ({ messages }) => {
      const next = messages.at(-1)?.role === "user" ? wanted.shift() : undefined;
      return next === undefined ? say("Done.") : callTool(...next);
    },
  });
  const begin: Bench["begin"] = (name, args, { session: other = session } = {}) => {
    wanted.push([name, args]);
    return other.turn("Go");
  };
  const call = async (name: string, args: unknown): Promise<Called> => {
    const { report, events } = await play(begin(name, args));
    const output = report.toolCalls[0]?.output;
    if (output === undefined)
      throw new Error(`expected a call of ${name}, found ${JSON.stringify(report.outcome)}`);
    return { output, events };
  };
  return {
    runtime,
    session,
    model,
    begin,
    call,
    value: async <T>(name: string, args: unknown) => successOf((await call(name, args)).output) as T,
    failure: async (name, args) => failureOf((await call(name, args)).output),
  };
}

/** A folder that is gone after the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "marling-test-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  await vi.waitUntil(condition, { timeout: 40_000, interval: 10 });
}

/** Whether a process runs; a dead one that nobody collected does not. */
export function isRunning(pid: number): boolean {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const state = text.slice(text.lastIndexOf(")") + 2, text.lastIndexOf(")") + 3);
    return state !== "Z" && state !== "X";
  } catch {
    return false;
  }
}
