// Tasks and monitors through a runtime: plugins with background work that stops where a test wants it to.

import type { JsonObject, Plugin, ProcessRun, Session, TaskRecord } from "marling";
import { expect } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import type { MonitorStatus } from "../../src/work/monitor.ts";
import type { TaskSpec } from "../../src/work/task.ts";
import { plugin } from "./hooks-support.ts";
import { act, acting } from "./services-support.ts";

/** One attempt of a task: what it was given, and how it is to go on. */
export interface Attempt {
  readonly context: Parameters<ProcessRun>[0];
  finish(result?: unknown): void;
  fail(error: Error): void;
}

export interface Jobs {
  readonly plugin: Plugin;
  readonly attempts: readonly Attempt[];
  /** The work itself, for tasks that are given theirs. */
  readonly run: ProcessRun;
}

/** A plugin `jobs` whose work `job` ends when a test says so, or when it is asked to. */
export function jobs(): Jobs {
  const attempts: Attempt[] = [];
  const run: ProcessRun = (context) => {
    const end: Deferred<unknown> = deferred();
    attempts.push({ context, finish: end.resolve, fail: end.reject });
    context.signal.addEventListener("abort", () => end.reject(context.signal.reason as Error), {
      once: true,
    });
    return end.promise;
  };
  return { plugin: plugin("jobs", { background: { job: run } }), attempts, run };
}

/** A durable task of `jobs`. */
export const durable = (
  id: string,
  recovery: "rerun" | "report" | "external" = "rerun",
  spec: Partial<TaskSpec> = {},
): TaskSpec => ({
  id,
  kind: "other",
  producer: "jobs",
  label: "job",
  durable: { recovery, input: { of: id } },
  ...spec,
});

export const simple = (id: string, spec: Partial<TaskSpec> = {}): TaskSpec => ({
  id,
  kind: "other",
  producer: "test",
  ...spec,
});

/** The tasks as `id state`. */
export const states = (tasks: readonly TaskRecord[]): readonly string[] =>
  tasks.map(({ id, state }) => `${id} ${state}`);

export function taskOf(session: Session, id: string): TaskRecord | undefined {
  return session.tasks.list().find((task) => task.id === id);
}

export async function monitorOf(session: Session, id: string): Promise<MonitorStatus | undefined> {
  return (await session.monitors.snapshot()).monitors.find(({ spec }) => spec.id === id);
}

/** What is so sooner or later, also on a machine that is busy. */
export const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 20_000 });

/** Actions that start tasks of `jobs`, in the session and in a child of it. */
export const starting = (background: Jobs): readonly Plugin[] => [
  background.plugin,
  acting({
    start: async (host, spec) => host.spawnManagedTask("s", spec as never),
    register: async (host, spec) => host.registerBackgroundTask("s", spec as never),
    child: (host) => host.createSession({ sessionId: "child" }),
    childTask: (host, spec) => host.spawnManagedTask("child", spec as never),
    closeChild: (host) => host.closeSession("child"),
  }),
];

export const start = (session: Session, spec: object): Promise<unknown> =>
  act(session, "start", spec as JsonObject);
