// The files beside a database: their modes, and who removes them.

import { chmodSync, existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadDriver, type SqliteDatabase } from "../../src/store/sqlite/driver.ts";
import { isLocked, lockFile, removeUnlocked } from "../../src/store/sqlite/lock-file.ts";
import { openSqliteStore, sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { A, commitOf } from "../../src/testing/conformance/store-case.ts";
import { refusal, tappedDriver, temporaryFolder } from "./sqlite-support.ts";

function modesBeside(path: string): Readonly<Record<string, string>> {
  const files = readdirSync(dirname(path)).filter((name) => name.startsWith(basename(path)));
  const modes = files.map((name) => {
    const { mode } = statSync(join(dirname(path), name));
    return [name.replace(/-live-.*/, "-live").slice(basename(path).length), (mode & 0o777).toString(8)];
  });
  return Object.fromEntries(modes) as Readonly<Record<string, string>>;
}

describe("[LF6] every file beside a database has its mode", () => {
  test.each([0o600, 0o640, 0o660, 0o666])("%o, whatever the mask of the process is", async (mode) => {
    const path = join(temporaryFolder(), "store.db");
    writeFileSync(path, "");
    chmodSync(path, mode);
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    const text = mode.toString(8);
    const files = { "": text, "-wal": text, "-shm": text, "-owner": text, "-live": text };
    expect(modesBeside(path)).toEqual(files);
    await store.close();
  });

  test("a new database and its files are its owner's alone", async () => {
    const path = join(temporaryFolder(), "store.db");
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    expect(new Set(Object.values(modesBeside(path)))).toEqual(new Set(["600"]));
    await store.close();
  });

  test("a lock file of another mode, as older versions made them, gets it", async () => {
    const path = join(temporaryFolder(), "store.db");
    await sqliteStore({ path }).close();
    writeFileSync(`${path}-owner`, "");
    chmodSync(`${path}-owner`, 0o644);
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    expect(modesBeside(path)).toMatchObject({ "-owner": "600" });
    await store.close();
  });
});

/** What others do to a file between two steps of a process that locks it. */
type Interference = (file: string) => void;

const INTERFERENCES: readonly (readonly [string, Interference])[] = [
  ["removed", (file) => rmSync(file)],
  [
    "removed and made again",
    (file) => {
      rmSync(file);
      writeFileSync(file, "");
    },
  ],
  [
    "put in the place of another",
    (file) => {
      writeFileSync(`${file}.other`, "");
      renameSync(`${file}.other`, file);
    },
  ],
];

/** A driver that does something before, or after, the first lock is taken. */
async function interfering(
  when: "before" | "after",
  happen: () => void,
): Promise<Awaited<ReturnType<typeof loadDriver>>> {
  let isDone = false;
  const once = (): void => {
    if (isDone) return;
    isDone = true;
    happen();
  };
  const driver = await tappedDriver({});
  class Interfering extends driver.DatabaseSync implements SqliteDatabase {
    override exec(sql: string): void {
      const isLock = sql.includes("BEGIN");
      if (isLock && when === "before") once();
      super.exec(sql);
      if (isLock && when === "after") once();
    }
  }
  return { DatabaseSync: Interfering };
}

describe.each(INTERFERENCES)("a lock file that is %s meanwhile", (_name, interfere) => {
  test.each(["before", "after"] as const)("[LF4] is not locked by who locks it %s that", async (when) => {
    const file = join(temporaryFolder(), "lock");
    const driver = await interfering(when, () => interfere(file));
    expect(() => lockFile(driver, file, 0o600)).toThrow("locked");
    lockFile(driver, file, 0o600).release();
  });

  test.each(["before", "after"] as const)("[LF5] is not removed by who looks at it %s that", async (when) => {
    const file = join(temporaryFolder(), "lock");
    writeFileSync(file, "");
    const driver = await interfering(when, () => interfere(file));
    removeUnlocked(driver, file);
    expect(existsSync(file)).toBe(interfere !== INTERFERENCES[0]?.[1]);
  });

  test("[LF5] is not removed by who had locked it", async () => {
    const file = join(temporaryFolder(), "lock");
    const lock = lockFile(await loadDriver(), file, 0o600);
    interfere(file);
    const isThere = existsSync(file);
    lock.remove();
    expect(existsSync(file)).toBe(isThere);
  });
});

test("[LF5] a locked file is not removed, and looking at it does not stop others", async () => {
  const driver = await loadDriver();
  const file = join(temporaryFolder(), "lock");
  const lock = lockFile(driver, file, 0o600);
  expect(isLocked(driver, file)).toBe(true);
  removeUnlocked(driver, file);
  expect(existsSync(file)).toBe(true);
  expect(() => lockFile(driver, file, 0o600)).toThrow("locked");
  lock.remove();
  expect(existsSync(file)).toBe(false);
});

test("[OL2] [LF4] who waits for a lock whose file is removed locks the one that is there then", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "notes.txt");
  writeFileSync(path, "no database at all");
  // Each opening makes the lock file, finds a foreign file and removes the lock file again, while the others wait for it.
  const attempts = await Promise.all(
    Array.from({ length: 8 }, () => refusal(openSqliteStore({ path }, { busyLimitMs: 5000 }).list({}))),
  );
  expect(new Set(attempts.map(({ code }) => code))).toEqual(new Set(["store_foreign"]));
});
