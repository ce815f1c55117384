// Pauses between the attempts of a call: the time that one is due is written before it begins, and holds in every run.

import { defineTool, type ToolDefinition, toolFailure } from "marling";
import { callTool, ManualClock, say } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import { type Desk, database, desk, until } from "./parked-support.ts";
import { successOf } from "./tools-support.ts";

const START = 1_700_000_000_000;
const ANSWERS = { go: [callTool("flaky", {}), say("Done.")] };

/** A clock that says how long it was asked to sleep. */
class SleepClock extends ManualClock {
  readonly sleeps: number[] = [];

  override sleep(ms: number, options: { readonly signal: AbortSignal }): Promise<void> {
    this.sleeps.push(ms);
    return super.sleep(ms, options);
  }
}

/** A tool that fails a number of times, asking for a pause before each retry. */
function flaky({ failures, afterMs }: { readonly failures: number; readonly afterMs: number }): {
  readonly tool: ToolDefinition;
  readonly ran: number[];
} {
  const ran: number[] = [];
  const tool = defineTool({
    name: "flaky",
    description: "Fails at first.",
    input: { type: "object" },
    replay: "safe",
    retry: { attempts: failures + 1 },
    execute: (_input, { attempt }) => {
      ran.push(attempt);
      if (attempt > failures) return "at last";
      return toolFailure({ code: "busy", message: "Busy.", retry: { safe: true, afterMs } });
    },
  });
  return { ran, tool: tool as ToolDefinition };
}

/** A runtime that is to crash in a pause, which ends with the test. */
async function mortal(path: string, tool: ToolDefinition, clock: SleepClock): Promise<Desk> {
  const one = await desk(path, { tools: [tool], answers: ANSWERS, clock });
  onTestFinished(() => clock.advance(3_600_000));
  return one;
}

async function slept(clock: SleepClock, count: number): Promise<readonly number[]> {
  await until(() => clock.sleeps.length === count);
  return clock.sleeps;
}

test("[E11] a pause that a crash cut is slept to its end, not from its beginning", async () => {
  const path = database();
  const { tool, ran } = flaky({ failures: 1, afterMs: 1_000 });
  const before = new SleepClock({ startsAt: START });
  const first = await mortal(path, tool, before);
  first.session.turn("go", { key: "k" });
  expect(await slept(before, 1)).toEqual([1_000]);
  const records = await first.store.journal?.read("s" as SessionId, "s:turn:1" as TurnId);
  expect(records?.filter(({ key }) => key.includes(".timer."))).toMatchObject([
    { status: "started", outcome: { due: START + 1_000 } },
  ]);
  await first.crash();
  const clock = new SleepClock({ startsAt: START + 600 });
  const { session } = await desk(path, { tools: [tool], answers: ANSWERS, clock });
  const turn = session.turn("go", { key: "k" });
  expect(await slept(clock, 1)).toEqual([400]);
  clock.advance(399);
  expect(ran).toEqual([1]);
  clock.advance(1);
  expect(successOf((await turn.result).toolCalls[0]?.output)).toBe("at last");
  expect(ran).toEqual([1, 2]);
});

test("[E11] a pause that was over before the next process came is not slept at all", async () => {
  const path = database();
  const { tool, ran } = flaky({ failures: 1, afterMs: 1_000 });
  const before = new SleepClock({ startsAt: START });
  const first = await mortal(path, tool, before);
  first.session.turn("go", { key: "k" });
  await slept(before, 1);
  await first.crash();
  const clock = new SleepClock({ startsAt: START + 5_000 });
  const { session } = await desk(path, { tools: [tool], answers: ANSWERS, clock });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
  expect(clock.sleeps).toEqual([]);
  expect(ran).toEqual([1, 2]);
});

test("[E11] a clock that went backwards makes nobody wait longer than was asked for", async () => {
  const path = database();
  const { tool } = flaky({ failures: 1, afterMs: 1_000 });
  const before = new SleepClock({ startsAt: START });
  const first = await mortal(path, tool, before);
  first.session.turn("go", { key: "k" });
  await slept(before, 1);
  await first.crash();
  const clock = new SleepClock({ startsAt: START - 3_600_000 });
  const { session } = await desk(path, { tools: [tool], answers: ANSWERS, clock });
  const turn = session.turn("go", { key: "k" });
  expect(await slept(clock, 1)).toEqual([1_000]);
  clock.advance(1_000);
  expect((await turn.result).text).toBe("Done.");
  expect(clock.sleeps).toEqual([1_000]);
});

test("[E11] a long pause is slept in slices, each of them measured on the clock as it is then", async () => {
  const { tool, ran } = flaky({ failures: 1, afterMs: 150_000 });
  const clock = new SleepClock({ startsAt: START });
  const { session } = await desk(database(), { tools: [tool], answers: ANSWERS, clock });
  const turn = session.turn("go");
  await slept(clock, 1);
  clock.advance(60_000);
  await slept(clock, 2);
  clock.advance(75_000);
  expect(await slept(clock, 3)).toEqual([60_000, 60_000, 15_000]);
  expect(ran).toEqual([1]);
  clock.advance(15_000);
  expect((await turn.result).text).toBe("Done.");
});

test("[E11] each pause of a call has its own due time, and finished ones are not slept again", async () => {
  const path = database();
  const { tool, ran } = flaky({ failures: 2, afterMs: 1_000 });
  const before = new SleepClock({ startsAt: START });
  const first = await mortal(path, tool, before);
  first.session.turn("go", { key: "k" });
  await slept(before, 1);
  before.advance(1_000);
  await slept(before, 2);
  before.advance(300);
  await first.crash();
  const clock = new SleepClock({ startsAt: START + 1_300 });
  const { session } = await desk(path, { tools: [tool], answers: ANSWERS, clock });
  const turn = session.turn("go", { key: "k" });
  expect(await slept(clock, 1)).toEqual([700]);
  clock.advance(700);
  expect((await turn.result).text).toBe("Done.");
  expect(ran).toEqual([1, 2, 3]);
});

test("[E11] a turn that is cancelled in a pause does not sleep on", async () => {
  const { tool, ran } = flaky({ failures: 1, afterMs: 3_600_000 });
  const clock = new SleepClock({ startsAt: START });
  const { session } = await desk(database(), { tools: [tool], answers: ANSWERS, clock });
  const turn = session.turn("go");
  await slept(clock, 1);
  await session.cancel(turn.id);
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toMatchObject({ reason: "cancelled" });
  expect(toolCalls[0]?.output.outcome.kind).toBe("cancelled");
  expect(ran).toEqual([1]);
});
