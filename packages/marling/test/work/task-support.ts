import { type Deferred, deferred } from "../../src/base/deferred.ts";
import { MarlingError } from "../../src/base/errors.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import type { TaskEvent, TaskRecord, TaskRun, TaskSpec } from "../../src/work/task.ts";
import type { TaskFault } from "../../src/work/task-keeper.ts";
import { TaskRegistry, type TaskRegistryOptions } from "../../src/work/task-registry.ts";

export interface Desk {
  readonly tasks: TaskRegistry;
  readonly clock: ManualClock;
  readonly events: TaskEvent[];
  readonly faults: TaskFault[];
  /** The sessions whose durable tasks changed, in order. */
  readonly stored: string[];
}

/** A registry on a clock that stands at 1 000, with everything it tells written down. */
export function openDesk(options: Partial<TaskRegistryOptions> = {}): Desk {
  const clock = new ManualClock({ startsAt: 1_000 });
  const events: TaskEvent[] = [];
  const faults: TaskFault[] = [];
  const stored: string[] = [];
  const tasks = new TaskRegistry({
    clock,
    onDurableChange: (sessionId) => {
      stored.push(sessionId);
    },
    onFault: (fault) => faults.push(fault),
    ...options,
  });
  tasks.subscribe((event) => events.push(event));
  return { tasks, clock, events, faults, stored };
}

export function spec(id: string, more: Partial<TaskSpec> = {}): TaskSpec {
  return { id, kind: "other", producer: "builder", ...more };
}

/** Work that ends when the test says so, and shows whether it was asked to. */
export interface HeldWork {
  readonly run: TaskRun;
  readonly end: Deferred<unknown>;
  readonly signals: AbortSignal[];
}

export function heldWork(): HeldWork {
  const end = deferred<unknown>();
  const signals: AbortSignal[] = [];
  const run: TaskRun = ({ signal }) => {
    signals.push(signal);
    return end.promise;
  };
  return { run, end, signals };
}

/** Work that goes on until it is asked to end. */
export const untilAborted: TaskRun = ({ signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

export const idsOf = (records: readonly TaskRecord[]): readonly string[] => records.map(({ id }) => id);

/** Events as `kind id` texts. */
export const told = (events: readonly TaskEvent[]): readonly string[] =>
  events.map(({ kind, task }) => `${kind} ${task.id}`);

/** Lets everything that is due without time passing happen. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The code of what a promise rejects with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown = await promise.then(
    (value) => new Error(`expected a rejection, got ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (!MarlingError.is(thrown)) throw thrown;
  return thrown.code;
}
