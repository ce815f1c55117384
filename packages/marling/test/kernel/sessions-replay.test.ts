// Replays: what an earlier run recorded makes another run the same, to the byte.

import fc from "fast-check";
import { type Clock, createRuntime, type EffectHost, type Store } from "marling";
import { scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import {
  commitLog,
  journalHost,
  journalOf,
  pluginsOf,
  scriptOf,
  stillClock,
  type WorldTurn,
  worlds,
} from "./sessions-replay-world.ts";

interface Run {
  readonly effects: EffectHost;
  readonly clock: Clock;
  readonly noise: () => string;
  readonly store: Store;
  readonly toolConcurrency: number;
}

/** Plays all turns one after the other. */
async function playAll(turns: readonly WorldTurn[], { noise, ...options }: Run): Promise<void> {
  const model = scriptedModel(scriptOf(turns));
  const runtime = createRuntime({ model, plugins: pluginsOf({ turns, noise }), ...options });
  const session = await runtime.session("s");
  for (const index of turns.keys()) {
    const report = await session.turn(`Turn ${index}`).result;
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: `Done ${index}.` });
  }
  await runtime.close();
}

/** Real clocks take real time, so only the one that waits is made quick. */
const quickClock: Clock = { ...systemClock, sleep: async () => undefined };

/** Where two logs part, with a little around it: whole commits are too long to read. */
function firstDifference(found: readonly string[], expected: readonly string[]): object | undefined {
  const [a, b] = [found.join("\n"), expected.join("\n")];
  if (a === b) return undefined;
  let at = 0;
  while (a[at] === b[at]) at += 1;
  return {
    found: a.slice(Math.max(0, at - 200), at + 80),
    expected: b.slice(Math.max(0, at - 200), at + 80),
  };
}

function random(): string {
  return Math.random().toString(36).slice(2);
}

test("[E1] a run that is replayed from its journal commits the same bytes and performs nothing", async () => {
  const property = fc.asyncProperty(worlds, async (turns) => {
    const journal = journalOf();
    const [live, replayed]: [string[], string[]] = [[], []];
    const world = { clock: quickClock, noise: random, toolConcurrency: 3 };
    await playAll(turns, { ...world, effects: journalHost(journal), store: commitLog(live) });
    const missed: string[] = [];
    const effects = journalHost(journal, (key) => missed.push(key));
    await playAll(turns, { ...world, effects, store: commitLog(replayed) });
    expect([missed, journal.twice]).toEqual([[], []]);
    expect(firstDifference(replayed, live)).toBeUndefined();
  });
  await fc.assert(property, { numRuns: 60 });
}, 60_000);

test("[E5] a run that was cut after any of its effects goes on to the same commits", async () => {
  // One call at a time: calls that run at once may settle in another order when some of them run again.
  const world = { clock: stillClock, noise: () => "-", toolConcurrency: 1 };
  const property = fc.asyncProperty(worlds, fc.nat(), async (turns, cut) => {
    const journal = journalOf();
    const [whole, resumed]: [string[], string[]] = [[], []];
    await playAll(turns, { ...world, effects: journalHost(journal), store: commitLog(whole) });
    const kept = [...journal.records].slice(0, cut % (journal.records.size + 1));
    const cutOff = journalOf(kept);
    const effects = journalHost(cutOff);
    await playAll(turns, { ...world, effects, store: commitLog(resumed) });
    expect([...journal.twice, ...cutOff.twice]).toEqual([]);
    expect(firstDifference(resumed, whole)).toBeUndefined();
  });
  await fc.assert(property, { numRuns: 60 });
}, 60_000);
