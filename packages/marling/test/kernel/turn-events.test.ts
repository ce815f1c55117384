// The live events of a turn: kernel/turn-events.ts, rules EV1-EV3.

import { expect, test } from "vitest";
import { TurnEvents } from "../../src/kernel/turn-events.ts";
import type { TurnEvent } from "../../src/model/turn.ts";

const delta = (text: string, round = 0): TurnEvent => ({ kind: "text_delta", round, text });

async function all(events: AsyncIterable<TurnEvent>): Promise<readonly TurnEvent[]> {
  const seen: TurnEvent[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

test("[EV1] a watcher that comes after the end still gets what is kept", async () => {
  const events = new TurnEvents();
  events.emit(delta("a"));
  events.emit(delta("b"));
  events.close();
  expect(await all(events.watch())).toEqual([delta("a"), delta("b")]);
});

test("[EV1] a watcher in the middle gets what was kept and then everything that follows, in order", async () => {
  const events = new TurnEvents();
  events.emit(delta("a"));
  const watched = all(events.watch());
  await Promise.resolve();
  events.emit(delta("b"));
  await Promise.resolve();
  events.emit(delta("c"));
  events.close();
  expect(await watched).toEqual([delta("a"), delta("b"), delta("c")]);
});

test("[EV1] two watchers see the same events", async () => {
  const events = new TurnEvents();
  const both = Promise.all([all(events.watch()), all(events.watch())]);
  await Promise.resolve();
  events.emit(delta("a"));
  events.close();
  expect(await both).toEqual([[delta("a")], [delta("a")]]);
});

test("[EV2] without a watcher no more than two windows of 2,048 events are kept, the newest among them", async () => {
  const events = new TurnEvents();
  for (let index = 0; index < 100_000; index += 1) events.emit(delta(String(index)));
  events.close();
  const kept = await all(events.watch());
  expect(kept.length).toBeLessThan(4_096);
  expect(kept.length).toBeGreaterThanOrEqual(2_048);
  expect(kept.at(-1)).toEqual(delta("99999"));
  expect(events.dropped).toBe(100_000 - kept.length);
});

test("[EV3] a watcher that lags gets all text, in fewer events", async () => {
  const events = new TurnEvents();
  const watcher = events.watch();
  const first = watcher.next();
  await Promise.resolve();
  for (let index = 0; index < 50_000; index += 1) events.emit(delta("x"));
  events.emit({ kind: "turn_started", turnId: "t" });
  events.close();
  const seen = [(await first).value as TurnEvent, ...(await all(watcher))];
  expect(seen.length).toBeLessThan(2_000);
  expect(seen.map((event) => (event.kind === "text_delta" ? event.text : "")).join("")).toBe(
    "x".repeat(50_000),
  );
  expect(seen.at(-1)).toEqual({ kind: "turn_started", turnId: "t" });
});

test("[EV3] deltas of different rounds are never joined", async () => {
  const events = new TurnEvents();
  const watcher = events.watch();
  const first = watcher.next();
  await Promise.resolve();
  for (let index = 0; index < 2_000; index += 1) events.emit(delta("a", index % 2));
  events.close();
  const seen = [(await first).value as TurnEvent, ...(await all(watcher))];
  expect(seen).toHaveLength(2_000);
});

test("[EV1] leaving the loop stops watching and nothing else", async () => {
  const events = new TurnEvents();
  events.emit(delta("a"));
  for await (const event of events.watch()) {
    expect(event).toEqual(delta("a"));
    break;
  }
  events.emit(delta("b"));
  events.close();
  expect(await all(events.watch())).toEqual([delta("a"), delta("b")]);
});
