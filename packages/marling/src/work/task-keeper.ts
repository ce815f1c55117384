// Where tasks change: every change of a record goes through here, is told, and, for durable tasks, is stored.

import type { Clock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import {
  isTerminal,
  type TaskCompletion,
  type TaskRecord,
  type TaskRun,
  type TaskState,
  type TerminalTaskState,
} from "./task.ts";
import { TaskEvents } from "./task-events.ts";
import { changedRecord, endedRecord, failureOf } from "./task-record.ts";
import { TaskSteps } from "./task-steps.ts";
import { type HeldTask, TaskTable } from "./task-table.ts";
import { TaskWork, type WorkOutcome, waitAtMost } from "./task-work.ts";

/** Something that went wrong where nobody waits for it. */
export interface TaskFault {
  readonly kind: "listener_failed" | "record_not_stored" | "cancel_failed" | "hidden_task_failed";
  readonly sessionId: string;
  /** The id of a task, the label of a hidden one. */
  readonly task: string;
  readonly error: unknown;
}

export interface TaskKeeperOptions {
  readonly clock: Clock;
  readonly tenant?: string | undefined;
  /**
   * Told that `exportDurable` of a session has changed. A promise is waited for before a durable task counts as
   * registered and before its work begins, so that nothing runs that a restart would not know of; whoever writes the
   * change later, with a commit, returns nothing.
   */
  onDurableChange?(sessionId: string): void | Promise<void>;
  onFault?(fault: TaskFault): void;
  /** Whether work threw because the runtime closes. Such a task has not ended: it stays as it is. */
  isInterrupted?(thrown: unknown): boolean;
  /** How long work that was asked to end is waited for. Default: 1 000. */
  readonly graceMs?: number;
  /** How many ended tasks of a session are kept. Default: 256. */
  readonly endedLimit?: number;
}

/** A task that recovery changed, with its work when that is to begin again. */
export interface RestoredTask {
  readonly task: HeldTask;
  readonly run: TaskRun | undefined;
}

const GRACE_MS = 1_000;
const ENDED_LIMIT = 256;

export class TaskKeeper {
  readonly table: TaskTable = new TaskTable();
  readonly events: TaskEvents;
  readonly graceMs: number;
  readonly #options: TaskKeeperOptions;
  readonly #endedLimit: number;
  /** All work in flight, of tasks that are no longer listed too. */
  readonly #works = new Set<TaskWork>();
  #phase: "open" | "closing" | "closed" = "open";

  constructor(options: TaskKeeperOptions) {
    this.#options = options;
    this.graceMs = options.graceMs ?? GRACE_MS;
    this.#endedLimit = options.endedLimit ?? ENDED_LIMIT;
    this.events = new TaskEvents(({ task }, error) => this.fault("listener_failed", task, error));
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  add(record: TaskRecord, options: { readonly isManaged: boolean }): HeldTask {
    this.refuseWhenClosed(record.sessionId);
    const task = this.table.add(record, options);
    this.events.publish({ kind: "registered", task: record });
    return task;
  }

  /** Lists a task that was stored, with what recovery made of it. */
  restore(before: TaskRecord, record: TaskRecord): HeldTask {
    const task = this.table.add(record, { isManaged: record.durable?.recovery === "rerun" });
    if (isTerminal(record.state) && !isTerminal(before.state))
      this.events.publish({ kind: record.state, task: record });
    else if (record !== before)
      this.events.publish({ kind: "state_changed", task: record, previous: before.state });
    return task;
  }

  /** Stores what recovery changed, and then begins what is to run again. What was not stored stays `pending`. */
  storeRestored(sessionId: string, tasks: readonly RestoredTask[]): void {
    const begin = (): void => {
      for (const { task, run } of tasks) if (run !== undefined) this.begin(task, run);
    };
    const report = (error: unknown): void => {
      for (const { task } of tasks) this.fault("record_not_stored", task.record, error);
    };
    this.#store(sessionId).then(begin, report);
  }

  refuseWhenClosed(sessionId: string): void {
    if (this.#phase === "open") return;
    throw new MarlingError(
      "runtime_closed",
      `session ${sessionId}: expected an open runtime to keep a task, found one that was closed`,
    );
  }

  isLive(task: HeldTask): boolean {
    return this.#phase !== "closed" && !isTerminal(task.record.state) && this.table.holds(task);
  }

  /** A durable task that cannot be stored is `failed`, and whoever brought it is told. */
  async storeFirst(task: HeldTask): Promise<void> {
    if (task.record.durable === undefined) return;
    try {
      await this.#store(task.record.sessionId);
    } catch (error) {
      this.end(task, { state: "failed", failure: failureOf(error) });
      throw error;
    }
  }

  /** Begins the work of a task that is still to be run. */
  begin(task: HeldTask, run: TaskRun): void {
    if (this.#phase !== "open" || !this.isLive(task)) return;
    if (task.record.state === "pending") this.setState(task, "running");
    const work = new TaskWork();
    task.work = work;
    this.#works.add(work);
    const { record } = task;
    const progress = (value: unknown): void => this.setProgress(task, value);
    const steps = new TaskSteps(task, {
      tenant: this.#options.tenant,
      signal: work.signal,
      isLive: () => this.#phase === "open" && this.isLive(task),
      store: (key, outcome) => this.#storeStep(task, key, outcome),
    });
    work.begin(
      (signal) => run(Object.freeze({ signal, record, progress, step: steps.step })),
      (outcome) => this.#workEnded(task, work, outcome),
    );
  }

  setState(task: HeldTask, state: TaskState): void {
    const previous = task.record.state;
    task.record = changedRecord(task.record, { state }, this.clock.now());
    this.events.publish({ kind: "state_changed", task: task.record, previous });
    this.changed(task.record);
  }

  setProgress(task: HeldTask, value: unknown): void {
    const progress = decodeJson(value, `task ${task.record.id}: progress`);
    if (!this.isLive(task)) return;
    task.record = changedRecord(task.record, { progress }, this.clock.now());
    this.events.publish({ kind: "progress", task: task.record });
    this.changed(task.record);
  }

  async #storeStep(task: HeldTask, key: string, outcome: Json): Promise<void> {
    const put = (steps: NonNullable<TaskRecord["steps"]>): void => {
      task.record = changedRecord(task.record, { steps }, this.clock.now());
    };
    put({ ...task.record.steps, [key]: outcome });
    if (task.record.durable === undefined) return;
    try {
      await this.#store(task.record.sessionId);
    } catch (thrown) {
      const { [key]: _, ...stored } = task.record.steps ?? {};
      put(stored);
      throw thrown;
    }
  }

  requestCancel(task: HeldTask, reason: string | undefined): void {
    if (task.record.state === "cancel_requested") return;
    const told = reason === undefined ? {} : { reason };
    const change = {
      state: "cancel_requested",
      ...(reason === undefined ? {} : { cancelReason: reason }),
    } as const;
    task.record = changedRecord(task.record, change, this.clock.now());
    this.events.publish({ kind: "cancel_requested", task: task.record, ...told });
    this.changed(task.record);
  }

  /** Ends a live task; another stays as it is. */
  end(task: HeldTask, completion: TaskCompletion & { readonly state: TerminalTaskState }): void {
    if (!this.isLive(task)) return;
    const record = endedRecord(task.record, completion, this.clock.now());
    this.table.end(task, record, this.#endedLimit);
    task.cancel = undefined;
    task.settled?.resolve(record);
    this.events.publish({ kind: completion.state, task: record });
    this.changed(record);
  }

  /** Has the change of a task stored when it is durable. What fails is written with the next change. */
  changed(record: TaskRecord): void {
    if (record.durable === undefined || this.#phase === "closed") return;
    this.#store(record.sessionId).catch((error: unknown) => this.fault("record_not_stored", record, error));
  }

  fault(kind: TaskFault["kind"], { sessionId, id }: TaskRecord, error: unknown): void {
    this.#options.onFault?.({ kind, sessionId, task: id, error });
  }

  /** Unlists the durable tasks of a session and waits within the grace time for their work, which is asked to end. */
  async interrupt(sessionId: string, stop: (task: HeldTask) => Promise<void>): Promise<void> {
    const durable = this.table.of(sessionId).filter(({ record }) => record.durable !== undefined);
    const live = durable.filter((task) => this.isLive(task));
    for (const task of durable) this.table.remove(task);
    const stops = live.map(stop);
    for (const { work } of live) work?.abort(`session ${sessionId} goes on elsewhere`);
    for (const { settled, record } of live) settled?.reject(endedElsewhere(record, "session_closed"));
    const works = live.flatMap(({ work }) => work?.ended ?? []);
    await waitAtMost(this.graceMs, { clock: this.clock, work: [...stops, ...works] });
  }

  /** Nothing begins any more, and the end of work does not count, before the work is asked to end. */
  beginClosing(): void {
    if (this.#phase === "open") this.#phase = "closing";
  }

  /**
   * Asks all work to end and waits for it within the time. Live tasks are `cancelled`; durable ones stay as they are,
   * as a crash would leave them. `stop` stops what runs elsewhere, and does not reject.
   */
  async close(graceMs: number, stop: (task: HeldTask) => Promise<void>): Promise<void> {
    this.#phase = "closing";
    const live = this.table.all().filter((task) => this.isLive(task));
    const stops = live.map(stop);
    for (const task of live) if (task.record.durable === undefined) this.end(task, { state: "cancelled" });
    for (const work of this.#works) work.abort("the runtime was closed");
    const works = [...this.#works].map(({ ended }) => ended);
    await waitAtMost(graceMs, { clock: this.clock, work: [...stops, ...works] });
    this.#phase = "closed";
    this.#works.clear();
    for (const { settled, record } of live) settled?.reject(endedElsewhere(record, "runtime_closed"));
    this.events.close();
  }

  /** Work that a closing runtime interrupted has not done what it was to do, whatever it says. */
  #workEnded(task: HeldTask, work: TaskWork, outcome: WorkOutcome): void {
    this.#works.delete(work);
    if (this.#phase !== "open" || !this.isLive(task)) return;
    if (outcome.kind === "threw" && this.#options.isInterrupted?.(outcome.thrown) === true) return;
    if (task.record.state === "cancel_requested") this.end(task, { state: "cancelled" });
    else this.end(task, completionOf(task.record, outcome));
  }

  async #store(sessionId: string): Promise<void> {
    await this.#options.onDurableChange?.(sessionId);
  }
}

function completionOf(
  record: TaskRecord,
  outcome: WorkOutcome,
): TaskCompletion & { readonly state: TerminalTaskState } {
  if (outcome.kind === "threw") return { state: "failed", failure: failureOf(outcome.thrown) };
  if (outcome.value === undefined) return { state: "completed" };
  try {
    const result: Json = decodeJson(outcome.value, `task ${record.id}: result`);
    return { state: "completed", result };
  } catch (thrown) {
    return { state: "failed", failure: failureOf(thrown) };
  }
}

/** For whoever waits for the end of a task that is not going to end here. */
function endedElsewhere(
  { id, sessionId }: TaskRecord,
  code: "runtime_closed" | "session_closed",
): MarlingError {
  return new MarlingError(
    code,
    `task ${id} of session ${sessionId}: expected it to end here, found that it was interrupted to go on later`,
  );
}
