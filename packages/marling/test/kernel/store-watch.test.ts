// Who is told of what happens to the store: kernel/store-watch.ts.

import { sqliteStore } from "marling/sqlite";
import { ManualClock, say } from "marling/testing";
import { expect, test } from "vitest";
import { StoreWatch } from "../../src/kernel/store-watch.ts";
import type { SessionId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { database, live } from "./durable-support.ts";

const POLL_MS = 100;
const HERE = "here" as SessionId;
const THERE = "there" as SessionId;

function watched() {
  let mark = 1;
  const clock = new ManualClock();
  const watch = new StoreWatch({ changes: async () => mark } as Store, clock);
  const told: string[] = [];
  const poll = async (): Promise<void> => {
    clock.advance(POLL_MS);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const write = (): void => {
    mark += 1;
  };
  return { watch, clock, told, poll, write };
}

test("[SW1, SW3] what happens here is told at once, to those who do not listen to others only", async () => {
  const { watch, told, poll, write } = watched();
  watch.listen(HERE, () => told.push("all"));
  watch.listenToOthers(() => told.push("others"));
  await poll(); // The first one cannot know what was before.
  told.length = 0;
  watch.notify();
  expect(told).toEqual(["all"]);
  await poll();
  expect(told).toEqual(["all"]);
  write();
  await poll();
  expect(told.toSorted()).toEqual(["all", "all", "others"]);
});

test("[SW2] one poll serves all who listen, and ends with the last of them, whatever they listen to", async () => {
  const { watch, told, poll, write } = watched();
  const endings = [
    watch.listen(HERE, () => told.push("all")),
    watch.listenToOthers(() => told.push("others")),
  ];
  await poll();
  told.length = 0;
  endings[0]?.();
  write();
  await poll();
  expect(told).toEqual(["others"]);
  endings[1]?.();
  write();
  await poll();
  expect(told).toEqual(["others"]);
});

test("[SW3] what happens here in one session is told to those who listen for it, and what may be in any to all", () => {
  const { watch, told } = watched();
  const unlisten = watch.listen(HERE, () => told.push("here"));
  watch.listen(HERE, () => told.push("here too"));
  watch.listen(THERE, () => told.push("there"));
  watch.notify(HERE);
  expect(told.splice(0)).toEqual(["here", "here too"]);
  unlisten();
  watch.notify();
  expect(told.splice(0)).toEqual(["here too", "there"]);
  watch.notify("nowhere" as SessionId);
  expect(told).toEqual([]);
});

test("[SW3] opening, cancelling in and closing a session looks at no session that is only observed", async () => {
  const looked: string[] = [];
  const { runtime } = await live({
    store: sqliteStore({ path: database() }),
    script: () => say("hi"),
    around: (method, call) => {
      if (["revision", "load", "workable", "resumable"].includes(method)) looked.push(method);
      return call();
    },
  });
  for (let n = 0; n < 20; n += 1) {
    const observed = await runtime.session(`observed-${n}`);
    await observed.run("hello");
    void observed.observe()[Symbol.asyncIterator]().next();
  }
  looked.length = 0;
  const session = await runtime.session("busy");
  await session.run("hello");
  await session.cancel("no such turn");
  await session.close();
  expect(looked).not.toContain("workable");
  expect(looked.length).toBeLessThanOrEqual(2); // Of the session itself.
});

test("[SW1] what another runtime commits reaches an observer here that did nothing meanwhile", async () => {
  const path = database();
  const { session } = await live({ store: sqliteStore({ path }) });
  const seen: string[] = [];
  const observing = new AbortController();
  const observed = (async () => {
    for await (const one of session.observe({ signal: observing.signal })) seen.push(one.kind);
  })();
  const other = await live({ store: sqliteStore({ path }), script: [say("from elsewhere")] });
  await other.session.run("hello");
  await expect.poll(() => seen, { timeout: 10_000 }).toEqual(["gap"]); // With the view of now.
  observing.abort();
  await observed;
  expect(session.read().messages).toHaveLength(2);
});
