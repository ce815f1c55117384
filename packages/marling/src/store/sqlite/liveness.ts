// Which of the stores that have a file open are alive. Each holds the lock of a file of its own beside the database,
// `<path>-live-<instance>`, for as long as it has the database open.
//   LV1  whoever finds such a file without a lock has found one of the dead, and removes it.
//   LV2  an instance without a file is dead: it was closed, or somebody has found it before.
//   LV3  such files are made and counted under the owner's lock only, and locked as soon as they are there.

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { modeOf } from "./database-file.ts";
import type { SqliteDriver } from "./driver.ts";
import { isLocked, lockFile, removeUnlocked } from "./lock-file.ts";

/** One store among those that have a file open. */
export interface Liveness {
  readonly instance: string;
  /** Whether another one is proved to be dead. */
  isDead(instance: string): boolean;
  /** Ends it; again is once. */
  release(): void;
}

/** Whether any store but one has the file at `path` open, in this process or another. Removes what the dead left. */
export function isOpenElsewhere(driver: SqliteDriver, path: string, but?: string): boolean {
  const prefix = basename(liveFile(path, ""));
  const files = readdirSync(dirname(path)).filter(
    (name) =>
      name.startsWith(prefix) && INSTANCE.test(name.slice(prefix.length)) && name !== `${prefix}${but}`,
  );
  return files.filter((name) => !removeIfDead(driver, join(dirname(path), name))).length > 0;
}

/** Makes a new store known as alive. */
export function announceLive(driver: SqliteDriver, path: string): Liveness {
  const instance = newInstance();
  const own = liveFile(path, instance);
  const lock = lockFile(driver, own, modeOf(path));
  let isReleased = false;
  return {
    instance,
    isDead: (other) => other !== instance && removeIfDead(driver, liveFile(path, other)),
    release: () => {
      if (isReleased) return;
      isReleased = true;
      lock.remove();
    },
  };
}

/** The only store of a database in memory. */
export function aloneAlive(): Liveness {
  const instance = newInstance();
  return { instance, isDead: (other) => other !== instance, release: () => undefined };
}

const INSTANCE = /^[0-9a-f]{16}$/;

function newInstance(): string {
  return randomBytes(8).toString("hex");
}

function liveFile(path: string, instance: string): string {
  return `${path}-live-${instance}`;
}

function removeIfDead(driver: SqliteDriver, file: string): boolean {
  if (!existsSync(file)) return true;
  if (isLocked(driver, file)) return !existsSync(file); // it may have ended while it was looked at
  removeUnlocked(driver, file);
  return true;
}
