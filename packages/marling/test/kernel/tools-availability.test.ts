// The tools of a session as its host changes them, and the calls that tools make of each other.

import { defineTool, type NestedReply } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { failureOf, play, plugin, rejectionOf, stage, successOf, until } from "./tools-support.ts";

function tool(name: string): ReturnType<typeof defineTool> {
  return defineTool({ name, description: "Is there.", input: { type: "object" }, execute: () => name });
}

const TOOLS = [tool("a"), tool("b"), tool("c")];

test("[K94] setting the availability of several tools is one step of the generation", async () => {
  const { session } = await stage({ tools: TOOLS });
  const before = session.tools.state().generation;
  expect(await session.tools.setAvailability(["a", "b"], "off")).toBe(before + 1);
  expect(session.tools.state().generation).toBe(before + 1);
  expect(session.tools.list().map(({ name }) => name)).toEqual(["batch", "c"]);
  expect(await session.tools.setAvailability(["a"], "callable")).toBe(before + 2);
  expect(session.tools.list().map(({ name, availability }) => [name, availability])).toEqual([
    ["a", "callable"],
    ["batch", undefined],
    ["c", undefined],
  ]);
  expect(await session.tools.setAvailability(["a", "b"], null)).toBe(before + 3);
  expect(session.tools.list().map(({ name }) => name)).toEqual(["a", "b", "batch", "c"]);
});

test("[K94] an unknown name among them changes nothing and commits nothing", async () => {
  const { session } = await stage({ tools: TOOLS });
  const before = { state: session.tools.state(), revision: session.read().revision };
  expect(await rejectionOf(session.tools.setAvailability(["a", "nothing"], "off"))).toMatchObject({
    code: "unknown_tool",
    advice: "fix",
  });
  expect(await rejectionOf(session.tools.setMembership(["a", "nothing"], false))).toMatchObject({
    code: "unknown_tool",
  });
  expect({ state: session.tools.state(), revision: session.read().revision }).toEqual(before);
});

