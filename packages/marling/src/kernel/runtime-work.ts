// Work of all sessions of a runtime that goes on beside their turns.

import { AsyncQueue } from "../base/async-queue.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import type { ProcessRun } from "../plugin/work-host.ts";
import { AsyncHandles } from "../work/async-handles.ts";
import { HiddenTasks } from "../work/hidden-tasks.ts";
import type { TaskRun } from "../work/task.ts";
import type { TaskFault } from "../work/task-keeper.ts";
import { TaskRegistry } from "../work/task-registry.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import type { LeaseTerms } from "./session-lease.ts";
import { shutdownIn } from "./shutdown-fault.ts";
import { traceIssues } from "./trace-issues.ts";

type Sessions = Pick<SessionDirectory, "find" | "cancelTurns" | "isClosing">;

export class RuntimeWork {
  readonly tasks: TaskRegistry;
  readonly hidden: HiddenTasks;
  readonly handles: AsyncHandles;
  /** Who has the work of which session. Nobody's process is kept alive by it. */
  readonly leases: LeaseTerms;
  readonly #sessions: Sessions;
  /** Messages for tasks that run here, by session and task. */
  readonly #signals = new Map<string, AsyncQueue<Json>>();

  constructor(
    sessions: Sessions,
    parts: Pick<KernelParts, "store" | "clock" | "owner" | "leases" | "tenant">,
  ) {
    const { store, clock, owner, leases, tenant } = parts;
    this.#sessions = sessions;
    this.leases = new LeaseKeeper({ store, clock, owner, ttlMs: leases.ttlMs, isBackground: true });
    const onFault = (fault: TaskFault): void => void this.#report(fault);
    this.tasks = new TaskRegistry({
      clock,
      tenant,
      onFault,
      cancelMonitor: async (sessionId, monitorId) => {
        const work = sessions.find(sessionId)?.work;
        if (work?.isClosing === false) await work.monitors.stop(monitorId); // Else it ends with its session.
      },
      cancelSubagent: async (_sessionId, { childSessionId }) => {
        if (childSessionId !== undefined) await sessions.cancelTurns(childSessionId);
      },
      isInterrupted: (thrown) => sessions.isClosing() && shutdownIn(thrown) !== undefined,
      onDurableChange: (sessionId) => sessions.find(sessionId)?.work.moved(),
    });
    this.hidden = new HiddenTasks({ clock, onFault });
    this.handles = new AsyncHandles(this.tasks);
    this.tasks.subscribe((event) => {
      if (event.kind === "transferred") this.#moveSignals(event.task.id, event);
    });
  }

  /** The work with the messages that its task gets while it runs here. */
  withSignals(sessionId: string, run: ProcessRun): TaskRun {
    return async (context) => {
      const signals = new AsyncQueue<Json>();
      this.#signals.set(nameOf(sessionId, context.record.id), signals);
      try {
        return await run(Object.freeze({ ...context, signals }));
      } finally {
        signals.close();
        this.#forgetSignals(signals);
      }
    };
  }

  /** Gives a running task a message. */
  signal(sessionId: string, taskId: string, message: unknown): void {
    const queue = this.#signals.get(nameOf(sessionId, taskId));
    if (queue === undefined) {
      const text = `session ${sessionId}: expected a task that runs here and takes messages, found none called ${taskId}`;
      throw new MarlingError("unknown_task", text, { details: { sessionId, taskId } });
    }
    queue.push(decodeJson(message, "signal"));
  }

  /** From now on the end of work is recorded nowhere: what the runtime refuses it is no failure of its own. */
  beginClosing(): void {
    this.tasks.beginClosing();
  }

  async close(): Promise<void> {
    await Promise.all([this.tasks.closeAll(), this.hidden.closeAll()]);
  }

  #moveSignals(
    taskId: string,
    { fromSessionId, toSessionId }: { readonly fromSessionId: string; readonly toSessionId: string },
  ): void {
    const queue = this.#signals.get(nameOf(fromSessionId, taskId));
    if (queue === undefined) return;
    this.#signals.delete(nameOf(fromSessionId, taskId));
    this.#signals.set(nameOf(toSessionId, taskId), queue);
  }

  #forgetSignals(ended: AsyncQueue<Json>): void {
    for (const [name, queue] of this.#signals) if (queue === ended) this.#signals.delete(name);
  }

  async #report({ kind, sessionId, task, error }: TaskFault): Promise<void> {
    const session = this.#sessions.find(sessionId);
    if (session === undefined) return;
    const message = `task ${task}: ${messageOf(error)}`;
    await traceIssues(session, kind, [{ kind: "runtime", code: kind, message }]);
  }
}

function nameOf(sessionId: string, taskId: string): string {
  return JSON.stringify([sessionId, taskId]);
}
