// What the cases about triggers are made of.

import assert from "node:assert/strict";
import type { Json } from "../../model/json.ts";
import type { NewOccurrence, NewSubscription, TriggerStore } from "../../model/trigger-store.ts";
import type { Store } from "../../store/contract.ts";
import { A } from "./store-case.ts";

export const MAIL = "mail.received";
export const FIRST_PAGE = { after: 0, limit: 100 } as const;

/** The triggers of a store that keeps them. */
export function triggersOf(store: Store): TriggerStore {
  assert.ok(store.triggers, "a store without triggers skips `triggers` with a reason");
  return store.triggers;
}

export function subscriptionOf(name: string, changes: Partial<NewSubscription> = {}): NewSubscription {
  return {
    subscriptionId: name,
    sessionId: A,
    source: MAIL,
    definition: { of: name },
    createdAt: 1000,
    ...changes,
  };
}

export function occurrenceOf(name: string, changes: Partial<NewOccurrence> = {}): NewOccurrence {
  const payload: Json = { subject: name };
  return { occurrenceId: name, source: MAIL, payload, at: 2000, acceptedAt: 3000, ...changes };
}

export async function pendingOf(triggers: TriggerStore): Promise<readonly string[]> {
  return (await triggers.pending(FIRST_PAGE)).map((one) => `${one.occurrenceId} for ${one.subscriptionId}`);
}

export async function idsOf(
  triggers: TriggerStore,
  query: Parameters<TriggerStore["list"]>[0],
): Promise<readonly string[]> {
  return (await triggers.list(query)).items.map(({ subscriptionId }) => subscriptionId);
}
