// What a store keeps of triggers: who wants to hear of what, what occurred, and what is still to be delivered.
//   ST42 a subscription is made once per id: the same definition again is the one that is there, another one is
//        `idempotency_conflict`.
//   ST43 an occurrence and one delivery for every enabled subscription that matches it are written together, once per id;
//        the same payload again changes nothing, another payload is `idempotency_conflict`.
//   ST44 a delivery goes with the input that it becomes, in one transaction (`Store.admit`).
//   ST45 a tick moves the due time of its subscription from the one it was planned for, or nothing happens.

import type { SessionId } from "./ids.ts";
import type { Json } from "./json.ts";

export interface NewSubscription {
  readonly subscriptionId: string;
  readonly sessionId: SessionId;
  readonly source: string;
  /** It is about occurrences of this topic only; without one, about all of its source. */
  readonly topic?: string;
  /** What was asked for, as its owner encodes it: compared when it is asked for again, and given to its deliveries. */
  readonly definition: Json;
  readonly createdAt: number;
  /** When its next tick is due, if it has ticks. */
  readonly due?: number;
}

export interface StoredSubscription extends NewSubscription {
  readonly isEnabled: boolean;
  /** What its owner has to remember between two ticks. */
  readonly carried?: Json;
}

export interface NewOccurrence {
  /** Derived from source, topic and idempotency key. */
  readonly occurrenceId: string;
  readonly source: string;
  readonly topic?: string;
  readonly payload: Json;
  /** When it happened. */
  readonly at: number;
  /** When it was accepted; what is over is kept from then on. */
  readonly acceptedAt: number;
}

/** One step of a schedule. */
export interface Tick {
  readonly subscriptionId: string;
  /** The due time that it was planned for. */
  readonly due: number;
  /** The next one; without one the schedule has ended. */
  readonly next: number | undefined;
  /** What is remembered until the next one; nothing when it is left out. */
  readonly carried?: Json;
}

/** `moved`: the tick was somebody else's already, and nothing happened. */
export interface Acceptance {
  readonly status: "accepted" | "duplicate" | "moved";
  /** How many subscriptions it was reserved for, when it was accepted. */
  readonly deliveries: number;
}

export interface DeliveryName {
  readonly occurrenceId: string;
  readonly subscriptionId: string;
}

/** An occurrence for one subscription, as that was when it occurred. */
export interface PendingDelivery extends DeliveryName {
  /** In the order of reservation, among those that are to be made. */
  readonly sequence: number;
  readonly sessionId: SessionId;
  readonly source: string;
  readonly topic?: string;
  readonly definition: Json;
  readonly payload: Json;
  readonly at: number;
}

export interface SubscriptionQuery {
  readonly sessionId?: SessionId;
  readonly source?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface SubscriptionPage {
  readonly items: readonly StoredSubscription[];
  readonly cursor?: string;
}

export interface TriggerStore {
  /** Makes a subscription, or returns the one that is there. */
  subscribe(
    subscription: NewSubscription,
  ): Promise<{ readonly isNew: boolean; readonly subscription: StoredSubscription }>;
  get(subscriptionId: string): Promise<StoredSubscription | undefined>;
  /** In the order of ids; a page has 100 unless told. */
  list(query: SubscriptionQuery): Promise<SubscriptionPage>;
  /** Turns a subscription off, or on with a new due time. What was reserved stays. Nothing when there is none. */
  enable(
    subscriptionId: string,
    change: { readonly isEnabled: boolean; readonly due?: number },
  ): Promise<StoredSubscription | undefined>;
  /** Removes a subscription; what was reserved stays. Says whether it was there. */
  unsubscribe(subscriptionId: string): Promise<boolean>;
  /** Writes an occurrence with its deliveries; of a tick, only when its due time is still the one it was planned for. */
  accept(occurrence: NewOccurrence, tick?: Tick): Promise<Acceptance>;
  /** Passes over a tick without an occurrence; false when it was somebody else's already. */
  advance(tick: Tick): Promise<boolean>;
  /** Deliveries that are still to be made, oldest first, from behind a sequence. */
  pending(page: { readonly after: number; readonly limit: number }): Promise<readonly PendingDelivery[]>;
  /** Takes a delivery that cannot be made out of those that are to be. */
  settle(delivery: DeliveryName): Promise<void>;
  /** Enabled subscriptions whose next tick is due, the longest due first. */
  due(now: number, limit: number): Promise<readonly StoredSubscription[]>;
  /** When the next tick of any enabled subscription is due. */
  nextDue(): Promise<number | undefined>;
}
