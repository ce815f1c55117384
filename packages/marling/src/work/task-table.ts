// The tasks of all sessions of one runtime, by session and id. Holds them; decides nothing.
//   TT1  the live tasks of a session have different ids; an ended one gives way to a new one of its id.
//   TT2  tasks are listed oldest first, those of one moment in the order they came.
//   TT3  of the ended tasks of a session only the newest are kept, so that a long life has a bounded memory.

import type { Deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { isTerminal, type TaskCancel, type TaskRecord } from "./task.ts";
import type { TaskWork } from "./task-work.ts";

/** A task with what belongs to it in this process. */
export interface HeldTask {
  record: TaskRecord;
  /** The session it was registered with; a transfer does not change it. */
  readonly homeSessionId: string;
  /** Whether its work is to run here. */
  readonly isManaged: boolean;
  work: TaskWork | undefined;
  /** Absent once it was called. */
  cancel: TaskCancel | undefined;
  cancelling: Promise<TaskRecord> | undefined;
  settled: Deferred<TaskRecord> | undefined;
  /** Its place among those that ended. */
  endedAs: number;
}

export class TaskTable {
  readonly #sessions = new Map<string, Map<string, HeldTask>>();
  #ended = 0;

  find(sessionId: string, taskId: string): HeldTask | undefined {
    return this.#sessions.get(sessionId)?.get(taskId);
  }

  /** Whether this very task is listed: not removed, not replaced. */
  holds(task: HeldTask): boolean {
    return this.find(task.record.sessionId, task.record.id) === task;
  }

  add(record: TaskRecord, { isManaged }: { readonly isManaged: boolean }): HeldTask {
    this.refuseDuplicate(record.sessionId, record.id);
    const task: HeldTask = {
      record,
      homeSessionId: record.sessionId,
      isManaged,
      work: undefined,
      cancel: undefined,
      cancelling: undefined,
      settled: undefined,
      endedAs: 0,
    };
    this.#put(task);
    if (isTerminal(record.state)) this.#countEnd(task);
    return task;
  }

  refuseDuplicate(sessionId: string, taskId: string): void {
    const other = this.find(sessionId, taskId);
    if (other === undefined || isTerminal(other.record.state)) return;
    throw duplicateTask(other.record);
  }

  remove({ record }: HeldTask): void {
    const tasks = this.#sessions.get(record.sessionId);
    tasks?.delete(record.id);
    if (tasks?.size === 0) this.#sessions.delete(record.sessionId);
  }

  /** Lists a task under the session of its new record. */
  move(task: HeldTask, record: TaskRecord): void {
    this.remove(task);
    task.record = record;
    this.#put(task);
  }

  of(sessionId: string): readonly HeldTask[] {
    return sorted([...(this.#sessions.get(sessionId)?.values() ?? [])]);
  }

  all(): readonly HeldTask[] {
    return sorted([...this.#sessions.values()].flatMap((tasks) => [...tasks.values()]));
  }

  /** Gives an ended task its last record and forgets what ended before the newest so many. */
  end(task: HeldTask, record: TaskRecord, limit: number): void {
    task.record = record;
    this.#countEnd(task);
    const ended = this.of(record.sessionId).filter(({ record: { state } }) => isTerminal(state));
    if (ended.length <= limit) return;
    const oldestEnd = [...ended].sort((a, b) => a.endedAs - b.endedAs);
    for (const old of oldestEnd.slice(0, ended.length - limit)) this.remove(old);
  }

  /** Forgets the ended tasks of a session; durable ones stay while another lives, since they are stored as a whole. */
  dropEnded(sessionId: string): void {
    const tasks = this.of(sessionId);
    const hasLive = tasks.some(({ record }) => !isTerminal(record.state));
    const dropped = tasks.filter(({ record }) => isTerminal(record.state) && !(hasLive && record.durable));
    for (const task of dropped) this.remove(task);
  }

  #countEnd(task: HeldTask): void {
    this.#ended += 1;
    task.endedAs = this.#ended;
  }

  #put(task: HeldTask): void {
    const { sessionId, id } = task.record;
    const tasks = this.#sessions.get(sessionId) ?? new Map<string, HeldTask>();
    this.#sessions.set(sessionId, tasks);
    tasks.delete(id);
    tasks.set(id, task);
  }
}

/** For a second task of the id of a live one. */
export function duplicateTask({ sessionId, id, producer, state }: TaskRecord): MarlingError {
  return new MarlingError(
    "duplicate_task",
    `task ${id} of session ${sessionId}: expected an id that no live task of the session has, found one of ${producer} that is ${state}`,
    { details: { sessionId, taskId: id, producer } },
  );
}

/** The sort is stable, and maps keep the order of insertion. */
function sorted(tasks: readonly HeldTask[]): HeldTask[] {
  return [...tasks].sort((a, b) => a.record.createdAt - b.record.createdAt);
}
