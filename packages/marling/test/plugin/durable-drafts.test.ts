// Declared state: drafts, scopes, deltas, commits, migration and forks.

import { expect, test } from "vitest";
import { z } from "zod";
import { deferred } from "../../src/base/deferred.ts";
import { toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import { directive } from "../../src/plugin/directive.ts";
import type { DurableOptions, DurableState } from "../../src/plugin/durable.ts";
import type { Plugin, PluginParts } from "../../src/plugin/plugin.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import type { PluginSession } from "../../src/plugin/plugin-session.ts";
import type { PluginSessionSnapshot } from "../../src/plugin/snapshot.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import {
  configCtx,
  ManualClock,
  plugin,
  rejection,
  restored,
  sessionOf,
  settle,
  thrownBy,
  toolCtx,
  turnCtx,
  turnResultCtx,
} from "./samples.ts";

type Counter = DurableState<{ count: number }>;

const add = (n: number) => (value: { count: number }) => ({ count: value.count + n });

/** A plugin with one counter, and its state to look at from outside. */
function counting(
  parts: (state: Counter) => PluginParts,
  options: Partial<DurableOptions<{ count: number }>> = {},
): { readonly made: Plugin; state(): Counter } {
  let state: Counter | undefined;
  const made = plugin("counter", (ctx) => {
    state = ctx.durable({ version: 1, initial: () => ({ count: 0 }), ...options });
    return parts(state);
  });
  return {
    made,
    state: () => state ?? (thrownBy(() => "not built") as never),
  };
}

const stored = (session: PluginSession): unknown => session.snapshot().plugins.counter?.meta.durable;

test("[D1] what a hook writes is seen by it at once and by others when the phase succeeds", async () => {
  const seen: number[] = [];
  const gate = deferred<void>();
  const { made, state } = counting((counter) => ({
    turn: {
      before: async () => {
        counter.set({ count: 1 });
        counter.update(add(1));
        seen.push(counter.get().count);
        await gate.promise;
      },
    },
  }));
  const session = sessionOf([made]);
  const running = session.beforeTurn(turnCtx());
  expect([seen, state().get().count]).toEqual([[2], 0]);
  gate.resolve();
  await running;
  expect(state().get().count).toBe(2);
});

test("[HP2] handlers of one plugin in one phase share a draft", async () => {
  const { made, state } = counting((counter) => ({
    turn: { before: [() => counter.update(add(1)), async () => counter.update(add(10))] },
  }));
  await sessionOf([made]).beforeTurn(turnCtx());
  expect(state().get()).toEqual({ count: 11 });
});

test("[D1] a hook that throws leaves no trace in the state", async () => {
  const { made, state } = counting((counter) => ({
    turn: {
      before: () => {
        counter.set({ count: 5 });
        throw new Error("no");
      },
    },
  }));
  const session = sessionOf([made]);
  await rejection(session.beforeTurn(turnCtx()));
  expect([state().get(), session.takeDeltas()]).toEqual([{ count: 0 }, []]);
});

test("[HP2] when a later plugin fails, drafts of earlier ones in the phase are dropped too", async () => {
  const { made, state } = counting((counter) => ({ turn: { before: () => counter.set({ count: 5 }) } }));
  const fails = plugin("z", { turn: { before: () => Promise.reject(new Error("no")) } });
  const session = sessionOf([made, fails]);
  await rejection(session.beforeTurn(turnCtx()));
  expect([state().get(), session.takeDeltas()]).toEqual([{ count: 0 }, []]);
});

test("[D1] nonsense from a hook drops its draft", async () => {
  const { made, state } = counting((counter) => ({
    turn: {
      before: () => {
        counter.set({ count: 5 });
        return { kind: "what" } as never;
      },
    },
  }));
  expect((await rejection(sessionOf([made]).beforeTurn(turnCtx()))).code).toBe("hook_returned_nonsense");
  expect(state().get()).toEqual({ count: 0 });
});

test("[D1] [D2] a hook past its limit has its draft dropped, and its late writes throw", async () => {
  const clock = new ManualClock();
  const gate = deferred<void>();
  const late: string[] = [];
  const { made, state } = counting((counter) => ({
    turn: {
      before: async () => {
        counter.set({ count: 5 });
        await gate.promise;
        late.push(
          thrownBy(() => counter.set({ count: 6 })).code,
          thrownBy(() => counter.update(add(1))).code,
        );
      },
    },
  }));
  const session = sessionOf([made], { hookTimeoutMs: 10, clock });
  const running = rejection(session.beforeTurn(turnCtx()));
  clock.advance(10);
  expect((await running).code).toBe("hook_timeout");
  gate.resolve();
  await settle();
  expect([late, state().get()]).toEqual([["stale_scope", "stale_scope"], { count: 0 }]);
});

