// Every store passes the one suite.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";
import type { Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { tenantStore, withoutTenants } from "../../src/store/tenant-store.ts";
import { type StoreHarness, storeConformance } from "../../src/testing/conformance/store.ts";
import { lossyStore, slowStore } from "./lossy-store.ts";

const NOTHING_LASTS = "nothing outlives the process";

let seed = 0;

const MEMORIES: readonly (readonly [name: string, wrap: (store: Store) => Store])[] = [
  ["memory", (store) => store],
  ["memory behind random delays", (store) => slowStore(store, seed)],
  [
    "memory behind random delays and failures, by a client that asks again",
    (store) => lossyStore(store, seed),
  ],
];

for (const [name, wrap] of MEMORIES) {
  storeConformance(
    name,
    {
      open: async () => {
        seed += 1;
        const data = memoryStore();
        const store = wrap(data);
        return { store, second: async () => wrap(data), close: () => data.close() };
      },
      skip: { reopen: NOTHING_LASTS },
    },
    { describe, test },
  );
}

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
    skip: { reopen: NOTHING_LASTS, second: "nobody else can open it" },
  },
  { describe, test },
);

const NOT_OF_TENANTS = "only that of the whole store does it";
const PARTS: readonly (readonly [name: string, of: (store: Store) => Store, skip: Record<string, string>])[] =
  [
    ["what a tenant has of a store", (store) => tenantStore(store, "acme"), { ST40: NOT_OF_TENANTS }],
    ["what no tenant has of a store", withoutTenants, {}],
  ];

for (const [name, of, skip] of PARTS) {
  storeConformance(
    name,
    {
      open: async () => {
        const data = memoryStore();
        return { store: of(data), second: async () => of(data), close: () => data.close() };
      },
      skip: { reopen: NOTHING_LASTS, ...skip },
    },
    { describe, test },
  );
}

async function openFile(durability: "process" | "power"): Promise<StoreHarness> {
  const folder = mkdtempSync(join(tmpdir(), "marling-store-"));
  const path = join(folder, "test.db");
  const open: Store[] = [];
  const openAnother = (): Store => {
    const store = sqliteStore({ path, durability });
    open.push(store);
    return store;
  };
  const closeAll = async (): Promise<void> => {
    for (const store of open.splice(0)) await store.close();
  };
  return {
    store: openAnother(),
    reopen: async () => {
      await closeAll();
      return openAnother();
    },
    second: async () => openAnother(),
    close: async () => {
      await closeAll();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
