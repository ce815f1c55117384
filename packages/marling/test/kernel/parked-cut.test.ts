// Tools that were cut after they took a key, or before.

import { defineTool, type ToolContext, type ToolDefinition } from "marling";
import { callTool, say } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { claimAsStranger, database, desk, parked, until } from "./parked-support.ts";
import { failureOf, successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };

/** A tool that takes its key and is then cut before it can say that its result comes later. */
function cutting(replay: "safe" | "unsafe", hang: Promise<void>): { tool: ToolDefinition; keys: string[] } {
  const keys: string[] = [];
  const tool = defineTool({
    name: "ask",
    description: "Is cut the first time.",
    input: { type: "object" },
    replay,
    execute: async (_input, context: ToolContext) => {
      keys.push(await context.completionKey());
      if (keys.length === 1) await hang;
      return context.pending();
    },
  });
  return { keys, tool: tool as ToolDefinition };
}

async function cutAfterKey(
  path: string,
  replay: "safe" | "unsafe",
): Promise<{ tool: ToolDefinition; keys: string[] }> {
  const hang = deferred<void>();
  const one = cutting(replay, hang.promise);
  const first = await desk(path, { tools: [one.tool], answers: ASK });
  onTestFinished(() => hang.resolve());
  first.session.turn("go", { key: "k" });
  await until(() => one.keys.length === 1);
  await first.crash();
  return one;
}

test("[E7] an unsafe tool that was cut after it took its key is not run again: its turn sleeps, and the key completes it", async () => {
  const path = database();
  const { tool, keys } = await cutAfterKey(path, "unsafe");
  const { runtime, session, store } = await desk(path, { tools: [tool], answers: ASK });
  const turn = session.turn("go", { key: "k" });
  await parked(session);
  expect(keys).toHaveLength(1);
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed" });
  expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  const { toolCalls, text } = await turn.result;
  expect(successOf(toolCalls[0]?.output)).toBe("yes");
  expect(text).toBe("Done.");
  expect(keys).toHaveLength(1);
});

test("[E7] an unsafe tool that was cut before it took a key has an unknown outcome", async () => {
  const path = database();
  const hang = deferred<void>();
  let ran = 0;
  const tool = defineTool({
    name: "ask",
    description: "Is cut.",
    input: { type: "object" },
    execute: async (_input, context) => {
      ran += 1;
      await hang.promise;
      return context.pending();
    },
  });
  const first = await desk(path, { tools: [tool], answers: ASK });
  onTestFinished(() => hang.resolve());
  first.session.turn("go", { key: "k" });
  await until(() => ran === 1);
  await first.crash();
  const { session } = await desk(path, { tools: [tool], answers: ASK });
  const { toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(failureOf(toolCalls[0]?.output).code).toBe("unknown_outcome");
  expect(ran).toBe(1);
});

test.each([0, 1])(
  "[E7] a safe tool that was cut after it took its key runs again with another one, and key %i completes the call",
  async (which) => {
    const path = database();
    const { tool, keys } = await cutAfterKey(path, "safe");
    const { runtime, session } = await desk(path, { tools: [tool], answers: ASK });
    const turn = session.turn("go", { key: "k" });
    await parked(session);
    expect(new Set(keys).size).toBe(2);
    expect(await runtime.resolve(keys[which] ?? "", { ok: "yes" })).toBe("resolved");
    expect(await runtime.resolve(keys[1 - which] ?? "", { ok: "no" })).toBe("already_resolved");
    expect(successOf((await turn.result).toolCalls[0]?.output)).toBe("yes");
  },
);

test("[E7] a value that came while the cut tool was nobody's is its result", async () => {
  const path = database();
  const { tool, keys } = await cutAfterKey(path, "unsafe");
  const bringer = await desk(path, { session: "another", tools: [tool], answers: ASK });
  await bringer.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const session = await bringer.runtime.session("s");
  expect(successOf((await session.turn("go", { key: "k" }).result).toolCalls[0]?.output)).toBe("yes");
  expect(keys).toHaveLength(1);
});
