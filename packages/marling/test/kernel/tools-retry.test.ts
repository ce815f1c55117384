// Attempts of one call: which failures are tried again, after how long, and what stays the same between them.

import { defineTool, type RetryPolicy, type ToolContext, toolFailure } from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { failureOf, play, plugin, stage, successOf, TestClock, until } from "./tools-support.ts";

interface Attempts {
  readonly tool: ReturnType<typeof defineTool>;
  readonly seen: {
    readonly at: number;
    readonly attempt: number;
    readonly maxAttempts: number;
    readonly key: string;
  }[];
}

/** A tool that gives its answers one after the other and writes down every attempt. */
function answering(clock: TestClock, retry: RetryPolicy | undefined, answers: readonly unknown[]): Attempts {
  const seen: Attempts["seen"] = [];
  const tool = defineTool({
    name: "flaky",
    description: "Fails at times.",
    input: { type: "object" },
    ...(retry === undefined ? {} : { retry }),
    execute: (_input, { attempt, maxAttempts, idempotencyKey }: ToolContext) => {
      seen.push({ at: clock.monotonic(), attempt, maxAttempts, key: idempotencyKey });
      const answer = answers[seen.length - 1];
      if (answer instanceof Error) throw answer;
      return answer;
    },
  });
  return { tool, seen };
}

const SAFE = toolFailure({ code: "busy", message: "Busy.", retry: { safe: true } });
const SAFE_LATER = toolFailure({ code: "busy", message: "Busy.", retry: { safe: true, afterMs: 7 } });
const NEVER = toolFailure({ code: "broken", message: "Broken." });

/** Plays a turn with one call, moving time whenever something waits for it. */
async function playWith(
  clock: TestClock,
  { tool }: Attempts,
  plugins: readonly ReturnType<typeof plugin>[] = [],
) {
  const { session } = await stage({
    clock,
    tools: [tool],
    plugins,
    script: [callTool("flaky", {}), say("Done.")],
  });
  const turn = session.turn("Go");
  let isOver = false;
  const played = play(turn).finally(() => {
    isOver = true;
  });
  await until(() => {
    if (clock.pending > 0) clock.advance(1);
    return isOver;
  }, "the turn to end");
  return played;
}

test.each([
  ["a failure that is not safe", [NEVER, "never seen"]],
  ["a thrown error", [new Error("Thrown."), "never seen"]],
  ["a success", ["fine", "never seen"]],
])("[K101] %s is not tried again", async (_what, answers) => {
  const clock = new TestClock();
  const attempts = answering(clock, { attempts: 3, delayMs: 10 }, answers);
  const { report } = await playWith(clock, attempts);
  expect(attempts.seen.map(({ attempt, maxAttempts }) => [attempt, maxAttempts])).toEqual([[1, 3]]);
  expect(report.toolCalls).toHaveLength(1);
});

test("[K101] without a policy a safe failure is not tried again, and is not called exhausted", async () => {
  const clock = new TestClock();
  const attempts = answering(clock, undefined, [SAFE, "never seen"]);
  const { report } = await playWith(clock, attempts);
  expect(attempts.seen.map(({ maxAttempts }) => maxAttempts)).toEqual([1]);
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({ retry: { kind: "safe" } });
});

test("[K101] a safe failure is tried again until it succeeds, with delays that double", async () => {
  const clock = new TestClock();
  const attempts = answering(clock, { attempts: 5, delayMs: 10 }, [SAFE, SAFE, SAFE, "at last"]);
  const { report } = await playWith(clock, attempts);
  expect(attempts.seen.map(({ at, attempt }) => [attempt, at])).toEqual([
    [1, 0],
    [2, 10],
    [3, 30],
    [4, 70],
  ]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("at last");
  expect(report.toolCalls).toHaveLength(1);
});

test("[K101] a delay that the failure asks for comes before the policy's, which has a limit", async () => {
  const clock = new TestClock();
  const policy = { attempts: 5, delayMs: 10, maxDelayMs: 15 };
  const attempts = answering(clock, policy, [SAFE, SAFE_LATER, SAFE, SAFE, "at last"]);
  await playWith(clock, attempts);
  // 10, then 7 as asked, then 40 and 80 cut to 15
  expect(attempts.seen.map(({ at }) => at)).toEqual([0, 10, 17, 32, 47]);
});

test("[K101] when the attempts are used up, the last failure says how many there were", async () => {
  const clock = new TestClock();
  const attempts = answering(clock, { attempts: 3 }, [SAFE, SAFE, SAFE, "never seen"]);
  const { report } = await playWith(clock, attempts);
  expect(attempts.seen).toHaveLength(3);
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "busy",
    message: "Busy.",
    retry: { kind: "exhausted", attempts: 3 },
  });
});

