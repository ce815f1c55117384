// Every store that a test makes is watched, wherever it is made: see loop-guard.ts.

import { afterEach, beforeEach, vi } from "vitest";
import type { Store } from "../../src/store/contract.ts";
import { LoopGuard, turnOfLoop } from "./loop-guard.ts";

type MemoryModule = typeof import("../../src/store/memory.ts");
type SqliteModule = typeof import("../../src/store/sqlite/sqlite-store.ts");

const guard = new LoopGuard();

vi.mock("../../src/store/memory.ts", async (original) => {
  const { memoryStore, ...others } = await original<MemoryModule>();
  return { ...others, memoryStore: () => watched(memoryStore()) };
});

vi.mock("../../src/store/sqlite/sqlite-store.ts", async (original) => {
  const { sqliteStore, openSqliteStore, ...others } = await original<SqliteModule>();
  const opened: Pick<SqliteModule, "sqliteStore" | "openSqliteStore"> = {
    sqliteStore: (options) => watched(sqliteStore(options)),
    openSqliteStore: (options, internals) => watched(openSqliteStore(options, internals)),
  };
  return { ...others, ...opened };
});

// Tests that wait for nothing follow each other within one turn.
beforeEach(() => new Promise<void>((resolve) => void turnOfLoop(() => resolve())));

afterEach(() => {
  const found = guard.take();
  if (found !== undefined) throw found;
});

function watched(store: Store): Store {
  return guard.watch(store);
}
