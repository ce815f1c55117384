// Stores that break their promises, to see that the crash test notices.

import { join } from "node:path";
import { sqliteStore } from "marling/sqlite";

/** @typedef {import("marling/host").Store} Store */

/**
 * A store of SQLite with some members of its own.
 * @param {string} folder
 * @param {(store: Store) => object} change
 * @returns {Store}
 */
export function brokenStore(folder, change) {
  const store = sqliteStore({ path: join(folder, "broken.db") });
  const changes = change(store);
  /** @type {Record<string, unknown>} */
  const members = {};
  for (let at = store; at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at)) {
      const member = /** @type {any} */ (store)[name];
      if (name !== "constructor" && !(name in members))
        members[name] = typeof member === "function" ? member.bind(store) : member;
    }
  return /** @type {any} */ ({ ...members, ...changes });
}

/**
 * A journal that acknowledges records and drops some of them.
 * @param {string} status
 * @returns {(store: Store) => object}
 */
export const dropping = (status) => (store) => ({
  journal: {
    read: (/** @type {any} */ session, /** @type {any} */ turn) => store.journal?.read(session, turn),
    append: (/** @type {readonly { status: string }[]} */ records, /** @type {any} */ lease) =>
      /** @type {any} */ (store.journal).append(
        records.filter((record) => record.status !== status),
        lease,
      ),
  },
});
