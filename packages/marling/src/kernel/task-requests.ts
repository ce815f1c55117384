// Requests: durable tasks that a runtime begins in a session whose work another runtime has.
//   TR1  requests are a component of their own, which a runtime that does not have the work may write. A request is added
//        on a revision at which no live task has its id and no task has its key.
//   TR2  the runtime that has the work lists the tasks of requests; one commit stores them and removes the requests. The
//        tasks begin behind that commit.
//   TR3  a request waits while a live task has its id.
//   TR4  requests name their session. Those of another session are none: a fork shares the components of its source.
//   TR5  requests that cannot be read stay as they are.
//   TR6  a version of marling without requests leaves them as they are: they wait for a runtime with them that claims the
//        work or opens the session. Recovery may not find them once the other one has stored that nothing is left.

import type { JsonObject } from "../model/json.ts";
import { decodeDurableTasks, encodeDurableTasks } from "../work/durable-tasks.ts";
import { isTerminal, type TaskRecord } from "../work/task.ts";
import type { TaskRunners } from "../work/task-registry.ts";
import { duplicateTask } from "../work/task-table.ts";
import type { ResidentSession } from "./resident-session.ts";

const VERSION = 1;

interface TakenRequest {
  readonly record: TaskRecord;
  /** False for a request whose task had begun before. */
  readonly isListed: boolean;
}

export class TaskRequests {
  readonly #session: ResidentSession;
  /** As the store has them. */
  #stored: JsonObject | undefined;
  /** Those that the next commit adds. */
  #added: readonly TaskRecord[] = [];
  /** Those that the next commit removes, because it stores their tasks. */
  readonly #taken = new Map<string, TakenRequest>();
  /** The newest revision that was found to have no request. */
  #lookedAt = 0;

  constructor(session: ResidentSession) {
    this.#session = session;
  }

  get isEmpty(): boolean {
    return isNone(this.#stored);
  }

  /** Whether tasks are listed here whose requests are still stored. */
  get hasTaken(): boolean {
    return this.#taken.size > 0;
  }

  /** What the store has of them now, read or committed. Tasks whose requests are gone are stored: they begin. */
  show(component: JsonObject | undefined, runners: TaskRunners): void {
    this.#stored = this.#own(component);
    if (this.#taken.size === 0 && this.#added.length === 0) return;
    const { id, parts } = this.#session;
    const left = new Set(this.#waiting().map(nameOf));
    this.#added = this.#added.filter((record) => !left.has(nameOf(record))); // Another commit has added it.
    for (const [name, { record, isListed }] of [...this.#taken]) {
      if (left.has(name)) continue;
      this.#taken.delete(name);
      const run = isListed ? runners(record) : undefined;
      if (run !== undefined) parts.work.tasks.beginRequested(id, record.id, run);
    }
  }

  /** The component for the next commit; nothing when it stays as it is. */
  export({ isTaking }: { readonly isTaking: boolean }): JsonObject | undefined {
    const isMoved = this.#added.length > 0 || (isTaking && this.hasTaken);
    if (!isMoved) return undefined;
    const isLeft = (record: TaskRecord): boolean => !isTaking || !this.#taken.has(nameOf(record));
    const left = [...this.#waiting().filter(isLeft), ...this.#added];
    return { version: VERSION, tasks: [], ...encodeDurableTasks(left), sessionId: this.#session.id };
  }

  /** Whether requests are stored behind a commit with this component. */
  isLeftBy(component: JsonObject | undefined): boolean {
    return !isNone(component ?? this.#stored);
  }

  /** The task that a request asks for, where it is known; else the next commit adds the request. */
  put(record: TaskRecord, stored: readonly TaskRecord[]): TaskRecord | undefined {
    this.drop(record);
    const { id, parts } = this.#session;
    const others = [...stored, ...parts.work.tasks.list(id), ...this.#waiting(), ...this.#added];
    const known = others.filter((other) => other.id === record.id);
    const same = known.find((other) => isSame(other, record));
    if (same !== undefined) return same;
    const live = known.find(({ state }) => !isTerminal(state));
    if (live !== undefined) throw duplicateTask(live);
    this.#added = [...this.#added, record];
    return undefined;
  }

  /** The commit of a request has ended, or is made again. */
  drop(record: TaskRecord): void {
    this.#added = this.#added.filter((other) => other !== record);
  }

  /** Lists the tasks of requests in the runtime that has the work. Says whether there were any. */
  take(): boolean {
    const { id, parts } = this.#session;
    const before = this.#taken.size;
    for (const record of this.#waiting()) {
      if (this.#taken.has(nameOf(record))) continue;
      const known = parts.work.tasks.get(id, record.id);
      const isListed = known === undefined || !isSame(known, record);
      if (isListed && known !== undefined && !isTerminal(known.state)) continue; // TR3
      if (isListed) parts.work.tasks.listRequested(record);
      this.#taken.set(nameOf(record), { record, isListed });
    }
    return this.#taken.size > before;
  }

  /** This runtime has lost or left the work: the requests are for the next one. */
  leave(): void {
    this.#taken.clear();
  }

  /** Whether the store has requests that this runtime has not seen. */
  async haveCome(): Promise<boolean> {
    const { id, parts, state } = this.#session;
    const revision = await parts.store.revision(id);
    if (revision <= Math.max(state.revision, this.#lookedAt)) return false;
    const stored = await parts.store.load(id, { isPartial: true });
    const hasCome = !isNone(this.#own(stored?.components.requests));
    if (!hasCome) this.#lookedAt = stored?.revision ?? revision;
    return hasCome;
  }

  #own(component: JsonObject | undefined): JsonObject | undefined {
    return component?.sessionId === this.#session.id ? component : undefined;
  }

  #waiting(): readonly TaskRecord[] {
    return this.#stored === undefined ? [] : decodeDurableTasks(this.#stored, this.#session.id);
  }
}

function isNone(component: JsonObject | undefined): boolean {
  return component === undefined || (Array.isArray(component.tasks) && component.tasks.length === 0);
}

/** One effect asks for one task, however often it runs. */
function isSame(one: TaskRecord, other: TaskRecord): boolean {
  return one.idempotencyKey !== undefined && one.idempotencyKey === other.idempotencyKey;
}

function nameOf({ id, idempotencyKey, createdAt }: TaskRecord): string {
  return JSON.stringify([id, idempotencyKey ?? null, createdAt]);
}
