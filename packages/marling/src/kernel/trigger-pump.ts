// Brings occurrences to the sessions that subscribed to them, and ticks to occur when they are due.
//   TP1  what is accepted is delivered by whichever runtime comes to it, one runtime at a time; a delivery becomes an
//        input and is gone by one transaction, so that nothing is delivered twice or lost.
//   TP2  it goes on when something was accepted here, when a tick is due, when the runtime begins, and with its sweeps.
//   TP3  a delivery that cannot be made stays and is told of; one that the session refuses is told of and gone.
//   TP4  it keeps no process alive.

import { type ErrorCode, MarlingError, messageOf } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import type { PendingDelivery, StoredSubscription, TriggerStore } from "../model/trigger-store.ts";
import { decodeMissed, planTicks, type TickStep } from "../work/plan-ticks.ts";
import { scheduleOf } from "../work/schedule.ts";
import { occurrenceIdOf, storedDefinition } from "../work/trigger.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import type { RecoveryReport } from "./recovery.ts";
import { SessionTrace } from "./session-trace.ts";
import { triggerInput } from "./trigger-input.ts";

export type PumpParts = Pick<KernelParts, "store" | "clock" | "owner" | "leases" | "trace">;

type Others = (now: number) => Promise<readonly TriggerPump[]>;

const SWEEP_MS = 5000;
/** How soon it is tried again when another runtime delivers. */
const HELD_MS = 250;
const PAGE = 100;
/** Who delivers is known by a lease of its own, under an id that no session can have. */
const PUMP_LEASE = "triggers\u001fpump" as SessionId;
/** What a session says about an input that it will never take. */
const REFUSALS: readonly ErrorCode[] = ["input_rejected", "idempotency_conflict", "session_deleted"];

export class TriggerPump {
  readonly #parts: PumpParts;
  readonly #sessions: Pick<SessionDirectory, "submit">;
  readonly #skipped = new Map<string, RecoveryReport["skipped"][number]>();
  #draining: Promise<void> | undefined;
  #isAskedAgain = false;
  /** Subscriptions whose schedule cannot be read here. */
  #stuck: ReadonlySet<string> = new Set();
  #isHeld = false;
  #others: Others = async () => [];
  #isStopped = false;
  #stopTimer: (() => void) | undefined;

  constructor(parts: PumpParts, sessions: Pick<SessionDirectory, "submit">) {
    this.#parts = parts;
    this.#sessions = sessions;
  }

  /** Looks for what is left, also for the pumps of tenants that have something to do. */
  start(others: Others): void {
    this.#others = others;
    this.wake();
  }

