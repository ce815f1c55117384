// What a session has going on beside its turns, and what of it is stored: durable tasks, monitors, the first input.
//   WK1  it is one component of the session, written when it moved, changes that come together by one commit; a fork
//        begins with none of it. What a monitor says is written with the next commit, whatever that is for.
//   WK2  a line of a monitor reaches the model as an input of its own kind, never as words of the user; the monitor is
//        quiet until that input has had its turn, or joined one.
//   WK3  it goes on in one runtime at a time, as long as something goes on; with it a runtime takes what is stored of it. One
//        that does not have it writes nothing of it and starts nothing that is stored.
//   WK4  a runtime that needs it for anything but WK6 waits for another one that has it, for some seconds. Work of the other
//        one that has to be stored waits in turn for a turn that runs here: then the wait ends with `lease_held`.
//   WK5  a runtime that finds it written by another one has lost it: nothing of its own is written over that.
//   WK6  a durable task that a restart would run again is begun without the work: its request is stored, and the runtime
//        that has the work takes it over with its next look at the store. Where no runtime has it, recovery finds the request.

import { randomUUID } from "node:crypto";
import { MarlingError, messageOf } from "../base/errors.ts";
import { workLeaseId } from "../model/ids.ts";
import { type JsonObject, jsonEqual } from "../model/json.ts";
import { decodeMessageInput, type MessageInput } from "../model/message.ts";
import type { ProcessRun } from "../plugin/work-host.ts";
import type { SessionCommit, SessionComponents, StoredSession } from "../store/contract.ts";
import { decodeDurableTasks } from "../work/durable-tasks.ts";
import type { MonitorWake } from "../work/monitor.ts";
import { MonitorRegistry } from "../work/monitor-registry.ts";
import type { TaskRecord, TaskRun, TaskSpec } from "../work/task.ts";
import { newRecord } from "../work/task-record.ts";
import { waitAtMost } from "../work/task-work.ts";
import type { InputCause } from "./admit.ts";
import { bindingsOf, needsBinding } from "./bindings.ts";
import { commitChange, stateChange } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { SessionLease } from "./session-lease.ts";
import { TaskRequests } from "./task-requests.ts";
import { traceIssues } from "./trace-issues.ts";
import type { TurnQueue } from "./turn-queue.ts";

const VERSION = 1;
const LAST_SAVE_MS = 1000;
/** How often a runtime asks for work that another one has. */
const RETRY_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** How often a runtime that has the work looks for requests of others. */
const LOOK_MS = 1_000;

export interface CloseOptions {
  readonly isWithRuntime?: boolean;
  /** Called when everything is stored that ever will be, and before another runtime can go on with it. */
  readonly onStored?: () => void;
}

export class SessionWork {
  readonly monitors: MonitorRegistry;
  readonly #session: ResidentSession;
  readonly #lease: SessionLease;
  readonly #requests: TaskRequests;
  #firstTurnInput: MessageInput | undefined;
  #givenAgain: MessageInput | undefined;
  #isNew = false;
  #hasStoredTasks = false;
  #queue: TurnQueue | undefined;
  #mark = 0;
  #owning: Promise<boolean> | undefined;
  #isOwner = false;
  /** How many act as the owner at this moment. */
  #actors = 0;
  /** The component that the store has as far as this runtime knows, and the one that was exported since. */
  #stored: JsonObject | undefined;
  #exported: { readonly mark: number; readonly component: JsonObject } | undefined;
  #wasTakenUp = false;
  #stopLooking: (() => void) | undefined;
  /** The commit under way, and the one that is to follow it. */
  #saving: Promise<void> = Promise.resolve();
  #nextSave: Promise<void> | undefined;
  #saves = 0;
  #phase: "open" | "closing" | "closed" = "open";

