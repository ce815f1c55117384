// Results that come later: through a key, once, checked, within a time, or not at all.

import { defineTool, type Json, type PendingResult, type ToolContext } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import { failureOf, play, plugin, type Stage, stage, successOf, TestClock, until } from "./tools-support.ts";

type PendingOptions = Parameters<ToolContext["pending"]>[0];

interface Later {
  readonly tool: ReturnType<typeof defineTool>;
  readonly key: Deferred<string>;
  context?: ToolContext;
}

/** A tool whose result comes later. */
function later(options: PendingOptions = {}): Later {
  const one: Later = {
    key: deferred<string>(),
    tool: defineTool({
      name: "later",
      description: "Answers later.",
      input: { type: "object" },
      output: z.object({ n: z.number() }),
      execute: async (_input, context): Promise<PendingResult> => {
        one.context = context;
        one.key.resolve(await context.completionKey());
        return context.pending(options);
      },
    }),
  };
  return one;
}

async function staged(
  one: Later,
  options: { readonly clock?: TestClock; readonly plugins?: ReturnType<typeof plugin>[] } = {},
): Promise<Stage> {
  return stage({ tools: [one.tool], script: [callTool("later", {}), say("Done.")], ...options });
}

test("[K103] a value completes the call, and the turn goes on with it", async () => {
  const one = later();
  const { runtime, session, model } = await staged(one);
  const turn = session.turn("Go");
  const played = play(turn);
  const key = await one.key.promise;
  await until(() => model.requests.length === 1);
  expect(await runtime.resolve(key, { ok: { n: 1 } })).toBe("resolved");
  const { report, events } = await played;
  expect(successOf(report.toolCalls[0]?.output)).toEqual({ n: 1 });
  expect(report.text).toBe("Done.");
  expect(events.filter(({ kind }) => kind === "waiting")).toEqual([
    { kind: "waiting", callId: "call_1", name: "later" },
  ]);
  expect(await runtime.resolve(key, { ok: { n: 2 } })).toBe("already_resolved");
});

test("[K103] an error fails the call with its code and message", async () => {
  const one = later();
  const { runtime, session } = await staged(one);
  const turn = session.turn("Go");
  await runtime.resolve(await one.key.promise, { error: { code: "rejected", message: "Not today." } });
  const { report } = await play(turn);
  expect(failureOf(report.toolCalls[0]?.output)).toEqual({
    kind: "failure",
    class: "execution",
    source: "tool",
    code: "rejected",
    message: "Not today.",
    retry: { kind: "never" },
  });
});

test("[K103] a deadline that passes is a failed call, unless the tool wants more", async () => {
  const clock = new TestClock();
  const one = later({ deadlineMs: 500 });
  const { runtime, session } = await staged(one, { clock });
  const turn = session.turn("Go");
  const key = await one.key.promise;
  await until(() => clock.pending > 0, "the wait to begin");
  clock.advance(499);
  expect(one.context?.signal.aborted).toBe(false);
  clock.advance(1);
  const { report } = await play(turn);
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    class: "timeout",
    code: "tool_completion_timeout",
    source: "runtime",
  });
  expect(report.outcome.kind).toBe("finished");
  expect(report.toolCalls[0]?.durationMs).toBe(500);
  expect(await runtime.resolve(key, { ok: { n: 1 } })).toBe("already_resolved");
  expect(one.context?.signal.aborted).toBe(true);
});

test("[K103] a deadline that fails the turn ends it as a tool error", async () => {
  // spec 9.12 QUIRK: upstream carries fail_turn and never acts on it; here it is honoured.
  const clock = new TestClock();
  const one = later({ deadlineMs: 500, onTimeout: "fail_turn" });
  const { session, model } = await staged(one, { clock });
  const turn = session.turn("Go");
  await until(() => clock.pending > 0, "the wait to begin");
  clock.advance(500);
  const { report } = await play(turn);
  expect(report.outcome).toEqual({
    kind: "stopped",
    reason: "tool_error",
    code: "tool_completion_timeout",
    message: "The tool later was not completed within 500 ms.",
  });
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_completion_timeout");
  expect(model.requests).toHaveLength(1);
  expect(
    (await session.history()).some((node) => node.kind === "message" && node.message.role === "tool"),
  ).toBe(true);
});

test.each([
  ["cancel_external_work", true],
  ["keep_external_work", false],
] as const)(
  "[K103] a cancelled turn cancels the call; with %s the work is told: %s",
  async (onCancel, isTold) => {
    const one = later({ onCancel });
    const { runtime, session } = await staged(one);
    const turn = session.turn("Go");
    const events: string[] = [];
    const watching = (async () => {
      for await (const event of turn) events.push(event.kind);
    })();
    const key = await one.key.promise;
    await until(() => events.includes("waiting"));
    await session.cancel(turn.id);
    const report = await turn.result;
    await watching;
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
    expect(report.toolCalls[0]?.output.outcome).toEqual({
      kind: "cancelled",
      source: "cancellation",
      message: "The turn was cancelled while the call was waiting.",
    });
    expect(one.context?.signal.aborted).toBe(isTold);
    expect(await runtime.resolve(key, { ok: { n: 1 } })).toBe("already_resolved");
  },
);

