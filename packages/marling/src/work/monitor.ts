// What a monitor is, as plain JSON: a shell command that a session watches, and what came of it.

/** `failed` covers an exit status other than 0, a signal, a timeout, and a command that could not be started. */
export type MonitorState = "idle" | "running" | "stopped" | "exited" | "failed";

/** Whether a line of stdout only notifies, or also queues a turn. */
export type MonitorWakePolicy = "notify" | "queue_turn";

/** Whether a monitor is started by hand, or with the session that declares it. */
export type MonitorArmOn = "manual" | "session_start";

export const DEFAULT_MONITOR_TIMEOUT_MS = 300_000;
export const LONGEST_MONITOR_TIMEOUT_MS = 3_600_000;

/** What one writes to have a monitor: the id and the command; the rest has defaults. */
export interface MonitorDeclaration {
  readonly id: string;
  /** Given to a login shell. */
  readonly command: string;
  /** Relative to the working directory of the session. */
  readonly cwd?: string;
  /** Added to the environment. It is stored with the session: no place for secrets. */
  readonly env?: Readonly<Record<string, string>>;
  /** A persistent monitor has no time limit. Default `false`. */
  readonly persistent?: boolean;
  /** How long one that is not persistent may run. Default 300,000; more than 3,600,000 is 3,600,000. */
  readonly timeoutMs?: number;
  /** Default `manual`. */
  readonly armOn?: MonitorArmOn;
  /** Default `queue_turn`. */
  readonly wakePolicy?: MonitorWakePolicy;
  /** Whether it runs again after the process that ran it is gone. Default `false`. */
  readonly restartOnRestore?: boolean;
}

/** A declaration with its defaults filled in, under the id that everybody sees. */
export type MonitorSpec = {
  readonly id: string;
  readonly command: string;
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly persistent: boolean;
  readonly timeoutMs: number;
  readonly armOn: MonitorArmOn;
  readonly wakePolicy: MonitorWakePolicy;
  readonly restartOnRestore: boolean;
};

export type MonitorStatus = {
  readonly spec: MonitorSpec;
  /** Whether it is to run: an armed monitor that does not run is started with the next look at the monitors. */
  readonly armed: boolean;
  readonly state: MonitorState;
  /** The newest line. */
  readonly lastEvent?: string;
  /** Why the newest start failed. */
  readonly lastError?: string;
  /** Absent while it runs, and when a signal ended it. */
  readonly lastExitStatus?: number;
  /** Lines so far, over all starts. */
  readonly eventCount: number;
};

/** All monitors of a session, by id. */
export type MonitorSnapshot = {
  readonly revision: number;
  readonly activeCount: number;
  readonly monitors: readonly MonitorStatus[];
};

/** One line, or the end of a monitor. */
export type MonitorEvent = {
  /** Strictly increases within a session. */
  readonly sequence: number;
  readonly monitorId: string;
  readonly message: string;
  /** What the queued turn is told, if this line woke the session. It was queued already: this is for the record. */
  readonly queueTurnInput?: string;
};

/** The newest events since the last batch, oldest first. */
export type MonitorUpdateBatch = {
  readonly revision: number;
  readonly activeCount: number;
  readonly events: readonly MonitorEvent[];
};

/** A line that is to reach the model, in a turn that is not a message of the user. */
export interface MonitorWake {
  readonly monitorId: string;
  readonly text: string;
  /** The sequence of its event. */
  readonly sequence: number;
}