test("[D2] a write that a hook did not wait for throws once the hook is done", async () => {
  const gate = deferred<void>();
  const late = deferred<string>();
  const { made } = counting((counter) => ({
    turn: {
      before: () => {
        void gate.promise.then(() => late.resolve(thrownBy(() => counter.set({ count: 1 })).message));
      },
    },
  }));
  await sessionOf([made]).beforeTurn(turnCtx());
  gate.resolve();
  expect(await late.promise).toBe(
    "plugin counter: state cannot be written here: its effect has ended; await what writes before the hook returns",
  );
});

test("[D2] a write outside of any effect throws and says where to write; reading is always possible", () => {
  const { made, state } = counting(() => ({}));
  sessionOf([made]);
  const error = thrownBy(() => state().set({ count: 1 }));
  expect([error.code, error.message]).toEqual([
    "stale_scope",
    "plugin counter: state cannot be written here: no effect of this plugin is running: write in a hook, a tool, a command or a task",
  ]);
  expect(state().get()).toEqual({ count: 0 });
});

test("[D2] build may read its state and not write it", () => {
  const reads: unknown[] = [];
  const made = plugin("a", (ctx) => {
    const state = ctx.durable({ version: 1, initial: () => 1 });
    reads.push(state.get(), thrownBy(() => state.set(2)).code);
    return {};
  });
  sessionOf([made]);
  expect(reads).toEqual([1, "stale_scope"]);
});

test("[PS4] ready and restore may write; what they write holds at once and is no delta", () => {
  const { made, state } = counting((counter) => ({
    ready: () => counter.update(add(1)),
    restore: () => counter.update(add(10)),
  }));
  const session = sessionOf([made], { build: { snapshot: { plugins: {} } } });
  session.rollbackState();
  expect([state().get(), session.takeDeltas()]).toEqual([{ count: 11 }, []]);
});

const bump = defineTool({
  name: "bump",
  description: "Counts.",
  input: { type: "object" },
  execute: () => null,
});

test("[D3] in a tool only update is possible", async () => {
  const { made, state } = counting(() => ({ tools: [bump] }));
  const session = sessionOf([made]);
  const error = await rejection(session.runTool("bump", async () => state().set({ count: 1 })));
  expect([error.code, error.message]).toEqual([
    "state_read_only",
    "plugin counter: state state: set is not possible in a tool, because tools run at once: use update(fn) with a pure function of the value",
  ]);
});

test("[D3] updates of tools that run at once all count, whatever order they settle in", async () => {
  const { made, state } = counting(() => ({ tools: [bump] }));
  const session = sessionOf([made]);
  const gates = [deferred<void>(), deferred<void>(), deferred<void>()];
  const running = gates.map((gate, index) =>
    session.runTool("bump", async () => {
      state().update(add(10 ** index));
      await gate.promise;
      return state().get().count;
    }),
  );
  expect(state().get()).toEqual({ count: 0 });
  gates[1]?.resolve();
  await running[1];
  expect(state().get()).toEqual({ count: 10 });
  gates[0]?.resolve();
  gates[2]?.resolve();
  expect(await Promise.all(running)).toEqual([1, 10, 100]);
  expect(state().get()).toEqual({ count: 111 });
  expect(session.takeDeltas().map(({ sequence, cells }) => [sequence, cells])).toEqual([
    [1, { state: { count: 10 } }],
    [2, { state: { count: 11 } }],
    [3, { state: { count: 111 } }],
  ]);
});

test("[D3] the draft of a tool that throws or fails is dropped", async () => {
  const { made, state } = counting(() => ({ tools: [bump] }));
  const session = sessionOf([made]);
  const output = await session.runTool("bump", async () => {
    state().update(add(1));
    return toolFailure("No.");
  });
  expect(output.outcome.kind).toBe("failure");
  await session
    .runTool("bump", async () => {
      state().update(add(1));
      throw new Error("no");
    })
    .catch(() => undefined);
  await session.runTool("bump", async () => {
    state().update(add(100));
    return toolSuccess(1);
  });
  expect(state().get()).toEqual({ count: 100 });
});

test("[D1] [D2] a tool that is given up has its draft dropped at once, and its late writes throw", async () => {
  const { made, state } = counting(() => ({ tools: [bump] }));
  const session = sessionOf([made]);
  const cancel = new AbortController();
  const gate = deferred<void>();
  const late: string[] = [];
  const running = session.runTool(
    "bump",
    async () => {
      state().update(add(1));
      await gate.promise;
      late.push(thrownBy(() => state().update(add(1))).code);
      return toolSuccess(1);
    },
    { signal: cancel.signal },
  );
  cancel.abort();
  gate.resolve();
  await running;
  expect([late, state().get(), session.takeDeltas()]).toEqual([["stale_scope"], { count: 0 }, []]);
});

