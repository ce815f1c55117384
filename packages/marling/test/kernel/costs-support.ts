// Runtimes for the tests of what turns cost: on disk, with writes and reads counted, and in memory.

import { join } from "node:path";
import {
  createRuntime,
  defineTool,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type Store,
} from "marling";
import { onTestFinished } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { rowsIn, type Tap, tappedDriver, temporaryFolder } from "../store/sqlite-support.ts";

export const USAGE = { input: 900, output: 400, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

const look = defineTool({
  name: "look",
  description: "Looks.",
  input: { type: "object" },
  execute: async (args) => `saw ${JSON.stringify(args)}`,
});

export interface OnDisk {
  readonly path: string;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly session: Session;
  /** Everything that was handed to SQLite to be written since the last call, as text. */
  written(): string;
  /** The rows that were read since the last call, and those of commits with their nodes. */
  read(): { readonly rows: number; readonly nodes: number };
}

/** A runtime with the same tool that keeps nothing. */
export function inMemory(options: Omit<RuntimeOptions, "store">): Pick<OnDisk, "runtime"> {
  const runtime = createRuntime({ tools: [look], ...options });
  onTestFinished(() => runtime.close());
  return { runtime };
}

export async function onDisk(options: Omit<RuntimeOptions, "store">): Promise<OnDisk> {
  const path = join(temporaryFolder(), "agent.db");
  let values: unknown[] = [];
  let read = { rows: 0, nodes: 0 };
  const tap: Tap = {
    before: (sql, given, database) => {
      // The log is not written back while it is measured, so that its size is what was written; see below, too.
      if (sql === "BEGIN IMMEDIATE") database.exec("PRAGMA wal_autocheckpoint = 0");
      values.push(...given);
    },
    read: (sql, row) => {
      const count = rowsIn(row);
      read.rows += count;
      if (/\bnodes\b/.test(sql)) read.nodes += count;
    },
  };
  const internals = { loadDriver: () => tappedDriver(tap), commitsInLog: Number.POSITIVE_INFINITY };
  const store = openSqliteStore({ path }, internals);
  const runtime = createRuntime({ tools: [look], ...options, store });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const written = (): string => {
    const text = values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)).join("\n");
    values = [];
    return text;
  };
  const takeRead = (): typeof read => {
    const before = read;
    read = { rows: 0, nodes: 0 };
    return before;
  };
  return { path, runtime, store, session, written, read: takeRead };
}
