// Files that are deleted, replaced or cut off while a store has them open: what is acknowledged is in the file at the path.

import { copyFileSync, existsSync, readdirSync, renameSync, rmSync, statSync, truncateSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRuntime, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Store } from "../../src/store/contract.ts";
import { A, B, commitOf, id, inputOf, nodes } from "../../src/testing/conformance/store-case.ts";
import { opened, query, refusal, temporaryFolder } from "./sqlite-support.ts";

/** Everything that happens to a file, and what the store says then. */
const HAPPENINGS: readonly (readonly [name: string, code: string, happen: (path: string) => void])[] = [
  ["deleted", "store_replaced", (path) => rmSync(path)],
  ["deleted with its log", "store_replaced", (path) => removeAll(path)],
  ["moved away", "store_replaced", (path) => renameSync(path, `${path}-moved`)],
  ["replaced by its copy", "store_replaced", replaceByCopy],
  ["put back as it was", "store_replaced", putBack],
  ["left without its log", "store_replaced", (path) => rmSync(`${path}-wal`)],
  ["given another log", "store_replaced", (path) => replaceByCopy(`${path}-wal`)],
  ["cut in half", "store_corrupt", (path) => truncateSync(path, statSync(path).size / 2)],
  ["emptied", "store_corrupt", (path) => truncateSync(path, 0)],
];

function removeAll(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}${suffix}`);
}

function replaceByCopy(path: string): void {
  copyFileSync(path, `${path}-copy`);
  renameSync(`${path}-copy`, path);
}

/** As somebody does who restores a copy of the file. */
function putBack(path: string): void {
  copyFileSync(path, `${path}-copy`);
  removeAll(path);
  renameSync(`${path}-copy`, path);
}

/** A store with more commits than fit on few pages, so that some are in the file and some in its log. */
async function filled(): Promise<{ readonly store: Store; readonly path: string }> {
  const { store, path } = opened();
  const text = "a text of the turn ".repeat(80);
  for (let revision = 0; revision < 60; revision += 1)
    await store.commit(commitOf(A, revision, { nodes: [{ id: `n${revision}`, text }] }));
  return { store, path };
}

describe.each(HAPPENINGS)("a file that is %s", (_name, code, happen) => {
  test("[SF1] [SF3] refuses the next write, and everything after it", async () => {
    const { store, path } = await filled();
    happen(path);
    expect(await refusal(store.commit(commitOf(A, 60)))).toMatchObject({ code });
    expect(await refusal(store.admit(inputOf(B, "text")))).toMatchObject({ code });
    expect(await refusal(Promise.all([store.load(A), store.load(B)]))).toMatchObject({ code });
    expect(
      (await refusal(store.claim(A, { owner: "o", incarnation: "i", now: 1, expiresAt: 2 }))).message,
    ).toContain(path);
    await store.close();
  });

  test("[SF1] refuses to read what is not known", async () => {
    const { store, path } = await filled();
    happen(path);
    expect(await refusal(store.load(A))).toMatchObject({ code });
    await store.close();
  });

  test("[SF1] [SF4] loses nothing that was acknowledged behind it, whoever opens the path next", async () => {
    const { store, path } = await filled();
    happen(path);
    await store.commit(commitOf(A, 60)).catch(() => undefined);
    const next = sqliteStore({ path });
    onTestFinished(() => next.close().catch(() => undefined));
    const acknowledged = await next
      .commit(commitOf(id("next"), 0, { nodes: nodes("x") }))
      .catch(() => undefined);
    await store.close();
    if (acknowledged === undefined) return;
    await next.commit(commitOf(id("next"), 1, { nodes: nodes("y") }));
    await next.close();
    const again = sqliteStore({ path });
    onTestFinished(() => again.close());
    expect((await again.load(id("next")))?.nodes).toEqual(nodes("x", "y"));
  });
});

test("[SF2] a file that another store has vacuumed is no damaged one", async () => {
  const { store, path } = await filled();
  const other = sqliteStore({ path });
  onTestFinished(() => other.close());
  await other.delete(A);
  expect((await other.vacuum({ now: Date.now(), keepMs: 0 })).bytes).toBeGreaterThan(10_000);
  expect((await store.commit(commitOf(B, 0))).revision).toBe(1);
  expect(await other.exists(B)).toBe(true);
  await store.delete(B);
  await store.vacuum({ now: Date.now(), keepMs: 0 });
  expect((await store.commit(commitOf(id("c"), 0))).revision).toBe(1);
});

test("[OS2] a store that meets a newer version frees its leases and uses the file no longer", async () => {
  const { store, path } = opened();
  await store.commit(commitOf(A, 0));
  await store.claim(A, { owner: "o", incarnation: "i", now: 1, expiresAt: 9e15 });
  const alive = (): readonly string[] => readdirSync(dirname(path)).filter((name) => name.includes("-live-"));
  expect(alive()).toHaveLength(1);
  await query(path, "UPDATE meta SET value = '4' WHERE name = 'version'");
  expect(await refusal(store.commit(commitOf(A, 1)))).toMatchObject({ code: "unsupported_version" });
  expect(alive()).toEqual([]);
  expect(await refusal(store.load(A))).toMatchObject({ code: "unsupported_version" });
  await store.close();
});

test("[SF1] a turn whose file is gone is not reported as finished", async () => {
  const path = join(temporaryFolder(), "store.db");
  const gone = defineTool({
    name: "gone",
    description: "deletes the file",
    input: { type: "object" },
    execute: () => {
      removeAll(path);
      return "done";
    },
  });
  const runtime = createRuntime({
    store: sqliteStore({ path }),
    tools: [gone],
    model: scriptedModel([callTool("gone", {}), say("finished")]),
  });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  await expect(session.turn("go").result).rejects.toMatchObject({ code: "store_replaced" });
  expect(existsSync(path)).toBe(false);
});
