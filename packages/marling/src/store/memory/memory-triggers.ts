import type { SessionId } from "../../model/ids.ts";
import type { TriggerStore } from "../../model/trigger-store.ts";
import type { TriggerTable } from "./trigger-table.ts";

interface MemoryOwner {
  refuseRetired(sessionId: SessionId): void;
  changed(): void;
}

/** Triggers of a store in memory: what changed is told to the store that has the table. */
export function memoryTriggers(table: TriggerTable, { refuseRetired, changed }: MemoryOwner): TriggerStore {
  const told = <T>(answer: T, hasChanged: boolean): T => {
    if (hasChanged) changed();
    return answer;
  };
  return {
    subscribe: async (wanted) => {
      refuseRetired(wanted.sessionId);
      const answer = table.subscribe(wanted);
      return told(answer, answer.isNew);
    },
    get: async (subscriptionId) => table.get(subscriptionId),
    list: async (query) => {
      if (query.sessionId !== undefined) refuseRetired(query.sessionId);
      return table.list(query);
    },
    enable: async (subscriptionId, change) => {
      const answer = table.enable(subscriptionId, change);
      return told(answer, answer !== undefined);
    },
    unsubscribe: async (subscriptionId) => {
      const isGone = table.unsubscribe(subscriptionId);
      return told(isGone, isGone);
    },
    accept: async (occurrence, tick) => {
      const answer = table.accept(occurrence, tick);
      return told(answer, answer.status !== "moved");
    },
    advance: async (tick) => {
      const isOwn = table.advance(tick);
      return told(isOwn, isOwn);
    },
    pending: async (page) => table.pending(page),
    settle: async (delivery) => {
      told(undefined, table.settle(delivery));
    },
    due: async (now, limit) => table.due(now, limit),
    nextDue: async () => table.nextDue(),
  };
}
