// Calls that do not reach their tool: nobody offers it, its arguments do not fit, its provider is confused.

import { defineTool, type ToolProvider } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { failureOf, outputsOf, play, plugin, shownResults, stage, successOf } from "./tools-support.ts";

interface Counters {
  contract: number;
  validate: number;
  prepare: number;
  execute: number;
}

/** Counts what is asked of it about the tool `lamp`. */
function countingProvider(counters: Counters): ToolProvider {
  return {
    manifests: () => [{ id: "lamp", name: "lamp", description: "Shines." }],
    contract: () => {
      counters.contract += 1;
      return { inputSchema: { type: "object" } };
    },
    validator: () => ({
      validate: (args) => {
        counters.validate += 1;
        return { ok: true, value: args };
      },
    }),
    prepare: (call) => {
      counters.prepare += 1;
      return { kind: "prepared", call };
    },
    execute: () => {
      counters.execute += 1;
      return "light";
    },
  };
}

test.each([
  [
    "opted out",
    async (tools: { setMembership(names: string[], present: boolean): Promise<number> }) =>
      tools.setMembership(["lamp"], false),
  ],
  [
    "switched off",
    async (tools: { setAvailability(names: string[], tier: "off"): Promise<number> }) =>
      tools.setAvailability(["lamp"], "off"),
  ],
])("[K96] a tool that is %s fails before anybody is asked about it", async (_how, takeAway) => {
  const counters: Counters = { contract: 0, validate: 0, prepare: 0, execute: 0 };
  const asked: string[] = [];
  const { session, model } = await stage({
    tools: countingProvider(counters),
    plugins: [
      plugin("guard", {
        toolCalls: {
          before: ({ toolName }) => void asked.push(`before ${toolName}`) as undefined,
          after: ({ toolName }) => void asked.push(`after ${toolName}`) as undefined,
        },
        approval: { request: ({ toolName }) => void asked.push(`approve ${toolName}`) as undefined },
      }),
    ],
    script: [callTool("lamp", { any: "thing" }), say("Dark.")],
  });
  await takeAway(session.tools);
  Object.assign(counters, { contract: 0, validate: 0, prepare: 0, execute: 0 });
  const played = await play(session.turn("Light"));
  expect(failureOf(outputsOf(played, "lamp")[0])).toMatchObject({
    class: "unavailable",
    code: "tool_unavailable",
    source: "runtime",
  });
  expect(counters).toEqual({ contract: 0, validate: 0, prepare: 0, execute: 0 });
  expect(asked).toEqual([]);
  expect(shownResults(model)).toEqual(["[tool failed]\nThe tool lamp is not available in this session."]);
  expect(played.report.toolCalls).toMatchObject([
    { callId: "call_1", name: "lamp", args: { any: "thing" }, durationMs: 0 },
  ]);
});

test("[K96] a name that nobody offers is unavailable, and the turn goes on", async () => {
  const { session } = await stage({ script: [callTool("nothing", {}), say("So be it.")] });
  const { report } = await play(session.turn("Go"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
  expect(report.text).toBe("So be it.");
});

test("[K96] a tool that can be found but not called is not run", async () => {
  const counters: Counters = { contract: 0, validate: 0, prepare: 0, execute: 0 };
  const { session } = await stage({
    tools: countingProvider(counters),
    script: [callTool("lamp", {}), say("No.")],
  });
  await session.tools.setAvailability(["lamp"], "searchable");
  const { report } = await play(session.turn("Go"));
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "tool_unavailable",
    message: "The tool lamp can be found but not called yet.",
  });
  expect(counters.execute).toBe(0);
});

test("[K96] a contract is resolved for the tool that is called, once however often it is called", async () => {
  const counters: Counters = { contract: 0, validate: 0, prepare: 0, execute: 0 };
  const { session } = await stage({
    tools: countingProvider(counters),
    script: [
      callTools([
        ["lamp", {}],
        ["lamp", {}],
      ]),
      callTool("lamp", {}),
      say("Bright."),
    ],
  });
  await play(session.turn("Go"));
  expect(counters).toEqual({ contract: 1, validate: 3, prepare: 3, execute: 3 });
});

