// Sessions as they are in a store, read without running anything: no recovery, no plugins, no lease.

import { existsSync } from "node:fs";
import { MarlingError, type Message, type SessionSummary, type Store } from "marling";
import { sqliteStore } from "marling/sqlite";
import type { Settings } from "./settings.ts";
import { usageError } from "./usage-error.ts";

export interface StoredSummary extends SessionSummary {
  /** Inputs that were accepted and are not settled. */
  readonly unfinished: number;
}

/** Opens the store for as long as `read` takes. */
export async function withStore<T>(
  { store: path }: Pick<Settings, "store">,
  read: (store: Store) => Promise<T>,
): Promise<T> {
  if (!existsSync(path))
    throw usageError("", `store ${path}: expected a file, found none; \`marling chat\` makes one`);
  const store = sqliteStore({ path });
  try {
    return await read(store);
  } finally {
    await store.close();
  }
}

export async function listSessions(store: Store): Promise<readonly StoredSummary[]> {
  const found: StoredSummary[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list(cursor === undefined ? {} : { cursor });
    for (const item of page.items) {
      const pending = await store.pending(item.id as Parameters<Store["pending"]>[0]); // an id of the store itself
      found.push({ ...item, unfinished: pending.length });
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}

export interface StoredTranscript {
  readonly id: string;
  readonly revision: number;
  readonly turns: number;
  readonly unfinished: number;
  readonly messages: readonly Message[];
}

export async function readTranscript(store: Store, id: string): Promise<StoredTranscript> {
  const sessionId = id as Parameters<Store["load"]>[0]; // whatever it is, the store knows it or not
  const stored = await store.load(sessionId);
  if (stored === undefined)
    throw new MarlingError("unknown_session", `session ${id}: expected one of the store, found none`, {
      details: { sessionId: id },
    });
  const { revision, head, nodes } = stored;
  const all = [...(stored.earlier?.() ?? []), ...nodes];
  return {
    id,
    revision,
    turns: head.turnIndex,
    unfinished: (await store.pending(sessionId)).length,
    messages: all.flatMap(
      (node) => (node.kind === "message" ? [node.message as unknown as Message] : []), // as commits write them
    ),
  };
}
