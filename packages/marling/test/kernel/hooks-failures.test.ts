// A hook that throws, never settles or returns nonsense is named, with its plugin, and hangs nothing. One row for each
// hook of the table: a hook without a row does not compile, and the first test fails.

import { MarlingError, type PluginParts } from "marling";
import { callTool, failWith, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { HOOKS, type HookName } from "../../src/plugin/hooks.ts";
import {
  type AnyHandler,
  never,
  outcomeOf,
  PARTS_WITH,
  passTime,
  play,
  plugin,
  type Scene,
  scene,
  TestClock,
} from "./hooks-support.ts";

/** How a hook's failure shows, and how to bring it about. */
interface Row {
  /** By default the hook alone. */
  parts?(handler: AnyHandler): PluginParts;
  /** Runs what the hook is part of; resolves with the text in which the failure must be named. */
  run(scene: Scene): Promise<string>;
  readonly script?: readonly ScriptStep[];
  /** What the handler must not return; absent where nobody reads what it returns. */
  readonly nonsense?: unknown;
}

const SCRIPT = [callTool("echo", { text: "one" }), say("Done.")];

/** The turn stops; its outcome and its only issue name the hook. */
const stopsTheTurn =
  (hook: HookName) =>
  async ({ session }: Scene): Promise<string> => {
    const { report } = await play(session);
    const { outcome, issues } = report;
    expect(outcome).toMatchObject({ kind: "stopped", reason: "runtime_error", code: issues[0]?.code });
    expect(issues).toMatchObject([{ kind: "plugin", pluginId: "p", hook }]);
    expect(outcome).toMatchObject({ message: issues[0]?.message });
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user"]);
    return issues[0]?.message ?? "";
  };

/** The call fails, the turn goes on, and an issue names the hook. */
const failsTheCall =
  (hook: HookName) =>
  async ({ session }: Scene): Promise<string> => {
    const { report } = await play(session);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(report.toolCalls[0]?.output.outcome.kind).toBe("failure");
    expect(report.issues).toMatchObject([{ kind: "plugin", pluginId: "p", hook }]);
    return report.issues[0]?.message ?? "";
  };

/** Nothing ends; an issue names the hook. */
const isReported =
  (hook: HookName) =>
  async ({ session }: Scene): Promise<string> => {
    const { report } = await play(session);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(report.issues[0]).toMatchObject({ pluginId: "p", hook });
    return report.issues[0]?.message ?? "";
  };

const ROWS: { readonly [K in HookName]: Row } = {
  "prompt.contribute": {
    run: stopsTheTurn("prompt.contribute"),
    nonsense: [{ slot: "nowhere", content: "x" }],
  },
  "tool_catalog.contribute": {
    run: stopsTheTurn("tool_catalog.contribute"),
    nonsense: { remove: "echo" },
  },
  "turn.before": {
    run: stopsTheTurn("turn.before"),
    nonsense: { kind: "dance" },
  },
  "turn.after": { run: stopsTheTurn("turn.after"), nonsense: 7 },
  "turn.checkpoint": {
    run: stopsTheTurn("turn.checkpoint"),
    nonsense: [null],
  },
  "tool_calls.before": {
    run: failsTheCall("tool_calls.before"),
    nonsense: { kind: "abort_turn" },
  },
  "tool_calls.after": {
    run: failsTheCall("tool_calls.after"),
    nonsense: { kind: "short_circuit_tool", output: "done" },
  },
  "approval.request": {
    run: async ({ session }) => {
      const { report } = await play(session);
      expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
      expect(outcomeOf(report)).toMatchObject({ code: "approval_denied" });
      return JSON.stringify(report);
    },
    nonsense: { decision: "maybe" },
  },
  "input.before": {
    run: async ({ session }) => {
      const thrown: unknown = await session.turn("Hi").result.catch((error: unknown) => error);
      if (!MarlingError.is(thrown)) throw new Error("expected a rejection");
      expect(thrown.details).toMatchObject({ pluginId: "p", hook: "input.before" });
      expect(session.read()).toMatchObject({ turnIndex: 0, messages: [] });
      return thrown.message;
    },
    nonsense: { input: { words: "Hi" } },
  },
  "model.request": {
    run: stopsTheTurn("model.request"),
    nonsense: { toolChoice: "perhaps" },
  },
  "output.stream": {
    run: stopsTheTurn("output.stream"),
    script: [say("Done.")],
    nonsense: { chunk: 1 },
  },
  "output.response": {
    run: stopsTheTurn("output.response"),
    nonsense: { response: "Done." },
  },
  "output.stream_finished": {
    run: isReported("output.stream_finished"),
  },
  "session.mutate_config": {
    run: async ({ session, traces }) => {
      await session.configure({ instructions: "Be brief." });
      expect(session.read().policy.instructions).toBe("Be brief.");
      expect(traces).toMatchObject([{ payload: { pluginId: "p", hook: "session.mutate_config" } }]);
      return JSON.stringify(traces);
    },
    nonsense: { model: 7 },
  },
  "session.on_event": {
    parts: (handler) => ({
      session: { onEvent: ({ kind }) => (kind === "turn_persisted" ? handler() : undefined) },
    }),
    run: isReported("session.on_event"),
  },
  "context.prepare_turn": {
    run: stopsTheTurn("context.prepare_turn"),
    nonsense: { messages: [] },
  },
  "context.compact": {
    parts: (compact) => ({
      model: { error: () => ({ kind: "compact_and_retry" }) },
      context: { compact: { compact } },
    }),
    run: stopsTheTurn("context.compact"),
    script: [failWith({ kind: "context_overflow" })],
    nonsense: { initialNodes: [{ kind: "poem" }] },
  },
  "model.error": {
    run: stopsTheTurn("model.error"),
    script: [failWith({ kind: "auth" })],
    nonsense: { kind: "fall_back" },
  },
  // Nothing recovers in memory yet, so the hook is asked directly.
  "recovery.decide": {
    run: async ({ runtime }) => {
      const call = { sessionId: "s", toolName: "echo", callId: "c", args: {}, replay: "unsafe" } as const;
      const thrown: unknown = await runtime.plugins
        .session("s")
        .decideOnRecovery(call)
        .catch((error: unknown) => error);
      if (!MarlingError.is(thrown)) throw new Error("expected a rejection");
      return thrown.message;
    },
    nonsense: { kind: "hope" },
  },
};

test("every hook of the table has a row here", () => {
  expect(Object.keys(ROWS).toSorted()).toEqual(Object.keys(HOOKS).toSorted());
});

describe.each(Object.keys(ROWS) as HookName[])("%s", (hook) => {
  const row = ROWS[hook];
  const partsWith = row.parts ?? PARTS_WITH[hook];
  const named = `plugin p: hook ${hook}`;

  async function misbehaving(handler: AnyHandler): Promise<string> {
    const clock = new TestClock();
    const script = row.script ?? SCRIPT;
    const made = await scene({
      script: [...script, ...script],
      clock,
      hookTimeoutMs: 5,
      plugins: [plugin("p", partsWith(handler))],
    });
    const text = await passTime(clock, row.run(made));
    expect(clock.pending).toBe(0);
    await passTime(
      clock,
      made.session.turn("Again").result.catch(() => undefined),
    );
    return text;
  }

  test("one that throws is named", async () => {
    const text = await misbehaving(() => {
      throw new Error("broken");
    });
    expect(text).toContain(`${named} failed: broken`);
  });

  test("one that rejects is named", async () => {
    const text = await misbehaving((() => Promise.reject(new Error("broken"))) as unknown as AnyHandler);
    expect(text).toContain(
      HOOKS[hook].isSynchronous ? `${named} returned a promise` : `${named} failed: broken`,
    );
  });

  test("one that never settles is named", async () => {
    const text = await misbehaving(never as unknown as AnyHandler);
    expect(text).toContain(
      HOOKS[hook].isSynchronous ? `${named} returned a promise` : `${named} did not settle within 5 ms`,
    );
  });

  if (row.nonsense !== undefined) {
    test("one that returns nonsense is named", async () => {
      const text = await misbehaving((() => row.nonsense) as AnyHandler);
      expect(text).toContain(`${named} returned nonsense`);
    });
    return;
  }

  test("what it returns is read by nobody", async () => {
    const parts = partsWith((() => ({ kind: "nonsense" })) as unknown as AnyHandler);
    const { session } = await scene({ script: SCRIPT, plugins: [plugin("p", parts)] });
    const { report } = await play(session);
    expect(report).toMatchObject({ outcome: { kind: "finished" }, issues: [] });
  });
});

test("a hook has the whole limit for itself, and one that settles in time leaves no timer", async () => {
  const clock = new TestClock();
  const slow = plugin("slow", {
    turn: {
      before: async () => {
        await clock.sleep(4, { signal: new AbortController().signal });
        return undefined;
      },
    },
  });
  const { session } = await scene({ script: [say("Done.")], clock, hookTimeoutMs: 5, plugins: [slow] });
  const playing = play(session);
  while (clock.pending < 2) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(4);

  expect((await playing).report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(clock.pending).toBe(0);
});

test("a hook that settles after its limit changes nothing", async () => {
  const clock = new TestClock();
  let settle = (): void => {};
  const late = plugin("late", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    return {
      turn: {
        before: async () => {
          await new Promise<void>((resolve) => {
            settle = resolve;
          });
          count.update((value) => value + 1);
          return { kind: "enqueue_messages", messages: [{ role: "user", content: "too late" }] };
        },
      },
      operations: { queries: { "late.count": { handler: () => count.get() } } },
    };
  });
  const { session } = await scene({ clock, hookTimeoutMs: 5, plugins: [late] });
  const { report } = await passTime(clock, play(session));
  settle();
  await new Promise((resolve) => setImmediate(resolve));

  expect(report.outcome).toMatchObject({ code: "hook_timeout" });
  expect(session.read().messages).toHaveLength(1);
  expect(await session.query("late.count", {})).toBe(0);
});
