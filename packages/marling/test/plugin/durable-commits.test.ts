// What settles of declared state: deltas, replays, commits, rollbacks, and what queries and forks see.

import { expect, test } from "vitest";
import { directive } from "../../src/plugin/directive.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import type { PluginSession } from "../../src/plugin/plugin-session.ts";
import {
  add,
  type Counter,
  counting,
  plugin,
  sessionOf,
  thrownBy,
  turnCtx,
  turnResultCtx,
} from "./samples.ts";

test("[SC1] every effect that moved state leaves one delta with a sequence; others leave none", async () => {
  const { made } = counting((counter) => ({
    turn: {
      before: () => counter.update(add(1)),
      after: () => counter.set({ count: counter.get().count }),
    },
  }));
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  await session.afterTurn(turnResultCtx());
  await session.beforeTurn(turnCtx());
  expect(session.takeDeltas()).toEqual([
    { pluginId: "counter", sequence: 1, cells: { state: { count: 1 } } },
    { pluginId: "counter", sequence: 2, cells: { state: { count: 2 } } },
  ]);
  expect(session.takeDeltas()).toEqual([]);
});

test("[SC1] a phase may be given a list of its own for its deltas", async () => {
  const { made } = counting((counter) => ({ turn: { before: () => counter.update(add(1)) } }));
  const session = sessionOf([made]);
  const deltas: never[] = [];
  await session.beforeTurn(turnCtx(), { deltas });
  expect(deltas).toEqual([{ pluginId: "counter", sequence: 1, cells: { state: { count: 1 } } }]);
  expect(session.takeDeltas()).toEqual([]);
});

test("[SC4] a replay applies recorded deltas without running hooks, in whatever order they come", async () => {
  const first = counting((counter) => ({ turn: { before: () => counter.update(add(1)) } }));
  const session = sessionOf([first.made]);
  for (let n = 0; n < 3; n += 1) await session.beforeTurn(turnCtx());
  const [one, two, three] = JSON.parse(JSON.stringify(session.takeDeltas()));
  const second = counting(() => ({}));
  const replayed = sessionOf([second.made]);
  for (const delta of [three, one, two]) replayed.applyDelta(delta);
  replayed.applyDelta({ pluginId: "gone", sequence: 9, cells: {} });
  replayed.applyDelta({ pluginId: "counter", sequence: 9, cells: { gone: 1 } });
  expect(second.state().get()).toEqual({ count: 3 });
});

test("[SC2] a rollback goes back to the last commit and forgets kept deltas", async () => {
  const { made, state } = counting((counter) => ({ turn: { before: () => counter.update(add(1)) } }));
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  session.commitState();
  await session.beforeTurn(turnCtx());
  expect(state().get()).toEqual({ count: 2 });
  session.rollbackState();
  expect([state().get(), session.takeDeltas()]).toEqual([{ count: 1 }, []]);
});

test("[SC4] after a rollback the same deltas can be replayed", async () => {
  const { made, state } = counting((counter) => ({ turn: { before: () => counter.update(add(1)) } }));
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  await session.beforeTurn(turnCtx());
  const deltas = session.takeDeltas();
  session.rollbackState();
  for (const delta of deltas) session.applyDelta(delta);
  expect(state().get()).toEqual({ count: 2 });
});

test("[PS3] the revision never shows two contents: undoing moves it too", async () => {
  const { made } = counting((counter) => ({ turn: { before: () => counter.update(add(1)) } }));
  const session = sessionOf([made]);
  const seen = [session.snapshotRevisionFingerprint()];
  await session.beforeTurn(turnCtx());
  seen.push(session.snapshotRevisionFingerprint());
  session.rollbackState();
  seen.push(session.snapshotRevisionFingerprint());
  await session.beforeTurn(turnCtx());
  seen.push(session.snapshotRevisionFingerprint());
  session.rollbackState();
  session.rollbackState();
  seen.push(session.snapshotRevisionFingerprint());
  expect(new Set(seen).size).toBe(5);
});

test("[OI4] with a host, queries see the last commit; without one, what hooks left", async () => {
  const { made } = counting((counter) => ({
    turn: { before: () => counter.update(add(1)) },
    operations: { queries: { peek: { handler: () => counter.get().count } } },
  }));
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  expect((await session.queryPlugin("peek")).output).toBe(1);
  session.bindHost({});
  expect((await session.queryPlugin("peek")).output).toBe(0);
  session.commitState();
  expect((await session.queryPlugin("peek")).output).toBe(1);
});

test("[SS1] a fork inside a hook takes what is settled, and each keeps its own writes", async () => {
  const states: Counter[] = [];
  let fork: PluginSession | undefined;
  const made = plugin("counter", (ctx) => {
    const counter = ctx.durable({ version: 1, initial: () => ({ count: 0 }) });
    states.push(counter);
    return {
      turn: {
        before: async () => {
          counter.update(add(1));
          if (ctx.sessionId !== "s") return;
          fork = createdBy(ctx.sessionId);
          await fork.beforeTurn(turnCtx());
        },
      },
    };
  });
  const host = createPluginHost([made]);
  const createdBy = (id: string): PluginSession => host.session(id).forkForSession(`${id}-fork`);
  const session = host.buildSession("s");
  await session.beforeTurn(turnCtx());
  expect(states.map((state) => state.get().count)).toEqual([1, 1]);
});

test("[SC3] a plugin without declared state has no scope, and nothing happens for it", async () => {
  const session = sessionOf([plugin("a", { turn: { before: () => directive.emitTrace({ name: "x" }) } })]);
  expect(session.scopes.openScope({ pluginId: "a", mode: "sequential" })).toBeUndefined();
  expect(session.scopes.runInScope(undefined, () => 3)).toBe(3);
  expect(session.scopes.settle(undefined)).toBeUndefined();
  session.scopes.drop(undefined);
  await session.beforeTurn(turnCtx());
  expect(session.takeDeltas()).toEqual([]);
});

test("[SC1] a kernel may open, settle and drop scopes by hand; an ended scope cannot be settled", () => {
  const { made, state } = counting(() => ({}));
  const session = sessionOf([made]);
  const scope = session.scopes.openScope({ pluginId: "counter", mode: "sequential" });
  session.scopes.runInScope(scope, () => state().set({ count: 1 }));
  expect(session.scopes.settle(scope)).toEqual({
    pluginId: "counter",
    sequence: 1,
    cells: { state: { count: 1 } },
  });
  expect(thrownBy(() => session.scopes.settle(scope)).code).toBe("stale_scope");
  const dropped = session.scopes.openScope({ pluginId: "counter", mode: "sequential" });
  session.scopes.runInScope(dropped, () => state().set({ count: 2 }));
  session.scopes.drop(dropped);
  expect(state().get()).toEqual({ count: 1 });
});
