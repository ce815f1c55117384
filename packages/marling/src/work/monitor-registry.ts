// The monitors of one session: what is declared, what runs, what came of it. The rules are in MONITORS.md.
//   MR1  what one asks of a monitor is done in the order it was asked for: a start after a stop waits for its end.
//   MR2  a status is replaced, never changed, and each replacement moves the revision.
//   MR3  a wake belongs to one start of a monitor and ends with it; one that an earlier process left ends when it is
//        acknowledged.

import { type Clock, systemClock } from "../base/clock.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import { type JsonObject, jsonEqual } from "../model/json.ts";
import type {
  MonitorDeclaration,
  MonitorEvent,
  MonitorSnapshot,
  MonitorSpec,
  MonitorStatus,
  MonitorUpdateBatch,
  MonitorWake,
} from "./monitor.ts";
import { endingOf, failed, type MonitorEnding, STOPPED } from "./monitor-ending.ts";
import {
  launchMonitor,
  type MonitorExit,
  type MonitorProcess,
  type MonitorSource,
} from "./monitor-process.ts";
import { decodeMonitorSpec } from "./monitor-spec.ts";
import { decodeMonitors, encodeMonitors, withoutProcess } from "./monitor-state.ts";

export const BUFFERED_UPDATES = 128;

export interface MonitorRegistryOptions {
  /** For time limits and the grace period. Default: the system's. */
  readonly clock?: Clock;
  /** What a relative `cwd` of a spec is relative to, and the default. Default: that of this process. */
  readonly cwd?: string;
  /** Default: `SHELL` of the environment, or `/bin/sh`. */
  readonly shell?: string;
  /** What the allow list picks from. Default: the environment of this process, which any child would inherit. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** A line is to become a turn. Called once, and not again for this monitor until `ackWake`, its end or its stop. Must not throw. */
  readonly onWake: (wake: MonitorWake) => void;
  /**
   * `exportState` returns something new: what a monitor is in, or only what it said. Lines that arrive together share a
   * call, so it should only make a note. Must not throw.
   */
  readonly onChange?: (change: "status" | "output") => void;
}

/** One start of a monitor. */
interface Watch {
  readonly process: MonitorProcess;
  readonly settled: Promise<void>;
  hasWake: boolean;
  /** Why we end it, if we do. */
  cause: "stopped" | "timed_out" | "closed" | undefined;
}

interface Monitor {
  readonly queue: SerialQueue;
  status: MonitorStatus;
  watch: Watch | undefined;
  /** There is a process to be, or not to be: nobody knows yet. */
  isStarting: boolean;
}

export class MonitorRegistry {
  readonly #options: MonitorRegistryOptions;
  readonly #clock: Clock;
  readonly #monitors = new Map<string, Monitor>();
  /** Monitors with a wake that an earlier process left. */
  readonly #held = new Set<string>();
  #events: MonitorEvent[] = [];
  #revision = 0;
  #sequence = 0;
  #closing: Promise<void> | undefined;

