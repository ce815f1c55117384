// The words of background work: what a task is, what it may be in, and what is told of it.

import type { Json } from "../model/json.ts";

export const TASK_KINDS = ["monitor", "subagent", "observer", "other"] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

export const LIVE_TASK_STATES = ["pending", "running", "waiting", "cancel_requested"] as const;
export const TERMINAL_TASK_STATES = ["completed", "failed", "cancelled"] as const;
export type LiveTaskState = (typeof LIVE_TASK_STATES)[number];
export type TerminalTaskState = (typeof TERMINAL_TASK_STATES)[number];
export type TaskState = LiveTaskState | TerminalTaskState;

/**
 * How a task is cancelled: `cooperative` signals it and waits for its end within the grace time, `abort_local` signals
 * it and counts it as cancelled at once, `external` asks whoever runs it, and the task stays `cancel_requested` until
 * its end is reported.
 */
export const CANCEL_POLICIES = ["cooperative", "abort_local", "external"] as const;
export type CancelPolicy = (typeof CANCEL_POLICIES)[number];

/** What becomes of a live task when its session closes. */
export const CLOSE_POLICIES = ["keep", "cancel", "transfer"] as const;
export type ClosePolicy = (typeof CLOSE_POLICIES)[number];

/** What may become of a durable task that a restart finds live: run it again, report it as failed, leave it to others. */
export const TASK_RECOVERIES = ["rerun", "report", "external"] as const;
export type TaskRecovery = (typeof TASK_RECOVERIES)[number];

/** A durable task is in the store: its record, input, progress and result. */
export interface TaskDurability {
  readonly recovery: TaskRecovery;
  readonly input?: Json;
}

/** What a task is registered with. */
export interface TaskSpec {
  /** Unique among the live tasks of its session. */
  readonly id: string;
  readonly kind: TaskKind;
  /** Who runs it: a plugin id, a tool name. */
  readonly producer: string;
  readonly childSessionId?: string;
  readonly parentTaskId?: string;
  readonly label?: string;
  /** Default: `cooperative`. */
  readonly cancelPolicy?: CancelPolicy;
  /** Default: `keep` for durable tasks, `cancel` for others. */
  readonly closePolicy?: ClosePolicy;
  /** How often recovery may have it run in all. Default: without limit. */
  readonly maxAttempts?: number;
  readonly idempotencyKey?: string;
  readonly durable?: TaskDurability;
}

export interface TaskFailure {
  readonly code: string;
  readonly message: string;
}

/** A task as it is now: frozen, plain JSON. Times are milliseconds since 1970. */
export interface TaskRecord {
  readonly id: string;
  readonly sessionId: string;
  readonly kind: TaskKind;
  readonly producer: string;
  readonly childSessionId?: string;
  readonly parentTaskId?: string;
  readonly label?: string;
  readonly cancelPolicy: CancelPolicy;
  readonly closePolicy: ClosePolicy;
  readonly maxAttempts?: number;
  readonly idempotencyKey?: string;
  readonly durable?: TaskDurability;
  readonly state: TaskState;
  /** 1 at first; one more each time recovery runs it again. */
  readonly attempt: number;
  readonly progress?: Json;
  readonly result?: Json;
  readonly failure?: TaskFailure;
  readonly cancelReason?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly completedAt?: number;
}

/** How a task ended, as whoever runs it reports. `result` belongs to completed tasks, `failure` to failed ones. */
export interface TaskCompletion {
  readonly state: TaskState;
  readonly result?: Json;
  readonly failure?: TaskFailure;
}

export interface TaskContext {
  /** Aborted when the task is to end. A durable task that stops because of it is not done. */
  readonly signal: AbortSignal;
  /** The record as the attempt began: its input, its attempt, and the last progress of the attempt before. */
  readonly record: TaskRecord;
  /** Replaces the progress of the task. Throws `invalid_json`; says nothing once the task has ended. */
  progress(value: unknown): void;
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