test("[K103] a value that comes before the wait is kept", async () => {
  const early = defineTool({
    name: "later",
    description: "Is answered before it waits.",
    input: { type: "object" },
    execute: async (_input, context) => {
      const key = await context.completionKey();
      expect(await context.completionKey()).toBe(key);
      expect(await runtime.resolve(key, { ok: "early" })).toBe("resolved");
      expect(await runtime.resolve(key, { ok: "second" })).toBe("already_resolved");
      return context.pending();
    },
  });
  const { runtime, session } = await stage({ tools: [early], script: [callTool("later", {}), say("Done.")] });
  const { report } = await play(session.turn("Go"));
  expect(successOf(report.toolCalls[0]?.output)).toBe("early");
});

test("[K103] a pending result without a key is a failed call", async () => {
  const keyless = defineTool({
    name: "later",
    description: "Forgets its key.",
    input: { type: "object" },
    execute: (_input, context) => context.pending(),
  });
  const { session } = await stage({ tools: [keyless], script: [callTool("later", {}), say("Done.")] });
  const { report } = await play(session.turn("Go"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("pending_tool_missing_completion_key");
});

test("[K103] a key that nobody waits with is over when its call ends; an unknown one is unknown", async () => {
  let key = "";
  const hasty = defineTool({
    name: "later",
    description: "Takes a key and answers at once.",
    input: { type: "object" },
    execute: async (_input, context) => {
      key = await context.completionKey();
      return "done";
    },
  });
  const { runtime, session } = await stage({ tools: [hasty], script: [callTool("later", {}), say("Done.")] });
  await play(session.turn("Go"));
  expect(await runtime.resolve(key, { ok: 1 })).toBe("already_resolved");
  expect(await runtime.resolve("wait_AAAAAAAAAAAAAAAAAAAAAA", { ok: 1 })).toBe("unknown");
});

test("[K103] a value that the output schema refuses fails the call", async () => {
  const one = later();
  const { runtime, session } = await staged(one);
  const turn = session.turn("Go");
  await runtime.resolve(await one.key.promise, { ok: { n: "one" } });
  const { report } = await play(turn);
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("invalid_tool_output");
});

test.each([[{}], [{ error: { code: "x" } }], ["ok"], [undefined]])(
  "[K103] a resolution %j is refused and leaves the wait as it was",
  async (raw) => {
    const one = later();
    const { runtime, session } = await staged(one);
    const turn = session.turn("Go");
    const key = await one.key.promise;
    await expect(runtime.resolve(key, raw as { ok: Json })).rejects.toMatchObject({ name: "MarlingError" });
    expect(await runtime.resolve(key, { ok: { n: 1 } })).toBe("resolved");
    expect((await turn.result).outcome.kind).toBe("finished");
  },
);

test("[K103] the hooks after a call see the result that came later, not that it was pending", async () => {
  const one = later();
  const seen: unknown[] = [];
  const watch = plugin("watch", {
    toolCalls: {
      after: ({ result }) => {
        seen.push(result.outcome);
        return { kind: "short_circuit_tool", output: { outcome: { kind: "success", value: "replaced" } } };
      },
    },
  });
  const { runtime, session } = await staged(one, { plugins: [watch] });
  const turn = session.turn("Go");
  await runtime.resolve(await one.key.promise, { ok: { n: 1 } });
  const { report } = await play(turn);
  expect(seen).toEqual([{ kind: "success", value: { n: 1 } }]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("replaced");
});

test("[K103] calls that wait have keys of their own, and each is completed by its own", async () => {
  const keys: string[] = [];
  const waiting = defineTool({
    name: "later",
    description: "Answers later.",
    input: { type: "object" },
    execute: async (_input, context) => {
      keys.push(await context.completionKey());
      return context.pending();
    },
  });
  const { runtime, session } = await stage({
    tools: [waiting],
    script: [
      callTools([
        ["later", {}],
        ["later", {}],
      ]),
      say("Done."),
    ],
  });
  const turn = session.turn("Go");
  await until(() => keys.length === 2);
  expect(new Set(keys).size).toBe(2);
  for (const key of keys) expect(key).toMatch(/^wait_[A-Za-z0-9_-]{22}$/);
  await runtime.resolve(keys[1] ?? "", { ok: "second" });
  await runtime.resolve(keys[0] ?? "", { ok: "first" });
  const { report } = await play(turn);
  expect(report.toolCalls.map(({ output }) => successOf(output))).toEqual(["first", "second"]);
});

test("[TA4] a tool that has returned can take no key and call no tool", async () => {
  const one = later();
  const { runtime, session } = await staged(one);
  const turn = session.turn("Go");
  await runtime.resolve(await one.key.promise, { ok: { n: 1 } });
  await play(turn);
  await expect(one.context?.completionKey()).rejects.toMatchObject({ code: "stale_scope" });
  await expect(one.context?.callTools([{ name: "later", args: {} }])).rejects.toMatchObject({
    code: "stale_scope",
  });
});