test("[K101] all attempts of a call have one idempotency key, another call has another", async () => {
  const clock = new TestClock();
  const attempts = answering(clock, { attempts: 3 }, [SAFE, "one", SAFE, "two"]);
  const { session } = await stage({
    clock,
    tools: [attempts.tool],
    script: [callTool("flaky", {}), callTool("flaky", {}), say("Done.")],
  });
  await play(session.turn("Go", { id: "t:1" }));
  expect(attempts.seen.map(({ key }) => key)).toEqual([
    "marling-tool:s:t%3A1:call_1:flaky",
    "marling-tool:s:t%3A1:call_1:flaky",
    "marling-tool:s:t%3A1:call_2:flaky",
    "marling-tool:s:t%3A1:call_2:flaky",
  ]);
});

test("[K101] a turn that is cancelled between two attempts does not try again", async () => {
  const clock = new TestClock();
  const attempts = answering(clock, { attempts: 3, delayMs: 1_000 }, [SAFE, "never seen"]);
  const { session } = await stage({ clock, tools: [attempts.tool], script: [callTool("flaky", {})] });
  const turn = session.turn("Go");
  await until(() => clock.pending > 0 && attempts.seen.length === 1, "the pause to begin");
  await session.cancel(turn.id);
  const { report } = await play(turn);
  expect(attempts.seen).toHaveLength(1);
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    kind: "cancelled",
    message: "Cancelled while waiting to try again after: Busy.",
  });
  expect(clock.pending).toBe(0);
});

test("[K102] the hooks after a call run for every attempt and may end the trying", async () => {
  const clock = new TestClock();
  const seen: unknown[] = [];
  const attempts = answering(clock, { attempts: 4 }, [SAFE, SAFE, SAFE, "never seen"]);
  const watch = plugin("watch", {
    toolCalls: {
      after: ({ result, callId }) => {
        const { outcome } = result;
        seen.push([callId, outcome.kind === "failure" ? outcome.retry.kind : outcome.kind]);
        return seen.length < 3 ? undefined : { kind: "short_circuit_tool", output: NEVER };
      },
    },
  });
  const { report } = await playWith(clock, attempts, [watch]);
  // The hooks see each attempt's own result, before anything is called exhausted.
  expect(seen).toEqual([
    ["call_1", "safe"],
    ["call_1", "safe"],
    ["call_1", "safe"],
  ]);
  expect(attempts.seen).toHaveLength(3);
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({ code: "broken", retry: { kind: "never" } });
});

test("[K102] the hooks before a call run once, however often it is tried", async () => {
  const clock = new TestClock();
  let before = 0;
  let after = 0;
  const attempts = answering(clock, { attempts: 3 }, [SAFE, SAFE, "fine"]);
  const watch = plugin("watch", {
    toolCalls: {
      before: () => {
        before += 1;
        return undefined;
      },
      after: () => {
        after += 1;
        return undefined;
      },
    },
  });
  const { report } = await playWith(clock, attempts, [watch]);
  expect([before, after, attempts.seen.length]).toEqual([1, 3, 3]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("fine");
});

test("[TA3] a call takes as long as its attempts took; the time between them is not counted", async () => {
  const clock = new TestClock();
  const durations: number[] = [];
  let tries = 0;
  const slow = defineTool({
    name: "flaky",
    description: "Takes its time.",
    input: { type: "object" },
    retry: { attempts: 2, delayMs: 1_000 },
    execute: () => {
      tries += 1;
      clock.advance(tries === 1 ? 30 : 12);
      return tries === 1 ? SAFE : "fine";
    },
  });
  const watch = plugin("watch", {
    toolCalls: { after: ({ durationMs }) => void durations.push(durationMs) as undefined },
  });
  const { report } = await playWith(clock, { tool: slow, seen: [] }, [watch]);
  expect(durations).toEqual([30, 12]);
  expect(report.toolCalls[0]?.durationMs).toBe(42);
});
