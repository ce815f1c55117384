// Every store passes the one suite.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { type StoreHarness, storeConformance } from "../../src/testing/conformance/store.ts";

const NOTHING_LASTS = "nothing outlives the process";

storeConformance(
  "memory",
  {
    open: async () => {
      const store = memoryStore();
      return { store, close: () => store.close() };
    },
    skip: { journal: NOTHING_LASTS, reopen: NOTHING_LASTS },
  },
  { describe, test },
);

for (const durability of ["process", "power"] as const) {
  storeConformance(`sqlite, ${durability}`, { open: () => openFile(durability) }, { describe, test });
}

storeConformance(
  "sqlite in memory",
  {
    open: async () => {
      const store = sqliteStore({ path: ":memory:" });
      return { store, close: () => store.close() };
    },
    skip: { reopen: NOTHING_LASTS },
  },
  { describe, test },
);

async function openFile(durability: "process" | "power"): Promise<StoreHarness> {
  const folder = mkdtempSync(join(tmpdir(), "marling-store-"));
  const path = join(folder, "test.db");
  let store = sqliteStore({ path, durability });
  return {
    store,
    reopen: async () => {
      await store.close();
      store = sqliteStore({ path, durability });
      return store;
    },
    close: async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
