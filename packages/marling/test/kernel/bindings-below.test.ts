// Ruling 14 for sessions below: a child that this runtime cannot drive is a fault of the machinery for its parent (E9).

import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { database, unattended } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { hostTool } from "./services-support.ts";

/** A parent whose tool asks the child, in a store whose child needs the plugin `guard`. */
async function family(path: string) {
  const first = unattended({ store: sqliteStore({ path }), script: [], plugins: [] });
  await (await first.runtime.session("parent")).close();
  await first.runtime.close();
  const second = unattended({ store: sqliteStore({ path }), plugins: [plugin("guard", {})] });
  // The parent is only named, so its own commits name no guard.
  await (await second.runtime.session("child", { parent: "parent" })).close();
  await second.runtime.close();
}

const asking = (fails: string[]) => [
  hostTool("ask", async (host) => {
    try {
      return (await host.startTurn("child", "hello")).text;
    } catch (thrown) {
      fails.push((thrown as { code: string }).code);
      return "the tool goes on as if nothing were";
    }
  }),
];

/** The model of all sessions: the parent asks its child, the child answers. */
const model = () =>
  scriptedModel(({ messages }) => {
    const words = JSON.stringify(messages);
    if (words.includes("hello") && !words.includes("go")) return say("child answers");
    return words.includes("tool_result") ? say("told") : callTool("ask");
  });

describe("a child that needs a plugin", () => {
  test("[E9] leaves the turn of its parent unrecorded, for a runtime that has the plugin", async () => {
    const path = database();
    await family(path);
    const fails: string[] = [];
    const without = unattended({ store: sqliteStore({ path }), model: model(), tools: asking(fails) });
    const parent = await without.runtime.session("parent");
    await expect(parent.turn("go", { key: "k" }).result).rejects.toMatchObject({
      code: "needs_binding",
      details: { sessionId: "child", missing: ["plugin guard"] },
    });
    expect(fails).toEqual(["needs_binding"]);
    expect(await parent.pending()).toHaveLength(1);
    expect(parent.read().messages).toEqual([]);
    // Sweeps do not try it again and again: nothing is counted against it.
    for (let sweep = 0; sweep < 6; sweep += 1) await without.runtime.recover();
    expect((await without.runtime.recover()).skipped).toMatchObject([
      { sessionId: "parent", code: "needs_binding", message: expect.stringContaining("session child") },
    ]);
    expect(fails.length).toBeLessThanOrEqual(2);
    await without.runtime.close();

    const full = unattended({
      store: sqliteStore({ path }),
      model: model(),
      plugins: [plugin("guard", {})],
      tools: asking(fails),
    });
    const again = await full.runtime.session("parent");
    const report = await again.turn("go", { key: "k" }).result;
    expect(report.text).toBe("told");
    expect(JSON.stringify(again.read().messages)).toContain("child answers");
  });
});