test("[D3] a tool that no plugin offers may update the state of any", async () => {
  const { made, state } = counting(() => ({ tools: [bump] }));
  const session = sessionOf([
    made,
    plugin("other", {
      tools: [{ ...bump, name: "own", manifest: { ...bump.manifest, id: "own", name: "own" } }],
    }),
  ]);
  await session.runTool("from_a_transform", () => state().update(add(1)));
  expect(state().get()).toEqual({ count: 1 });
  const error = await rejection(session.runTool("own", async () => state().update(add(1))));
  expect([error.code, session.ownerOfTool("own"), session.ownerOfTool("bump")]).toEqual([
    "stale_scope",
    "other",
    "counter",
  ]);
});

test("[D1] a projector and the callbacks of a slot write into drafts of their own", async () => {
  const { made, state } = counting((counter) => ({
    toolResults: {
      projector: ({ toolName }) => {
        counter.update(add(1));
        if (toolName === "bad") throw new Error("no");
        return "x";
      },
    },
    execution: { codeExecutor: { executeCode: async () => ({ observations: [] }) } },
  }));
  const session = sessionOf([made]);
  const ctx = { sessionId: "s", callId: "c", args: {}, output: toolSuccess(1), durationMs: 0 };
  await session.projectToolResult({ ...ctx, toolName: "good" });
  await rejection(session.projectToolResult({ ...ctx, toolName: "bad" }));
  expect(state().get()).toEqual({ count: 1 });
  await session.runSlot("execution.code_executor", async () => state().set({ count: 5 }));
  await rejection(session.runSlot("protocol.session", async () => state().set({ count: 6 })));
  expect([
    state().get(),
    session.slotOwner("execution.code_executor"),
    session.slotOwner("protocol.session"),
  ]).toEqual([{ count: 5 }, "counter", "standard_protocol"]);
});

test("[PS2] a hook that sets and one that updates at once: both changes are made on what is there", async () => {
  const gate = deferred<void>();
  const { made, state } = counting((counter) => ({
    toolCalls: {
      after: async (ctx) => {
        if (ctx.callId === "c1") {
          counter.update(add(1));
          await gate.promise;
          return;
        }
        counter.set({ count: 50 });
      },
    },
  }));
  const session = sessionOf([made]);
  const result = { ...toolCtx(), result: toolSuccess(1), durationMs: 0 };
  const first = session.afterToolCall({ ...result });
  await session.afterToolCall({ ...result, callId: "c2" });
  gate.resolve();
  await first;
  expect(state().get()).toEqual({ count: 51 });
});

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

test("[OI2] a query reads and cannot write; a command that fails leaves nothing", async () => {
  const { made, state } = counting((counter) => ({
    operations: {
      queries: { peek: { handler: () => counter.get() }, poke: { handler: () => counter.set({ count: 9 }) } },
      commands: {
        good: { handler: () => counter.update(add(1)) },
        bad: {
          handler: async () => {
            counter.update(add(100));
            throw new Error("no");
          },
        },
      },
      actions: {
        refuse: {
          handler: () => {
            counter.update(add(1000));
            return toolFailure("No.");
          },
        },
      },
    },
  }));
  const session = sessionOf([made]);
  const error = await rejection(session.queryPlugin("poke"));
  expect((error.cause as { code?: string }).code).toBe("state_read_only");
  await rejection(session.runPluginCommand("bad"));
  await session.invokePluginAction("refuse");
  await session.runPluginCommand("good");
  expect([(await session.queryPlugin("peek")).output, state().get()]).toEqual([{ count: 1 }, { count: 1 }]);
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

test("[D1] handlers of events and config mutators each have a draft of their own", async () => {
  const { made, state } = counting((counter) => ({
    session: {
      onEvent: [
        () => counter.update(add(1)),
        async () => {
          counter.update(add(10));
          throw new Error("no");
        },
        async () => counter.update(add(100)),
      ],
      mutateConfig: [
        () => {
          counter.update(add(1000));
        },
        () => {
          counter.update(add(10_000));
          throw new Error("no");
        },
      ],
    },
  }));
  const session = sessionOf([made]);
  await session.emitRuntimeEvent(restored());
  expect(state().get()).toEqual({ count: 101 });
  await session.mutateSessionConfig(configCtx(), configCtx().current);
  expect(state().get()).toEqual({ count: 1101 });
});

test("[SS1] a session inside a hook of another keeps both states apart", async () => {
  const inner = counting((counter) => ({ turn: { before: async () => counter.update(add(1)) } }));
  const child = createPluginHost([inner.made]).buildSession("child");
  let gave: string | undefined;
  const outer = counting((counter) => ({
    turn: {
      before: async () => {
        counter.update(add(10));
        await child.beforeTurn(turnCtx());
        counter.update(add(10));
        gave = thrownBy(() => inner.state().set({ count: 99 })).code;
      },
    },
  }));
  const session = createPluginHost([outer.made]).buildSession("parent");
  await session.beforeTurn(turnCtx());
  expect([outer.state().get(), inner.state().get(), gave]).toEqual([
    { count: 20 },
    { count: 1 },
    "stale_scope",
  ]);
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
