// A world for replays: tools that fail, wait, call each other and remember; hooks that count, replace, deny and speak.
// What is random in it is random: only what an earlier run recorded can make two runs equal.

import fc from "fast-check";
import {
  type Clock,
  defineTool,
  directive,
  type EffectHost,
  type Plugin,
  type Store,
  toolFailure,
} from "marling";
import { callTools, type ScriptFunction, say } from "marling/testing";
import { canonicalJson, decodeJson } from "../../src/model/json.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { plugin } from "./tools-support.ts";

const MOODS = [
  "fine",
  "flaky",
  "exhausting",
  "broken",
  "throwing",
  "denied",
  "refused",
  "replaced",
  "noted",
  "redone",
  "invalid",
] as const;
type Mood = (typeof MOODS)[number];

export type WorldCall =
  | { readonly tool: "work"; readonly mood: Mood; readonly ticks: number }
  | { readonly tool: "nest" | "batch"; readonly calls: readonly WorldCall[] };

export interface WorldTurn {
  readonly rounds: readonly (readonly WorldCall[])[];
  readonly isInterrupted: boolean;
}

const work: fc.Arbitrary<WorldCall> = fc.record({
  tool: fc.constant("work" as const),
  mood: fc.constantFrom(...MOODS),
  ticks: fc.integer({ min: 0, max: 3 }),
});
const nested: fc.Arbitrary<WorldCall> = fc.record({
  tool: fc.constantFrom("nest" as const, "batch" as const),
  calls: fc.array(work, { minLength: 1, maxLength: 3 }),
});
const call = fc.oneof({ weight: 3, arbitrary: work }, { weight: 1, arbitrary: nested });

export const worlds: fc.Arbitrary<readonly WorldTurn[]> = fc.array(
  fc.record({
    rounds: fc.array(fc.array(call, { minLength: 1, maxLength: 4 }), { maxLength: 3 }),
    isInterrupted: fc.boolean(),
  }),
  { minLength: 1, maxLength: 3 },
);

/** What the model says: a function of the conversation, so that it says the same in every run. */
export function scriptOf(turns: readonly WorldTurn[]): ScriptFunction {
  const steps = turns.flatMap(({ rounds, isInterrupted }, index) => [
    ...rounds.map((round) => callTools(round.map((one) => [one.tool, argsOf(one)] as const))),
    ...(isInterrupted ? [say(`Nearly ${index}.`)] : []),
    say(`Done ${index}.`),
  ]);
  return ({ messages }) => steps[messages.filter(({ role }) => role === "assistant").length] ?? say("Over.");
}

function argsOf(one: WorldCall): object {
  if (one.tool === "work") return one.mood === "invalid" ? { mood: 1 } : { mood: one.mood, ticks: one.ticks };
  const calls = one.calls.map((inner) => ({ tool: inner.tool, args: argsOf(inner) }));
  return { calls };
}

export interface World {
  readonly turns: readonly WorldTurn[];
  /** Something that differs between runs. */
  noise(): string;
}

export function pluginsOf(world: World): readonly Plugin[] {
  return [toolPlugin(world), hookPlugin(world)];
}

async function wait(ticks: number): Promise<void> {
  for (let tick = 0; tick < ticks; tick += 1) await new Promise((resolve) => setImmediate(resolve));
}

function toolPlugin(world: World): Plugin {
  return plugin("tools", (ctx) => {
    const done = ctx.durable({ name: "done", version: 1, initial: () => 0 });
    const tries = ctx.durable({ name: "tries", version: 1, initial: () => 0 });
    const workTool = defineTool({
      name: "work",
      description: "Works.",
      input: {
        type: "object",
        properties: { mood: { type: "string" }, ticks: { type: "number" } },
        required: ["mood"],
      },
      retry: { attempts: 3, delayMs: 1 },
      execute: async ({ mood, ticks = 0 }, { attempt, callId }) => {
        await wait(ticks as number);
        if (mood === "throwing") throw new Error(`thrown ${world.noise()}`);
        if (mood === "broken") return toolFailure(`broken ${world.noise()}`);
        const isFailing = mood === "exhausting" || (mood === "flaky" && attempt < 3);
        if (isFailing) return toolFailure({ message: `not yet ${world.noise()}`, retry: { safe: true } });
        done.update((n) => n + 1);
        if (attempt > 1) tries.update((n) => n + attempt);
        return { callId, said: world.noise() };
      },
    });
    const nest = defineTool({
      name: "nest",
      description: "Calls others.",
      input: { type: "object" },
      retry: { attempts: 2 },
      execute: async ({ calls }, context) => {
        const wanted = calls as readonly {
          readonly tool: string;
          readonly args: { readonly mood?: unknown };
        }[];
        const replies = await context.callTools(wanted.map(({ tool, args }) => ({ name: tool, args })));
        const isRepeated = context.attempt === 1 && wanted.some(({ args }) => args.mood === "flaky");
        if (isRepeated) return toolFailure({ message: "Once more.", retry: { safe: true } });
        done.update((n) => n + 10);
        return { kinds: replies.map(({ output }) => output.outcome.kind), said: world.noise() };
      },
    });
    return { tools: [workTool, nest] };
  });
}

