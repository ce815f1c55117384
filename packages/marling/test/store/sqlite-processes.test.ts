// The store and other processes: crashes, and who may have the file.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { inputOf } from "../../src/testing/conformance/store-case.ts";
import { buildChild, query, refusal, startChild, temporaryFolder } from "./sqlite-support.ts";

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

test("[SL2] a second process is refused with the path, until the first is killed", async () => {
  const path = join(temporaryFolder(), "owned.db");
  const owner = startChild(program.file, "hold", path);
  await owner.printed(1);
  const store = sqliteStore({ path });
  const { code, message } = await refusal(store.list({}));
  expect(code).toBe("store_in_use");
  expect(message).toContain("owned.db");
  await owner.kill();
  expect(await store.list({})).toEqual({ items: [] });
  const late = startChild(program.file, "try", path);
  await late.printed(1);
  expect(late.lines).toEqual(["store_in_use"]);
  await store.close();
  const next = startChild(program.file, "try", path);
  await next.printed(1);
  expect(next.lines).toEqual(["open"]);
}, 60_000);

/** The last revision of each session that was printed whole. */
function newest(lines: readonly string[]): ReadonlyMap<SessionId, number> {
  return new Map(
    lines.map((line) => {
      const [id = "", revision = ""] = line.split(" ");
      return [id as SessionId, Number(revision)];
    }),
  );
}
