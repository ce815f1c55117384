// Whatever is written beside turns that sleep, wake, change frames and end, over a store that answers slowly and out of
// order: everything that was asked for is stored once, every turn ends, and nobody keeps a lease.

import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import { defineTool, type JsonObject, type Plugin, type Session, type Store, switchFrame } from "marling";
import { callTool, randomDelays, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { BACKINGS, type Life, live, quickTool } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { asking, claimAsStranger, transcript, until } from "./parked-support.ts";
import { act } from "./services-support.ts";
import { durable, type Jobs, jobs, start, starting, taskOf } from "./work-support.ts";

const STEPS = ["ask", "look", "move"] as const;
type Step = (typeof STEPS)[number];

/** What a turn does is in its input: its steps, one for each round. A change of frames takes the rest along. */
const planOf = (steps: readonly Step[]): string => `plan ${steps.join(" ")}`.trim();

const following: ScriptFunction = ({ messages }) => {
  const last = messages.findLastIndex(({ role }) => role === "user");
  const text = messages[last]?.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("");
  const [, ...steps] = (text ?? "").split(" ") as Step[];
  const round = messages.slice(last).filter(({ role }) => role === "assistant").length;
  const step = steps[round];
  if (step === undefined) return say("Done.");
  return callTool(step, step === "move" ? { task: planOf(steps.slice(round + 1)) } : {});
};

const move = defineTool({
  name: "move",
  description: "Goes on in another frame.",
  input: { type: "object" },
  execute: (args) => {
    const { task } = args as { readonly task: string };
    return switchFrame({ key: task, task });
  },
});

const LISTENERS: readonly (() => readonly Plugin[])[] = [
  () => [],
  () => [plugin("listening", { session: { onEvent: () => undefined } })],
  () => [
    plugin("counting", (ctx) => {
      const seen = ctx.durable({ version: 1, initial: () => 0 });
      return {
        session: {
          onEvent: ({ kind }) => {
            if (kind === "turn_persisted") seen.update((count) => count + 1);
          },
        },
      };
    }),
  ],
];

interface World extends Life {
  /** The questions that were asked, oldest first, in whichever runtime. */
  readonly keys: string[];
  /** A step of the durable task that runs here. */
  step(name: string): Promise<unknown>;
  /** The tasks that were run here, once for each attempt. */
  ran(): readonly string[];
}

function another(
  store: Store,
  options: { readonly listeners: readonly Plugin[]; readonly keys: string[]; readonly background?: Jobs },
): Promise<Life> {
  const { listeners, keys, background = jobs() } = options;
  return live({
    store,
    script: following,
    tools: [asking({ keys }).tool, quickTool("look"), move],
    plugins: [...starting(background), ...listeners],
  });
}

async function world(store: Store, listeners: readonly Plugin[]): Promise<World> {
  const keys: string[] = [];
  const background = jobs();
  const life = await another(store, { listeners, keys, background });
  await start(life.session, durable("a"));
  await until(() => background.attempts.length === 1);
  const step = async (name: string): Promise<unknown> =>
    background.attempts[0]?.context.step(name, () => name);
  const ran = (): readonly string[] => background.attempts.map(({ context: { record } }) => record.id);
  return { ...life, keys, step, ran };
}

const note = (text: string) => [{ kind: "message", message: { role: "user", content: text } }] as const;

/** What is done beside turns, by number, and what a session shows of it afterwards. */
const OPERATIONS = {
  note: ({ session }: World, number: number) => session.appendNodes(note(`note ${number}`)),
  step: ({ step }: World, number: number) => step(`step ${number}`),
  configure: ({ session }: World, number: number) => session.configure({ instructions: `say ${number}` }),
  availability: ({ session }: World, number: number) =>
    session.tools.setAvailability(["look"], number % 2 === 0 ? null : "callable"),
  action: ({ session }: World, number: number) =>
    act(session, "register", durable(`b ${number}`, "external") as unknown as JsonObject),
} as const;
type OperationName = keyof typeof OPERATIONS;

interface Case {
  readonly backing: (typeof BACKINGS)[number];
  readonly seed: number;
  readonly turns: readonly (readonly Step[])[];
  readonly listeners: (typeof LISTENERS)[number];
  readonly operations: readonly { readonly name: OperationName; readonly afterMs: number }[];
  readonly wakesAfterMs: readonly number[];
}

const cases: fc.Arbitrary<Case> = fc.record({
  backing: fc.constantFrom(...BACKINGS),
  seed: fc.nat(),
  turns: fc.array(fc.array(fc.constantFrom(...STEPS), { maxLength: 4 }), { minLength: 1, maxLength: 3 }),
  listeners: fc.constantFrom(...LISTENERS),
  operations: fc.array(
    fc.record({
      name: fc.constantFrom(...(Object.keys(OPERATIONS) as OperationName[])),
      afterMs: fc.nat(120),
    }),
    { minLength: 3, maxLength: 12 },
  ),
  wakesAfterMs: fc.array(fc.nat(20), { minLength: 12, maxLength: 12 }),
});

/** Answers every question a moment after it was asked, until it is told to stop. */
function waking(
  { runtime, keys }: Pick<World, "runtime" | "keys">,
  { wakesAfterMs }: Case,
): { stop(): Promise<void> } {
  let isStopped = false;
  const answered = (async () => {
    for (let next = 0; !isStopped; ) {
      const key = keys[next];
      await delay(key === undefined ? 2 : wakesAfterMs[next]);
      if (key === undefined) continue;
      await runtime.resolve(key, { ok: next });
      next += 1;
    }
  })();
  return {
    stop: () => {
      isStopped = true;
      return answered;
    },
  };
}

async function expectStored(session: Session, { operations }: Case): Promise<void> {
  const numbered = operations.map(({ name }, number) => ({ name, number }));
  const of = (name: OperationName): readonly number[] =>
    numbered.filter((one) => one.name === name).map(({ number }) => number);
  const notes = (await transcript(session)).filter((line) => line.startsWith("user: note "));
  expect([...notes].sort()).toEqual(
    of("note")
      .map((number) => `user: note ${number}`)
      .sort(),
  );
  expect(Object.keys(taskOf(session, "a")?.steps ?? {}).sort()).toEqual(
    of("step")
      .map((number) => `step ${number}`)
      .sort(),
  );
}

test("[C7][LE4] operations beside turns that sleep, wake, change frames and end", async () => {
  await fc.assert(
    fc.asyncProperty(cases, async (one) => {
      const open = one.backing.open();
      const first = await world(faultyStore(open(), { delay: randomDelays(one.seed, 3) }), one.listeners());
      const woken = waking(first, one);
      const turns = one.turns.map((steps) => first.session.turn(planOf(steps)));
      const done = one.operations.map(async ({ name, afterMs }, number) => {
        await delay(afterMs);
        await OPERATIONS[name](first, number);
      });
      await Promise.all(done);
      for (const turn of turns)
        expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "Done." });
      await woken.stop();
      await expectStored(first.session, one);
      const others = open();
      expect(await claimAsStranger(others)).toMatchObject({ kind: "claimed", isTakeover: false });
      await first.runtime.close();
      await others.close();
    }),
    { numRuns: 12 },
  );
}, 240_000);

