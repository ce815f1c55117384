// What a state is declared with: its name, its schema, its migration and what a fork begins with.

import { expect, test } from "vitest";
import { z } from "zod";
import type { DurableOptions } from "../../src/plugin/durable.ts";
import type { PluginSession } from "../../src/plugin/plugin-session.ts";
import type { PluginSessionSnapshot } from "../../src/plugin/snapshot.ts";
import { counting, plugin, sessionOf, thrownBy, turnCtx } from "./samples.ts";

const stored = (session: PluginSession): unknown => session.snapshot().plugins.counter?.meta.durable;

test("[D4] values are JSON, checked where they are written, and frozen", async () => {
  const refused: string[] = [];
  const { made, state } = counting(
    (counter) => ({
      turn: {
        before: () => {
          refused.push(
            thrownBy(() => counter.set({ count: "x" } as never)).message,
            thrownBy(() => counter.set({ count: () => 1 } as never)).message,
            thrownBy(() => counter.update((async () => ({ count: 1 })) as never)).message,
          );
          const mine = { count: 1 };
          counter.set(mine);
          mine.count = 99;
        },
      },
    }),
    { schema: z.object({ count: z.number() }) },
  );
  await sessionOf([made]).beforeTurn(turnCtx());
  expect(refused).toEqual([
    expect.stringMatching(/^state state of plugin counter\/count: expected /),
    "state state of plugin counter.count: expected a JSON value, found a function",
    "state state of plugin counter: expected a value, found a promise: state is computed synchronously",
  ]);
  expect(state().get()).toEqual({ count: 1 });
  expect(Object.isFrozen(state().get())).toBe(true);
});

test.each<[string, unknown, string]>([
  ["no version", { initial: () => 0 }, "durable.version"],
  ["no initial value", { version: 1 }, "durable.initial"],
  ["a fork policy that is none", { version: 1, initial: () => 0, fork: "share" }, "durable.fork"],
  ["a migrate that is no function", { version: 1, initial: () => 0, migrate: 1 }, "durable.migrate"],
  ["a typo", { version: 1, initial: () => 0, onFork: "copy" }, "durable.onFork"],
  ["a blank name", { version: 1, initial: () => 0, name: " " }, "durable.name"],
])("[D5] a declaration with %s is refused by name", (_name, options, member) => {
  const error = thrownBy(() =>
    sessionOf([
      plugin("a", (ctx) => {
        ctx.durable(options as never);
        return {};
      }),
    ]),
  );
  expect([error.code, error.details]).toEqual(["invalid_plugin", { pluginId: "a", member }]);
});

test("[D5] an initial value that the schema refuses is an error where it is declared", () => {
  const error = thrownBy(() =>
    sessionOf([
      plugin("a", (ctx) => {
        ctx.durable({ version: 1, initial: () => "x" as never, schema: z.number() });
        return {};
      }),
    ]),
  );
  expect(error.code).toBe("invalid_plugin_state");
});

test("[D5] two states need two names, and states are declared in build only", () => {
  let declare: ((name: string) => unknown) | undefined;
  const made = plugin("a", (ctx) => {
    declare = (name) => ctx.durable({ name, version: 1, initial: () => 0 });
    declare("x");
    declare("y");
    return {};
  });
  sessionOf([made]);
  expect(thrownBy(() => declare?.("z")).message).toBe(
    "plugin a: durable: state is declared in build and nowhere else",
  );
  const twice = plugin("b", (ctx) => {
    ctx.durable({ version: 1, initial: () => 0 });
    ctx.durable({ version: 1, initial: () => 0 });
    return {};
  });
  expect(thrownBy(() => sessionOf([twice])).code).toBe("duplicate_state");
});

test("[D5] a state may have any name that is not taken, those of prototypes included", async () => {
  const made = plugin("a", (ctx) => {
    const state = ctx.durable({ name: "constructor", version: 1, initial: () => 0 });
    return { turn: { before: () => state.update((n) => n + 1) } };
  });
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  expect(session.forkForSession("f").snapshot().plugins.a?.meta.durable).toEqual({
    constructor: { version: 1, value: 1 },
  });
});

const snapshotAt = (version: number, value: unknown, revision = 4): PluginSessionSnapshot => ({
  plugins: {
    counter: {
      meta: {
        pluginId: "counter",
        pluginVersion: "1",
        revision,
        durable: { state: { version, value: value as never } },
      },
      artifacts: [],
    },
  },
});

