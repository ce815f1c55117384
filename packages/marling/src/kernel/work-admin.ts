// Tasks and monitors of a session, for its host.

import type { MonitorDeclaration, MonitorSnapshot, MonitorUpdateBatch } from "../work/monitor.ts";
import type { TaskEvent, TaskFilter, TaskRecord } from "../work/task.ts";
import type { TaskRegistry } from "../work/task-registry.ts";
import { drivable } from "./bindings.ts";
import type { ResidentSession } from "./resident-session.ts";
import { monitorSnapshot, startMonitor, stopMonitor, takeMonitorUpdates } from "./session-monitors.ts";

export interface TaskAdmin {
  /** All tasks, ended ones too, oldest first. */
  list(filter?: Pick<TaskFilter, "kind" | "includeTerminal">): readonly TaskRecord[];
  cancel(taskId: string, reason?: string): Promise<TaskRecord>;
  cancelAll(reason?: string): Promise<readonly TaskRecord[]>;
  /** What happens to the tasks from now on. */
  watch(options?: { readonly signal?: AbortSignal }): AsyncIterable<TaskEvent>;
}

export interface MonitorAdmin {
  /** Also starts monitors that are armed. */
  snapshot(): Promise<MonitorSnapshot>;
  start(target: MonitorDeclaration | string): Promise<MonitorSnapshot>;
  stop(monitorId: string): Promise<MonitorSnapshot>;
  takeUpdates(): Promise<MonitorUpdateBatch>;
}

export function taskAdmin(session: ResidentSession): TaskAdmin {
  const { id, parts } = session;
  const tasks = (): TaskRegistry => drivable(session) && parts.work.tasks;
  const why = (reason: string | undefined): { readonly reason?: string } =>
    reason === undefined ? {} : { reason };
  return Object.freeze({
    list: (filter: Pick<TaskFilter, "kind" | "includeTerminal"> = {}) => tasks().list(id, filter),
    cancel: async (taskId: string, reason?: string) => tasks().cancel(id, taskId, why(reason)),
    cancelAll: async (reason?: string) => tasks().cancelAll(id, why(reason)),
    watch: (options: { readonly signal?: AbortSignal } = {}) => tasks().watch({ sessionId: id }, options),
  });
}

export function monitorAdmin(session: ResidentSession): MonitorAdmin {
  return Object.freeze({
    snapshot: async () => monitorSnapshot(drivable(session)),
    start: async (target: MonitorDeclaration | string) => startMonitor(drivable(session), target),
    stop: async (monitorId: string) => stopMonitor(drivable(session), monitorId),
    takeUpdates: async () => takeMonitorUpdates(drivable(session)),
  });
}
