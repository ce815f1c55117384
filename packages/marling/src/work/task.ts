// The words of background work: how a task runs, and what is told of it. What a task is, is in model/task.ts.

import type { TaskKind, TaskRecord, TaskState, TerminalTaskState } from "../model/task.ts";

export type {
  CancelPolicy,
  ClosePolicy,
  LiveTaskState,
  TaskCompletion,
  TaskDurability,
  TaskFailure,
  TaskKind,
  TaskRecord,
  TaskRecovery,
  TaskSpec,
  TaskState,
  TerminalTaskState,
} from "../model/task.ts";
export {
  CANCEL_POLICIES,
  CLOSE_POLICIES,
  LIVE_TASK_STATES,
  TASK_KINDS,
  TASK_RECOVERIES,
  TERMINAL_TASK_STATES,
} from "../model/task.ts";

/** What a step of a task is given. */
export interface TaskStep {
  readonly signal: AbortSignal;
  /**
   * The same in every attempt of the task, for others who are asked to do something once: made of the task's id and its own
   * key, or of its session and the time of its beginning where it has none.
   */
  readonly idempotencyKey: string;
}

export interface TaskContext {
  /** Aborted when the task is to end. A durable task that stops because of it is not done. */
  readonly signal: AbortSignal;
  /** The record as the attempt began: its input, its attempt, and the last progress of the attempt before. */
  readonly record: TaskRecord;
  /** Replaces the progress of the task. Throws `invalid_json`; says nothing once the task has ended. */
  progress(value: unknown): void;
  /**
   * Does something once: what it came to is stored before it is returned, and a later attempt of the task gets that and
   * does not do it again. It must be JSON, or nothing. A crash before it was stored lets it run again, with the same
   * `idempotencyKey`; what it throws is not stored. A task may have 1,000 steps.
   */
  step<T>(key: string, run: (step: TaskStep) => T | Promise<T>): Promise<T>;
}

/** The work of a managed task. What it returns is the result and must be JSON, or nothing. */
export type TaskRun = (context: TaskContext) => unknown;

/** Stops a task that runs elsewhere. Called at most once. */
export type TaskCancel = (task: TaskRecord) => void | Promise<void>;

/** What happened to a task, with the record as it was right after. */
export type TaskEvent =
  | { readonly kind: "registered"; readonly task: TaskRecord }
  | { readonly kind: "state_changed"; readonly task: TaskRecord; readonly previous: TaskState }
  | { readonly kind: "progress"; readonly task: TaskRecord }
  | { readonly kind: "completed"; readonly task: TaskRecord }
  | { readonly kind: "failed"; readonly task: TaskRecord }
  | { readonly kind: "cancel_requested"; readonly task: TaskRecord; readonly reason?: string }
  | { readonly kind: "cancelled"; readonly task: TaskRecord }
  | {
      readonly kind: "transferred";
      readonly task: TaskRecord;
      readonly fromSessionId: string;
      readonly toSessionId: string;
    };

/** Which tasks, and events of which tasks. What is absent excludes nothing. */
export interface TaskFilter {
  readonly sessionId?: string;
  readonly kind?: TaskKind;
  /** `false` leaves out ended tasks, and the events of their end. */
  readonly includeTerminal?: boolean;
}

export function isTerminal(state: TaskState): state is TerminalTaskState {
  return state === "completed" || state === "failed" || state === "cancelled";
}

export function matchesTask(task: TaskRecord, filter: TaskFilter): boolean {
  if (filter.sessionId !== undefined && filter.sessionId !== task.sessionId) return false;
  return matchesKindAndState(task, filter);
}

/** As for a task; a transfer concerns both its sessions. */
export function matchesEvent(event: TaskEvent, filter: TaskFilter): boolean {
  if (event.kind !== "transferred" || filter.sessionId !== event.fromSessionId)
    return matchesTask(event.task, filter);
  return matchesKindAndState(event.task, filter);
}

function matchesKindAndState(task: TaskRecord, { kind, includeTerminal = true }: TaskFilter): boolean {
  if (kind !== undefined && kind !== task.kind) return false;
  return includeTerminal || !isTerminal(task.state);
}
