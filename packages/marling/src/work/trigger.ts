// Triggers as hosts and plugins ask for them. The rules are in TRIGGERS.md.

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { canonicalJson, decodeJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { StoredSubscription } from "../model/trigger-store.ts";
import { decodeMissed, type MissedCount } from "./plan-ticks.ts";

/** How an occurrence reaches a session: as a turn of its own, or at the next checkpoint of the one that runs. */
export type TriggerDelivery = "turn" | "active_turn";

export interface SubscribeOptions {
  /** `<alias>.<event>` of a plugin's trigger, `cron.tick` or `interval.tick`. */
  readonly source: string;
  /** What the session knows it by; the same name again is the same subscription. By default it goes by its content. */
  readonly name?: string;
  /** Only occurrences of this topic. */
  readonly topic?: string;
  /** What its source needs to know: the schedule of `cron.tick` and `interval.tick`. */
  readonly config?: JsonObject;
  /** What the model is told to do about an occurrence. */
  readonly input?: string;
  readonly deliver?: TriggerDelivery;
}

export interface TriggerSubscription {
  readonly id: string;
  readonly sessionId: string;
  readonly source: string;
  readonly name?: string;
  readonly topic?: string;
  readonly config?: JsonObject;
  readonly input?: string;
  readonly deliver: TriggerDelivery;
  readonly isEnabled: boolean;
  readonly createdAt: number;
  /** When its next tick is due, if it has ticks. */
  readonly nextAt?: number;
  /** Ticks that did not fire and that no occurrence has told of yet. */
  readonly missed?: MissedCount;
}

export interface TriggerFilter {
  readonly sessionId?: string;
  readonly source?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface TriggerPage {
  readonly items: readonly TriggerSubscription[];
  readonly cursor?: string;
}

export interface TriggerEvent {
  readonly source: string;
  /** What makes it the same occurrence when it is emitted again. */
  readonly key: string;
  readonly topic?: string;
  readonly payload?: unknown;
  /** When it happened, in milliseconds since 1970; by default now. */
  readonly at?: number;
}

export interface EmitReceipt {
  readonly occurrenceId: string;
  readonly status: "accepted" | "duplicate";
  /** How many subscriptions it was accepted for just now. */
  readonly deliveries: number;
}

/** What a subscription is, as it is stored and compared. */
export type SubscriptionDefinition = Omit<SubscribeOptions, "deliver"> & {
  readonly deliver: TriggerDelivery;
};

const OPTIONS: readonly string[] = ["source", "name", "topic", "config", "input", "deliver"];

/** Reads what somebody wants to subscribe to. Throws `invalid_input` naming the member. */
export function decodeSubscribe(raw: SubscribeOptions): SubscriptionDefinition {
  if (typeof raw !== "object" || raw === null) throw refuse("options", "an object with a source");
  const unknown = Object.keys(raw).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw refuse(unknown, `one of ${OPTIONS.join(", ")}`);
  const { source, name, topic, config, input, deliver = "turn" } = raw;
  for (const [member, value] of Object.entries({ source, name, topic, input })) {
    if (value === undefined && member !== "source") continue;
    if (typeof value !== "string" || value.trim() === "") throw refuse(member, "a non-blank string");
  }
  if (deliver !== "turn" && deliver !== "active_turn") throw refuse("deliver", "turn or active_turn");
  const json = config === undefined ? undefined : decodeJson(config, "subscribe: config");
  if (json !== undefined && !isJsonObject(json)) throw refuse("config", "an object");
  return {
    source,
    ...(name === undefined ? {} : { name }),
    ...(topic === undefined ? {} : { topic }),
    ...(json === undefined ? {} : { config: json }),
    ...(input === undefined ? {} : { input }),
    deliver,
  };
}

const VERSION = 1;

/** A definition as it is stored. */
export function encodeDefinition(definition: SubscriptionDefinition): Json {
  return { version: VERSION, ...(definition as unknown as JsonObject) }; // was decoded from JSON
}

/** What a stored definition says; it was checked before it was stored. Throws `unsupported_version`. */
export function storedDefinition(stored: Json): SubscriptionDefinition {
  const { version, ...definition } = isJsonObject(stored) ? stored : {};
  if (version === VERSION) return definition as unknown as SubscriptionDefinition;
  const message = `subscription: expected version ${VERSION}, found ${JSON.stringify(version)}`;
  throw new MarlingError("unsupported_version", message, { details: { version: version ?? null } });
}

/** The id of a subscription says nothing about its session, and is the same whoever asks for it. */
export function subscriptionIdOf(sessionId: string, definition: SubscriptionDefinition): string {
  const { name } = definition;
  const own = name === undefined ? canonicalJson(definition as unknown as Json) : [name];
  return `sub_${sha256(JSON.stringify([sessionId, own])).slice(0, 32)}`;
}

export function occurrenceIdOf({ source, topic, key }: Omit<TriggerEvent, "payload" | "at">): string {
  return `occ_${sha256(JSON.stringify([source, topic ?? null, key])).slice(0, 32)}`;
}

/** A subscription as it is shown. */
export function shownSubscription(stored: StoredSubscription): TriggerSubscription {
  const { subscriptionId, sessionId, definition, isEnabled, createdAt, due, carried } = stored;
  const missed = decodeMissed(carried);
  return Object.freeze({
    id: subscriptionId,
    sessionId,
    ...storedDefinition(definition),
    isEnabled,
    createdAt,
    ...(due === undefined ? {} : { nextAt: due }),
    ...(missed === undefined ? {} : { missed }),
  });
}

function refuse(member: string, expected: string): MarlingError {
  return new MarlingError("invalid_input", `subscribe: ${member}: expected ${expected}`, {
    details: { where: member },
  });
}
