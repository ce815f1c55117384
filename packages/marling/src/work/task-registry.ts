// Background work of all sessions of one runtime: tasks that it runs (managed), tasks that others run (registered),
// and those of both that survive a restart (durable). The rules are WT1... in SPEC.md.

import { deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { JsonObject } from "../model/json.ts";
import { type CancelByKind, type CancelOptions, callBack, cancelTask } from "./cancel-task.ts";
import { decodeDurableTasks, encodeDurableTasks, recoverTask } from "./durable-tasks.ts";
import {
  isTerminal,
  matchesTask,
  type TaskCancel,
  type TaskCompletion,
  type TaskEvent,
  type TaskFilter,
  type TaskRecord,
  type TaskRun,
  type TaskSpec,
  type TaskState,
} from "./task.ts";
import type { TaskListener, WatchOptions } from "./task-events.ts";
import { TaskKeeper, type TaskKeeperOptions } from "./task-keeper.ts";
import { changedRecord, newRecord } from "./task-record.ts";
import type { HeldTask } from "./task-table.ts";

export interface TaskRegistryOptions extends TaskKeeperOptions, CancelByKind {}

export interface RegisterOptions {
  /** Stops the work; called at most once, when the task is cancelled. */
  readonly cancel?: TaskCancel;
  /** Default: `running`. */
  readonly state?: "pending" | "running";
}

export interface CloseSessionOptions {
  /** Who gets the tasks that are to be transferred; without it they are cancelled. */
  readonly parentSessionId?: string;
}

/** The work of a task that is to run again; nothing when nobody here can run it. */
export type TaskRunners = (task: TaskRecord) => TaskRun | undefined;

export class TaskRegistry implements AsyncDisposable {
  readonly #byKind: CancelByKind;
  readonly #keeper: TaskKeeper;
  #closed: Promise<void> | undefined;

  constructor(options: TaskRegistryOptions) {
    this.#byKind = options;
    this.#keeper = new TaskKeeper(options);
  }

  /**
   * Runs a task, at once; a durable one when it is stored. Rejects with `duplicate_task` when a live task of the
   * session has its id. What the work throws makes the task `failed` and is not thrown here.
   */
  async spawnManaged(sessionId: string, spec: TaskSpec, run: TaskRun): Promise<TaskRecord> {
    const record = newRecord(spec, { sessionId, now: this.#keeper.clock.now() });
    const task = this.#keeper.add(record, { isManaged: true });
    if (record.durable !== undefined) await this.#keeper.storeFirst(task);
    this.#keeper.begin(task, run);
    return task.record;
  }

  /** Lists a durable task that another runtime asked for; `beginRequested` begins it. Throws `duplicate_task`. */
  listRequested(record: TaskRecord): void {
    this.#keeper.add(record, { isManaged: true });
  }

  /** Begins a task that `listRequested` listed and that is stored now; says nothing for another. */
  beginRequested(sessionId: string, taskId: string, run: TaskRun): void {
    const task = this.#live(sessionId, taskId);
    if (task?.record.state === "pending" && task.work === undefined) this.#keeper.begin(task, run);
  }

  /** Lists a task that others run. Rejects with `duplicate_task` as `spawnManaged` does. */
  async register(sessionId: string, spec: TaskSpec, options: RegisterOptions = {}): Promise<TaskRecord> {
    const { cancel, state = "running" } = options;
    const record = newRecord(spec, { sessionId, state, now: this.#keeper.clock.now() });
    const task = this.#keeper.add(record, { isManaged: false });
    task.cancel = cancel;
    await this.#keeper.storeFirst(task);
    return task.record;
  }

  /** Gives a live task that others run, and that a restart found, a cancel callback again; nothing when there is none. */
  adopt(sessionId: string, taskId: string, cancel: TaskCancel): TaskRecord | undefined {
    const task = this.#live(sessionId, taskId);
    if (task === undefined || task.isManaged) return undefined;
    task.cancel = cancel;
    return task.record;
  }

  /** Forgets a task, silently. Its work goes on, and is ended with the runtime. */
  unregister(sessionId: string, taskId: string): void {
    const task = this.#keeper.table.find(sessionId, taskId);
    if (task === undefined) return;
    this.#keeper.table.remove(task);
    task.settled?.reject(unknownTask(sessionId, taskId));
    this.#keeper.changed(task.record);
  }

  /** Ends a live task as told; does not stop its work. Says nothing for an ended or unknown task, or a live state. */
  complete(sessionId: string, taskId: string, completion: TaskCompletion): void {
    const task = this.#live(sessionId, taskId);
    const { state } = completion;
    if (task !== undefined && isTerminal(state)) this.#keeper.end(task, { ...completion, state });
  }

  /** Moves a live task between `running` and `waiting`, or a registered one out of `pending`; else says nothing. */
  transition(sessionId: string, taskId: string, state: TaskState): void {
    const task = this.#live(sessionId, taskId);
    if (task === undefined || (state !== "running" && state !== "waiting")) return;
    const previous = task.record.state;
    if (previous === state || previous === "cancel_requested") return;
    if (previous === "pending" && task.isManaged) return;
    this.#keeper.setState(task, state);
  }

  /** Replaces the progress of a live task; says nothing for another. */
  progress(sessionId: string, taskId: string, value: unknown): void {
    const task = this.#live(sessionId, taskId);
    if (task !== undefined) this.#keeper.setProgress(task, value);
  }

  get(sessionId: string, taskId: string): TaskRecord | undefined {
    return this.#keeper.table.find(sessionId, taskId)?.record;
  }

  /** The tasks of a session, oldest first, ended ones included. */
  list(sessionId: string, filter: Omit<TaskFilter, "sessionId"> = {}): readonly TaskRecord[] {
    return recordsOf(this.#keeper.table.of(sessionId), filter);
  }

  /** The tasks of all sessions, oldest first, ended ones included. */
  listAll(filter: TaskFilter = {}): readonly TaskRecord[] {
    return recordsOf(this.#keeper.table.all(), filter);
  }

  /** Resolves with the record of a task that has ended. Rejects with `unknown_task`, also when it is forgotten. */
  async settled(sessionId: string, taskId: string): Promise<TaskRecord> {
    const task = this.#known(sessionId, taskId);
    if (isTerminal(task.record.state)) return task.record;
    task.settled ??= deferred();
    return task.settled.promise;
  }

  /** Tells a listener of every event from now on, in order. The returned function ends it. */
  subscribe(listener: TaskListener, filter: TaskFilter = {}): () => void {
    return this.#keeper.events.subscribe(listener, filter);
  }

  /** The events from the moment reading begins, to the end of the registry or of the signal; a slow reader skips. */
  watch(filter: TaskFilter = {}, options: WatchOptions = {}): AsyncIterable<TaskEvent> {
    return this.#keeper.events.watch(filter, options);
  }

  /** Signals the work of a task, calls its callback and ends it as `cancelled`, at once. An unknown task is fine. */
  async cancelManaged(sessionId: string, taskId: string): Promise<void> {
    const task = this.#keeper.table.find(sessionId, taskId);
    task?.work?.abort(`task ${taskId} was cancelled`);
    if (task === undefined || !this.#keeper.isLive(task)) return;
    try {
      await callBack(task);
    } finally {
      this.#keeper.end(task, { state: "cancelled" });
    }
  }

  /**
   * Cancels a task as its kind and its cancel policy ask for, and returns what it is then. An ended task is returned
   * as it is; calls at one time share one cancelling. Rejects with `unknown_task`, and with `task_cancel_failed` when
   * whoever was to stop it failed: the task stays `cancel_requested`, and can be cancelled again.
   */
  async cancel(sessionId: string, taskId: string, options: CancelOptions = {}): Promise<TaskRecord> {
    const task = this.#known(sessionId, taskId);
    if (!this.#keeper.isLive(task)) return task.record;
    task.cancelling ??= this.#cancel(task, options);
    return task.cancelling;
  }

  /** Cancels the live tasks of a session one after the other, oldest first. The first error rejects. */
  async cancelAll(sessionId: string, options: CancelOptions = {}): Promise<readonly TaskRecord[]> {
    return this.cancelEach(this.list(sessionId, { includeTerminal: false }), options);
  }

  /** As `cancelAll`, for these; one that was forgotten meanwhile is left out. */
  async cancelEach(
    tasks: readonly TaskRecord[],
    options: CancelOptions = {},
  ): Promise<readonly TaskRecord[]> {
    const cancelled: TaskRecord[] = [];
    for (const { sessionId, id } of tasks) {
      if (this.get(sessionId, id) !== undefined) cancelled.push(await this.cancel(sessionId, id, options));
    }
    return cancelled;
  }

  /**
   * Moves tasks to another session, as they are; their work goes on. Ids that the session does not have are skipped.
   * Throws `duplicate_task`, before anything is moved, when the other session has a live task of one of the ids.
   */
  transfer(fromSessionId: string, toSessionId: string, taskIds: readonly string[]): readonly TaskRecord[] {
    if (fromSessionId === toSessionId) return [];
    this.#keeper.refuseWhenClosed(toSessionId);
    const { table } = this.#keeper;
    const tasks = [...new Set(taskIds)].flatMap((id) => table.find(fromSessionId, id) ?? []);
    for (const { record } of tasks) table.refuseDuplicate(toSessionId, record.id);
    for (const task of tasks) this.#move(task, { fromSessionId, toSessionId });
    return tasks.map(({ record }) => record);
  }

  /**
   * Does with the live tasks of a session what their close policies say; all at one time. When everything else is done
   * the first failure to cancel one rejects.
   */
  async closeSession(sessionId: string, options: CloseSessionOptions = {}): Promise<void> {
    const live = this.list(sessionId, { includeTerminal: false });
    const closed = await Promise.allSettled(live.map((task) => this.#closeTask(task, options)));
    const failed = closed.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /**
   * Forgets the ended tasks of a session that is closed or deleted, silently, once what is durable of it was written.
   * Durable ones stay while another task of the session lives, since they are stored together.
   */
  forgetEnded(sessionId: string): void {
    this.#keeper.table.dropEnded(sessionId);
  }

  /** The durable tasks of a session as one value to store; nothing when there are none. */
  exportDurable(sessionId: string): JsonObject | undefined {
    return encodeDurableTasks(this.list(sessionId));
  }

  /**
   * Lists the durable tasks of a session that is opened, and has them recovered as each allows; tasks that are listed
   * already are left as they are (WT26). Returns the records; what is to run again does so when it is stored. Throws
   * `unsupported_version` or `invalid_snapshot`, and then nothing is listed.
   */
  restoreDurable(sessionId: string, component: unknown, runners: TaskRunners): readonly TaskRecord[] {
    this.#keeper.refuseWhenClosed(sessionId);
    const stored = decodeDurableTasks(component, sessionId);
    const missing = stored.filter((task) => isMissing(task, this.get(sessionId, task.id)));
    const now = this.#keeper.clock.now();
    const plans = missing.map((before) => {
      const run = wantsRun(before) ? runners(before) : undefined;
      return { before, run, ...recoverTask(before, { now, isRunnable: run !== undefined }) };
    });
    const changed = plans.flatMap(({ before, record, run, isRerun }) => {
      const task = this.#keeper.restore(before, record);
      return before === record ? [] : [{ task, run: isRerun ? run : undefined }];
    });
    if (changed.length > 0) this.#keeper.storeRestored(sessionId, changed);
    return plans.map(({ record }) => record);
  }

  /**
   * Interrupts the durable tasks of a session that goes on elsewhere or later: they are signalled, waited for within
   * the grace time and no longer listed here. Nothing of it is stored or told; whoever opens the session recovers them.
   */
  async interruptDurable(sessionId: string): Promise<void> {
    await this.#keeper.interrupt(sessionId, (task) => this.#stopAtClose(task));
  }

  /** The runtime closes: nothing begins any more, and the end of work does not count. `closeAll` follows. */
  beginClosing(): void {
    this.#keeper.beginClosing();
  }

  /**
   * Ends all work with the runtime: live tasks are signalled, called back and `cancelled`, and waited for within the
   * time. Durable tasks stay as they are, to be recovered. Nothing begins or is told afterwards. Never rejects.
   */
  closeAll({ graceMs = this.#keeper.graceMs }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#closed ??= this.#keeper.close(graceMs, (task) => this.#stopAtClose(task));
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.closeAll();
  }

  #live(sessionId: string, taskId: string): HeldTask | undefined {
    const task = this.#keeper.table.find(sessionId, taskId);
    return task !== undefined && this.#keeper.isLive(task) ? task : undefined;
  }

  #known(sessionId: string, taskId: string): HeldTask {
    const task = this.#keeper.table.find(sessionId, taskId);
    if (task === undefined) throw unknownTask(sessionId, taskId);
    return task;
  }

  async #cancel(task: HeldTask, { reason }: CancelOptions): Promise<TaskRecord> {
    try {
      const keeper = this.#keeper;
      const told = reason === undefined ? {} : { reason };
      return await cancelTask(task, { keeper, byKind: this.#byKind, ...told });
    } finally {
      task.cancelling = undefined;
    }
  }

  #move(task: HeldTask, { fromSessionId, toSessionId }: Transfer): void {
    const { clock, table, events } = this.#keeper;
    const before = task.record;
    table.move(task, changedRecord(before, { sessionId: toSessionId }, clock.now()));
    events.publish({ kind: "transferred", task: task.record, fromSessionId, toSessionId });
    // Where it goes first: a crash between the two leaves it in both, never in none.
    this.#keeper.changed(task.record);
    this.#keeper.changed(before);
  }

  async #closeTask({ id, sessionId, closePolicy }: TaskRecord, options: CloseSessionOptions): Promise<void> {
    switch (closePolicy) {
      case "keep":
        return;
      case "transfer":
        if (!this.#transferToParent(id, sessionId, options)) await this.#cancelAtClose(sessionId, id);
        return;
      case "cancel":
        await this.#cancelAtClose(sessionId, id);
        return;
      default:
        unreachable(closePolicy);
    }
  }

  #transferToParent(id: string, sessionId: string, { parentSessionId }: CloseSessionOptions): boolean {
    if (parentSessionId === undefined || this.#live(parentSessionId, id) !== undefined) return false;
    return this.transfer(sessionId, parentSessionId, [id]).length > 0;
  }

  async #cancelAtClose(sessionId: string, id: string): Promise<void> {
    await this.cancel(sessionId, id, { reason: "the session was closed" });
  }

  async #stopAtClose(task: HeldTask): Promise<void> {
    if (task.record.durable?.recovery === "external") return;
    try {
      await callBack(task);
    } catch (error) {
      this.#keeper.fault("cancel_failed", task.record, error);
    }
  }
}

interface Transfer {
  readonly fromSessionId: string;
  readonly toSessionId: string;
}

function recordsOf(tasks: readonly HeldTask[], filter: TaskFilter): readonly TaskRecord[] {
  return tasks.map(({ record }) => record).filter((record) => matchesTask(record, filter));
}

/** An ended task gives way to a later one of its id. */
function isMissing(stored: TaskRecord, listed: TaskRecord | undefined): boolean {
  if (listed === undefined) return true;
  const isSame = stored.createdAt === listed.createdAt && stored.idempotencyKey === listed.idempotencyKey;
  return isTerminal(listed.state) && listed.durable !== undefined && !isSame;
}

function wantsRun({ durable, state }: TaskRecord): boolean {
  return durable?.recovery === "rerun" && !isTerminal(state) && state !== "cancel_requested";
}

function unknownTask(sessionId: string, taskId: string): MarlingError {
  return new MarlingError(
    "unknown_task",
    `task ${taskId}: expected a task of session ${sessionId}, found none of this id`,
    { details: { sessionId, taskId } },
  );
}
