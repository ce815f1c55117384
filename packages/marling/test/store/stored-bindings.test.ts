// A file with a retired plugin and with a turn whose environment names its plugins and tool sources. Every later version
// opens it and finishes the turn, and leaves the turn alone where its tools are missing.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRuntime, type Runtime, type RuntimeOptions } from "marling";
import { sqliteStore } from "marling/sqlite";
import { scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { answer, toolsOf } from "./fixtures/bindings/world.mjs";
import { temporaryFolder } from "./sqlite-support.ts";

function open(options: Omit<RuntimeOptions, "store" | "model">): Runtime {
  const path = join(temporaryFolder(), "store.db");
  copyFileSync(fileURLToPath(new URL("fixtures/bindings/retired.db", import.meta.url)), path);
  const runtime = createRuntime({ ...options, store: sqliteStore({ path }), model: scriptedModel(answer) });
  onTestFinished(() => runtime.close());
  return runtime;
}

test("[G17] the record of a retired plugin is read, and the turn that was cut is finished", async () => {
  const runtime = open({ tools: toolsOf(() => undefined) });
  const session = await runtime.session("s");
  expect((await session.turn("pay", { key: "pay" }).result).text).toBe("It is paid.");
  const history = await session.history();
  expect(history.filter(({ kind }) => kind === "plugin_retired")).toMatchObject([
    { pluginId: "old_guard", reason: "there is a better one", at: expect.any(Number) },
  ]);
  expect(history.map(({ kind }) => kind)).toEqual([
    "frame_open",
    "plugin_retired",
    ...Array.from({ length: 6 }, () => "message"),
  ]);
});

test("[E19] the turn is left alone where its tools are missing", async () => {
  const runtime = open({});
  expect(await runtime.recover()).toMatchObject({
    resumed: [],
    skipped: [{ code: "needs_binding", message: expect.stringContaining("tool source host_tools") }],
  });
});
