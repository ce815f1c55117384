// Files that are there before the store, and files of other versions.

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { loadDriver, type SqliteDriver } from "../../src/store/sqlite/driver.ts";
import { openSqliteStore, sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { A, B, commitOf, id, inputOf, node, report, turn } from "../../src/testing/conformance/store-case.ts";
import { bytesOf, query, refusal, temporaryFolder } from "./sqlite-support.ts";

const PAGE = 512;

/** A store with some commits, closed. */
async function storeFile(): Promise<string> {
  const path = join(temporaryFolder(), "store.db");
  const store = sqliteStore({ path });
  for (let revision = 0; revision < 30; revision += 1) {
    await store.commit(commitOf(A, revision, { nodes: [{ id: `n${revision}`, text: "x".repeat(700) }] }));
  }
  await store.close();
  return path;
}

/**
 * The files of a closed store. A driver that cannot end its statements at once leaves an empty log and its index until
 * the garbage collector has been there.
 */
function filesBeside(path: string): readonly string[] {
  const files = readdirSync(dirname(path)).sort();
  for (const file of files.filter((name) => name.endsWith("-wal")))
    expect(statSync(join(dirname(path), file)).size).toBe(0);
  return files.filter((name) => !name.endsWith("-wal") && !name.endsWith("-shm"));
}

/** Opening must fail with the code, leave the file byte by byte, and add nothing to the folder but the lock's file. */
async function expectUntouched(
  path: string,
  code: string,
  use: (path: string) => Promise<unknown> = openAndLoad,
): Promise<string> {
  const before = bytesOf(path);
  const files = filesBeside(path);
  const found = await refusal(use(path));
  expect(found.code).toBe(code);
  expect(found.message).toContain(path);
  expect(bytesOf(path)).toBe(before);
  expect(filesBeside(path).filter((file) => file !== `${basename(path)}-owner`)).toEqual(
    files.filter((file) => file !== `${basename(path)}-owner`),
  );
  return found.message;
}

async function openAndLoad(path: string): Promise<void> {
  const store = sqliteStore({ path });
  try {
    await store.load(A);
  } finally {
    await store.close();
  }
}

describe("files that are not ours", () => {
  test("[SL3] a file that is no database is refused and left as it is, without a trace", async () => {
    for (const content of [
      "x",
      "hello, this is text",
      "SQLite format 4\0".padEnd(2000, "."),
      "\0".repeat(4096),
    ]) {
      const path = join(temporaryFolder(), "notes.txt");
      writeFileSync(path, content);
      await expectUntouched(path, "store_foreign");
      expect(readdirSync(dirname(path))).toEqual(["notes.txt"]);
    }
  });

  test("[SL3] a database of another application is refused and left as it is", async () => {
    const { DatabaseSync } = await loadDriver();
    for (const applicationId of [0, 12345]) {
      const path = join(temporaryFolder(), "other.db");
      const database = new DatabaseSync(path);
      database.exec(`PRAGMA application_id = ${applicationId}; CREATE TABLE t (x); INSERT INTO t VALUES (1)`);
      database.close();
      expect(await expectUntouched(path, "store_foreign")).toContain(`${applicationId}`);
    }
  });

  test("[SL3] a file that was cut off is refused and left as it is", async () => {
    const path = await storeFile();
    const { size } = statSync(path);
    for (const length of [size - PAGE, 5 * PAGE + 100, PAGE, 300, 90]) {
      truncateSync(path, length);
      expect(await expectUntouched(path, "store_corrupt")).toContain("whole database");
    }
    truncateSync(path, 8);
    await expectUntouched(path, "store_foreign");
  });

  test("[SL3] a file with a damaged page is refused where it is read, and left as it is", async () => {
    const original = await storeFile();
    const pages = statSync(original).size / PAGE;
    let refusals = 0;
    for (let page = 1; page < pages; page += 7) {
      const path = join(temporaryFolder(), "damaged.db");
      copyFileSync(original, path);
      const content = readFileSync(path);
      content.fill(0xff, page * PAGE, (page + 1) * PAGE);
      writeFileSync(path, content);
      const before = bytesOf(path);
      const found = await refusal(openAndLoad(path)).catch(() => undefined);
      if (found !== undefined) expect(found.code, found.message).toBe("store_corrupt");
      refusals += found === undefined ? 0 : 1;
      expect(bytesOf(path)).toBe(before);
    }
    expect(refusals).toBeGreaterThan(5);
  });

  test("[SL3] a log without its database is refused and left as it is", async () => {
    const path = join(temporaryFolder(), "store.db");
    writeFileSync(`${path}-wal`, "what was not written back");
    expect(await refusal(openAndLoad(path))).toMatchObject({ code: "store_corrupt" });
    expect(existsSync(path)).toBe(false);
    expect(readFileSync(`${path}-wal`, "utf8")).toBe("what was not written back");
  });

  test("[SL3] damaged tables of contents are refused and left as they are", async () => {
    const path = await storeFile();
    const content = readFileSync(path);
    content.fill(0x41, 100, PAGE);
    writeFileSync(path, content);
    await expectUntouched(path, "store_corrupt");
  });

  test("[SL3] text that is not JSON in a row is `store_corrupt`, and other sessions are fine", async () => {
    const path = await storeFile();
    await query(path, "UPDATE commits SET nodes = 'not json' WHERE at & 4294967295 = 3");
    const store = sqliteStore({ path });
    expect(await refusal(store.load(A))).toMatchObject({ code: "store_corrupt" });
    expect((await store.commit(commitOf(B, 0))).revision).toBe(1);
    await store.close();
  });
});

describe("places", () => {
  test("[SL10] an empty file becomes a store and keeps its mode", async () => {
    const path = join(temporaryFolder(), "empty.db");
    writeFileSync(path, "");
    chmodSync(path, 0o640);
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    await store.close();
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(filesBeside(path)).toEqual(["empty.db", "empty.db-owner"]);
  });

  test("[SL10] a new file is its owner's alone, and so is its log", async () => {
    const path = join(temporaryFolder(), "own.db");
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    for (const file of [path, `${path}-wal`]) expect(statSync(file).mode & 0o777).toBe(0o600);
    await store.close();
  });

  test("[SL10] what a creation left behind that was cut short does not matter", async () => {
    const path = join(temporaryFolder(), "store.db");
    writeFileSync(`${path}-new`, "half a database");
    writeFileSync(`${path}-new-journal`, "half a journal");
    const store = sqliteStore({ path });
    await store.commit(commitOf(A, 0));
    await store.close();
    expect(filesBeside(path)).toEqual(["store.db", "store.db-owner"]);
  });

  test("[SL10] a folder that is not there, and a path that is one, are named", async () => {
    const folder = temporaryFolder();
    const missing = join(folder, "missing");
    const found = await refusal(sqliteStore({ path: join(missing, "store.db") }).list({}));
    expect(found.code).toBe("invalid_options");
    expect(found.message).toContain(missing);
    expect(existsSync(missing)).toBe(false);
    expect(await refusal(sqliteStore({ path: folder }).list({}))).toMatchObject({ code: "invalid_options" });
  });

  test.skipIf(process.getuid?.() === 0)(
    "[SL10] a file or folder that cannot be written is named (not as root, who can write anywhere)",
    async () => {
      const path = await storeFile();
      chmodSync(path, 0o400);
      expect(await refusal(sqliteStore({ path }).list({}))).toMatchObject({ code: "invalid_options" });
      const folder = join(temporaryFolder(), "closed");
      mkdirSync(folder, { mode: 0o500 });
      const found = await refusal(sqliteStore({ path: join(folder, "store.db") }).list({}));
      expect(found.code).toBe("invalid_options");
      expect(found.message).toContain(folder);
    },
  );

  test("[SL10] the next call tries again after an opening that failed", async () => {
    const folder = join(temporaryFolder(), "later");
    const store = sqliteStore({ path: join(folder, "store.db") });
    expect(await refusal(store.list({}))).toMatchObject({ code: "invalid_options" });
    mkdirSync(folder);
    expect((await store.commit(commitOf(A, 0))).revision).toBe(1);
    await store.close();
  });

  test("[SL10] nothing is loaded or opened before the first call", async () => {
    const path = join(temporaryFolder(), "store.db");
    let loads = 0;
    const load = async (): Promise<SqliteDriver> => {
      loads += 1;
      return loadDriver();
    };
    const store = openSqliteStore({ path }, { loadDriver: load });
    expect([loads, existsSync(path)]).toEqual([0, false]);
    await Promise.all([store.list({}), store.exists(A)]);
    expect([loads, existsSync(path)]).toEqual([1, true]);
    await store.close();
  });

  test("[SL10] options are checked when the store is made", () => {
    const wrong: readonly [unknown, string][] = [
      [{}, "path"],
      [{ path: "" }, "path"],
      [{ path: 3 }, "path"],
      [{ path: "x", durability: "disk" }, "durability"],
      [{ path: "x", pageSize: 1024 }, "pageSize"],
    ];
    for (const [options, name] of wrong) {
      expect(() => sqliteStore(options as never)).toThrow(
        expect.objectContaining({ code: "invalid_options", message: expect.stringContaining(name) }),
      );
    }
  });

  test("[SL10] a closed store says so", async () => {
    const store = sqliteStore({ path: ":memory:" });
    await store.list({});
    await store.close();
    expect(await refusal(store.load(A))).toMatchObject({ code: "runtime_closed" });
    expect(await refusal(store.commit(commitOf(A, 0)))).toMatchObject({ code: "runtime_closed" });
  });

  test("[SL2] stores of one process share a file, whatever they call it", async () => {
    const path = await storeFile();
    const link = join(temporaryFolder(), "link.db");
    symlinkSync(path, link);
    const stores = [path, link, join(dirname(path), ".", "store.db")].map((other) =>
      sqliteStore({ path: other }),
    );
    for (const [index, store] of stores.entries()) {
      expect((await store.load(A))?.revision).toBe(30 + index);
      await store.commit(commitOf(A, 30 + index));
    }
    for (const store of stores) expect(await store.revision(A)).toBe(33);
    expect(filesBeside(link)).toEqual(["link.db"]);
    await Promise.all(stores.map((store) => store.close()));
    expect(filesBeside(path)).toEqual(["store.db", "store.db-owner"]);
  });

  test("[SL2] stores in memory have nothing in common", async () => {
    const [one, two] = [sqliteStore({ path: ":memory:" }), sqliteStore({ path: ":memory:" })];
    await one.commit(commitOf(A, 0));
    expect(await two.exists(A)).toBe(false);
    expect([one.isDurable, sqliteStore({ path: "x.db" }).isDurable]).toEqual([false, true]);
    await Promise.all([one.close(), two.close()]);
  });
});

describe("versions", () => {
  const fixture = (version: number): string =>
    fileURLToPath(new URL(`fixtures/store-v${version}.db`, import.meta.url));

  test("[SL9] a file of version 1 opens with everything in it", async () => {
    const path = join(temporaryFolder(), "v1.db");
    copyFileSync(fixture(1), path);
    const store = sqliteStore({ path });
    const session = await store.load(id("fixture"));
    expect(session).toMatchObject({ revision: 3, inputs: 2 });
    expect(session?.nodes.map((item) => item.id)).toEqual(["n1", "n2", "n3"]);
    expect(session?.nodes[0]).toEqual({
      id: "n1",
      text: "A text of the session fixture, long enough to be shared.",
    });
    expect(session?.head).toMatchObject({
      turnIndex: 3,
      leaf: "n3",
      operations: 2,
      parentSessionId: "parent",
    });
    expect(session?.head.frames).toEqual([
      { id: "f1", status: "superseded" },
      { id: "f2", status: "active" },
    ]);
    expect(session?.components).toEqual({
      plugins: { plugins: { small: { n: 2 }, large: { text: "p".repeat(600) } } },
      tools: { generation: 1 },
    });
    const settled = await store.find({ sessionId: id("fixture"), key: "k1", submitted: { text: "one" } });
    expect(settled).toMatchObject({
      sequence: 1,
      turnId: "t1",
      report: report("A text of the session fixture, long enough to be shared."),
    });
    expect(await store.pending(id("fixture"))).toMatchObject([
      { sequence: 2, submitted: { text: "two" }, input: { text: "TWO" }, progress: { at: 1 } },
    ]);
    expect(await store.journal?.read(id("fixture"), turn("fixture:turn:2"))).toMatchObject([
      { key: "k", status: "done", outcome: { ok: true } },
    ]);
    expect((await store.load(id("fork")))?.nodes.map((item) => item.id)).toEqual(["n1", "n2", "b1"]);
    expect(
      new TextDecoder().decode(
        await store.blobs.get("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      ),
    ).toBe("abc");
    expect(await refusal(store.load(id("retired")))).toMatchObject({ code: "session_deleted" });
    expect((await store.commit(commitOf(id("fixture"), 3, { ids: ["n4"] }))).revision).toBe(4);
    expect((await store.fork({ from: id("fixture"), as: id("late"), at: node("n2") })).revision).toBe(1);
    expect((await store.admit(inputOf(id("fixture"), "three"))).row.sequence).toBe(3);
    await store.close();
    expect(await query(path, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  });

  test("[SL9] a file of a newer version is refused and left as it is", async () => {
    const path = await storeFile();
    await query(path, "UPDATE meta SET value = '999' WHERE name = 'version'");
    expect(await expectUntouched(path, "unsupported_version")).toContain("999");
  });

  test("[SL9] a store stops when another one has brought its file to a newer version", async () => {
    const path = await storeFile();
    const store = sqliteStore({ path });
    await store.list({});
    await query(path, "UPDATE meta SET value = '999' WHERE name = 'version'");
    expect(await refusal(store.commit(commitOf(B, 0)))).toMatchObject({ code: "unsupported_version" });
    expect(await refusal(store.load(A))).toMatchObject({ code: "unsupported_version" });
    await store.close();
    expect(await query(path, "SELECT count(*) AS n FROM commits")).toEqual([{ n: 30 }]);
  });

  test("[SL9] a file without a version is refused", async () => {
    const path = await storeFile();
    await query(path, "DELETE FROM meta");
    await expectUntouched(path, "store_corrupt");
  });
});
