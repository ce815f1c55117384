// Triggers of one tenant, and those of none, in a store that many share.
//   TN6  sources, subscriptions and occurrences are put under their tenant with their sessions: what occurs for one
//        tenant reaches no session of another.

import type { SessionId } from "../model/ids.ts";
import type {
  DeliveryName,
  NewOccurrence,
  NewSubscription,
  PendingDelivery,
  StoredSubscription,
  SubscriptionPage,
  SubscriptionQuery,
  Tick,
  TriggerStore,
} from "../model/trigger-store.ts";

/** Names on their way to the store and back. */
interface Names {
  readonly prefix: string;
  call<T>(make: () => Promise<T>): Promise<T>;
}

interface OfSession {
  readonly sessionId: SessionId;
}

/** Nobody has more due at once; what is behind is due the next time. */
const MOST_AT_ONCE = 1000;

/** The triggers of one tenant. */
export function triggersUnder(triggers: TriggerStore, names: Names): TriggerStore {
  const { prefix } = names;
  const under = <T extends string>(id: T): T => `${prefix}${id}` as T;
  const isOwn = ({ sessionId }: OfSession): boolean => sessionId.startsWith(prefix);
  const shown = (one: StoredSubscription): StoredSubscription => shownTo(prefix, one);
  const tickUnder = (tick: Tick): Tick => ({ ...tick, subscriptionId: under(tick.subscriptionId) });
  const own = ownTriggers(triggers, isOwn);
  return {
    subscribe: (wanted) =>
      names.call(async () => {
        const made = await triggers.subscribe(subscriptionUnder(prefix, wanted));
        return { ...made, subscription: shown(made.subscription) };
      }),
    get: (id) => names.call(async () => optional(await triggers.get(under(id)), shown)),
    list: (query) => names.call(() => listUnder(triggers, prefix, query)),
    enable: (id, change) => names.call(async () => optional(await triggers.enable(under(id), change), shown)),
    unsubscribe: (id) => names.call(() => triggers.unsubscribe(under(id))),
    accept: (occurrence, tick) =>
      names.call(() => triggers.accept(occurrenceUnder(occurrence, prefix), tick && tickUnder(tick))),
    advance: (tick) => names.call(() => triggers.advance(tickUnder(tick))),
    pending: (page) =>
      names.call(async () => (await own.pending(page)).map((delivery) => deliveryOf(prefix, delivery))),
    settle: (delivery) => names.call(() => triggers.settle(deliveryUnder(delivery, prefix))),
    due: (now, limit) => names.call(async () => (await own.due(now, limit)).map(shown)),
    nextDue: () => names.call(() => own.nextDue()),
  };
}

/** The triggers of no tenant. */
export function triggersOfNone(triggers: TriggerStore, mark: string): TriggerStore {
  const isOfNone = ({ sessionId }: OfSession): boolean => !sessionId.startsWith(mark);
  const unlessTenants = <T>(id: string, call: () => Promise<T>, none: T): Promise<T> =>
    id.startsWith(mark) ? Promise.resolve(none) : call();
  return {
    subscribe: (wanted) => triggers.subscribe(wanted),
    get: (id) => unlessTenants(id, () => triggers.get(id), undefined),
    // No other id is before those of tenants, which begin with a control character.
    list: (query) => triggers.list({ ...query, cursor: query.cursor ?? " " }),
    enable: (id, change) => unlessTenants(id, () => triggers.enable(id, change), undefined),
    unsubscribe: (id) => unlessTenants(id, () => triggers.unsubscribe(id), false),
    accept: (occurrence, tick) => triggers.accept(occurrence, tick),
    advance: (tick) => triggers.advance(tick),
    settle: (delivery) => triggers.settle(delivery),
    ...ownTriggers(triggers, isOfNone),
  };
}

export function deliveryUnder(delivery: DeliveryName, prefix: string): DeliveryName {
  const { occurrenceId, subscriptionId } = delivery;
  return { occurrenceId: `${prefix}${occurrenceId}`, subscriptionId: `${prefix}${subscriptionId}` };
}

