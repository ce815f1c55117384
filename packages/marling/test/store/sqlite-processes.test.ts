// The store and other processes: crashes, and what happens when several have the file.

import { copyFileSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { openSqliteStore, sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { A, commitOf, id, inputOf, report } from "../../src/testing/conformance/store-case.ts";
import { buildChild, type Child, query, refusal, startChild, temporaryFolder } from "./sqlite-support.ts";

let program: Awaited<ReturnType<typeof buildChild>>;
beforeAll(async () => {
  program = await buildChild();
});
afterAll(() => program.remove());

test("[SL1] everything that was acknowledged is there after kill -9, and the file is intact", async () => {
  const path = join(temporaryFolder(), "crash.db");
  for (const lines of [1, 700, 40]) {
    const child = startChild(program.file, "write", path);
    await child.printed(lines);
    await child.kill();
    const acknowledged = newest(child.lines);
    const store = sqliteStore({ path });
    for (const [id, revision] of acknowledged) {
      const session = await store.load(id);
      const found = session?.revision ?? 0;
      expect(found).toBeGreaterThanOrEqual(revision);
      expect(found).toBeLessThanOrEqual(revision + 1);
      expect(session?.nodes.map((node) => node.id)).toEqual(
        Array.from({ length: found }, (_, index) => `${id}-${index}`),
      );
      const settled = await store.find(inputOf(id, `input ${revision - 1}`, { key: `key ${revision - 1}` }));
      expect(settled?.report?.text).toBe("text ".repeat(300));
      expect((await store.pending(id)).length).toBeLessThanOrEqual(1);
    }
    await store.close();
    expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  }
}, 60_000);

/** What children acknowledged: the inputs in the order of revisions, by session. */
function acknowledged(children: readonly Child[]): ReadonlyMap<string, readonly string[]> {
  const turns = children
    .flatMap(({ lines }) => lines.filter((line) => line !== "done"))
    .map((line) => /^(\S+) (\d+) (.+)$/.exec(line) ?? []);
  const sessions = new Set(turns.map(([, session = ""]) => session));
  turns.sort(([, , one], [, , two]) => Number(one) - Number(two));
  return new Map(
    [...sessions].map((name) => [
      name,
      turns.filter(([, session]) => session === name).map(([, , , text = ""]) => text),
    ]),
  );
}

/** Everything that was acknowledged must be in the file, once and in its order. */
async function expectAcknowledged(path: string, children: readonly Child[]): Promise<void> {
  const store = sqliteStore({ path });
  for (const [name, texts] of acknowledged(children)) {
    const session = await store.load(id(name));
    expect(session?.revision).toBe(texts.length);
    expect(session?.nodes.map((item) => item.id)).toEqual(texts.map((text) => text.replace(" ", "-")));
    expect(session?.head.turnIndex).toBe(texts.length - 1);
    for (const text of texts)
      expect((await store.find(inputOf(id(name), text, { key: text })))?.report?.text).toBe(text);
    expect(await store.pending(id(name))).toEqual([]);
  }
  await store.close();
  expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
}

test("[SL2] processes that race to make a file write to the same session and to their own, and nothing is lost", async () => {
  const path = join(temporaryFolder(), "shared.db");
  const children = ["one", "two", "three"].map((name) => startChild(program.file, "share", path, name, "40"));
  await Promise.all(children.map((child) => child.printed(81)));
  expect(acknowledged(children).get("common")).toHaveLength(120);
  await expectAcknowledged(path, children);
  expect(await query(path, "SELECT count(*) AS n FROM journal")).toEqual([{ n: 0 }]);
  expect(readdirSync(dirname(path)).filter((name) => name.includes("-live-"))).toEqual([]);
}, 120_000);

test("[SL2] stores of one process write beside another process, and nothing is lost", async () => {
  const path = join(temporaryFolder(), "shared.db");
  const child = startChild(program.file, "share", path, "child", "40");
  const [one, two] = [sqliteStore({ path }), sqliteStore({ path })];
  const lines: string[] = [];
  const write = async (store: Store, name: string): Promise<void> => {
    for (let number = 0; number < 40; ) {
      const text = `${name} ${number}`;
      const revision = await store.revision(id("common"));
      const { row } = await store.admit(inputOf(id("common"), text, { key: text }));
      const settles = { inputId: row.inputId, report: report(text) };
      const commit = commitOf(id("common"), revision, { nodes: [{ id: `${name}-${number}` }], settles });
      const result = await store.commit(commit).catch(() => undefined);
      if (result === undefined) continue;
      lines.push(`common ${result.revision} ${text}`);
      number += 1;
    }
  };
  await Promise.all([write(one, "first"), write(two, "second"), child.printed(81)]);
  await Promise.all([one.close(), two.close()]);
  await expectAcknowledged(path, [child, { ...child, lines }]);
}, 120_000);

test("[SL2] processes that open a file of an older version at once bring it up to date once", async () => {
  const path = join(temporaryFolder(), "v1.db");
  copyFileSync(fileURLToPath(new URL("fixtures/store-v1.db", import.meta.url)), path);
  const children = ["one", "two", "three"].map((name) => startChild(program.file, "share", path, name, "5"));
  await Promise.all(children.map((child) => child.printed(11)));
  await expectAcknowledged(path, children);
  const store = sqliteStore({ path });
  expect((await store.load(id("fixture")))?.nodes.map((item) => item.id)).toEqual(["n1", "n2", "n3"]);
  await store.close();
}, 120_000);

test("[SL2] opening waits, without blocking, for whoever makes the file or brings it up to date", async () => {
  const path = join(temporaryFolder(), "owned.db");
  const { DatabaseSync } = await loadDriver();
  const owner = new DatabaseSync(`${path}-owner`);
  owner.exec("BEGIN EXCLUSIVE");
  const refused = await refusal(openSqliteStore({ path }, { busyLimitMs: 30 }).list({}));
  expect(refused.code).toBe("store_busy");
  expect(refused.message).toContain(path);
  expect(existsSync(path)).toBe(false);
  const store = sqliteStore({ path });
  const child = startChild(program.file, "try", path);
  const list = store.list({});
  await delay(50);
  expect([existsSync(path), child.lines]).toEqual([false, []]);
  owner.close();
  expect(await list).toEqual({ items: [] });
  await child.printed(2);
  expect(child.lines).toEqual(["open", "closed"]);
  await store.close();
}, 60_000);

test("[SL2] bringing a file up to date waits for whoever writes to it", async () => {
  const path = join(temporaryFolder(), "v1.db");
  copyFileSync(fileURLToPath(new URL("fixtures/store-v1.db", import.meta.url)), path);
  const { DatabaseSync } = await loadDriver();
  const writer = new DatabaseSync(path);
  writer.exec("BEGIN IMMEDIATE");
  expect(await refusal(openSqliteStore({ path }, { busyLimitMs: 30 }).list({}))).toMatchObject({
    code: "store_busy",
  });
  const store = sqliteStore({ path });
  const session = store.load(id("fixture"));
  await delay(30);
  writer.exec("COMMIT");
  writer.close();
  expect((await session)?.revision).toBe(3);
  await store.close();
}, 60_000);

const LOCKS = "/proc/locks";

/** How many locks this process has on a file. */
function locksOn(path: string): number {
  const { ino } = statSync(path);
  const lines = readFileSync(LOCKS, "utf8").split("\n");
  return lines.filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `)).length;
}

test.skipIf(!existsSync(LOCKS))(
  "[SL2] a process keeps its lock on a file that it opens again, and opens and closes beside (where locks are listed)",
  async () => {
    const path = join(temporaryFolder(), "held.db");
    const before = sqliteStore({ path });
    await before.commit(commitOf(A, 0));
    expect(locksOn(path)).toBe(1);
    await before.close();
    expect(locksOn(path)).toBe(0);
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 1));
    expect(locksOn(path)).toBe(1);
    const beside = sqliteStore({ path });
    expect(await beside.revision(A)).toBe(2);
    expect(locksOn(path)).toBe(1);
    await beside.close();
    expect(locksOn(path)).toBe(1);
    await store.close();
    expect(locksOn(path)).toBe(0);
  },
);

test("[SL2] processes that come and go beside a store see what it commits, and leave it its log", async () => {
  const path = join(temporaryFolder(), "guests.db");
  const store = sqliteStore({ path });
  for (let revision = 0; revision < 4; revision += 1) {
    const guest = startChild(program.file, "revision", path, "a");
    await guest.printed(1);
    expect(guest.lines).toEqual([String(revision)]);
    expect((await store.commit(commitOf(A, revision))).revision).toBe(revision + 1);
  }
  await store.close();
  expect(readdirSync(dirname(path)).sort()).toEqual(["guests.db", "guests.db-owner"]);
  expect(await query(path, "SELECT count(*) AS n FROM commits")).toEqual([{ n: 4 }]);
}, 60_000);

test("[ST40] a store is vacuumed while another process writes to it", async () => {
  const path = join(temporaryFolder(), "vacuum.db");
  const store = sqliteStore({ path });
  const old = Array.from({ length: 20 }, (_, number) => id(`old-${number}`));
  // The child takes freed pages over until they are given back: there are many more than it can.
  const nodes = [{ id: "n", text: "x".repeat(400_000) }];
  for (const session of old) await store.commit(commitOf(session, 0, { nodes }));
  const child = startChild(program.file, "write", path);
  await child.printed(20);
  await Promise.all(old.map((session) => store.delete(session)));
  const shrunk: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    shrunk.push((await store.vacuum({ now: Date.now(), keepMs: 0 })).bytes);
    await child.printed(child.lines.length + 20);
  }
  expect(Math.max(...shrunk)).toBeGreaterThan(2_000_000);
  await child.kill();
  for (const [session, revision] of newest(child.lines))
    expect(await store.revision(session)).toBeGreaterThanOrEqual(revision);
  await store.close();
  expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
}, 120_000);

/** The last revision of each session that was printed whole. */
function newest(lines: readonly string[]): ReadonlyMap<SessionId, number> {
  return new Map(
    lines.map((line) => {
      const [id = "", revision = ""] = line.split(" ");
      return [id as SessionId, Number(revision)];
    }),
  );
}
