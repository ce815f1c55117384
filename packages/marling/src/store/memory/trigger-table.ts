// Subscriptions, occurrences and deliveries, in memory.
//   MT1  rows are replaced, never changed: whoever was handed one keeps what it was.
//   MT2  the payload of an occurrence goes with its last delivery; its digest stays, so that a late duplicate is known.

import { sha256 } from "../../base/digest.ts";
import { MarlingError } from "../../base/errors.ts";
import type { SessionId } from "../../model/ids.ts";
import { canonicalJson, decodeJson, jsonEqual } from "../../model/json.ts";
import type {
  Acceptance,
  DeliveryName,
  NewOccurrence,
  NewSubscription,
  PendingDelivery,
  StoredSubscription,
  SubscriptionPage,
  SubscriptionQuery,
  Tick,
} from "../../model/trigger-store.ts";

interface Occurrence {
  readonly digest: string;
  readonly acceptedAt: number;
  open: number;
}

export class TriggerTable {
  readonly #subscriptions = new Map<string, StoredSubscription>();
  readonly #occurrences = new Map<string, Occurrence>();
  readonly #deliveries = new Map<string, PendingDelivery>();
  #sequence = 0;

  subscribe(wanted: NewSubscription): {
    readonly isNew: boolean;
    readonly subscription: StoredSubscription;
  } {
    const known = this.#subscriptions.get(wanted.subscriptionId);
    if (known !== undefined) {
      if (known.sessionId !== wanted.sessionId || !jsonEqual(known.definition, wanted.definition))
        throw otherDefinition(wanted.subscriptionId);
      return { isNew: false, subscription: known };
    }
    const definition = decodeJson(wanted.definition, "definition");
    const subscription: StoredSubscription = { ...wanted, definition, isEnabled: true };
    this.#subscriptions.set(wanted.subscriptionId, subscription);
    return { isNew: true, subscription };
  }

  get(subscriptionId: string): StoredSubscription | undefined {
    return this.#subscriptions.get(subscriptionId);
  }

