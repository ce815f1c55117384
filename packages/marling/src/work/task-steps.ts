// Steps of a task: what one came to is stored with the task, and not done again by a later attempt (WT27).

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import type { TaskStep } from "./task.ts";
import type { HeldTask } from "./task-table.ts";

const MOST_STEPS = 1_000;

export interface StepTerms {
  /** Whose task it is, where a store has tenants. */
  readonly tenant: string | undefined;
  readonly signal: AbortSignal;
  isLive(): boolean;
  /** Resolves when the store has it; what it could not be given is not done. */
  store(key: string, outcome: Json): Promise<void>;
}

export class TaskSteps {
  readonly #task: HeldTask;
  readonly #terms: StepTerms;
  readonly #running = new Map<string, Promise<Json>>();

  constructor(task: HeldTask, terms: StepTerms) {
    this.#task = task;
    this.#terms = terms;
  }

  readonly step = async <T>(key: string, run: (step: TaskStep) => T | Promise<T>): Promise<T> => {
    if (typeof key !== "string" || key.trim() === "" || key === "__proto__")
      throw this.#refuse(`a key for the step, found ${JSON.stringify(key)}`);
    const { steps = {} } = this.#task.record;
    const running = this.#running.get(key);
    if (running !== undefined) return (await running) as T; // as the step returns it
    if (Object.hasOwn(steps, key)) return steps[key] as T; // as the step returned it, in this attempt or an earlier one
    const begun = this.#do(key, run).finally(() => this.#running.delete(key));
    this.#running.set(key, begun);
    return (await begun) as T; // as the step returns it
  };

  async #do(key: string, run: (step: TaskStep) => unknown): Promise<Json> {
    const { signal } = this.#terms;
    const { id, sessionId, createdAt, idempotencyKey = [sessionId, createdAt] } = this.#task.record;
    if (Object.keys(this.#task.record.steps ?? {}).length >= MOST_STEPS)
      throw this.#refuse(`at most ${MOST_STEPS} steps, found one more: ${key}`);
    signal.throwIfAborted();
    const returned = await run({
      signal,
      idempotencyKey: stepKey([this.#terms.tenant ?? null, idempotencyKey, id, key]),
    });
    const outcome = returned === undefined ? null : decodeJson(returned, `task ${id}: step ${key}`);
    if (!this.#terms.isLive()) {
      signal.throwIfAborted();
      throw this.#refuse(`a task that is still going on, found that it has ended during step ${key}`);
    }
    await this.#terms.store(key, outcome);
    return outcome;
  }

  #refuse(expected: string): MarlingError {
    const { id, sessionId } = this.#task.record;
    return new MarlingError("invalid_task", `task ${id}: expected ${expected}`, {
      details: { taskId: id, sessionId },
    });
  }
}

/** The same for the same step of the same task, and for no other. ASCII, so that it fits into a header. */
function stepKey(parts: Json): string {
  return `marling-step:${sha256(JSON.stringify(parts))}`;
}
