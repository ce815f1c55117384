// Triggers in the file of a store, each call one transaction.

import type { TriggerStore } from "../../model/trigger-store.ts";
import { acceptOccurrence, readDeliveries, settleDelivery } from "./delivery-rows.ts";
import type { StoreParts } from "./open-store.ts";
import {
  advanceTick,
  deleteSubscription,
  dueSubscriptions,
  enableSubscription,
  insertSubscription,
  listSubscriptions,
  nextDue,
  readSubscription,
} from "./trigger-rows.ts";

/** How a store runs something on its file. */
export interface Transactions {
  read<T>(read: (parts: StoreParts) => T): Promise<T>;
  write<T>(write: (parts: StoreParts) => T): Promise<T>;
}

export function sqliteTriggers({ read, write }: Transactions): TriggerStore {
  return Object.freeze<TriggerStore>({
    subscribe: (subscription) => write(({ db }) => insertSubscription(db, subscription)),
    get: (subscriptionId) => read(({ db }) => readSubscription(db, subscriptionId)),
    list: (query) => read(({ db }) => listSubscriptions(db, query)),
    enable: (subscriptionId, change) => write(({ db }) => enableSubscription(db, subscriptionId, change)),
    unsubscribe: (subscriptionId) => write(({ db }) => deleteSubscription(db, subscriptionId)),
    accept: (occurrence, tick) => write(({ db }) => acceptOccurrence(db, occurrence, tick)),
    advance: (tick) => write(({ db }) => advanceTick(db, tick)),
    pending: (page) => read(({ db }) => readDeliveries(db, page)),
    settle: (delivery) => write(({ db }) => settleDelivery(db, delivery)),
    due: (now, limit) => read(({ db }) => dueSubscriptions(db, now, limit)),
    nextDue: () => read(({ db }) => nextDue(db)),
  });
}