  /** There may be something to do; nobody waits for it. */
  wake(): void {
    this.drain().catch(() => this.#arm(SWEEP_MS)); // What fails is tried again.
  }

  /** Resolves when everything that can be delivered is an input of its session. */
  drain(): Promise<void> {
    if (this.#isStopped || this.#parts.store.triggers === undefined) return Promise.resolve();
    this.#isAskedAgain = this.#draining !== undefined;
    this.#draining ??= this.#drainAll(this.#parts.store.triggers);
    return this.#draining;
  }

  /** Sessions that something waits for and that could not be reached, and why. */
  get skipped(): RecoveryReport["skipped"] {
    return [...this.#skipped.values()];
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopTimer?.();
    await this.#draining?.catch(() => undefined);
  }

  /** Whoever asks while it goes on is waited for by its last look: from there to its end nothing else happens. */
  async #drainAll(triggers: TriggerStore): Promise<void> {
    await undefined;
    try {
      do {
        this.#isAskedAgain = false;
        await this.#fireDue(triggers);
        await this.#deliverAll(triggers);
        for (const other of await this.#others(this.#parts.clock.now())) await other.drain();
        await this.#armForNext(triggers);
      } while (this.#isAskedAgain && !this.#isStopped);
    } finally {
      this.#draining = undefined;
    }
  }

  /** A schedule that cannot be read here holds nobody else up. */
  async #fireDue(triggers: TriggerStore): Promise<void> {
    const stuck = new Set<string>();
    for (;;) {
      const due = await triggers.due(this.#parts.clock.now(), PAGE + stuck.size);
      const left = due.filter(({ subscriptionId }) => !stuck.has(subscriptionId));
      for (const subscription of left) {
        if (this.#isStopped) return;
        if (!(await this.#fire(triggers, subscription))) stuck.add(subscription.subscriptionId);
      }
      if (left.length < PAGE) break;
    }
    this.#stuck = stuck;
  }

  /** False when what is due cannot be told. */
  async #fire(triggers: TriggerStore, subscription: StoredSubscription): Promise<boolean> {
    const steps = this.#stepsOf(subscription);
    for (const step of steps ?? [])
      if (this.#isStopped || !(await this.#take(triggers, subscription, step))) break;
    return steps !== undefined;
  }

  #stepsOf(subscription: StoredSubscription): readonly TickStep[] | undefined {
    const { subscriptionId, sessionId, source, definition, createdAt, due = 0, carried } = subscription;
    try {
      const schedule = scheduleOf(source, storedDefinition(definition).config, createdAt);
      const now = this.#parts.clock.now();
      return schedule && planTicks({ schedule, due, now, carried: decodeMissed(carried) });
    } catch (thrown) {
      if (!this.#stuck.has(subscriptionId))
        this.#tell(sessionId, "trigger_schedule_failed", { subscriptionId, message: messageOf(thrown) });
      return undefined;
    }
  }

  /** Takes a step unless another runtime has. */
  async #take(
    triggers: TriggerStore,
    { subscriptionId, sessionId, source }: StoredSubscription,
    step: TickStep,
  ): Promise<boolean> {
    const { due, fires, missed, newlyMissed, next } = step;
    const tick = { subscriptionId, due, next };
    const told = newlyMissed === undefined ? undefined : { source, subscriptionId, ...newlyMissed };
    if (fires === undefined) {
      const carried = missed === undefined ? {} : { carried: { ...missed } };
      const isOwn = await triggers.advance({ ...tick, ...carried });
      if (isOwn && told !== undefined) this.#tell(sessionId, "trigger_ticks_missed", told);
      return isOwn;
    }
    const now = this.#parts.clock.now();
    const about = { source, topic: subscriptionId };
    const occurrenceId = occurrenceIdOf({ ...about, key: String(fires) });
    const payload = {
      scheduledAt: new Date(fires).toISOString(),
      ...(missed === undefined
        ? {}
        : { missed: { count: missed.count, since: new Date(missed.since).toISOString() } }),
    };
    const occurrence = { occurrenceId, ...about, payload, at: now, acceptedAt: now };
    const { status } = await triggers.accept(occurrence, tick);
    if (status !== "moved" && told !== undefined) this.#tell(sessionId, "trigger_ticks_missed", told);
    return status !== "moved";
  }

  async #deliverAll(triggers: TriggerStore): Promise<void> {
    this.#isHeld = false;
    if ((await triggers.pending({ after: 0, limit: 1 })).length === 0) return this.#skipped.clear();
    const { store, clock, owner, leases } = this.#parts;
    const now = clock.now();
    const { incarnation, ttlMs } = leases;
    const claim = await store.claim(PUMP_LEASE, { owner, incarnation, now, expiresAt: now + ttlMs });
    this.#isHeld = claim.kind === "held";
    if (claim.kind === "held") return;
    try {
      await this.#deliverPages(triggers);
    } finally {
      await store.release({ sessionId: PUMP_LEASE, generation: claim.generation });
    }
  }

  /** One after the other, oldest first; a session that cannot be reached is passed over until the next time. */
  async #deliverPages(triggers: TriggerStore): Promise<void> {
    const unreached = new Set<string>();
    let page = await triggers.pending({ after: 0, limit: PAGE });
    while (page.length > 0) {
      for (const delivery of page) {
        if (this.#isStopped) return;
        if (unreached.has(delivery.sessionId)) continue;
        if (!(await this.#deliver(triggers, delivery))) unreached.add(delivery.sessionId);
      }
      page = await triggers.pending({ after: page.at(-1)?.sequence ?? 0, limit: PAGE });
    }
    for (const sessionId of this.#skipped.keys())
      if (!unreached.has(sessionId)) this.#skipped.delete(sessionId);
  }

  /** False when the session cannot be reached now. */
  async #deliver(triggers: TriggerStore, delivery: PendingDelivery): Promise<boolean> {
    const { sessionId, occurrenceId, subscriptionId } = delivery;
    try {
      const { text, options } = triggerInput(delivery);
      const { status } = await this.#sessions.submit(sessionId, text, options);
      if (status === "duplicate") await triggers.settle(delivery);
      return true;
    } catch (thrown) {
      const code = MarlingError.is(thrown) ? thrown.code : "io_failed";
      const told = { occurrenceId, subscriptionId, code, message: messageOf(thrown) };
      if (!REFUSALS.includes(code)) {
        if (this.#skipped.get(sessionId)?.code !== code) this.#tell(sessionId, "trigger_not_delivered", told);
        this.#skipped.set(sessionId, { sessionId, code, message: messageOf(thrown) });
        return false;
      }
      this.#tell(sessionId, "trigger_refused", told);
      await triggers.settle(delivery);
      return true;
    }
  }

  async #armForNext(triggers: TriggerStore): Promise<void> {
    const due = await triggers.nextDue();
    const until = due === undefined ? Number.POSITIVE_INFINITY : due - this.#parts.clock.now();
    if (until <= 0 && this.#stuck.size > 0) return this.#arm(SWEEP_MS);
    const isWaiting = this.#skipped.size > 0;
    const ms = Math.min(until, isWaiting ? SWEEP_MS : until, this.#isHeld ? HELD_MS : until);
    this.#arm(ms);
  }

  #arm(ms: number): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    if (this.#isStopped || ms === Number.POSITIVE_INFINITY) return;
    this.#stopTimer = this.#parts.clock.after(Math.max(0, ms), () => this.wake(), { isBackground: true });
  }

  #tell(sessionId: string, name: string, payload: JsonObject): void {
    const { trace, clock, owner } = this.#parts;
    if (trace === undefined) return;
    new SessionTrace({ trace, clock, owner }, { id: sessionId, running: undefined }).custom(
      name,
      payload,
      {},
    );
  }
}
