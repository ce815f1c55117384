// The guard that watches every store of the suite: what it refuses, and what it lets pass.

import { memoryStore } from "marling";
import { sqliteStore } from "marling/sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { LoopGuard } from "./loop-guard.ts";

const ID = "s" as SessionId;
const STORES: readonly [string, () => Store][] = [
  ["memory", memoryStore],
  ["sqlite", () => sqliteStore({ path: ":memory:" })],
];

/** A store that a guard of its own watches, beside that of the suite. */
function watched(guard: LoopGuard, make: () => Store): Store {
  const store = guard.watch(make());
  onTestFinished(() => store.close());
  return store;
}

async function askForEver(store: Store): Promise<void> {
  for (;;) await store.waits.read(ID, "t" as TurnId);
}

test.each(STORES)(
  "[LG1] a loop that never waits is refused, with the stack of whoever asked: %s",
  async (_, make) => {
    const guard = new LoopGuard(100);
    const store = watched(guard, make);
    const refusal = await askForEver(store).catch((thrown: unknown) => thrown as Error);
    expect(refusal?.message).toContain(
      "store.waits.read: expected at most 100 calls before the event loop turns",
    );
    expect(refusal?.stack).toContain("askForEver");
    expect(guard.take()).toBe(refusal);
    expect(guard.take()).toBeUndefined();
  },
);

test.each(STORES)(
  "[LG2] a loop that swallows the refusal does not stop the event loop: %s",
  async (_, make) => {
    const guard = new LoopGuard(100);
    const store = watched(guard, make);
    let isOver = false;
    setTimeout(() => {
      isOver = true;
    }, 1);
    while (!isOver) await store.revision(ID).catch(() => undefined);
    expect(guard.take()?.message).toContain("store.revision");
  },
);

test.each(STORES)(
  "[LG1] a loop that lets the event loop turn asks as often as it likes: %s",
  async (_, make) => {
    const guard = new LoopGuard(100);
    const store = watched(guard, make);
    for (let call = 1; call <= 1000; call += 1) {
      await store.revision(ID);
      if (call % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(guard.take()).toBeUndefined();
  },
);

test.each(STORES)(
  "[LG1] many sessions at once are no loop, however often they ask together: %s",
  async (_, make) => {
    const guard = new LoopGuard(100);
    const store = watched(guard, make);
    const ids = Array.from({ length: 50 }, (_one, index) => `s${index}` as SessionId);
    for (let call = 0; call < 50; call += 1) await Promise.all(ids.map((id) => store.revision(id)));
    expect(guard.take()).toBeUndefined();
  },
);

test("[LG1] the stores of the suite are watched, wherever they are made", () => {
  for (const [, make] of STORES) expect(Object.hasOwn(make(), "revision")).toBe(true);
});