function hookPlugin(world: World): Plugin {
  return plugin("hooks", (ctx) => {
    const seen = ctx.durable({
      version: 1,
      initial: () => ({ before: 0, after: 0, turns: 0, interrupted: 0 }),
    });
    const moodOf = (args: unknown): unknown => (args as { readonly mood?: unknown } | null)?.mood;
    return {
      turn: {
        before: () => {
          seen.update((s) => ({ ...s, turns: s.turns + 1 }));
          return directive.enqueueMessages([{ role: "system", content: `begin ${world.noise()}` }]);
        },
        checkpoint: ({ checkpoint }) => {
          const { turns, interrupted } = seen.get();
          const isWanted = world.turns[turns - 1]?.isInterrupted === true && interrupted < turns;
          if (checkpoint !== "before_completion" || !isWanted) return undefined;
          seen.update((s) => ({ ...s, interrupted: s.turns }));
          return directive.enqueueMessages([{ role: "user", content: `wait ${world.noise()}` }]);
        },
        after: () => directive.enqueueMessages([{ role: "system", content: `end ${world.noise()}` }]),
      },
      toolCalls: {
        before: ({ args }) => {
          seen.update((s) => ({ ...s, before: s.before + 1 }));
          if (moodOf(args) === "denied")
            return directive.shortCircuitTool(toolFailure(`denied ${world.noise()}`));
          return moodOf(args) === "replaced"
            ? directive.replaceToolArgs({ mood: "fine", ticks: 0 })
            : undefined;
        },
        after: ({ args, result }) => {
          seen.update((s) => ({ ...s, after: s.after + 1 }));
          if (moodOf(args) === "redone")
            return directive.shortCircuitTool({
              ...result,
              outcome: { kind: "success", value: `redone ${world.noise()}` },
            });
          if (moodOf(args) !== "noted") return undefined;
          return directive.enqueueMessages([
            { role: "system", content: `noted ${world.noise()}` },
            { role: "assistant", content: "not taken" },
          ]);
        },
      },
      toolResults: { projector: ({ output }) => `${output.outcome.kind} ${world.noise()}` },
      approval: {
        request: ({ args }) =>
          moodOf(args) === "refused" ? { decision: "deny", reason: `no ${world.noise()}` } : undefined,
      },
      prompt: () => ({ slot: "guidance", content: `now ${world.noise()}` }),
    };
  });
}

export interface Journal {
  /** Outcomes as text, in the order they were known. */
  readonly records: Map<string, string>;
  /** Keys that one run asked for twice: two effects that could not be told apart. */
  readonly twice: string[];
}

export function journalOf(records: Iterable<readonly [string, string]> = []): Journal {
  return { records: new Map(records), twice: [] };
}

/** Keeps outcomes as the text a store would keep, and gives back what it has; `onMiss` is told what it has not. */
export function journalHost(
  { records, twice }: Journal,
  onMiss: (key: string) => void = () => undefined,
): EffectHost {
  const asked = new Set<string>();
  return {
    run: async (request, perform, options) => {
      const key = `${request.sessionId}|${request.turnId}|${request.key}`;
      if (asked.has(key)) twice.push(key);
      asked.add(key);
      const known = records.get(key);
      if (known !== undefined) return JSON.parse(known);
      onMiss(key);
      const outcome = await perform(options?.plan);
      records.set(key, JSON.stringify(outcome));
      return outcome;
    },
  };
}

/** A store in memory that keeps what it was asked to commit, as canonical text. */
export function commitLog(commits: string[]): Store {
  const store = memoryStore();
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (name !== "commit") return typeof member === "function" ? member.bind(target) : member;
      return (commit: Parameters<Store["commit"]>[0]) => {
        commits.push(canonicalJson(decodeJson(commit)));
        return target.commit(commit);
      };
    },
  });
}

/** Real order, no time: what is awaited comes at once, and nothing takes any time. */
export const stillClock: Clock = {
  now: () => 0,
  monotonic: () => 0,
  sleep: async () => undefined,
  after: () => () => undefined,
};