test("[D6] an older value is migrated, a newer one refused, and what has no way is refused", () => {
  const seen: unknown[] = [];
  const options = {
    version: 3,
    schema: z.object({ count: z.number() }),
    migrate: (value: unknown, from: number) => {
      seen.push([value, from]);
      return { count: Number(value) * 10 };
    },
  };
  const { made, state } = counting(() => ({}), options);
  sessionOf([made], { build: { snapshot: snapshotAt(1, 4) } });
  expect([seen, state().get()]).toEqual([[[4, 1]], { count: 40 }]);
  const newer = thrownBy(() => sessionOf([made], { build: { snapshot: snapshotAt(4, {}) } }));
  expect([newer.code, newer.details]).toEqual([
    "plugin_state_version",
    { pluginId: "counter", state: "state", expected: 3, found: 4 },
  ]);
  expect(newer.message).toContain("an older version of the plugin runs now");
  expect(seen).toHaveLength(1);
  const noWay = counting(() => ({}), { version: 2 });
  expect(thrownBy(() => sessionOf([noWay.made], { build: { snapshot: snapshotAt(1, {}) } })).message).toBe(
    "state state of plugin counter: expected version 2, found 1: the state declares no migrate",
  );
});

test("[D6] a migration that fails or makes nonsense is refused, and the cause is kept", () => {
  const broken = counting(() => ({}), {
    version: 2,
    schema: z.object({ count: z.number() }),
    migrate: () => ({}) as never,
  });
  const error = thrownBy(() => sessionOf([broken.made], { build: { snapshot: snapshotAt(1, 1) } }));
  expect([error.code, (error.cause as { code?: string }).code]).toEqual([
    "plugin_state_version",
    "invalid_plugin_state",
  ]);
});

test("[D6] a stored value that the schema refuses is refused, naming the state", () => {
  const { made } = counting(() => ({}), { schema: z.object({ count: z.number() }) });
  const error = thrownBy(() => sessionOf([made], { build: { snapshot: snapshotAt(1, { count: "x" }) } }));
  expect([error.code, error.message]).toEqual([
    "invalid_plugin_state",
    expect.stringContaining("state state of plugin counter/count"),
  ]);
});

test("[D6] a restore that cannot read declared state changes nothing", async () => {
  const log: string[] = [];
  const first = plugin("first", {
    restore: () => {
      log.push("first");
    },
  });
  const { made, state } = counting((counter) => ({ turn: { before: () => counter.set({ count: 7 }) } }));
  const session = sessionOf([first, made]);
  await session.beforeTurn(turnCtx());
  expect(thrownBy(() => session.restore(snapshotAt(9, {}))).code).toBe("plugin_state_version");
  expect([log, state().get()]).toEqual([[], { count: 7 }]);
});

test("[D6] a restore without the plugin's record begins anew, and says that something moved", async () => {
  const { made, state } = counting((counter) => ({ turn: { before: () => counter.set({ count: 7 }) } }));
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  const before = session.snapshotRevisionFingerprint();
  session.restore({ plugins: {} });
  expect(state().get()).toEqual({ count: 0 });
  expect(session.snapshotRevisionFingerprint()).not.toBe(before);
});

test.each<[string, Partial<DurableOptions<{ count: number }>>, number, boolean]>([
  ["copies by default", {}, 7, true],
  ["copies", { fork: "copy" }, 7, true],
  ["begins anew", { fork: "reset" }, 0, false],
  ["begins with what the function makes", { fork: ({ count }) => ({ count: count * 2 }) }, 14, false],
])("[D7] a fork %s", async (_name, options, expected, isCurrent) => {
  const { made } = counting((counter) => ({ turn: { before: () => counter.set({ count: 7 }) } }), options);
  const session = sessionOf([made]);
  await session.beforeTurn(turnCtx());
  const snapshot = session.snapshot();
  const fork = session.forkForSession("f");
  expect(stored(fork)).toEqual({ state: { version: 1, value: { count: expected } } });
  expect(stored(session)).toEqual({ state: { version: 1, value: { count: 7 } } });
  expect(fork.snapshotIsCurrent(snapshot)).toBe(isCurrent);
});

test("[D7] reopening a session is no fork: its state is as it was", () => {
  const { made, state } = counting(() => ({}), { fork: "reset" });
  sessionOf([made], { build: { snapshot: snapshotAt(1, { count: 5 }) } });
  expect(state().get()).toEqual({ count: 5 });
});