/** What can be made again on whatever others have committed. */
const REBASING: readonly OperationName[] = ["note", "step", "configure"];

test("[C7][E16][WK6] the same while another runtime appends, answers, runs turns and begins tasks too", async () => {
  const shared = cases.map((one) => ({
    ...one,
    backing: BACKINGS.find(({ name }) => name === "sqlite") as Case["backing"],
    operations: one.operations.filter(({ name }) => REBASING.includes(name)),
  }));
  await fc.assert(
    fc.asyncProperty(shared, async (one) => {
      const open = one.backing.open();
      const first = await world(faultyStore(open(), { delay: randomDelays(one.seed, 3) }), one.listeners());
      const store = open();
      const second = await another(store, { listeners: one.listeners(), keys: first.keys });
      const woken = waking({ runtime: second.runtime, keys: first.keys }, one);
      const turns = one.turns.map((steps) => first.session.turn(planOf(steps)));
      const done = one.operations.flatMap(({ name, afterMs }, number) => [
        delay(afterMs).then(() => OPERATIONS[name](first, number)),
        delay(afterMs).then(() => second.session.appendNodes(note(`there ${number}`))),
        delay(afterMs).then(() => start(second.session, durable(`asked ${number}`))),
      ]);
      await Promise.all(done);
      for (const turn of turns)
        expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "Done." });
      await woken.stop();
      await first.session.appendNodes(note("last")); // It takes over what the other one committed last.
      await expectStored(first.session, one);
      const there = (await transcript(first.session)).filter((line) => line.startsWith("user: there "));
      expect(new Set(there).size).toBe(one.operations.length);
      expect(there).toHaveLength(one.operations.length);
      const asked = one.operations.map((_one, number) => `asked ${number}`);
      await until(() => first.ran().length > asked.length);
      expect([...first.ran()].sort()).toEqual(["a", ...asked].sort());
      await Promise.all([first.runtime.close(), second.runtime.close()]);
      const others = open();
      expect(await claimAsStranger(others)).toMatchObject({ kind: "claimed", isTakeover: false });
      await others.close();
    }),
    { numRuns: 6 },
  );
}, 240_000);