  constructor(session: ResidentSession) {
    this.#session = session;
    this.#lease = new SessionLease(workLeaseId(session.id), session.parts.work.leases);
    this.#lease.onLost = () => void this.#lost();
    this.#requests = new TaskRequests(session);
    this.monitors = new MonitorRegistry({
      clock: session.parts.clock,
      onWake: (wake) => void this.#wake(wake),
      onChange: (change) => this.#monitorsChanged(change),
    });
  }

  /** Moves with everything that is stored of it. */
  get mark(): number {
    return this.#mark;
  }

  /** Whether the next commit is to write it. */
  get hasMoved(): boolean {
    const { saved } = this.#session.state;
    if (saved.work < 0) return true;
    return this.#mark !== saved.work && (this.#isNew || this.#isOwner) && this.#phase !== "closed";
  }

  /** Whether tasks go on here that recovery would go on with elsewhere. */
  get isResumable(): boolean {
    const { id, parts } = this.#session;
    const isLeft = ({ durable }: TaskRecord): boolean =>
      durable !== undefined && durable.recovery !== "external";
    return this.#isOwner && parts.work.tasks.list(id, { includeTerminal: false }).some(isLeft);
  }

  /** Whether there are such tasks, or what is stored cannot be read, though nobody else has them. */
  get isLeft(): boolean {
    return this.#wasTakenUp && (!this.#isOwner || this.isResumable || !this.#requests.isEmpty);
  }

  /** Whether nothing goes on here, and nothing waits to be taken. */
  get isIdle(): boolean {
    const { id, parts } = this.#session;
    if (this.#firstTurnInput !== undefined) return false;
    const isWorking = parts.work.tasks.list(id, { includeTerminal: false }).length > 0;
    return !isWorking && !parts.work.hidden.has(id) && this.monitors.peek().activeCount === 0;
  }

  get isClosing(): boolean {
    return this.#phase !== "open";
  }

  /** Where wakes go; from now on there is work. */
  bind(queue: TurnQueue): void {
    this.#queue = queue;
    for (const { pluginId, monitors } of this.#session.plugins.monitors)
      this.monitors.registerSpecs(monitors, { pluginId });
  }

  /** What the session is created with; stored with its first commit. */
  begin(firstTurnInput: MessageInput | undefined): void {
    if (firstTurnInput === undefined) return;
    this.#firstTurnInput = firstTurnInput;
    this.#isNew = true;
    this.#mark += 1;
  }

  /** What an effect that runs again created the session with: it has not taken it yet in this run. */
  giveAgain(firstTurnInput: MessageInput | undefined): void {
    this.#givenAgain = firstTurnInput;
  }

  /** There once, whoever asks. */
  async takeFirstTurnInput(): Promise<MessageInput | undefined> {
    const given = this.#givenAgain;
    this.#givenAgain = undefined;
    if (this.#firstTurnInput === undefined) return given;
    const taken = await this.ifOwner(async () => {
      const input = this.#firstTurnInput;
      this.#firstTurnInput = undefined;
      if (input !== undefined) await this.moved();
      return input;
    });
    return given ?? taken;
  }

  /** Makes the work of the session this runtime's, with what is stored of it; false while another one has it. */
  own(): Promise<boolean> {
    if (this.#phase !== "open") return Promise.resolve(this.#isOwner);
    this.#owning ??= this.#claim().finally(() => {
      if (!this.#isOwner) this.#owning = undefined;
    });
    return this.#owning;
  }

  /** Acts as the owner of the work; `undefined` while another runtime has it. */
  async ifOwner<T>(act: () => Promise<T>): Promise<T | undefined> {
    return this.#acting(async () => ((await this.own()) ? act() : undefined));
  }

  /** As `ifOwner`, after a wait for another runtime that has the work (WK4). Rejects with `lease_held`. */
  async asOwner<T>(act: () => Promise<T>): Promise<T> {
    return this.#acting(async () => {
      if (!(await this.own()) && !(await this.#ownLater())) throw this.#heldError();
      return act();
    });
  }

  async #acting<T>(act: () => Promise<T>): Promise<T> {
    this.#actors += 1;
    try {
      return await act();
    } finally {
      this.#actors -= 1;
      this.#releaseIdle();
    }
  }

  async #ownLater(): Promise<boolean> {
    const { id, parts } = this.#session;
    const { watch, clock, leases } = parts;
    const end = clock.monotonic() + Math.min(leases.ttlMs, LONGEST_WAIT_MS);
    const isOver = async (): Promise<boolean> =>
      (await this.own()) || this.#phase !== "open" || clock.monotonic() >= end;
    await watch.until(isOver, { of: id, everyMs: RETRY_MS });
    return this.#isOwner;
  }

  #heldError(): MarlingError {
    const { id } = this.#session;
    const message = `session ${id}: its tasks and monitors run in another runtime; begin them there, or try again when they have ended`;
    return new MarlingError("lease_held", message, { details: { sessionId: id } });
  }

