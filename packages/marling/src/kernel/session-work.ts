// What a session has going on beside its turns, and what of it is stored: durable tasks, monitors, the first input.
//   WK1  it is one component of the session, written when it moved; a fork begins with none of it.
//   WK2  a line of a monitor reaches the model as an input of its own kind, never as words of the user; the monitor is
//        quiet until that input has had its turn, or joined one.
//   WK3  durable tasks of an earlier process are taken up under the lease only.

import type { JsonObject } from "../model/json.ts";
import { decodeMessageInput, type MessageInput } from "../model/message.ts";
import type { MonitorWake } from "../work/monitor.ts";
import { MonitorRegistry } from "../work/monitor-registry.ts";
import type { TaskRun } from "../work/task.ts";
import { commitBeside, stateChange } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { traceIssues } from "./trace-issues.ts";
import type { TurnQueue } from "./turn-queue.ts";

const VERSION = 1;
const LAST_SAVE_MS = 1000;

export class SessionWork {
  readonly monitors: MonitorRegistry;
  readonly #session: ResidentSession;
  #firstTurnInput: MessageInput | undefined;
  #queue: TurnQueue | undefined;
  #mark = 0;
  #saving: Promise<void> | undefined;
  #isClosed = false;

  constructor(session: ResidentSession) {
    this.#session = session;
    this.monitors = new MonitorRegistry({
      clock: session.parts.clock,
      onWake: (wake) => void this.#wake(wake),
      onChange: () => void this.moved().catch(() => undefined),
    });
  }

  /** Moves with everything that is stored of it. */
  get mark(): number {
    return this.#mark;
  }

  /** Where wakes go. */
  bind(queue: TurnQueue): void {
    this.#queue = queue;
    for (const { pluginId, monitors } of this.#session.plugins.monitors)
      this.monitors.registerSpecs(monitors, { pluginId });
  }

  giveFirstTurnInput(input: MessageInput | undefined): void {
    this.#firstTurnInput = input;
    if (input !== undefined) this.#mark += 1;
  }

  takeFirstTurnInput(): MessageInput | undefined {
    const input = this.#firstTurnInput;
    if (input !== undefined) void this.moved().catch(() => undefined);
    this.#firstTurnInput = undefined;
    return input;
  }

  /** Something that is stored has changed; resolves when the store has it. Changes that come together are one commit. */
  moved(): Promise<void> {
    this.#mark += 1;
    const session = this.#session;
    if (this.#isClosed || session.state.revision === 0) return Promise.resolve();
    this.#saving ??= Promise.resolve().then(() => {
      this.#saving = undefined; // What changes while it is written is written after it.
      return this.#save();
    });
    return this.#saving;
  }

  async #save(): Promise<void> {
    const session = this.#session;
    if (this.#mark !== session.state.saved.work)
      await commitBeside(session, () => stateChange(session, "work"));
  }

  export(): JsonObject | undefined {
    const tasks = this.#session.parts.work.tasks.exportDurable(this.#session.id);
    const monitors = this.monitors.exportState();
    return {
      version: VERSION,
      ...(tasks === undefined ? {} : { tasks }),
      monitors,
      ...(this.#firstTurnInput === undefined
        ? {}
        : { firstTurnInput: this.#firstTurnInput as unknown as JsonObject }),
    };
  }

  /** Takes over what was stored, except tasks: see `takeUpTasks`. */
  restore(component: JsonObject | undefined): void {
    if (component === undefined || component.version !== VERSION) return;
    if (component.monitors !== undefined) this.monitors.restoreState(component.monitors as JsonObject);
    if (component.firstTurnInput !== undefined)
      this.#firstTurnInput = decodeMessageInput(component.firstTurnInput);
  }

  /** Goes on with the durable tasks of an earlier process, unless somebody else has the session. */
  async takeUpTasks(component: JsonObject | undefined): Promise<void> {
    const session = this.#session;
    if (component?.tasks === undefined) return;
    session.lease.join();
    try {
      if ((await session.lease.claim()).kind === "held") return;
      session.parts.work.tasks.restoreDurable(session.id, component.tasks, ({ producer, label }) =>
        this.runner(producer, label),
      );
      await this.moved();
    } finally {
      await session.lease.leave();
    }
  }

  /** What runs the durable tasks of a plugin that have this label. */
  runner(pluginId: string, label: string | undefined): TaskRun | undefined {
    return label === undefined ? undefined : this.#session.plugins.background(pluginId)?.[label];
  }

  /** Ends everything that runs here; what is durable goes on in another process, or when the session is opened again. */
  async close(): Promise<void> {
    const { parts, id, state } = this.#session;
    const { parentSessionId } = state;
    await parts.work.tasks.closeSession(id, parentSessionId === undefined ? {} : { parentSessionId });
    await this.monitors.close();
    await this.#saveAtLast();
    this.#isClosed = true;
    parts.work.tasks.forgetEnded(id);
    parts.work.hidden.forgetHidden(id);
  }

  /** Writes what is not written yet; another runtime that has the session is not waited for long. */
  async #saveAtLast(): Promise<void> {
    const { state, parts } = this.#session;
    if (state.revision === 0 || this.#mark === state.saved.work) return;
    let stop = (): void => undefined;
    const late = new Promise<void>((resolve) => {
      stop = parts.clock.after(LAST_SAVE_MS, resolve);
    });
    await Promise.race([this.#save().catch(() => undefined), late]);
    stop();
  }

  async #wake({ monitorId, text, sequence }: MonitorWake): Promise<void> {
    const { parts } = this.#session;
    try {
      const submitted = await this.#queue?.submit(text, {
        key: `monitor:${monitorId}:${parts.leases.incarnation}:${sequence}`,
        deliver: "active_turn",
        cause: { kind: "monitor", id: monitorId },
      });
      await submitted?.turn.done.promise.catch(() => undefined);
    } catch (thrown) {
      const issue = { kind: "runtime", code: "monitor_wake_failed", message: String(thrown) } as const;
      await traceIssues(this.#session, "monitor_wake_failed", [issue]);
    }
    this.monitors.ackWake([monitorId]);
  }
}
