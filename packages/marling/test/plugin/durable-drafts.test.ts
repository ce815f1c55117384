// Drafts of declared state: where a plugin may write, when others see it, and what drops it.

import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import { HeldDrafts } from "../../src/plugin/held-drafts.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import {
  add,
  configCtx,
  counting,
  ManualClock,
  plugin,
  rejection,
  restored,
  sessionOf,
  settle,
  thrownBy,
  toolCtx,
  turnCtx,
} from "./samples.ts";

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

test("[SS3] what several phases draft is held apart: seen by the next phase, applied together or dropped", async () => {
  const found: (number | null)[] = [];
  const { made, state } = counting((counter) => ({
    output: {
      stream: ({ chunk }) => {
        found.push(counter.get().count);
        counter.update(add(1));
        if (chunk === "two") counter.update(add(10));
        return { chunk };
      },
    },
  }));
  const session = sessionOf([made]);
  const held = new HeldDrafts({ scopes: session.scopes, hook: "output.stream" });
  const streamed = async (...chunks: readonly string[]): Promise<void> => {
    for (const chunk of chunks) await session.transformAssistantStream("s", chunk, { held });
  };
  await streamed("one", "two", "three");
  expect([found, state().get().count]).toEqual([[0, 1, 12], 0]);
  held.drop();
  await streamed("one", "two");
  expect([found.slice(3), session.takeDeltas()]).toEqual([[0, 1], []]);
  held.settle();
  expect(state().get().count).toBe(12);
  expect(session.takeDeltas()).toMatchObject([{ cells: { state: { count: 12 } } }]);
});

test("[SS3] a value that was held as null is null for the next phase", async () => {
  const found: unknown[] = [];
  let read: () => unknown = () => undefined;
  const made = plugin("nulls", (ctx) => {
    const last = ctx.durable<string | null>({ version: 1, initial: () => "first" });
    read = () => last.get();
    return {
      output: {
        stream: ({ chunk }) => {
          last.update((value) => {
            found.push(value);
            return chunk === "none" ? null : chunk;
          });
          return { chunk };
        },
      },
    };
  });
  const session = sessionOf([made]);
  const held = new HeldDrafts({ scopes: session.scopes, hook: "output.stream" });
  for (const chunk of ["none", "some", "none"]) await session.transformAssistantStream("s", chunk, { held });
  held.settle();
  expect([found, read()]).toEqual([["first", null, "some"], null]);
});
