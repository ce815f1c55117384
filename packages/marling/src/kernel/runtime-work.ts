// Work of all sessions of a runtime that goes on beside their turns.

import { AsyncQueue } from "../base/async-queue.ts";
import type { Clock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import { AsyncHandles } from "../work/async-handles.ts";
import { HiddenTasks } from "../work/hidden-tasks.ts";
import { TaskRegistry } from "../work/task-registry.ts";
import type { SessionDirectory } from "./parts.ts";

export class RuntimeWork {
  readonly tasks: TaskRegistry;
  readonly hidden: HiddenTasks;
  readonly handles: AsyncHandles;
  /** Messages for tasks that run here, by session and task. */
  readonly #signals = new Map<string, AsyncQueue<Json>>();

  constructor(sessions: Pick<SessionDirectory, "find" | "cancelTurns">, clock: Clock) {
    this.tasks = new TaskRegistry({
      clock,
      cancelMonitor: async (sessionId, monitorId) => {
        await sessions.find(sessionId)?.work.monitors.stop(monitorId);
      },
      cancelSubagent: async (_sessionId, { childSessionId }) => {
        if (childSessionId !== undefined) await sessions.cancelTurns(childSessionId);
      },
      onDurableChange: (sessionId) => sessions.find(sessionId)?.work.moved(),
    });
    this.hidden = new HiddenTasks({ clock });
    this.handles = new AsyncHandles(this.tasks);
  }

  /** The messages that a task gets while it runs here. */
  signals(sessionId: string, taskId: string): AsyncQueue<Json> {
    const name = JSON.stringify([sessionId, taskId]);
    const queue = this.#signals.get(name) ?? new AsyncQueue<Json>();
    this.#signals.set(name, queue);
    return queue;
  }

  /** Gives a running task a message. */
  signal(sessionId: string, taskId: string, message: unknown): void {
    const queue = this.#signals.get(JSON.stringify([sessionId, taskId]));
    if (queue === undefined) {
      const text = `session ${sessionId}: expected a task that runs here and takes messages, found none called ${taskId}`;
      throw new MarlingError("unknown_task", text, { details: { sessionId, taskId } });
    }
    queue.push(decodeJson(message, "signal"));
  }

  endSignals(sessionId: string, taskId: string): void {
    const name = JSON.stringify([sessionId, taskId]);
    this.#signals.get(name)?.close();
    this.#signals.delete(name);
  }

  async close(): Promise<void> {
    await Promise.all([this.tasks.closeAll(), this.hidden.closeAll()]);
  }
}
