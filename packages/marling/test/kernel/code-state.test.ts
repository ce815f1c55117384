// The state of a code executor: when it is asked for, where it is kept, and who gets it back. The executor is a stub.

import { createRuntime, memoryStore, type RuntimeOptions, type Store } from "marling";
import { say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { CodeExecutor } from "../../src/plugin/protocol.ts";
import { codeProtocol } from "./code-support.ts";
import { KernelClock, plugin, quiet } from "./model-support.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

interface Machine {
  readonly executor: CodeExecutor;
  readonly log: string[];
  memory: Uint8Array | undefined;
  isDirty: boolean;
  snapshot: () => Uint8Array | undefined;
}

/** An executor whose memory and dirtiness a test sets, with what it was asked. */
function machine(): Machine {
  const log: string[] = [];
  const state: Machine = {
    log,
    memory: undefined,
    isDirty: false,
    snapshot: () => state.memory,
    executor: {
      executeCode: async () => ({ observations: ["ran"] }),
      executionStateDirty: () => state.isDirty,
      snapshotExecutionState: (ctx) => {
        log.push(`snapshot ${Object.keys(ctx)} ${ctx.sessionId}`);
        const bytes = state.snapshot();
        state.isDirty = false;
        return bytes;
      },
      restoreExecutionState: (ctx, data) => {
        log.push(`restore ${Object.keys(ctx)} ${ctx.sessionId} ${[...data]}`);
        state.memory = data;
      },
    },
  };
  return state;
}

/** A store that notes the bytes put into it. */
function blobStore(): { readonly store: Store; readonly put: (readonly number[])[] } {
  const memory = memoryStore();
  const put: (readonly number[])[] = [];
  const blobs = {
    put: (bytes: Uint8Array) => {
      put.push([...bytes]);
      return memory.blobs.put(bytes);
    },
    get: (ref: string) => memory.blobs.get(ref),
    ref: (bytes: Uint8Array) => memory.blobs.ref(bytes),
  };
  const store = new Proxy(memory, {
    get: (target, member: keyof Store) => {
      if (member === "blobs") return blobs;
      const value = target[member];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { store, put };
}

function runtimeOf(options: RuntimeOptions) {
  const runtime = createRuntime({ model: scriptedModel(() => say("ok")), ...options });
  onTestFinished(() => runtime.close());
  return runtime;
}

test("[K134 stub] the executor is asked for its state only when it says that it moved", async () => {
  const code = machine();
  const { store, put } = blobStore();
  const session = await runtimeOf({ store, plugins: [codeProtocol(code.executor)] }).session("s");
  code.memory = Uint8Array.of(1, 2);
  await session.run("Hi");
  expect(code.log).toEqual([]);
  expect(session.read().frames[0]).not.toHaveProperty("executionState");
  code.isDirty = true;
  await session.run("Hi");
  expect(code.log).toEqual(["snapshot sessionId s"]);
  expect(put).toEqual([[1, 2]]);
  const { executionState = "" } = session.read().frames[0] ?? {};
  expect([...((await store.blobs.get(executionState)) ?? [])]).toEqual([1, 2]);
  await session.run("Hi");
  expect(code.log).toHaveLength(1);
  expect(session.read().frames[0]?.executionState).toBe(executionState);
});

test("[K134 stub] a state of nothing clears the reference", async () => {
  const code = machine();
  const session = await runtimeOf({ plugins: [codeProtocol(code.executor)] }).session("s");
  code.memory = Uint8Array.of(1);
  code.isDirty = true;
  await session.run("Hi");
  expect(session.read().frames[0]).toHaveProperty("executionState");
  code.memory = undefined;
  code.isDirty = true;
  await session.run("Hi");
  expect(session.read().frames[0]).not.toHaveProperty("executionState");
});

test("[K134 stub] a snapshot that fails is traced, and what is stored stays", async () => {
  const code = machine();
  const traces: CustomTrace[] = [];
  const session = await runtimeOf({
    plugins: [codeProtocol(code.executor)],
    trace: customTraces(traces),
  }).session("s");
  code.memory = Uint8Array.of(1);
  code.isDirty = true;
  await session.run("Hi");
  const stored = session.read().frames[0]?.executionState;
  code.isDirty = true;
  code.snapshot = () => {
    throw new Error("heap is busy");
  };
  const { report } = await session.run("Hi");
  expect(report.outcome.kind).toBe("finished");
  expect(session.read().frames[0]?.executionState).toBe(stored);
  expect(traces).toMatchObject([
    { name: "execution_state.snapshot_failed", payload: { message: "heap is busy" } },
  ]);
});

test("[K134 stub] a commit in the middle of a cell does not take the state of half a cell", async () => {
  const code = machine();
  const gate = deferred<void>();
  const executor: CodeExecutor = {
    ...code.executor,
    executeCode: async () => {
      code.isDirty = true;
      code.memory = Uint8Array.of(1);
      await gate.promise;
      code.memory = Uint8Array.of(1, 2);
      return { observations: ["ran"] };
    },
  };
  const { store, put } = blobStore();
  const model = scriptedModel([say("run long()"), say("done")]);
  const session = await runtimeOf({ model, store, plugins: [codeProtocol(executor)] }).session("s");
  const turn = session.turn("Go");
  await quiet();
  await session.appendNodes([{ kind: "plugin", type: "note", body: null }]);
  expect(put).toEqual([]);
  gate.resolve();
  await turn.result;
  expect(put).toEqual([[1, 2]]);
});

test("[K134 stub] nor does the commit of a cancelled turn whose cell still runs", async () => {
  const code = machine();
  const gate = deferred<void>();
  const executor: CodeExecutor = {
    ...code.executor,
    executeCode: async () => {
      code.isDirty = true;
      code.memory = Uint8Array.of(1);
      await gate.promise;
      return { observations: ["ran"] };
    },
  };
  const { store, put } = blobStore();
  const clock = new KernelClock();
  const model = scriptedModel([say("run long()"), say("next")]);
  const session = await runtimeOf({ model, store, clock, plugins: [codeProtocol(executor)] }).session("s");
  const turn = session.turn("Go");
  await quiet();
  await session.cancel(turn.id);
  await quiet();
  clock.advance(50);
  await turn.result;
  expect(put).toEqual([]);
  gate.resolve();
  await quiet();
  await session.run("Go on");
  expect(put).toEqual([[1]]);
});

test("[K158 stub] a session that opens again gives the executor the bytes that were stored, before anyone is told", async () => {
  const code = machine();
  const store = memoryStore();
  const runtime = runtimeOf({ store, plugins: [codeProtocol(code.executor)] });
  const session = await runtime.session("s");
  expect(code.log).toEqual([]);
  code.memory = Uint8Array.of(7, 8, 9);
  code.isDirty = true;
  await session.run("Hi");
  await session.close();
  code.log.length = 0;
  await runtime.session("s");
  expect(code.log).toEqual(["restore sessionId s 7,8,9"]);
});

test("[K158 stub] a restore that fails fails the opening by the plugin's name", async () => {
  const code = machine();
  const store = memoryStore();
  const runtime = runtimeOf({ store, plugins: [codeProtocol(code.executor)] });
  const session = await runtime.session("s");
  code.memory = Uint8Array.of(1);
  code.isDirty = true;
  await session.run("Hi");
  await runtime.close();
  const broken = codeProtocol({
    ...code.executor,
    restoreExecutionState: () => {
      throw new Error("another version");
    },
  });
  await expect(runtimeOf({ store, plugins: [broken] }).session("s")).rejects.toMatchObject({
    code: "protocol_failed",
    details: { pluginId: "code", hook: "restoreExecutionState" },
  });
});

test("[K158 stub] an executor needs to run code and nothing else: it is never dirty and has no state", async () => {
  const store = memoryStore();
  const plain: CodeExecutor = { executeCode: async () => ({ observations: ["ran"] }) };
  const model = scriptedModel([say("run a()"), say("done")]);
  const runtime = runtimeOf({ model, store, plugins: [codeProtocol(plain)] });
  const session = await runtime.session("s");
  expect((await session.run("Go")).text).toBe("done");
  expect(session.read().frames[0]).not.toHaveProperty("executionState");
  await session.close();
  expect((await runtime.session("s")).read().messages).toHaveLength(4);
});

test("[K134 stub] a new frame does not inherit the state; the old frame keeps its own", async () => {
  const code = machine();
  const compacting = plugin("compacting", {
    context: { compact: { compact: () => ({ initialNodes: [{ kind: "plugin", type: "x", body: 1 }] }) } },
  });
  const session = await runtimeOf({ plugins: [codeProtocol(code.executor), compacting] }).session("s");
  code.memory = Uint8Array.of(1);
  code.isDirty = true;
  await session.run("Hi");
  await session.compact();
  const [old, current] = session.read().frames;
  expect(old).toHaveProperty("executionState");
  expect(current).not.toHaveProperty("executionState");
});

test("[K134 stub] a turn that ends in a fault keeps nothing of what the executor did", async () => {
  const one = machine();
  one.memory = Uint8Array.of(1);
  one.isDirty = true;
  const { store, put } = blobStore();
  const failing = plugin("failing", {
    turn: {
      after: () => {
        throw new Error("no");
      },
    },
  });
  const runtime = createRuntime({
    model: scriptedModel([say("run 1"), say("sorry")]),
    store,
    plugins: [codeProtocol(one.executor), failing],
  });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const before = put.length;
  one.isDirty = true;
  const { outcome } = await session.turn("Go").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "runtime_error", code: "hook_failed" });
  expect(put.length).toBe(before);
});
