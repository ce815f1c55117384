// How long a turn sleeps: the time a tool gave counts from when it returned, whichever runtime is there when it is over.

import { callTool, callTools, ManualClock, say } from "marling/testing";
import { expect, test } from "vitest";
import { sha256 } from "../../src/base/digest.ts";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  asking,
  claimAsStranger,
  type Desk,
  database,
  desk,
  expectAnswered,
  parked,
  until,
  worker,
} from "./parked-support.ts";
import { failureOf, successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const START = 1_700_000_000_000;

/** Until when the first turn sleeps, as the store has it. */
async function due({ store }: Desk): Promise<number | null | undefined> {
  return (await store.pending("s" as SessionId))[0]?.parked?.due;
}

test("[CO5] a deadline that passes while the turn sleeps fails the call, and the turn goes on", async () => {
  const clock = new ManualClock({ startsAt: START });
  const { tool, keys } = asking({ deadlineMs: 2_000 });
  const one = await desk(database(), { tools: [tool], answers: ASK, clock });
  const turn = one.session.turn("go");
  await parked(one.session);
  expect(await due(one)).toBe(START + 2_000);
  clock.advance(1_999);
  expect(await one.store.workable(clock.now())).toEqual([]);
  expect((await one.session.pending())[0]?.status).toBe("parked");
  clock.advance(1);
  const { toolCalls, outcome } = await turn.result;
  expect(failureOf(toolCalls[0]?.output)).toMatchObject({
    class: "timeout",
    code: "tool_completion_timeout",
    source: "runtime",
    message: "The tool ask was not completed in time.",
  });
  expect(toolCalls[0]?.durationMs).toBe(2_000);
  expect(outcome.kind).toBe("finished");
  expect(await one.runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
});

test("[CO5] a deadline that fails the turn ends it as a tool error, with a result for the call", async () => {
  const clock = new ManualClock({ startsAt: START });
  const { tool } = asking({ deadlineMs: 2_000, onTimeout: "fail_turn" });
  const { session, model } = await desk(database(), { tools: [tool], answers: ASK, clock });
  const turn = session.turn("go");
  await parked(session);
  clock.advance(2_000);
  const { toolCalls, outcome } = await turn.result;
  expect(outcome).toEqual({
    kind: "stopped",
    reason: "tool_error",
    code: "tool_completion_timeout",
    message: "The tool ask was not completed within 2000 ms.",
  });
  expect(failureOf(toolCalls[0]?.output).code).toBe("tool_completion_timeout");
  expect(model.requests).toHaveLength(1);
  await expectAnswered(session);
});

test.each(["error_as_result", "fail_turn"] as const)(
  "[CO5] a short deadline on the real clock is kept while the turn sleeps: %s",
  async (onTimeout) => {
    const { tool } = asking({ deadlineMs: 40, onTimeout });
    const { session } = await desk(database(), { tools: [tool], answers: ASK });
    const { outcome, toolCalls } = await session.turn("go").result;
    expect(outcome.kind).toBe(onTimeout === "fail_turn" ? "stopped" : "finished");
    expect(failureOf(toolCalls[0]?.output).code).toBe("tool_completion_timeout");
  },
);

test("[E11] a deadline that is far away needs no timer of its own: the sweep of the runtime sees that it has come", async () => {
  const clock = new ManualClock({ startsAt: START });
  const { tool } = asking({ deadlineMs: 3_600_000 });
  const one = await desk(database(), { tools: [tool], answers: ASK, clock });
  const turn = one.session.turn("go");
  await parked(one.session);
  await until(() => clock.pending === 2);
  clock.advance(3_600_000);
  const { toolCalls } = await turn.result;
  expect(failureOf(toolCalls[0]?.output).code).toBe("tool_completion_timeout");
});

test.each(["error_as_result", "fail_turn"] as const)(
  "[E10] a deadline that passed while no process ran is found by the next runtime, unasked: %s",
  async (onTimeout) => {
    const path = database();
    const { tool, keys } = asking({ deadlineMs: 60_000, onTimeout });
    const at = (ms: number) => ({
      tools: [tool],
      answers: ASK,
      clock: new ManualClock({ startsAt: START + ms }),
    });
    const first = await desk(path, at(0));
    first.session.turn("go", { key: "k" });
    await parked(first.session);
    await first.runtime.close();
    const early = worker(path, at(59_999));
    expect((await early.runtime.recover()).resumed).toEqual([]);
    await early.runtime.close();
    const second = worker(path, at(60_000));
    expect((await second.runtime.recover()).resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
    const session = await second.runtime.session("s");
    const { outcome, toolCalls } = await session.turn("go", { key: "k" }).result;
    expect(outcome.kind).toBe(onTimeout === "fail_turn" ? "stopped" : "finished");
    expect(toolCalls[0]?.durationMs).toBe(60_000);
    expect(keys).toHaveLength(1);
    await expectAnswered(session);
  },
);

test("[CO5] a value that came before the deadline is the result, though both are over when a runtime comes", async () => {
  const path = database();
  const { tool, keys } = asking({ deadlineMs: 60_000, onTimeout: "fail_turn" });
  const first = await desk(path, {
    tools: [tool],
    answers: ASK,
    clock: new ManualClock({ startsAt: START }),
  });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  const bringer = await desk(path, { session: "another", clock: new ManualClock({ startsAt: START }) });
  await bringer.store.waits.resolve(sha256(keys[0] ?? ""), "completion", { ok: "in time" });
  await bringer.runtime.close();
  const clock = new ManualClock({ startsAt: START + 90_000 });
  const { session } = await desk(path, { tools: [tool], answers: ASK, clock });
  const { toolCalls, outcome } = await session.turn("go", { key: "k" }).result;
  expect(successOf(toolCalls[0]?.output)).toBe("in time");
  expect(outcome.kind).toBe("finished");
});

test("[CO5] of several waits each has its own time; the turn sleeps until the next of them", async () => {
  const clock = new ManualClock({ startsAt: START });
  const c = asking({ name: "c" });
  const tools = [
    asking({ name: "a", deadlineMs: 3_000 }).tool,
    asking({ name: "b", deadlineMs: 1_000 }).tool,
    c.tool,
  ];
  const answers = {
    go: [
      callTools([
        ["a", {}],
        ["b", {}],
        ["c", {}],
      ]),
      say("Done."),
    ],
  };
  const one = await desk(database(), { tools, answers, clock });
  const turn = one.session.turn("go");
  await parked(one.session);
  expect(await due(one)).toBe(START + 1_000);
  clock.advance(1_000);
  await until(async () => (await due(one)) === START + 3_000);
  await parked(one.session);
  clock.advance(2_000);
  await until(async () => (await due(one)) === null);
  await parked(one.session);
  expect(await claimAsStranger(one.store, { now: clock.now() })).toMatchObject({ kind: "claimed" });
  await one.runtime.resolve(c.keys[0] ?? "", { ok: "at last" });
  const { toolCalls } = await turn.result;
  expect(toolCalls.map(({ durationMs }) => durationMs)).toEqual([3_000, 1_000, 3_000]);
  expect(successOf(toolCalls[2]?.output)).toBe("at last");
});

test("[CO5] a clock that goes backwards after the wait was given up does not make the turn wait again", async () => {
  const path = database();
  const { tool } = asking({ deadlineMs: 60_000 });
  const options = { tools: [tool], answers: ASK, clock: new ManualClock({ startsAt: START }) };
  const first = await desk(path, options);
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  // As a runtime leaves it that saw the deadline pass and died before it wrote what that came to.
  const other = await desk(path, { session: "another", clock: new ManualClock({ startsAt: START }) });
  await other.store.waits.end({
    sessionId: "s" as SessionId,
    turnId: "s:turn:1" as TurnId,
    name: "call_1",
  });
  await other.runtime.close();
  const { session } = await desk(path, { ...options, clock: new ManualClock({ startsAt: START }) });
  const { toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(failureOf(toolCalls[0]?.output).code).toBe("tool_completion_timeout");
});
