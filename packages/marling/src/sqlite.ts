// The embedded store, for durable sessions without a server. Importing it loads no database: the first call does.

export type { Store } from "./store/contract.ts";

export type { SqliteStoreOptions } from "./store/sqlite/sqlite-store.ts";
export { sqliteStore } from "./store/sqlite/sqlite-store.ts";
