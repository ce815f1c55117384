// Forks of sessions that are open: they share what their source has in memory, and are what the store has.

import fc from "fast-check";
import type { Runtime, Session } from "marling";
import { memoryStore } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { BACKINGS, database, live } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { counter, sharedFile } from "./leases-support.ts";

/** Three turns, a compaction, and two turns behind it. */
async function compacted(session: Session): Promise<readonly string[]> {
  const ends: string[] = [];
  const end = async (): Promise<void> => {
    ends.push((await session.history()).at(-1)?.id ?? "");
  };
  for (const text of ["one", "two", "three"]) {
    await session.turn(text).result;
    await end();
  }
  await session.compact();
  await end();
  for (const text of ["four", "five"]) {
    await session.turn(text).result;
    await end();
  }
  return ends;
}

/** Everything of a session that does not name it. */
async function seen(session: Session): Promise<unknown> {
  const { sessionId: _id, revision: _revision, ...view } = JSON.parse(JSON.stringify(session.read()));
  return { ...view, history: JSON.parse(JSON.stringify(await session.history())) };
}

async function fork(runtime: Runtime, as: string, at?: string): Promise<Session> {
  return runtime.sessions.fork("s", { as, ...(at === undefined ? {} : { at }) });
}

describe.each(BACKINGS)("on $name", ({ open }) => {
  test("[G11] a fork at any commit of an open session is the session that is opened from the store", async () => {
    const store = open();
    const script = () => say("answer");
    const here = await live({ store: store(), script, plugins: [counter()] });
    const ends = await compacted(here.session);
    const forks = [];
    for (const [index, at] of [...ends, undefined].entries())
      forks.push(await fork(here.runtime, `f${index}`, at));
    const messages = forks.map((one) => one.read().messages.length);
    expect(messages).toEqual([2, 4, 6, 1, 3, 5, 5]);
    const shared = await Promise.all(forks.map(seen));
    await here.runtime.close();
    const later = await live({ store: store(), script, plugins: [counter()] });
    const opened = ends.map((_, index) => later.runtime.session(`f${index}`));
    const read = await Promise.all((await Promise.all(opened)).map(seen));
    expect(shared.slice(0, -1)).toEqual(read);
    expect(shared.at(-1)).toEqual(shared.at(-2));
  });

  test("[G11] a fork goes back behind what its source has loaded of its history", async () => {
    const store = open();
    const script = () => say("answer");
    const first = await live({ store: store(), script, plugins: [counter()] });
    const ends = await compacted(first.session);
    await first.runtime.close();
    const here = await live({ store: store(), script, plugins: [counter()] });
    const [early, late] = [await fork(here.runtime, "early", ends[1]), await fork(here.runtime, "late")];
    expect([early, late].map((one) => one.read().messages.length)).toEqual([4, 5]);
    for (const one of [early, late, here.session]) await one.turn("more").result;
    expect(transcript(early).slice(-3)).toEqual(["assistant: answer", "user: more", "assistant: answer"]);
    const history = await here.session.history();
    expect((await late.history()).slice(0, -2)).toEqual(history.slice(0, -2));
    expect((await early.history()).slice(0, -2)).toEqual(history.slice(0, 5));
  });
});

test("[SL11] [G11] a fork has what another runtime committed to a session that is open here", async () => {
  const open = sharedFile();
  const script = () => say("answer");
  const [here, other] = [await open({ script }), await open({ script })];
  await here.session.turn("here").result;
  await other.session.turn("there").result;
  await other.session.command("counter.add");
  const forked = await fork(here.runtime, "f");
  expect(transcript(forked)).toEqual(["user: here", "assistant: answer", "user: there", "assistant: answer"]);
  expect(await forked.query("counter.read")).toBe(1);
});

type Step =
  | { readonly on: number; readonly text: string }
  | { readonly on: number; readonly forksAt: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ on: fc.nat(), text: fc.constantFrom("a", "b", "c") }),
  fc.record({ on: fc.nat(), forksAt: fc.nat() }),
);

test.each([
  ["memory", () => memoryStore()],
  ["sqlite", () => sqliteStore({ path: database() })],
])(
  "[ST19] [G11] sessions of a tree of forks on %s say what was said to them, and nothing else",
  async (_name, open) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const store = open();
        const { runtime, session } = await live({ store, script: () => say("ok") });
        const tree = [{ session, said: [] as readonly string[] }];
        for (const [number, next] of steps.entries()) {
          const place = next.on % tree.length;
          const { session: on, said } = tree[place] as (typeof tree)[number];
          if ("text" in next) {
            await on.turn(next.text).result;
            tree[place] = { session: on, said: [...said, next.text] };
            continue;
          }
          const turns = next.forksAt % (said.length + 1);
          const { id: at = "" } = (await on.history())[2 * turns] ?? {}; // Behind the opening, two nodes a turn.
          const forked = await runtime.sessions.fork(on.id, { as: `f${number}`, at });
          tree.push({ session: forked, said: said.slice(0, turns) });
        }
        for (const { session: one, said } of tree)
          expect(transcript(one)).toEqual(said.flatMap((text) => [`user: ${text}`, "assistant: ok"]));
        await runtime.close();
      }),
      { numRuns: 15 },
    );
  },
);