  list({ sessionId, source, limit = 100, cursor = "" }: SubscriptionQuery): SubscriptionPage {
    const found = [...this.#subscriptions.values()]
      .filter((one) => sessionId === undefined || one.sessionId === sessionId)
      .filter((one) => source === undefined || one.source === source)
      .filter(({ subscriptionId }) => subscriptionId > cursor)
      .sort(byId);
    const items = found.slice(0, limit);
    const last = items.at(-1);
    return found.length > limit && last !== undefined ? { items, cursor: last.subscriptionId } : { items };
  }

  enable(
    subscriptionId: string,
    { isEnabled, due }: { readonly isEnabled: boolean; readonly due?: number },
  ): StoredSubscription | undefined {
    const known = this.#subscriptions.get(subscriptionId);
    if (known === undefined) return undefined;
    const changed = { ...known, isEnabled, ...(due === undefined ? {} : { due }) };
    this.#subscriptions.set(subscriptionId, changed);
    return changed;
  }

  unsubscribe(subscriptionId: string): boolean {
    return this.#subscriptions.delete(subscriptionId);
  }

  accept(occurrence: NewOccurrence, tick: Tick | undefined): Acceptance {
    const { occurrenceId, acceptedAt } = occurrence;
    if (tick !== undefined && !this.#isPlanned(tick)) return { status: "moved", deliveries: 0 };
    const payload = decodeJson(occurrence.payload, "payload");
    const digest = sha256(canonicalJson(payload));
    const known = this.#occurrences.get(occurrenceId);
    if (known !== undefined && tick === undefined && known.digest !== digest) throw otherPayload(occurrence);
    const wanted = known === undefined ? this.#matching(occurrence) : [];
    for (const subscription of wanted) this.#reserve(subscription, { ...occurrence, payload });
    if (known === undefined) this.#occurrences.set(occurrenceId, { digest, acceptedAt, open: wanted.length });
    if (tick !== undefined) this.advance(tick);
    return { status: known === undefined ? "accepted" : "duplicate", deliveries: wanted.length };
  }

  advance(tick: Tick): boolean {
    const known = this.#subscriptions.get(tick.subscriptionId);
    if (known === undefined || !this.#isPlanned(tick)) return false;
    const { due: _due, carried: _carried, ...others } = known;
    this.#subscriptions.set(tick.subscriptionId, {
      ...others,
      ...(tick.next === undefined ? {} : { due: tick.next }),
      ...(tick.carried === undefined ? {} : { carried: decodeJson(tick.carried, "carried") }),
    });
    return true;
  }

  pending({ after, limit }: { readonly after: number; readonly limit: number }): readonly PendingDelivery[] {
    const found: PendingDelivery[] = [];
    for (const delivery of this.#deliveries.values()) {
      if (found.length === limit) break;
      if (delivery.sequence > after) found.push(delivery);
    }
    return found;
  }

  /** Says whether it was there. */
  settle(delivery: DeliveryName): boolean {
    if (!this.#deliveries.delete(nameOf(delivery))) return false;
    const occurrence = this.#occurrences.get(delivery.occurrenceId);
    if (occurrence !== undefined) occurrence.open -= 1;
    return true;
  }

  due(now: number, limit: number): readonly StoredSubscription[] {
    return this.#scheduled()
      .filter(({ due = 0 }) => due <= now)
      .slice(0, limit);
  }

  nextDue(): number | undefined {
    return this.#scheduled()[0]?.due;
  }

  delete(sessionId: SessionId): void {
    for (const one of this.#subscriptions.values())
      if (one.sessionId === sessionId) this.#subscriptions.delete(one.subscriptionId);
    for (const delivery of [...this.#deliveries.values()])
      if (delivery.sessionId === sessionId) this.settle(delivery);
  }

  /** Removes occurrences that were accepted until a time and are delivered; returns how many. */
  vacuum(until: number): number {
    let removed = 0;
    for (const [occurrenceId, { acceptedAt, open }] of this.#occurrences) {
      if (open > 0 || acceptedAt > until) continue;
      this.#occurrences.delete(occurrenceId);
      removed += 1;
    }
    return removed;
  }

  /** Everything that may name a blob. */
  *values(): Iterable<unknown> {
    yield* this.#subscriptions.values();
    yield* this.#deliveries.values();
  }

  #isPlanned({ subscriptionId, due }: Tick): boolean {
    const known = this.#subscriptions.get(subscriptionId);
    return known?.isEnabled === true && known.due === due;
  }

  #matching({ source, topic }: NewOccurrence): readonly StoredSubscription[] {
    return [...this.#subscriptions.values()]
      .filter(
        (one) => one.isEnabled && one.source === source && (one.topic === undefined || one.topic === topic),
      )
      .sort((one, other) => one.createdAt - other.createdAt || byId(one, other));
  }

  #reserve(
    { subscriptionId, sessionId, definition }: StoredSubscription,
    { occurrenceId, source, topic, payload, at }: NewOccurrence,
  ): void {
    this.#sequence += 1;
    const about = { source, ...(topic === undefined ? {} : { topic }), definition, payload, at };
    const delivery = { occurrenceId, subscriptionId, sequence: this.#sequence, sessionId, ...about };
    this.#deliveries.set(nameOf(delivery), delivery);
  }

  #scheduled(): readonly StoredSubscription[] {
    return [...this.#subscriptions.values()]
      .filter(({ isEnabled, due }) => isEnabled && due !== undefined)
      .sort((one, other) => (one.due ?? 0) - (other.due ?? 0));
  }
}

function nameOf({ occurrenceId, subscriptionId }: DeliveryName): string {
  return JSON.stringify([occurrenceId, subscriptionId]);
}

function otherDefinition(subscriptionId: string): MarlingError {
  const message = `subscription ${subscriptionId}: expected the definition that it was made with, found another one`;
  return new MarlingError("idempotency_conflict", message, { details: { subscriptionId } });
}

function byId(one: StoredSubscription, other: StoredSubscription): number {
  return one.subscriptionId < other.subscriptionId ? -1 : 1;
}

function otherPayload({ source, occurrenceId }: NewOccurrence): MarlingError {
  const message = `occurrence ${occurrenceId} of ${source}: its key was used before with another payload`;
  return new MarlingError("idempotency_conflict", message, { details: { source, occurrenceId } });
}
