// Plugin state that calls leave behind in a turn that sleeps: E5. What was recorded holds, whatever runs next.

import fc from "fast-check";
import { defineTool, type Plugin, type Runtime, type ToolDefinition } from "marling";
import { approvals } from "marling/plugins";
import { callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { asking, type Desk, type DeskOptions, database, desk, parked, until } from "./parked-support.ts";
import { plugin } from "./tools-support.ts";

interface Counting {
  readonly plugin: Plugin;
  /** The calls whose end the hook has seen, in whichever runtime. */
  readonly told: string[];
}

/** Keeps the calls that have ended in one cell of its state, and how often its tools worked in another. */
function counting(): Counting {
  const told: string[] = [];
  const counted = plugin("counting", (ctx) => {
    const ended = ctx.durable({ name: "ended", version: 1, initial: (): readonly string[] => [] });
    const worked = ctx.durable({ name: "worked", version: 1, initial: () => 0 });
    const work = (name: string, execution: "serial" | "parallel"): ToolDefinition =>
      defineTool({
        name,
        description: "Counts its own calls.",
        input: { type: "object" },
        execution,
        execute: () => {
          worked.update((count) => count + 1);
          return "worked";
        },
      }) as ToolDefinition;
    return {
      tools: [work("serial", "serial"), work("beside", "parallel"), work("asked", "parallel")],
      toolCalls: {
        after: ({ callId }) => {
          told.push(callId);
          ended.update((calls) => [...calls, callId]);
        },
      },
      operations: {
        queries: { "counting.seen": { handler: () => ({ ended: [...ended.get()], worked: worked.get() }) } },
      },
    };
  });
  return { plugin: counted, told };
}

/** Lets the first call that waits for somebody go on. */
async function allowOne({ approvals }: Runtime): Promise<void> {
  const [question] = await approvals.list();
  if (question === undefined) throw new Error("expected a question, found none");
  await approvals.decide(question, { decision: "allow", actor: "somebody" });
}

interface Round extends Pick<DeskOptions, "toolConcurrency"> {
  readonly names: readonly string[];
  /** Where the turn is woken: where it went to sleep, or by a runtime that has not seen it. */
  readonly wakes: "here" | "elsewhere";
  /** The sleepers by number, in the order in which they are woken. */
  readonly order: readonly number[];
}

/** Plays one round of calls, waking one sleeper after the other, and says what the state came to. */
async function play({ names, wakes, order, ...more }: Round): Promise<unknown> {
  const path = database();
  const { tool, keys } = asking();
  const { plugin: counted, told } = counting();
  const answers = { go: [callTools(names.map((name) => [name, {}])), say("Done.")] };
  const plugins = [counted, approvals({ rules: { asked: "ask", "*": "allow" } })];
  const open = (): Promise<Desk> => desk(path, { ...more, answers, tools: [tool], plugins });
  let now = await open();
  let turn = now.session.turn("go", { key: "k" });
  await parked(now.session);
  for (const sleeper of order) {
    const before = told.length;
    if (wakes === "elsewhere") {
      turn.result.catch(() => undefined);
      await now.runtime.close();
      now = await open();
      turn = now.session.turn("go", { key: "k" });
    }
    const key = keys[sleeper];
    if (key === undefined) await allowOne(now.runtime);
    else await now.runtime.resolve(key, { ok: "yes" });
    await until(() => told.length > before);
    await until(async () => (await now.session.pending()).every(({ status }) => status === "parked"));
  }
  const report = await turn.result;
  expect(report.toolCalls.map(({ output }) => output.outcome.kind)).toEqual(names.map(() => "success"));
  const { ended, worked } = (await now.session.query("counting.seen", {})) as {
    readonly ended: readonly string[];
    readonly worked: number;
  };
  return { ended: [...ended].sort(), worked };
}

/** What the state must come to: every call once. */
function whole(names: readonly string[]): unknown {
  const ended = names.map((_name, index) => `call_${index + 1}`);
  return { ended, worked: names.filter((name) => name !== "ask").length };
}

const PLACES = ["here", "elsewhere"] as const;

test.each(PLACES)("[E5] state of a serial call behind one that sleeps is kept: woken %s", async (wakes) => {
  const names = ["ask", "serial", "serial"];
  expect(await play({ names, wakes, order: [0] })).toEqual(whole(names));
});

test.each(PLACES)("[E5] so is that of calls that run one at a time: woken %s", async (wakes) => {
  const names = ["ask", "beside", "ask", "beside"];
  expect(await play({ names, wakes, order: [1, 0], toolConcurrency: 1 })).toEqual(whole(names));
});

test.each(PLACES)(
  "[E5] and that of a call beside one that somebody has to allow: woken %s",
  async (wakes) => {
    const names = ["asked", "serial", "beside"];
    expect(await play({ names, wakes, order: [0] })).toEqual(whole(names));
  },
);

const aRound = fc
  .record({
    names: fc
      .array(fc.constantFrom("ask", "asked", "serial", "beside"), { minLength: 2, maxLength: 5 })
      .filter((names) => names.some((name) => name.startsWith("ask"))),
    wakes: fc.constantFrom(...PLACES),
    toolConcurrency: fc.constantFrom(1, 8),
  })
  .chain((round) => {
    const asks = round.names.filter((name) => name === "ask").map((_name, index) => index);
    const asked = round.names.filter((name) => name === "asked").map(() => asks.length);
    const sleepers = [...asks, ...asked];
    return fc
      .shuffledSubarray(sleepers, { minLength: sleepers.length })
      .map((order): Round => ({ ...round, order }));
  });

test("[E5] every call counts once in state, whatever sleeps beside it and in whichever order it wakes up", async () => {
  await fc.assert(
    fc.asyncProperty(aRound, async (round) => {
      expect(await play(round)).toEqual(whole(round.names));
    }),
    { numRuns: 15 },
  );
}, 120_000);
