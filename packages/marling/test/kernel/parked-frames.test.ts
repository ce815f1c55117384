// Waits in a later part of a turn: one that went on in another frame.

import { defineTool, switchFrame } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { asking, database, desk, expectAnswered, parked, until, worker } from "./parked-support.ts";
import { successOf } from "./tools-support.ts";

const hop = defineTool({
  name: "hop",
  description: "Goes on elsewhere.",
  input: { type: "object" },
  execute: () => switchFrame({ key: "other", task: "the task" }),
});

test("[E10] a turn sleeps in a frame that it switched to, and goes on in any runtime", async () => {
  const path = database();
  const { tool, keys } = asking();
  const answers = {
    go: [callTool("hop", {})],
    "the task": [callTool("ask", {}), callTool("ask", {}), callTool("ask", {}), say("Done.")],
  };
  const options = { tools: [tool, hop], answers };
  const [first, second] = [await desk(path, options), await desk(path, options)];
  const turn = first.session.turn("go");
  for (const [index, one] of [second, first, second].entries()) {
    await until(() => keys.length === index + 1);
    await parked(one.session);
    await one.runtime.resolve(keys[index] ?? "", { ok: index });
  }
  const { toolCalls, outcome } = await turn.result;
  expect(outcome.kind).toBe("finished");
  expect(toolCalls.map(({ name }) => name)).toEqual(["hop", "ask", "ask", "ask"]);
  expect(toolCalls.slice(1).map(({ output }) => successOf(output))).toEqual([0, 1, 2]);
  expect(keys).toHaveLength(3);
  expect(first.model.requests.length + second.model.requests.length).toBe(5);
  const third = await desk(path, options);
  await expectAnswered(third.session);
});

test("[RV2] a turn that is woken there in one new process after the other is not ended", async () => {
  const path = database();
  const { tool, keys } = asking();
  const rounds = 6;
  const answers = {
    go: [callTool("hop", {})],
    "the task": [...Array.from({ length: rounds }, () => callTool("ask", {})), say("Done.")],
  };
  const options = { tools: [tool, hop], answers };
  const first = await desk(path, options);
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  for (let round = 1; round <= rounds; round += 1) {
    const { runtime } = worker(path, options);
    await runtime.resolve(keys.at(-1) ?? "", { ok: round });
    await runtime.recover();
    await runtime.close();
  }
  const { session } = await desk(path, options);
  const { outcome, toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(outcome.kind).toBe("finished");
  expect(toolCalls.slice(1).map(({ output }) => successOf(output))).toEqual([1, 2, 3, 4, 5, 6]);
});

test("[E10] a turn that sleeps there is cancelled with everything it came to", async () => {
  const { tool, keys } = asking();
  const answers = { go: [callTool("hop", {})], "the task": [callTool("ask", {}), say("Done.")] };
  const { runtime, session } = await desk(database(), { tools: [tool, hop], answers });
  const turn = session.turn("go");
  await parked(session);
  await session.cancel(turn.id);
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toMatchObject({ reason: "cancelled" });
  expect(toolCalls.map(({ name }) => name)).toEqual(["hop", "ask"]);
  await expectAnswered(session);
  expect(await runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
});
