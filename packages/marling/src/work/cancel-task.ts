// How a task is cancelled: by its kind, then by its callback and its signal, then, by its policy, by waiting.

import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { TaskRecord } from "./task.ts";
import type { TaskKeeper } from "./task-keeper.ts";
import type { HeldTask } from "./task-table.ts";
import { waitAtMost } from "./task-work.ts";

/** Who stops what a task stands for, by its kind. */
export interface CancelByKind {
  /**
   * Stops the monitor of a session: the id is the task's without `monitor:`, the session the one that registered it.
   * It may use `cancelManaged`, not `cancel`, which waits for it.
   */
  cancelMonitor?(sessionId: string, monitorId: string): void | Promise<void>;
  /** Closes the sessions below a subagent whose task has no cancel callback. */
  cancelSubagent?(sessionId: string, task: TaskRecord): void | Promise<void>;
}

export interface CancelOptions {
  readonly reason?: string;
}

interface Cancelling extends CancelOptions {
  readonly keeper: TaskKeeper;
  readonly byKind: CancelByKind;
}

const MONITOR_PREFIX = "monitor:";

/** Cancels a live task and returns what it is then. A failure to stop it leaves it `cancel_requested`. */
export async function cancelTask(task: HeldTask, options: Cancelling): Promise<TaskRecord> {
  const { keeper, byKind, reason } = options;
  keeper.requestCancel(task, reason);
  await translated(task, () => stopByKind(task, byKind));
  const { cancelPolicy } = task.record;
  if (cancelPolicy !== "external") task.work?.abort(reason ?? `task ${task.record.id} was cancelled`);
  await callBack(task);
  if (cancelPolicy === "external") return task.record;
  if (cancelPolicy === "cooperative" && task.work !== undefined)
    await waitAtMost(keeper.graceMs, { clock: keeper.clock, work: [task.work.ended] });
  keeper.end(task, { state: "cancelled" });
  return task.record;
}

/** Calls the cancel callback of a task, which happens at most once. */
export async function callBack(task: HeldTask): Promise<void> {
  const { cancel } = task;
  task.cancel = undefined;
  if (cancel !== undefined) await translated(task, () => cancel(task.record));
}

async function stopByKind(task: HeldTask, byKind: CancelByKind): Promise<void> {
  const { id, kind, sessionId } = task.record;
  switch (kind) {
    case "monitor":
      await byKind.cancelMonitor?.(task.homeSessionId, monitorIdOf(id));
      return;
    case "subagent":
      if (task.cancel === undefined) await byKind.cancelSubagent?.(sessionId, task.record);
      return;
    case "observer":
    case "other":
      return;
    default:
      unreachable(kind);
  }
}

function monitorIdOf(taskId: string): string {
  return taskId.startsWith(MONITOR_PREFIX) ? taskId.slice(MONITOR_PREFIX.length) : taskId;
}

async function translated(task: HeldTask, stop: () => void | Promise<void>): Promise<void> {
  try {
    await stop();
  } catch (cause) {
    const { id, kind, sessionId, producer } = task.record;
    throw new MarlingError(
      "task_cancel_failed",
      `task ${id} of session ${sessionId}: expected the ${kind} of ${producer} to stop, found: ${messageOf(cause)}`,
      { cause, details: { sessionId, taskId: id, producer } },
    );
  }
}
