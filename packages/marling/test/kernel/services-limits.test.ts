// The time limit of hooks does not run while they wait for something that takes as long as it takes.

import { memoryStore, type Plugin } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { gate, gatedStep, live, quickTool } from "./durable-support.ts";
import { answering } from "./services-support.ts";
import { plugin, TestClock } from "./tools-support.ts";

const LIMIT_MS = 1000;

/** A plugin that waits before each call of a tool of the session "s". */
function waiting(wait: (host: HostServices) => Promise<unknown>): Plugin {
  return plugin("waiting", {
    toolCalls: {
      before: async ({ host, sessionId }) => {
        if (sessionId === "s") await wait(host);
      },
    },
  });
}

test.each<[string, (host: HostServices) => Promise<unknown>]>([
  [
    "for a child's turn",
    async (host) => {
      const { sessionId } = await host.createSession({});
      return host.startTurn(sessionId, "Slow");
    },
  ],
  [
    "for a child's turn that it started before",
    async (host) => {
      const { sessionId } = await host.createSession({});
      const { turnId } = await host.startTurnStream(sessionId, "Slow");
      return host.awaitTurn(turnId);
    },
  ],
  ["for a model", (host) => host.directCompletion({ messages: "Slow" }, "hook")],
])("[K123] a hook that waits %s is not late", async (_what, wait) => {
  const at = gate();
  const clock = new TestClock();
  const { session } = await live({
    store: memoryStore(),
    clock,
    hookTimeoutMs: LIMIT_MS,
    plugins: [waiting(wait)],
    tools: [quickTool("quick")],
    script: answering({ Go: [callTool("quick")], Slow: [gatedStep(at, say("At last."))] }),
  });
  const turn = session.turn("Go");
  await at.begun;
  clock.advance(LIMIT_MS * 10);
  at.open();
  const report = await turn.result;
  expect(report.toolCalls.map(({ output }) => output.outcome)).toEqual([
    { kind: "success", value: "quick done" },
  ]);
});

test("[K123] a hook that goes on by itself after it waited has the rest of its time, and no more", async () => {
  const [asked, after] = [gate(), gate()];
  const clock = new TestClock();
  const { session } = await live({
    store: memoryStore(),
    clock,
    hookTimeoutMs: LIMIT_MS,
    plugins: [
      waiting(async (host) => {
        await host.directCompletion({ messages: "Slow" }, "hook");
        await after.pass();
      }),
    ],
    tools: [quickTool("quick")],
    script: answering({ Go: [callTool("quick")], Slow: [gatedStep(asked, say("At last."))] }),
  });
  const turn = session.turn("Go");
  await asked.begun;
  clock.advance(LIMIT_MS * 10);
  asked.open();
  await after.begun;
  clock.advance(LIMIT_MS);
  const report = await turn.result;
  expect(report.toolCalls.map(({ output }) => output.outcome)).toEqual([
    expect.objectContaining({ kind: "failure", code: "before_tool_call_failed" }),
  ]);
});