  /** Leaves the work to whoever needs it next, when nothing goes on here and everything is written. */
  #releaseIdle(): void {
    if (!this.#isOwner || this.#actors > 0 || this.#phase !== "open" || !this.isIdle) return;
    if (this.#session.parts.effects.remembers !== true || this.#saves > 0) return;
    this.#takesRequests();
    if (this.hasMoved) return void this.#save().catch(() => undefined); // The next change is written with this one.
    this.#disown();
    const released = this.#lease.release().catch(() => undefined); // An unreleased lease expires.
    // A runtime that stored a request before the release found the work held.
    released.then(() => this.#takeLate()).catch(() => undefined); // Recovery finds it.
  }

  async #takeLate(): Promise<void> {
    if (this.#phase !== "open" || this.#isOwner) return;
    if (await this.#requests.haveCome()) await this.ifOwner(async () => undefined);
  }

  #disown(): void {
    this.#stopLooking?.();
    this.#requests.leave();
    this.#isOwner = false;
    this.#wasTakenUp = false;
    this.#owning = undefined;
  }

  /** What another runtime stored of the session was taken over here: it may have written the work too (WK5). */
  reloaded({ work: component, requests }: SessionComponents): void {
    this.#noteStored();
    const isIt = (known: JsonObject | undefined): boolean =>
      known === component || jsonEqual(known ?? null, component ?? null);
    if (this.#isOwner && !isIt(this.#stored) && !isIt(this.#exported?.component)) this.#loseWork();
    if (!this.#isOwner) {
      this.#stored = component;
      this.#exported = undefined;
    }
    this.#showRequests(requests);
    this.#takeRequests();
  }

  #loseWork(): void {
    if (this.#lease.generation === undefined) void this.#lost();
    else this.#lease.lose(this.#lease.generation);
  }

  /** A commit of this runtime was stored. */
  committed({ requests }: SessionComponents): void {
    if (requests !== undefined) this.#showRequests(requests);
  }

  #showRequests(component: JsonObject | undefined): void {
    try {
      this.#requests.show(component, (task) => this.runner(task));
    } catch (thrown) {
      void this.#report("requests_not_taken", thrown);
    }
  }

  /** Lists the tasks that others asked for; they begin when a commit has stored them. */
  #takeRequests(): void {
    if (this.#takesRequests()) this.#save().catch(() => undefined); // The next look tries again.
  }

  #takesRequests(): boolean {
    if (!this.#isOwner || this.#phase !== "open") return false;
    try {
      if (!this.#requests.take()) return false;
      this.#mark += 1;
      return true;
    } catch (thrown) {
      void this.#report("requests_not_taken", thrown);
      return false;
    }
  }

  /** Looks for requests of others, as long as this runtime has the work. */
  #lookOut(): void {
    const { parts } = this.#session;
    this.#stopLooking?.();
    if (parts.effects.remembers !== true) return;
    const look = async (): Promise<void> => {
      const hasTaken = this.#takesRequests() || this.#requests.hasTaken;
      if (hasTaken || (await this.#requests.haveCome())) await this.moved();
    };
    const lookOn = async (): Promise<void> => {
      await look().catch(() => undefined); // The next look tries again.
      if (this.#isOwner && this.#phase === "open") this.#lookOut();
    };
    this.#stopLooking = parts.clock.after(LOOK_MS, () => void lookOn(), { isBackground: true });
  }

  /**
   * Stores the request for a durable task in a session whose work another runtime has (WK6). An effect that asks again is
   * given the task that it asked for. Rejects with `duplicate_task`.
   */
  async request(spec: TaskSpec): Promise<TaskRecord> {
    const session = this.#session;
    const { id, parts } = session;
    if (this.#phase !== "open") throw this.#heldError();
    const keyed = { ...spec, idempotencyKey: spec.idempotencyKey ?? randomUUID() }; // Its commit may have to be made again.
    const record = newRecord(keyed, { sessionId: id, now: parts.clock.now() });
    const find = (): TaskRecord | undefined => this.#requests.put(record, this.#storedTasks());
    let known = find();
    try {
      if (known !== undefined) return known;
      await commitChange(session, () => {
        known = find();
        return { ...stateChange(session, "request"), rebases: true, isBesideTurns: true };
      });
    } finally {
      this.#requests.drop(record);
    }
    await this.ifOwner(async () => undefined).catch(() => undefined); // Recovery takes it.
    const task = parts.work.tasks.get(id, spec.id);
    return known ?? (task?.createdAt === record.createdAt ? task : record);
  }

  #storedTasks(): readonly TaskRecord[] {
    this.#noteStored();
    const { version, tasks } = this.#stored ?? {};
    return version !== VERSION || tasks === undefined ? [] : decodeDurableTasks(tasks, this.#session.id);
  }

  /** A commit has taken the export: it is what the store has. */
  #noteStored(): void {
    if (this.#exported === undefined || this.#exported.mark !== this.#session.state.saved.work) return;
    this.#stored = this.#exported.component;
    this.#exported = undefined;
  }

  /** Something that is stored has changed; resolves when the store has it. Changes that come together are one commit. */
  moved(): Promise<void> {
    if (this.#isOwner) this.#mark += 1;
    this.#takesRequests(); // What has ended may have had the id of one.
    return this.#save();
  }

  /** What the next commit writes of it. */
  components(): Pick<SessionComponents, "work" | "requests"> {
    const isWritten = this.hasMoved;
    const requests = this.#requests.export({ isTaking: isWritten && this.#isOwner });
    return {
      ...(isWritten ? { work: this.#export() } : {}),
      ...(requests === undefined ? {} : { requests }),
    };
  }

  /** Whether a commit that writes these leaves something to be gone on with. */
  leftBy({ work, requests }: SessionComponents): Pick<SessionCommit, "hasWork"> {
    if (work === undefined && requests === undefined) return {};
    return { hasWork: this.isResumable || this.#requests.isLeftBy(requests) };
  }

  #export(): JsonObject {
    const tasks = this.#isOwner ? this.#session.parts.work.tasks.exportDurable(this.#session.id) : undefined;
    const input = this.#firstTurnInput as unknown as JsonObject | undefined;
    this.#noteStored();
    const component = {
      version: VERSION,
      ...(tasks === undefined ? {} : { tasks }),
      ...(this.#isOwner ? { monitors: this.monitors.exportState() } : {}),
      ...(input === undefined ? {} : { firstTurnInput: input }),
    };
    this.#exported = { mark: this.#mark, component };
    return component;
  }

  /** Shows what was stored, except tasks, which are shown where they can go on. */
  show({ work, requests }: SessionComponents): void {
    this.#stored = work;
    this.#restore(work);
    this.#showRequests(requests);
  }

  #restore(component: JsonObject | undefined): void {
    if (component?.version !== VERSION) return;
    this.#hasStoredTasks = component.tasks !== undefined;
    if (component.monitors !== undefined) this.monitors.restoreState(component.monitors as JsonObject);
    this.#firstTurnInput =
      component.firstTurnInput === undefined ? undefined : decodeMessageInput(component.firstTurnInput);
  }

  /** Goes on with what is stored, if there is anything to go on with and nobody else does. */
  async takeUp(): Promise<void> {
    if (this.#hasStoredTasks || !this.#requests.isEmpty) await this.ifOwner(async () => undefined);
  }

  /** What runs the durable tasks of a plugin that have this label. */
  runner({ producer, label }: Pick<TaskRecord, "producer" | "label">): TaskRun | undefined {
    const { id, plugins, parts } = this.#session;
    const declared = label === undefined ? undefined : plugins.background(producer);
    const run: ProcessRun | undefined =
      label !== undefined && declared !== undefined && Object.hasOwn(declared, label)
        ? declared[label]
        : undefined;
    return run === undefined ? undefined : parts.work.withSignals(id, run);
  }

  /** Resolves when no durable task runs here. */
  async quiet(): Promise<void> {
    const { id, parts } = this.#session;
    const isAtWork = (task: TaskRecord): boolean =>
      task.durable?.recovery === "rerun" &&
      (task.state === "running" || (task.state === "pending" && this.runner(task) !== undefined));
    for (;;) {
      const running = parts.work.tasks.list(id, { includeTerminal: false }).filter(isAtWork);
      if (running.length === 0 || this.isClosing) return;
      await Promise.allSettled(running.map((task) => parts.work.tasks.settled(id, task.id)));
    }
  }

  /**
   * Ends everything that runs here; what is durable goes on in another process, or when the session is opened again.
   * With the runtime nothing is cancelled or transferred that a crash would have left.
   */
  async close({ isWithRuntime = false, onStored }: CloseOptions = {}): Promise<void> {
    const { parts, id } = this.#session;
    const { tasks, hidden } = parts.work;
    this.#phase = "closing";
    this.#stopLooking?.();
    await this.#owning?.catch(() => undefined);
    await this.monitors.close();
    if (!isWithRuntime) await this.#closeTasks();
    await this.#saveAtLast();
    this.#phase = "closed";
    onStored?.();
    await tasks.interruptDurable(id);
    tasks.forgetEnded(id);
    hidden.forgetHidden(id);
    await this.#lease.release().catch(() => undefined); // It runs out by itself.
  }

  /** One commit at a time, and one that waits: what comes while a commit is under way is in the next. */
  #save(): Promise<void> {
    if (this.#phase === "closed" || !this.#isOwner || this.#session.state.revision === 0)
      return Promise.resolve();
    this.#nextSave ??= this.#saving
      .catch(() => undefined) // Whoever asked for it was told.
      .then(() => {
        this.#nextSave = undefined;
        this.#saving = this.#commit();
        return this.#saving;
      });
    return this.#nextSave;
  }

  /** Writes what is not written yet; another runtime that is at work in the session is not waited for long. */
  async #saveAtLast(): Promise<void> {
    const saved = this.hasMoved ? this.#save() : this.#saving;
    const reported = saved.catch((thrown: unknown) => this.#report("work_not_stored", thrown));
    await waitAtMost(LAST_SAVE_MS, { clock: this.#session.parts.clock, work: [reported] });
  }

  async #commit(): Promise<void> {
    const session = this.#session;
    if (!this.hasMoved) return;
    this.#saves += 1;
    try {
      if (this.#lease.generation !== undefined) await this.#lease.ensure();
      await commitChange(session, () => ({
        ...stateChange(session, "work"),
        rebases: true,
        isBesideTurns: true,
      }));
    } finally {
      this.#saves -= 1;
    }
    // A task counts as ended when its end is stored, which it is told behind this.
    this.#session.parts.clock.after(0, () => this.#releaseIdle(), { isBackground: true });
  }

  async #claim(): Promise<boolean> {
    const { id, parts, state } = this.#session;
    if (parts.effects.remembers === true && (await this.#lease.claim()).kind === "held") return false;
    this.#wasTakenUp = true;
    const stored = state.revision === 0 ? undefined : await parts.store.load(id, { isPartial: true });
    if (stored !== undefined) await this.#requireBound(stored);
    const component = state.saved.work < 0 ? undefined : stored?.components.work;
    if (component !== undefined) this.#restore(component);
    this.#stored = component;
    this.#exported = undefined;
    if (stored !== undefined && stored.revision >= this.#session.state.revision)
      this.#showRequests(stored.components.requests);
    this.#isOwner = true;
    this.#isNew = false;
    try {
      if (component?.version === VERSION && component.tasks !== undefined)
        parts.work.tasks.restoreDurable(id, component.tasks, (task) => this.runner(task));
      if (component?.monitors !== undefined) await this.#holdWakes();
      this.#takeRequests();
      this.#lookOut();
      return true;
    } catch (thrown) {
      this.#isOwner = false; // What cannot be read is not to be written over.
      await this.#lease.release();
      throw thrown;
    }
  }

  /** Nothing that is stored goes on in a runtime that lacks what the newest commit names. */
  async #requireBound(stored: StoredSession): Promise<void> {
    const { missing } = bindingsOf(this.#session.parts, stored);
    if (missing.length === 0) return;
    await this.#lease.release();
    throw needsBinding(this.#session.id, missing);
  }

  /** Monitors whose wakes were accepted by an earlier process are quiet until those have had their turns (WK2). */
  async #holdWakes(): Promise<void> {
    const { id, parts } = this.#session;
    if (parts.effects.remembers !== true) return;
    for (const { turnId, input } of await parts.store.pending(id)) {
      const { cause } = input as { readonly cause?: InputCause };
      if (cause?.kind !== "monitor") continue;
      this.monitors.holdWake(cause.id);
      void this.#settled(turnId).then(() => this.monitors.ackWake([cause.id]));
    }
  }

  /** Resolves when a turn that was left in the store has ended. */
  async #settled(turnId: string): Promise<void> {
    await this.#queue?.takeUp().catch(() => undefined); // Recovery tries again.
    await this.#queue?.live.get(turnId)?.done.promise.catch(() => undefined);
  }

  /** Another runtime has it now: nothing that is stored goes on here. */
  async #lost(): Promise<void> {
    this.#disown();
    const running = this.monitors.peek().monitors.filter(({ state }) => state === "running");
    await Promise.allSettled([
      this.#session.parts.work.tasks.interruptDurable(this.#session.id),
      ...running.map(({ spec }) => this.monitors.stop(spec.id)),
    ]);
  }

  /** What its tasks say about the end of the session. One that cannot be stopped does not keep it. */
  async #closeTasks(): Promise<void> {
    const { parts, id, state } = this.#session;
    const parent =
      state.parentSessionId === undefined ? undefined : parts.sessions.find(state.parentSessionId);
    const heir =
      parent === undefined || parent.work.isClosing || !(await parent.work.own().catch(() => false))
        ? {}
        : { parentSessionId: parent.id };
    await parts.work.tasks
      .closeSession(id, heir)
      .catch((thrown: unknown) => this.#report("task_cancel_failed", thrown));
  }

  #monitorsChanged(change: "status" | "output"): void {
    if (!this.#isOwner) return;
    this.#mark += 1;
    if (change === "status") this.#save().catch(() => undefined); // The next change is written with this one.
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
      if (this.#queue?.isClosed !== true) await this.#report("monitor_wake_failed", thrown);
    }
    this.monitors.ackWake([monitorId]);
  }

  async #report(code: string, thrown: unknown): Promise<void> {
    await traceIssues(this.#session, code, [{ kind: "runtime", code, message: messageOf(thrown) }]);
  }
}
