// What plugins may ask for beside turns: tasks, and commands that watch something.

import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { MessageInput } from "../model/message.ts";
import type { MonitorDeclaration, MonitorSnapshot, MonitorUpdateBatch } from "../work/monitor.ts";
import type {
  TaskCancel,
  TaskCompletion,
  TaskContext,
  TaskRecord,
  TaskSpec,
  TaskState,
} from "../work/task.ts";
import type { SubscribeOptions, TriggerPage, TriggerSubscription } from "../work/trigger.ts";

/** A message for the turn that runs, or for the next one. */
export interface InjectedInput {
  /** The same id is the same message. */
  readonly id?: string;
  readonly message: MessageInput;
}

/** What the work of a task is given. */
export interface ProcessContext extends TaskContext {
  /** Messages for the task, while it runs here. */
  readonly signals: AsyncIterable<Json>;
}

/** The work of a task. What it returns is the result and must be JSON, or nothing. */
export type ProcessRun = (context: ProcessContext) => unknown;

export interface TaskHost {
  /** Reaches the session at its next checkpoint; when it is idle, as a turn. */
  injectTurnInput(sessionId: string, input: InjectedInput): Promise<void>;
  /** Starts work that nobody lists or cancels, and that `awaitHiddenTasks` waits for. */
  spawnHiddenTask(
    sessionId: string,
    label: string,
    task: (context: { readonly signal: AbortSignal }) => unknown,
  ): Promise<void>;
  /** Waits for all hidden tasks, those that they start included; the first failure is thrown. */
  awaitHiddenTasks(sessionId: string): Promise<void>;
  /**
   * Runs a task. One that a restart is to run again is run by what its producer, a plugin, has as `background` for its
   * label, now and then. An effect that runs again finds the durable task that it started.
   */
  spawnManagedTask(sessionId: string, spec: TaskSpec, task?: ProcessRun): Promise<void>;
  cancelManagedTask(sessionId: string, taskId: string): Promise<void>;
  /** Lists a task that runs elsewhere. */
  registerBackgroundTask(sessionId: string, spec: TaskSpec, cancel?: TaskCancel): Promise<void>;
  unregisterBackgroundTask(sessionId: string, taskId: string): Promise<void>;
  completeBackgroundTask(
    sessionId: string,
    taskId: string,
    completion: TaskCompletion | TaskState,
  ): Promise<void>;
  transitionBackgroundTaskLiveState(sessionId: string, taskId: string, state: TaskState): Promise<void>;
  listBackgroundTasks(sessionId: string): Promise<readonly TaskRecord[]>;
  cancelBackgroundTask(sessionId: string, taskId: string): Promise<TaskRecord>;
  cancelAllBackgroundTasks(sessionId: string): Promise<readonly TaskRecord[]>;
  validateAsyncHandlesVisible(sessionId: string, ids: readonly string[]): Promise<void>;
  transferAsyncHandles(from: string, to: string, ids: readonly string[]): Promise<void>;
  cancelUnreferencedAsyncHandles(sessionId: string, keep: readonly string[]): Promise<readonly TaskRecord[]>;
}

export interface MonitorHost {
  /** Also starts monitors that are armed. */
  monitorSnapshot(sessionId: string): Promise<MonitorSnapshot>;
  takeMonitorUpdates(sessionId: string): Promise<MonitorUpdateBatch>;
  startMonitor(sessionId: string, spec: MonitorDeclaration | string): Promise<MonitorSnapshot>;
  stopMonitor(sessionId: string, monitorId: string): Promise<MonitorSnapshot>;
}

/** Triggers of a session and of those below it; what occurs is for the host to say. */
export interface TriggerHost {
  /** As `runtime.triggers.subscribe`. An effect that runs again finds the subscription that it made. */
  subscribeTrigger(sessionId: string, options: SubscribeOptions): Promise<TriggerSubscription>;
  /** Says whether the session had it. */
  unsubscribeTrigger(sessionId: string, subscriptionId: string): Promise<boolean>;
  listTriggers(
    sessionId: string,
    page?: { readonly limit?: number; readonly cursor?: string },
  ): Promise<TriggerPage>;
}

/** The tasks of a session as processes: what queries may see of them. */
export interface ProcessReadService {
  list(sessionId: string): Promise<readonly TaskRecord[]>;
  get(sessionId: string, processId: string): Promise<TaskRecord | undefined>;
}

/** What commands, tasks, the call before a model call and code may do with them. */
export interface ProcessService extends ProcessReadService {
  /** What its processes are children of: the operation or effect that has the service. */
  readonly parentInvocation: string;
  start(sessionId: string, spec: TaskSpec, run?: ProcessRun): Promise<TaskRecord>;
  await(sessionId: string, processId: string): Promise<TaskRecord>;
  /** A message for the work, which reads them from `signals` of its context. */
  signal(sessionId: string, processId: string, message: unknown): Promise<void>;
  cancel(sessionId: string, processId: string): Promise<TaskRecord>;
}

const READS = ["list", "get"] as const;
const ALL = [...READS, "start", "await", "signal", "cancel"] as const;

/** What queries get of the tasks; a method that a host does not offer rejects. */
export function processReadView(given: Partial<ProcessReadService>): ProcessReadService {
  return Object.freeze(
    Object.fromEntries(READS.map((name) => [name, given[name] ?? unavailable(name)])),
  ) as never;
}

/** As `processReadView`, for those who may do something with them. */
export function processView(given: Partial<ProcessService>): ProcessService {
  const methods = ALL.map((name) => [name, given[name] ?? unavailable(name)] as const);
  return Object.freeze({
    ...Object.fromEntries(methods),
    parentInvocation: given.parentInvocation ?? "",
  }) as never;
}

function unavailable(name: string): () => Promise<never> {
  return async () => {
    const message = `host service processes.${name}: expected a host that offers it, found one that does not`;
    throw new MarlingError("host_service_unavailable", message, {
      details: { service: `processes.${name}` },
    });
  };
}
