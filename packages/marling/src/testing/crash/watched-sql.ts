// The COMMIT of SQLite has a boundary before and after it: between the last statement and the log of the database, and
// between that and whoever waits for it. The driver is wrapped where the process gets it from.

import type { Boundaries } from "./boundaries.ts";

interface Database {
  exec(sql: string): unknown;
}
interface Driver {
  readonly DatabaseSync: new (...args: never[]) => Database;
}

/** From now on, every database that this process opens is watched. */
export async function watchSql(boundaries: Boundaries): Promise<void> {
  const builtin = process.getBuiltinModule;
  // Neither module has types on Node 20; both have this class.
  const driver = (builtin("node:sqlite") ?? (await import("@photostructure/sqlite"))) as unknown as Driver;
  const watched = { ...driver, DatabaseSync: watchedDatabase(driver.DatabaseSync, boundaries) };
  const lookUp = (name: string): unknown => (/^(node:)?sqlite$/.test(name) ? watched : builtin(name));
  process.getBuiltinModule = lookUp as typeof process.getBuiltinModule;
}

function watchedDatabase(
  DatabaseSync: Driver["DatabaseSync"],
  boundaries: Boundaries,
): Driver["DatabaseSync"] {
  return class extends DatabaseSync {
    override exec(sql: string): unknown {
      if (!/^\s*COMMIT\b/i.test(sql)) return super.exec(sql);
      return boundaries.around("sql COMMIT", () => {
        const result = super.exec(sql);
        boundaries.moveWorld();
        return result;
      });
    }
  };
}