test("[K96] a tool that an explicit list names and no source has is shown and cannot be called", async () => {
  const unadvertised: ToolProvider = {
    manifests: () => [],
    resolve: (key) =>
      "name" in key && key.name === "ghost" ? { id: "ghost", name: "ghost", description: "Boo." } : undefined,
    contract: () => ({ inputSchema: { type: "object" } }),
    execute: () => "boo",
  };
  const opener = plugin("opener", {
    operations: {
      commands: {
        "opener.open": {
          session: "required",
          handler: (ctx) =>
            ctx.sessionLifecycle.createSession({ sessionId: "child", toolAccess: { tools: ["ghost"] } }),
        },
      },
    },
  });
  const { session, runtime } = await stage({
    tools: unadvertised,
    plugins: [opener],
    script: [callTool("ghost", {}), say("No ghost.")],
  });
  await session.command("opener.open");
  const child = await runtime.session("child");
  expect(child.tools.list().map(({ name }) => name)).toEqual(["ghost"]);
  const { report } = await play(child.turn("Boo"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_contract_unavailable");
});

const adding = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.object({ c: z.number() }) }),
  execute: ({ a, b }) => a + b.c,
});

test.each([
  [{ b: { c: 1 } }, "/a: Invalid input: expected number, received undefined"],
  [{ a: 1, b: { c: "x" } }, "/b/c: Invalid input: expected number, received string"],
  [{ a: 1, b: {} }, "/b/c: Invalid input: expected number, received undefined"],
  [[1, 2], "expected an object of arguments"],
] as const)(
  "[K97] arguments %j are refused with their place, and never reach the tool",
  async (args, message) => {
    let ran = 0;
    const { session, model } = await stage({
      tools: [
        defineTool({
          name: "add",
          description: "Adds two numbers.",
          input: z.object({ a: z.number(), b: z.object({ c: z.number() }) }),
          execute: () => {
            ran += 1;
            return ran;
          },
        }),
      ],
      script: [callTool("add", args), say("Sorry.")],
    });
    const { report } = await play(session.turn("Add"));
    expect(failureOf(report.toolCalls[0]?.output)).toEqual({
      kind: "failure",
      class: "invalid_request",
      code: "invalid_tool_args",
      source: "runtime",
      retry: { kind: "never" },
      message,
    });
    expect(shownResults(model)).toEqual([`[tool failed]\n${message}`]);
    expect(report.toolCalls[0]?.args).toEqual(args);
    expect(ran).toBe(0);
  },
);

test("[K97] arguments that are not JSON are refused, never taken for none", async () => {
  let ran = 0;
  const any = defineTool({
    name: "any",
    description: "Takes anything.",
    input: { type: "object" },
    execute: () => {
      ran += 1;
      return ran;
    },
  });
  const asked: string[] = [];
  const { session } = await stage({
    tools: [any],
    plugins: [
      plugin("guard", { toolCalls: { before: ({ callId }) => void asked.push(callId) as undefined } }),
    ],
    script: [callTool("any", '{"a": '), say("Sorry.")],
  });
  const { report } = await play(session.turn("Go"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("invalid_tool_args");
  expect([ran, asked]).toEqual([0, []]);
});

test("[K97] arguments that fit are taken as the schema makes them", async () => {
  const { session } = await stage({
    tools: [adding],
    script: [callTool("add", { a: 1, b: { c: 2 } }), say("3")],
  });
  const { report } = await play(session.turn("Add"));
  expect(successOf(report.toolCalls[0]?.output)).toBe(3);
});

test("[K98] a call that is prepared under another id fails, and its tool does not run", async () => {
  let ran = 0;
  const confused: ToolProvider = {
    manifests: () => [{ id: "one", name: "one", description: "Is one." }],
    contract: () => ({ inputSchema: { type: "object" } }),
    prepare: (call) => ({ kind: "prepared", call: { ...call, toolId: "two" } }),
    execute: () => {
      ran += 1;
      return ran;
    },
  };
  const { session } = await stage({ tools: confused, script: [callTool("one", {}), say("Hm.")] });
  const { report } = await play(session.turn("Go"));
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "prepared_tool_id_mismatch",
    class: "internal",
  });
  expect(ran).toBe(0);
  expect(report.outcome.kind).toBe("finished");
});

test("[K98] what prepare hands on reaches execute; what it throws fails the call", async () => {
  const payloads: unknown[] = [];
  const tool = (name: string, prepare: () => unknown): ReturnType<typeof defineTool> =>
    defineTool({
      name,
      description: "Is prepared.",
      input: { type: "object" },
      prepare,
      execute: (_input, _context, call) => {
        payloads.push(call.payload);
        return null;
      },
    });
  const { session } = await stage({
    tools: [
      tool("good", () => ({ seat: 7 })),
      tool("bad", () => {
        throw new Error("No seat.");
      }),
    ],
    script: [
      callTools([
        ["good", {}],
        ["bad", {}],
      ]),
      say("Fine."),
    ],
  });
  const { report } = await play(session.turn("Go"));
  expect(payloads).toEqual([{ seat: 7 }]);
  expect(failureOf(report.toolCalls[1]?.output).message).toBe("No seat.");
});
