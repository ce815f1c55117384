// Triggers of a runtime: who subscribes, and what occurred. The rules are in work/TRIGGERS.md.

import { MarlingError } from "../base/errors.ts";
import { type SessionId, sessionId } from "../model/ids.ts";
import type { StoredSubscription, TriggerStore } from "../model/trigger-store.ts";
import { firstTick, isTime, scheduleOf } from "../work/schedule.ts";
import {
  decodeSubscribe,
  type EmitReceipt,
  encodeDefinition,
  occurrenceIdOf,
  type SubscribeOptions,
  type SubscriptionDefinition,
  shownSubscription,
  storedDefinition,
  subscriptionIdOf,
  type TriggerEvent,
  type TriggerFilter,
  type TriggerPage,
  type TriggerSubscription,
} from "../work/trigger.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import { TriggerPump } from "./trigger-pump.ts";
import { TriggerSources } from "./trigger-sources.ts";

/** What a host may do with triggers. */
export interface TriggerAdmin {
  /**
   * Has a session hear of a source. The same again is the subscription that is there; another one under its name is
   * `idempotency_conflict`. Throws `unknown_trigger`, `unknown_session` or `invalid_schedule`.
   */
  subscribe(request: SubscribeOptions & { readonly sessionId: string }): Promise<TriggerSubscription>;
  /** Ends a subscription; what occurred before is still delivered. Says whether it was there. */
  unsubscribe(id: string): Promise<boolean>;
  /** Lets a subscription rest, or go on: ticks meanwhile were not missed. Throws `unknown_subscription`. */
  setEnabled(id: string, isEnabled: boolean): Promise<TriggerSubscription>;
  subscriptions(filter?: TriggerFilter): Promise<TriggerPage>;
  /**
   * Says that something occurred; resolves when that is stored, with a delivery for every subscription. The same key with
   * the same payload is the same occurrence; with another one it is `idempotency_conflict`.
   * Throws `unknown_trigger` or `invalid_trigger_payload`.
   */
  emit(event: TriggerEvent): Promise<EmitReceipt>;
}

type TriggerParts = Omit<KernelParts, "sessions" | "work" | "triggers">;

export class Triggers implements TriggerAdmin {
  readonly pump: TriggerPump;
  readonly #parts: TriggerParts;
  readonly #sources: TriggerSources;

  constructor(sessions: Pick<SessionDirectory, "submit">, parts: TriggerParts) {
    this.#parts = parts;
    this.#sources = new TriggerSources(parts.plugins);
    this.pump = new TriggerPump(parts, sessions);
  }

  async subscribe({
    sessionId: id,
    ...options
  }: SubscribeOptions & { readonly sessionId: string }): Promise<TriggerSubscription> {
    const session = sessionId(id);
    const definition = decodeSubscribe(options);
    this.#sources.require(definition.source);
    const wanted = this.#newSubscription(session, definition);
    if (!(await this.#parts.store.exists(session))) throw unknownSession(session);
    const { subscription } = await this.#store.subscribe(wanted);
    if (subscription.due !== undefined) this.pump.wake();
    return shownSubscription(subscription);
  }

  /** With an owner, only a subscription of that session: any other is not there. */
  async unsubscribe(id: string, owner?: { readonly sessionId: string }): Promise<boolean> {
    const isOwn = owner === undefined || (await this.#store.get(id))?.sessionId === owner.sessionId;
    return isOwn && (await this.#store.unsubscribe(id));
  }

  async setEnabled(id: string, isEnabled: boolean): Promise<TriggerSubscription> {
    const known = await this.#store.get(id);
    const due = known === undefined || !isEnabled || known.isEnabled ? undefined : this.#nextTick(known);
    const change = due === undefined ? { isEnabled } : { isEnabled, due };
    const changed = await this.#store.enable(id, change);
    if (changed === undefined) throw unknownSubscription(id);
    if (due !== undefined) this.pump.wake();
    return shownSubscription(changed);
  }

  async subscriptions(filter: TriggerFilter = {}): Promise<TriggerPage> {
    const { sessionId: id, limit = 100, ...others } = filter;
    if (!Number.isSafeInteger(limit) || limit < 1)
      throw invalid("limit", "a positive whole number", String(limit));
    const of = id === undefined ? {} : { sessionId: sessionId(id) };
    const { items, cursor } = await this.#store.list({ ...others, ...of, limit });
    const shown = items.map(shownSubscription);
    return cursor === undefined ? { items: shown } : { items: shown, cursor };
  }

  async emit(event: TriggerEvent): Promise<EmitReceipt> {
    const { source, key, topic, at = this.#parts.clock.now() } = event;
    for (const [member, value] of Object.entries({ source, key, topic }))
      if ((typeof value !== "string" || value === "") && !(member === "topic" && value === undefined))
        throw invalid(member, "a non-empty string", typeof value);
    if (!isTime(at)) throw invalid("at", "milliseconds since 1970", String(at));
    const payload = this.#sources.checked(source, event.payload);
    const occurrenceId = occurrenceIdOf({ source, key, ...(topic === undefined ? {} : { topic }) });
    const { status, deliveries } = await this.#store.accept({
      occurrenceId,
      source,
      ...(topic === undefined ? {} : { topic }),
      payload,
      at,
      acceptedAt: this.#parts.clock.now(),
    });
    if (deliveries > 0) this.pump.wake();
    return { occurrenceId, status: status === "accepted" ? status : "duplicate", deliveries };
  }

  get #store(): TriggerStore {
    const { triggers } = this.#parts.store;
    if (triggers !== undefined) return triggers;
    const message = "triggers: expected a store that keeps them, found one that does not";
    throw new MarlingError("host_service_unavailable", message, { details: { service: "triggers" } });
  }

  #newSubscription(
    session: SessionId,
    definition: SubscriptionDefinition,
  ): Parameters<TriggerStore["subscribe"]>[0] {
    const createdAt = this.#parts.clock.now();
    const { source, config } = definition;
    const subscriptionId = subscriptionIdOf(session, definition);
    const schedule = scheduleOf(source, config, createdAt);
    if (schedule !== undefined && definition.topic !== undefined)
      throw invalid("topic", `none for ${source}`, definition.topic);
    // A tick is for its own subscription and for no other.
    const topic = schedule === undefined ? definition.topic : subscriptionId;
    const due = schedule === undefined ? undefined : firstTick(schedule, createdAt);
    return {
      subscriptionId,
      sessionId: session,
      source,
      ...(topic === undefined ? {} : { topic }),
      definition: encodeDefinition(definition),
      createdAt,
      ...(due === undefined ? {} : { due }),
    };
  }

  #nextTick({ source, definition, createdAt }: StoredSubscription): number | undefined {
    const schedule = scheduleOf(source, storedDefinition(definition).config, createdAt);
    return schedule === undefined ? undefined : firstTick(schedule, this.#parts.clock.now());
  }
}

export function unknownSubscription(id: string): MarlingError {
  const message = `subscription ${id}: expected one that is there, found none`;
  return new MarlingError("unknown_subscription", message, { details: { subscriptionId: id } });
}

function unknownSession(id: SessionId): MarlingError {
  const message = `subscribe: sessionId: expected a session that exists, found ${id}`;
  return new MarlingError("unknown_session", message, { details: { sessionId: id } });
}

function invalid(member: string, expected: string, found: string): MarlingError {
  const message = `trigger: ${member}: expected ${expected}, found ${found}`;
  return new MarlingError("invalid_input", message, { details: { where: member } });
}
