// Hidden tasks: work that a session started on the side, that nobody lists or cancels, and that somebody may wait for.
// The rules are WT1... in SPEC.md.

import type { Clock } from "../base/clock.ts";
import { type Deferred, deferred } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import type { TaskFault } from "./task-keeper.ts";
import { TaskWork, waitAtMost } from "./task-work.ts";

/** The work of a hidden task. It must not wait for the hidden tasks of its own session, of which it is one. */
export type HiddenTask = (context: { readonly signal: AbortSignal }) => unknown;

export interface HiddenTasksOptions {
  readonly clock: Clock;
  /** Told of failures that nobody waits for any more. */
  onFault?(fault: TaskFault): void;
  /** How long work is waited for when the runtime closes. Default: 1 000. */
  readonly graceMs?: number;
}

interface HiddenFailure {
  readonly sessionId: string;
  readonly label: string;
  readonly error: MarlingError;
}

/** The tasks of a session since somebody last waited for all of them. */
interface Batch {
  readonly running: Set<TaskWork>;
  failure: HiddenFailure | undefined;
  isForgotten: boolean;
  /** Resolved when one of the tasks ends. */
  ended: Deferred<void> | undefined;
}

const GRACE_MS = 1_000;

export class HiddenTasks implements AsyncDisposable {
  readonly #options: HiddenTasksOptions;
  readonly #batches = new Map<string, Batch>();
  /** All work in flight, of batches that were forgotten too. */
  readonly #works = new Set<TaskWork>();
  #isClosing = false;
  #closed: Promise<void> | undefined;

  constructor(options: HiddenTasksOptions) {
    this.#options = options;
  }

  /** Starts a task at once and keeps track of it. Throws `runtime_closed`; what the task throws waits for `awaitHidden`. */
  spawnHidden(sessionId: string, label: string, run: HiddenTask): void {
    if (this.#isClosing) throw closedError(sessionId, label);
    const batch = this.#batches.get(sessionId) ?? newBatch();
    this.#batches.set(sessionId, batch);
    const work = new TaskWork();
    batch.running.add(work);
    this.#works.add(work);
    work.begin(
      (signal) => run({ signal }),
      (outcome) => {
        this.#works.delete(work);
        batch.running.delete(work);
        if (outcome.kind === "threw") this.#failed(batch, failureOf(outcome.thrown, sessionId, label));
        if (batch.running.size === 0 && batch.failure === undefined) this.#forget(sessionId, batch);
        batch.ended?.resolve();
        batch.ended = undefined;
      },
    );
  }

  /** Whether there are any, or the failure of one that nobody was told of. */
  has(sessionId: string): boolean {
    return this.#batches.has(sessionId);
  }

  /**
   * Resolves when no hidden task of the session runs, those included that were started meanwhile. Rejects with the
   * first failure as `task_failed`; the rest of the batch is not waited for again, and goes on.
   */
  async awaitHidden(sessionId: string): Promise<void> {
    for (let batch = this.#batches.get(sessionId); batch; batch = this.#batches.get(sessionId)) {
      await oneEnd(batch);
      if (batch.failure === undefined) continue;
      this.#forget(sessionId, batch);
      throw batch.failure.error;
    }
  }

  /** Nobody will wait for the hidden tasks of this session any more; they go on. */
  forgetHidden(sessionId: string): void {
    const batch = this.#batches.get(sessionId);
    if (batch === undefined) return;
    this.#forget(sessionId, batch);
    if (batch.failure !== undefined) this.#report(batch.failure);
  }

  /** Asks all hidden tasks to end and waits for them within the time. Never rejects; nothing begins afterwards. */
  closeAll({
    graceMs = this.#options.graceMs ?? GRACE_MS,
  }: {
    readonly graceMs?: number;
  } = {}): Promise<void> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.closeAll();
  }

  /** The first failure is kept for whoever waits; others, and those that nobody can wait for, are reported. */
  #failed(batch: Batch, failure: HiddenFailure): void {
    if (this.#isClosing) return;
    if (batch.failure !== undefined || batch.isForgotten) this.#report(failure);
    else batch.failure = failure;
  }

  #report({ sessionId, label, error }: HiddenFailure): void {
    this.#options.onFault?.({ kind: "hidden_task_failed", sessionId, task: label, error });
  }

  #forget(sessionId: string, batch: Batch): void {
    batch.isForgotten = true;
    if (this.#batches.get(sessionId) === batch) this.#batches.delete(sessionId);
  }

  async #close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    for (const sessionId of [...this.#batches.keys()]) this.forgetHidden(sessionId);
    for (const work of this.#works) work.abort("the runtime was closed");
    const work = [...this.#works].map(({ ended }) => ended);
    await waitAtMost(graceMs, { clock: this.#options.clock, work });
    this.#works.clear();
  }
}

function newBatch(): Batch {
  return { running: new Set(), failure: undefined, isForgotten: false, ended: undefined };
}

/** Resolves when one more of the tasks has ended, at once when one has failed. */
async function oneEnd(batch: Batch): Promise<void> {
  if (batch.failure !== undefined) return;
  batch.ended ??= deferred();
  await batch.ended.promise;
}

function failureOf(thrown: unknown, sessionId: string, label: string): HiddenFailure {
  const message = `hidden task ${label} of session ${sessionId}: expected its end, found: ${messageOf(thrown)}`;
  const error = new MarlingError("task_failed", message, { cause: thrown, details: { sessionId, label } });
  return { sessionId, label, error };
}

function closedError(sessionId: string, label: string): MarlingError {
  return new MarlingError(
    "runtime_closed",
    `hidden task ${label} of session ${sessionId}: expected an open runtime, found one that was closed`,
  );
}