  constructor(options: MonitorRegistryOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Declares monitors; those of a plugin are seen as `<plugin>:<id>`. Starts none: what is armed is started by the next
   * `snapshot` or `takeUpdates`. An equal spec changes nothing; another one keeps the armed state, and a monitor that
   * runs goes on with the command it was started with. Throws `invalid_monitor`, and then none is declared.
   */
  registerSpecs(specs: readonly MonitorDeclaration[], options: { readonly pluginId?: string } = {}): void {
    this.#requireOpen();
    const decoded = specs.map((spec) => decodeMonitorSpec(spec, options));
    refuseDuplicates(decoded);
    for (const spec of decoded) this.#upsert(spec);
  }

  /**
   * Starts a declared monitor by id, or declares one and starts it. One that runs already is left alone.
   * When it cannot be started it is `failed` and disarmed, and this throws `monitor_start_failed` (on Windows
   * `host_service_unavailable`). Throws `unknown_monitor`, `invalid_monitor`, `session_closed`.
   */
  async start(target: MonitorDeclaration | string): Promise<MonitorSnapshot> {
    this.#requireOpen();
    const monitor =
      typeof target === "string" ? this.#known(target) : this.#upsert(decodeMonitorSpec(target));
    await monitor.queue.run(() => this.#ensureRunning(monitor));
    return this.peek();
  }

  /** Stops a monitor and disarms it until the next `start`. Resolves when its process group is gone. Throws `unknown_monitor`, `session_closed`. */
  async stop(monitorId: string): Promise<MonitorSnapshot> {
    this.#requireOpen();
    const monitor = this.#known(monitorId);
    if (monitor.status.armed) this.#replace(monitor, { ...monitor.status, armed: false });
    await monitor.queue.run(() => this.#ensureStopped(monitor));
    return this.peek();
  }

  /** Starts what is armed and does not run, and returns all monitors. A start that fails shows in its status. */
  async snapshot(): Promise<MonitorSnapshot> {
    await this.#startArmed();
    return this.peek();
  }

  /** As `snapshot`, and hands out the newest 128 events since the last call. */
  async takeUpdates(): Promise<MonitorUpdateBatch> {
    await this.#startArmed();
    const events = Object.freeze(this.#events);
    this.#events = [];
    return Object.freeze({ revision: this.#revision, activeCount: this.#activeCount(), events });
  }

  /** All monitors as they are; starts none. */
  peek(): MonitorSnapshot {
    const monitors = [...this.#monitors.values()].map(({ status }) => status).sort(byId);
    return Object.freeze({
      revision: this.#revision,
      activeCount: this.#activeCount(),
      monitors: Object.freeze(monitors),
    });
  }

  /** The wakes of these monitors reached the model, or never will: their next line may wake again. Unknown ids are passed over. */
  ackWake(monitorIds: readonly string[]): void {
    let hasMoved = false;
    for (const id of new Set(monitorIds)) {
      this.#held.delete(id);
      const watch = this.#monitors.get(id)?.watch;
      if (watch === undefined || !watch.hasWake) continue;
      watch.hasWake = false;
      this.#revision += 1;
      hasMoved = true;
    }
    if (hasMoved) this.#options.onChange?.("output");
  }

  /** A wake of an earlier process has not reached the model yet: no line wakes until it is acknowledged. */
  holdWake(monitorId: string): void {
    this.#held.add(monitorId);
  }

  /** Resolves with the status of a monitor once it does not run. Throws `unknown_monitor`. */
  async whenEnded(monitorId: string): Promise<MonitorStatus> {
    const monitor = this.#known(monitorId);
    await monitor.queue.idle();
    await monitor.watch?.settled;
    return monitor.status;
  }

  exportState(): JsonObject {
    const { revision, monitors } = this.peek();
    // A start that is cut off must not begin again by itself: it is stored as what it is about to be.
    const stored = monitors.map((status) =>
      this.#monitors.get(status.spec.id)?.isStarting === true
        ? { ...status, state: "running" as const }
        : status,
    );
    return encodeMonitors({ revision, sequence: this.#sequence, monitors: stored });
  }

  /**
   * Takes over what another registry exported. Of a monitor that is declared here already the spec stays, the rest is
   * taken over. Throws `session_busy` while a monitor runs, `unsupported_version`, `invalid_snapshot`; nothing is
   * changed then.
   */
  restoreState(json: JsonObject): void {
    this.#requireOpen();
    if (this.#activeCount() > 0)
      throw new MarlingError("session_busy", "monitors: expected none that runs before a restore, found one");
    const stored = decodeMonitors(json);
    this.#revision = Math.max(this.#revision, stored.revision);
    this.#sequence = Math.max(this.#sequence, stored.sequence);
    for (const status of stored.monitors) this.#restore(status);
  }

  /**
   * Ends every process. Resolves when none is left. The statuses stay as a restore would make them, so that what was
   * to go on can go on elsewhere; nothing is announced.
   */
  close(): Promise<void> {
    this.#closing ??= Promise.all(
      [...this.#monitors.values()].map((monitor) => monitor.queue.run(() => this.#endForClose(monitor))),
    ).then(() => undefined);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #upsert(spec: MonitorSpec): Monitor {
    const known = this.#monitors.get(spec.id);
    if (known !== undefined) {
      if (!jsonEqual(known.status.spec, spec)) this.#replace(known, { ...known.status, spec });
      return known;
    }
    const monitor = this.#add({ spec, armed: spec.armOn === "session_start", state: "idle", eventCount: 0 });
    this.#replace(monitor, monitor.status);
    return monitor;
  }

  #restore(stored: MonitorStatus): void {
    const known = this.#monitors.get(stored.spec.id);
    const status = withoutProcess(known === undefined ? stored : { ...stored, spec: known.status.spec });
    const monitor = known ?? this.#add(stored);
    if (!jsonEqual(monitor.status, status)) this.#replace(monitor, status);
  }

  #add(status: MonitorStatus): Monitor {
    const monitor: Monitor = { queue: new SerialQueue(), status, watch: undefined, isStarting: false };
    this.#monitors.set(status.spec.id, monitor);
    return monitor;
  }

  async #startArmed(): Promise<void> {
    this.#requireOpen();
    const armed = [...this.#monitors.values()].filter(isWaiting);
    await Promise.all(
      armed.map((monitor) =>
        // A failed start is in the status, and it disarms: whoever only looks is not told otherwise.
        monitor.queue
          .run(async () => (isWaiting(monitor) ? await this.#ensureRunning(monitor) : undefined))
          .catch(() => undefined),
      ),
    );
  }

  async #ensureRunning(monitor: Monitor): Promise<void> {
    this.#requireOpen();
    if (monitor.watch?.process.isEnding === false) return;
    await monitor.watch?.settled;
    const { lastError: _error, lastExitStatus: _status, ...kept } = monitor.status;
    monitor.isStarting = true;
    this.#replace(monitor, { ...kept, armed: true });
    const started = await this.#launch(monitor).catch((error: unknown) => {
      monitor.isStarting = false;
      this.#end(monitor, failed(messageOf(error)));
      throw error;
    });
    monitor.isStarting = false;
    monitor.watch = this.#watch(monitor, started, kept.spec);
    this.#replace(monitor, { ...monitor.status, state: "running" });
  }

  #launch(monitor: Monitor): Promise<MonitorProcess> {
    const { cwd, shell, environment = process.env } = this.#options;
    return launchMonitor(monitor.status.spec, {
      clock: this.#clock,
      environment,
      ...(cwd === undefined ? {} : { cwd }),
      ...(shell === undefined ? {} : { shell }),
      onLines: (source, lines) => this.#note(monitor, source, lines),
    });
  }

  #watch(monitor: Monitor, started: MonitorProcess, { persistent, timeoutMs }: MonitorSpec): Watch {
    const expire = (): void => {
      if (started.isEnding) return;
      watch.cause = "timed_out";
      void started.stop();
    };
    const cancel = persistent
      ? () => undefined
      : this.#clock.after(timeoutMs, expire, { isBackground: true });
    const settled = started.ended.then((exit) => {
      cancel();
      this.#settle(monitor, { cause: watch.cause, timeoutMs, exit });
    });
    const watch: Watch = { process: started, settled, hasWake: false, cause: undefined };
    return watch;
  }

  #note(monitor: Monitor, source: MonitorSource, lines: readonly string[]): void {
    for (const line of lines) {
      const { status } = monitor;
      const text = this.#claimWake(monitor, source) ? `Monitor ${status.spec.id}: ${line}` : undefined;
      const sequence = this.#announce(status.spec.id, line, text);
      monitor.status = Object.freeze({ ...status, lastEvent: line, eventCount: status.eventCount + 1 });
      this.#revision += 1;
      if (text !== undefined) this.#options.onWake({ monitorId: status.spec.id, text, sequence });
    }
    this.#options.onChange?.("output");
  }

  /** Whether a line may wake, and if so nothing else may until it is acknowledged. */
  #claimWake({ status, watch }: Monitor, source: MonitorSource): boolean {
    if (source !== "stdout" || status.spec.wakePolicy !== "queue_turn") return false;
    if (watch === undefined || watch.hasWake || watch.cause !== undefined) return false;
    if (this.#held.has(status.spec.id)) return false;
    watch.hasWake = true;
    return true;
  }

  #settle(monitor: Monitor, { cause, ...end }: Settled): void {
    monitor.watch = undefined;
    if (cause === "closed") monitor.status = withoutProcess(monitor.status);
    else this.#end(monitor, endingOf(cause, end));
  }

  async #ensureStopped(monitor: Monitor): Promise<void> {
    const { watch, status } = monitor;
    if (watch === undefined) {
      if (status.state !== "stopped" || status.armed) this.#end(monitor, STOPPED);
      return;
    }
    watch.cause = "stopped";
    await watch.process.stop();
    await watch.settled;
  }

  async #endForClose({ watch }: Monitor): Promise<void> {
    if (watch === undefined) return;
    if (!watch.process.isEnding) watch.cause = "closed";
    await watch.process.stop();
    await watch.settled;
  }

  /** The last word on a start: disarmed, with an event. */
  #end(monitor: Monitor, { message, ...ending }: MonitorEnding): void {
    this.#announce(monitor.status.spec.id, message);
    this.#replace(monitor, { ...monitor.status, ...ending, armed: false });
  }

