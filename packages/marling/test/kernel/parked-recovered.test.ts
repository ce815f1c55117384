// A turn that sleeps and was recovered: what becomes of it while somebody waits until everything is quiet.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { sha256 } from "../../src/base/digest.ts";
import { asking, database, desk, parked, until } from "./parked-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };

test("[TQ5] recover waits for a sleeper that another runtime woke, and lets the event loop turn meanwhile", async () => {
  const path = database();
  const { tool, keys } = asking();
  const options = { tools: [tool], answers: ASK };
  const first = await desk(path, options);
  first.session.turn("go").result.catch(() => undefined);
  await parked(first.session);
  await first.runtime.close();
  const second = await desk(path, options);
  await until(async () => (await second.session.pending())[0]?.status === "parked");
  await resolveElsewhere(path, keys[0] ?? "");
  const report = await second.runtime.recover();
  expect(report.resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
  expect(await second.session.pending()).toEqual([]);
});

/** As a process does that answers and goes on with nothing. */
async function resolveElsewhere(path: string, key: string): Promise<void> {
  const store = sqliteStore({ path });
  expect(await store.waits.resolve(sha256(key), "completion", { ok: "yes" })).toMatchObject({
    status: "resolved",
  });
  await store.close();
}
