// Background tasks as data: what one is asked for with, and what is known of it.

import type { Json } from "./json.ts";

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
  /** What its steps came to, by key, while it lives. */
  readonly steps?: Readonly<Record<string, Json>>;
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