  #announce(monitorId: string, message: string, queueTurnInput?: string): number {
    this.#sequence += 1;
    const input = queueTurnInput === undefined ? {} : { queueTurnInput };
    this.#events.push(Object.freeze({ sequence: this.#sequence, monitorId, message, ...input }));
    if (this.#events.length > BUFFERED_UPDATES) this.#events.shift();
    return this.#sequence;
  }

  #replace(monitor: Monitor, status: MonitorStatus): void {
    monitor.status = Object.freeze(status);
    this.#revision += 1;
    this.#options.onChange?.("status");
  }

  #activeCount(): number {
    let count = 0;
    for (const { watch } of this.#monitors.values()) if (watch !== undefined) count += 1;
    return count;
  }

  #known(monitorId: string): Monitor {
    const monitor = this.#monitors.get(monitorId);
    if (monitor !== undefined) return monitor;
    const ids = [...this.#monitors.keys()].sort();
    const message = `monitor ${monitorId}: expected one of ${ids.join(", ") || "none"}, found no such monitor`;
    throw new MarlingError("unknown_monitor", message, { details: { monitorId } });
  }

  #requireOpen(): void {
    if (this.#closing === undefined) return;
    throw new MarlingError("session_closed", "monitors: expected an open session, found a closed one");
  }
}

interface Settled {
  readonly cause: Watch["cause"];
  readonly timeoutMs: number;
  readonly exit: MonitorExit;
}

function isWaiting({ status, watch }: Monitor): boolean {
  return status.armed && watch === undefined;
}

function byId(a: MonitorStatus, b: MonitorStatus): number {
  return a.spec.id < b.spec.id ? -1 : 1;
}

function refuseDuplicates(specs: readonly MonitorSpec[]): void {
  const seen = new Set<string>();
  for (const { id } of specs) {
    if (seen.has(id))
      throw new MarlingError("invalid_monitor", `monitor ${id}: expected one declaration, found two`, {
        details: { monitorId: id },
      });
    seen.add(id);
  }
}
