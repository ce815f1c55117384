// Rows of the kernel checklist once more, on SQLite. Their tests take the store that a runtime has by default, which is
// memory: here that default is a file, with leases, a journal, waits and announcements.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, vi } from "vitest";

const folder = vi.hoisted(() => ({ path: "" }));
folder.path = mkdtempSync(join(tmpdir(), "marling-checklist-"));
afterAll(() => rmSync(folder.path, { recursive: true, force: true }));

vi.mock("../../src/store/memory.ts", async (original) => {
  const { sqliteStore } = await import("../../src/sqlite.ts");
  let stores = 0;
  const memoryStore = () => {
    stores += 1;
    return sqliteStore({ path: `${folder.path}/${stores}.db` });
  };
  return { ...(await original<object>()), memoryStore };
});

describe("on sqlite", async () => {
  await import("./compaction-session.test.ts");
  await import("./hooks-after-call.test.ts");
  await import("./hooks-after-turn.test.ts");
  await import("./hooks-checkpoint.test.ts");
  await import("./hooks-context.test.ts");
  await import("./hooks-legality.test.ts");
  await import("./hooks-tool-calls.test.ts");
  await import("./hooks-tool-composition.test.ts");
  await import("./hooks-turn.test.ts");
  await import("./services-direct.test.ts");
  await import("./services-reads.test.ts");
  await import("./services-turns.test.ts");
  await import("./session-object-commit.test.ts");
  await import("./tools-attachments.test.ts");
  await import("./tools-batch.test.ts");
  await import("./tools-control.test.ts");
});