/** Sessions that something is to be delivered to, or that have a tick that is due. */
export async function triggeredSessions(triggers: TriggerStore, now: number): Promise<readonly SessionId[]> {
  const pending = await triggers.pending({ after: 0, limit: MOST_AT_ONCE });
  const due = await triggers.due(now, MOST_AT_ONCE);
  return [...new Set([...pending, ...due].map(({ sessionId }) => sessionId))];
}

async function listUnder(
  triggers: TriggerStore,
  prefix: string,
  { sessionId, source, cursor = "", ...page }: SubscriptionQuery,
): Promise<SubscriptionPage> {
  const of = sessionId === undefined ? {} : { sessionId: `${prefix}${sessionId}` as SessionId };
  const from = source === undefined ? {} : { source: `${prefix}${source}` };
  const found = await triggers.list({ ...page, ...of, ...from, cursor: `${prefix}${cursor}` });
  const own = found.items.filter(({ subscriptionId }) => subscriptionId.startsWith(prefix));
  const items = own.map((one) => shownTo(prefix, one));
  // Those of a tenant are together: where the next one is another's, there are no more.
  const hasMore = found.cursor !== undefined && own.length === found.items.length;
  return hasMore ? { items, cursor: (found.cursor ?? "").slice(prefix.length) } : { items };
}

function subscriptionUnder(prefix: string, wanted: NewSubscription): NewSubscription {
  const { subscriptionId, sessionId, source } = wanted;
  return {
    ...wanted,
    subscriptionId: `${prefix}${subscriptionId}`,
    sessionId: `${prefix}${sessionId}` as SessionId, // as sessions are put under their tenant
    source: `${prefix}${source}`,
  };
}

function shownTo(prefix: string, one: StoredSubscription): StoredSubscription {
  return {
    ...one,
    subscriptionId: one.subscriptionId.slice(prefix.length),
    sessionId: one.sessionId.slice(prefix.length) as SessionId, // as its tenant knows it
    source: one.source.slice(prefix.length),
  };
}

function deliveryOf(prefix: string, delivery: PendingDelivery): PendingDelivery {
  return {
    ...delivery,
    occurrenceId: delivery.occurrenceId.slice(prefix.length),
    subscriptionId: delivery.subscriptionId.slice(prefix.length),
    sessionId: delivery.sessionId.slice(prefix.length) as SessionId, // as its tenant knows it
    source: delivery.source.slice(prefix.length),
  };
}

function occurrenceUnder(occurrence: NewOccurrence, prefix: string): NewOccurrence {
  const { occurrenceId, source } = occurrence;
  return { ...occurrence, occurrenceId: `${prefix}${occurrenceId}`, source: `${prefix}${source}` };
}

/** Lists of all, without what is somebody else's. */
function ownTriggers(
  triggers: TriggerStore,
  isOwn: (one: OfSession) => boolean,
): Pick<TriggerStore, "pending" | "due" | "nextDue"> {
  const due: TriggerStore["due"] = async (now, limit) => {
    for (let asked = limit; ; asked *= 10) {
      const found = await triggers.due(now, asked);
      const own = found.filter(isOwn);
      if (own.length >= limit || found.length < asked) return own.slice(0, limit);
    }
  };
  return {
    pending: async ({ after, limit }) => {
      const own: PendingDelivery[] = [];
      let page = await triggers.pending({ after, limit });
      while (page.length > 0 && own.length < limit) {
        own.push(...page.filter(isOwn));
        page = await triggers.pending({ after: page.at(-1)?.sequence ?? 0, limit });
      }
      return own.slice(0, limit);
    },
    due,
    nextDue: async () => (await due(Number.MAX_SAFE_INTEGER, 1))[0]?.due,
  };
}

function optional<T>(value: T | undefined, map: (value: T) => T): T | undefined {
  return value === undefined ? undefined : map(value);
}
