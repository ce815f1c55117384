// Async handles: the live tasks of a session by id, as code that goes on elsewhere holds them. A session that
// continues as another one checks the handles it wants to keep, hands them over and cancels the rest.

import { MarlingError } from "../base/errors.ts";
import type { TaskRecord } from "./task.ts";
import type { TaskRegistry } from "./task-registry.ts";

export class AsyncHandles {
  readonly #tasks: TaskRegistry;

  constructor(tasks: TaskRegistry) {
    this.#tasks = tasks;
  }

  /** Throws `unknown_task` for the first id that no live task of the session has. */
  validateVisible(sessionId: string, handleIds: readonly string[]): void {
    const live = new Set(this.#liveTasks(sessionId).map(({ id }) => id));
    const missing = handleIds.find((id) => !live.has(id));
    if (missing === undefined) return;
    throw new MarlingError(
      "unknown_task",
      `handle ${missing}: expected a live task of session ${sessionId}, found none of this id`,
      { details: { sessionId, taskId: missing } },
    );
  }

  /** Hands tasks over, as they are. Unknown ids are skipped; a live task of one of the ids over there is `duplicate_task`. */
  transfer(fromSessionId: string, toSessionId: string, handleIds: readonly string[]): void {
    if (handleIds.length > 0) this.#tasks.transfer(fromSessionId, toSessionId, handleIds);
  }

  /** Cancels every live task that is not kept, oldest first, and returns those. The first error rejects. */
  async cancelUnreferenced(
    sessionId: string,
    keepHandleIds: readonly string[],
  ): Promise<readonly TaskRecord[]> {
    const kept = new Set(keepHandleIds);
    return this.#tasks.cancelEach(this.#liveTasks(sessionId).filter(({ id }) => !kept.has(id)));
  }

  #liveTasks(sessionId: string): readonly TaskRecord[] {
    return this.#tasks.list(sessionId, { includeTerminal: false });
  }
}