test("[K94] overrides are kept: over turns, and by a runtime that opens the session again", async () => {
  const store = memoryStore();
  const first = await stage({ tools: TOOLS, store, script: [say("Hi."), callTool("a"), say("No.")] });
  await play(first.session.turn("Hello"));
  const generation = await first.session.tools.setAvailability(["a"], "off");
  await first.runtime.close();
  const second = await stage({ tools: TOOLS, store, script: [callTool("a"), say("No.")] });
  expect(second.session.tools.state().generation).toBe(generation);
  expect(second.session.tools.list().map(({ name }) => name)).toEqual(["b", "batch", "c"]);
  const { report } = await play(second.session.turn("Try"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
});

test("[K94] a plugin sets tiers through its host, in one step, and the turn commits them", async () => {
  const store = memoryStore();
  const generations: number[] = [];
  const switcher = plugin("switcher", {
    turn: {
      before: async ({ host, sessionId }) => {
        generations.push(await host.setToolsAvailability(sessionId, ["a", "b"], "off"));
        return undefined;
      },
    },
  });
  const first = await stage({ tools: TOOLS, store, plugins: [switcher], script: [say("Hi.")] });
  const { generation } = first.session.tools.state();
  await play(first.session.turn("Hello"));
  expect(generations).toEqual([generation + 1]);
  expect(first.session.read().revision).toBe(2);
  await first.runtime.close();
  const second = await stage({ tools: TOOLS, store, plugins: [plugin("switcher", {})] });
  expect(second.session.tools.list().map(({ name }) => name)).toEqual(["batch", "c"]);
});

test("[K94] a change during a turn is seen by its next round and is committed beside it", async () => {
  const gate = deferred<void>();
  const begun = deferred<void>();
  const slow = defineTool({
    name: "slow",
    description: "Waits.",
    input: { type: "object" },
    execute: async () => {
      begun.resolve();
      await gate.promise;
      return null;
    },
  });
  const { session, model } = await stage({
    tools: [...TOOLS, slow],
    script: [callTool("slow"), callTool("a"), say("Done.")],
  });
  const turn = session.turn("Go");
  await begun.promise;
  const { revision } = session.read();
  await session.tools.setMembership(["a"], false);
  expect(session.read().revision).toBe(revision + 1);
  gate.resolve();
  const { report } = await play(turn);
  expect(model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
    ["a", "b", "batch", "c", "slow"],
    ["b", "batch", "c", "slow"],
    ["b", "batch", "c", "slow"],
  ]);
  expect(failureOf(report.toolCalls[1]?.output).code).toBe("tool_unavailable");
  expect(report.revision).toBe(revision + 2);
});

test("[K105] a tool calls others at once; replies are in order, and failures are replies", async () => {
  const replies: NestedReply[] = [];
  const conductor = defineTool({
    name: "conductor",
    description: "Calls others.",
    input: { type: "object" },
    execute: async (_input, context) => {
      expect(await context.callTools([])).toEqual([]);
      replies.push(
        ...(await context.callTools([
          { name: "a", args: {} },
          { name: "nothing", args: {} },
          { name: "b", args: undefined },
        ])),
      );
      replies.push(...(await context.callTools([{ name: "c", args: {}, id: "last" }])));
      return replies.length;
    },
  });
  const { session } = await stage({
    tools: [...TOOLS, conductor],
    script: [callTool("conductor"), say("Done.")],
  });
  const { report } = await play(session.turn("Go"));
  expect(replies.map(({ callId, name, output }) => [callId, name, output.outcome.kind])).toEqual([
    ["call_1:00", "a", "success"],
    ["call_1:01", "nothing", "failure"],
    ["call_1:02", "b", "success"],
    ["call_1:last", "c", "success"],
  ]);
  expect(successOf(report.toolCalls[0]?.output)).toBe(4);
  expect(report.toolCalls).toHaveLength(1);
});

test("[K105] lists that a tool asks for at the same time have ids of their own; a repeated id is refused", async () => {
  const ids: string[] = [];
  const conductor = defineTool({
    name: "conductor",
    description: "Calls others.",
    input: { type: "object" },
    execute: async (_input, context) => {
      const lists = await Promise.all([
        context.callTools([
          { name: "a", args: {} },
          { name: "b", args: {} },
        ]),
        context.callTools([{ name: "c", args: {} }]),
      ]);
      ids.push(...lists.flat().map(({ callId }) => callId));
      return context.callTools([{ name: "a", args: {}, id: "01" }]);
    },
  });
  const { session } = await stage({
    tools: [...TOOLS, conductor],
    script: [callTool("conductor"), say("Done.")],
  });
  const { report } = await play(session.turn("Go"));
  expect(ids).toEqual(["call_1:00", "call_1:01", "call_1:02"]);
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "invalid_id",
    message: "call call_1: expected an id of its own for each call it makes, found call_1:01 twice",
  });
});

test("[K105] arguments that are no JSON are a refused call, not a throw", async () => {
  const conductor = defineTool({
    name: "conductor",
    description: "Calls others.",
    input: { type: "object" },
    execute: async (_input, context) => {
      const [reply] = await context.callTools([{ name: "a", args: { f: () => 1 } }]);
      return reply?.output.outcome.kind === "failure" ? reply.output.outcome.code : "ran";
    },
  });
  const { session } = await stage({
    tools: [...TOOLS, conductor],
    script: [callTool("conductor"), say("Done.")],
  });
  const { report } = await play(session.turn("Go"));
  expect(successOf(report.toolCalls[0]?.output)).toBe("invalid_tool_args");
});

test("[K94] a live provider adds its tools at once and takes them away again", async () => {
  const { session } = await stage({
    tools: TOOLS,
    script: [callTools([["extra", {}]]), say("One."), callTools([["extra", {}]]), say("Two.")],
  });
  const source = session.tools.add({
    manifests: () => [{ id: "extra", name: "extra", description: "Comes and goes." }],
    contract: () => ({ inputSchema: { type: "object" } }),
    execute: () => "here",
  });
  const here = await play(session.turn("One"));
  expect(successOf(here.report.toolCalls[0]?.output)).toBe("here");
  source.remove();
  const gone = await play(session.turn("Two"));
  expect(failureOf(gone.report.toolCalls[0]?.output).code).toBe("tool_unavailable");
  expect(() => session.tools.add({} as never)).toThrow(expect.objectContaining({ code: "invalid_tool" }));
  expect(() =>
    session.tools.add({
      manifests: () => [{ id: "x", name: "a", description: "Rival." }],
      contract: () => undefined,
      execute: () => 1,
    }),
  ).toThrow(expect.objectContaining({ code: "duplicate_tool" }));
  await until(() => session.tools.list().length === 4);
});
