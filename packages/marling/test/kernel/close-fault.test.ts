// A shutdown is never recorded as the failure of a tool, a hook or a task: the turn is left to the store, and the next
// runtime finishes it as if nothing had been refused.

import { directive, type Plugin, type Runtime, type ToolDefinition, toolFailure } from "marling";
import { subagents } from "marling/plugins";
import { callTool, callTools, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { gate } from "./durable-support.ts";
import { asking, database, desk, parked, transcript, worker } from "./parked-support.ts";
import { hostTool } from "./services-support.ts";
import { plugin, rejectionOf, stage, until } from "./tools-support.ts";

const GO = { go: [callTool("work", {}), say("Done.")] };
const ENOUGH = { graceMs: 20_000 };

/** Everything that reaches the runtime or the session from outside, as user code may do inside a turn. */
const OUTSIDE: readonly [string, (runtime: Runtime) => Promise<unknown>][] = [
  ["runtime.session", (runtime) => runtime.session("other")],
  ["a turn of another session", async (runtime) => (await runtime.session("other")).turn("hi").result],
  [
    "an error that has the refusal as its cause",
    async (runtime) => {
      try {
        return await runtime.session("other");
      } catch (cause) {
        throw new Error("no other session", { cause });
      }
    },
  ],
  [
    "several refusals",
    async (runtime) => Promise.any([runtime.session("other"), runtime.sessions.fork("s", { as: "f" })]),
  ],
];

interface Program {
  readonly tools?: readonly ToolDefinition[];
  readonly plugins?: readonly Plugin[];
}

/** Runs a program whose turn is refused something while its runtime closes, and then again in another runtime. */
async function refusedThenRun(
  make: (act: () => Promise<unknown>) => Program,
  reach: (runtime: Runtime) => Promise<unknown>,
): Promise<readonly string[]> {
  const path = database();
  const at = gate();
  const { runtime, session } = await desk(path, {
    ...make(async () => {
      await at.pass();
      return reach(runtime);
    }),
    answers: GO,
  });
  const turn = session.turn("go", { key: "k" });
  await at.begun;
  const closed = runtime.close(ENOUGH);
  at.open();
  await closed;
  expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
  const next = await desk(path, { ...make(async () => "ok"), answers: GO });
  const report = await next.session.turn("go", { key: "k" }).result;
  expect([report.text, report.issues, report.outcome.kind]).toEqual(["Done.", [], "finished"]);
  return transcript(next.session);
}

const TOLD = ["user: go", "assistant calls work call_1", "tool call_1: ok", "assistant: Done."];
const work = hostTool("work", async () => "ok");

describe("a refusal within the grace", () => {
  test.each(OUTSIDE)("[QC4] in a tool, by %s, is not recorded", async (_name, reach) => {
    const make = (act: () => Promise<unknown>): Program => ({
      tools: [hostTool("work", async () => (await act()) as string)],
    });
    expect(await refusedThenRun(make, reach)).toEqual(TOLD);
  });

  test("[QC4] in a tool that only calls others is not recorded", async () => {
    const make = (act: () => Promise<unknown>): Program => ({
      tools: [hostTool("work", async () => (await act()) as string, { isOrchestrating: true })],
    });
    expect(await refusedThenRun(make, (runtime) => runtime.session("other"))).toEqual(TOLD);
  });

  const hooks: readonly [string, (act: () => Promise<unknown>) => Plugin][] = [
    ["turn.before", (act) => plugin("p", { turn: { before: async () => void (await act()) as undefined } })],
    [
      "turn.checkpoint",
      (act) => plugin("p", { turn: { checkpoint: async () => void (await act()) as undefined } }),
    ],
    ["turn.after", (act) => plugin("p", { turn: { after: async () => void (await act()) as undefined } })],
    [
      "tool_calls.before",
      (act) => plugin("p", { toolCalls: { before: async () => void (await act()) as undefined } }),
    ],
    [
      "tool_calls.after",
      (act) => plugin("p", { toolCalls: { after: async () => void (await act()) as undefined } }),
    ],
    [
      "approval.request",
      (act) =>
        plugin("p", {
          approval: {
            request: async () => {
              await act();
              return { decision: "allow" };
            },
          },
        }),
    ],
    [
      "model.request",
      (act) => plugin("p", { model: { request: async () => void (await act()) as undefined } }),
    ],
    [
      "output.response",
      (act) => plugin("p", { output: { response: async () => void (await act()) as undefined } }),
    ],
    [
      "session.on_event",
      (act) =>
        plugin("p", {
          session: {
            onEvent: async ({ kind }) => {
              if (kind === "turn_finalized") await act();
            },
          },
        }),
    ],
  ];

  test.each(hooks)("[QC4] in the hook %s is not recorded", async (_name, hook) => {
    const make = (act: () => Promise<unknown>): Program => ({ tools: [work], plugins: [hook(act)] });
    expect(await refusedThenRun(make, (runtime) => runtime.session("other"))).toEqual(TOLD);
  });

  test("[AN1] in a handler of a commit is told again", async () => {
    const told: boolean[] = [];
    let isRefused = true;
    const make = (act: () => Promise<unknown>): Plugin =>
      plugin("p", {
        session: {
          onEvent: async (event) => {
            if (event.kind !== "turn_persisted") return;
            if (isRefused) await act();
            told.push(event.isRedelivered === true);
          },
        },
      });
    const path = database();
    const at = gate();
    const first = await desk(path, {
      plugins: [
        make(async () => {
          await at.pass();
          await first.runtime.session("other");
        }),
      ],
    });
    first.session.turn("hi").result.catch(() => undefined);
    await at.begun;
    const closed = first.runtime.close(ENOUGH);
    at.open();
    await closed;
    isRefused = false;
    await desk(path, { plugins: [make(async () => undefined)] });
    await until(() => told.length > 0);
    expect(told).toEqual([true]);
  });

  test("[QC4] in a durable task is not recorded: it goes on in the next runtime", async () => {
    const path = database();
    const at = gate();
    let reach: (() => Promise<unknown>) | undefined;
    const jobs = plugin("jobs", {
      background: {
        job: async () => {
          await at.pass();
          await reach?.();
          return "did it";
        },
      },
    });
    const task = { id: "t", kind: "other", producer: "jobs", label: "job" } as const;
    const start = hostTool("work", async (host) => {
      await host.spawnManagedTask("s", { ...task, durable: { recovery: "rerun" } });
      return "ok";
    });
    const hold = gate();
    const held = hostTool("hold", async () => hold.pass().then(() => "held"));
    const answers = { ...GO, hold: [callTool("hold", {}), say("Held.")] };
    const first = await desk(path, { tools: [start, held], plugins: [jobs], answers });
    await first.session.turn("go").result;
    await at.begun;
    const turn = first.session.turn("hold");
    await hold.begun;
    reach = () => first.runtime.session("other");
    const closed = first.runtime.close(ENOUGH);
    at.open();
    await new Promise((resolve) => setImmediate(resolve));
    hold.open();
    expect((await turn.result).text).toBe("Held.");
    await closed;
    reach = undefined;
    const next = await desk(path, { tools: [start, held], plugins: [jobs], answers });
    await until(() => next.session.tasks.list()[0]?.state === "completed");
    expect(next.session.tasks.list()[0]).toMatchObject({ result: "did it" });
  });

  test("[QC4] of another runtime, or of a session that was closed before, is the tool's own failure", async () => {
    const other = await stage({ script: [] });
    await other.runtime.close();
    const { session, runtime } = await stage({
      tools: [hostTool("work", async () => void (await other.runtime.session("x")))],
      script: [callTool("work", {}), say("Done.")],
    });
    const { toolCalls } = await session.turn("go").result;
    expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", code: "runtime_closed" });
    await runtime.close();
  });
});

describe("after the grace", () => {
  const acts: readonly [string, (host: HostServices) => Promise<unknown>][] = [
    ["createSession", (host) => host.createSession({ sessionId: "new" })],
    ["startTurn", (host) => host.startTurn("s:kept", "hello")],
    [
      "injectTurnInput",
      (host) => host.injectTurnInput("s", { id: "i", message: { role: "user", content: "more" } }),
    ],
    [
      "directCompletion",
      (host) => host.directCompletion({ messages: [{ role: "user", content: "x" }] }, "x"),
    ],
    ["spawnHiddenTask", (host) => host.spawnHiddenTask("s", "x", async () => undefined)],
    ["snapshotSession", async (host) => (await host.snapshotSession("s:kept")).sessionId],
  ];

  test.each(acts)(
    "[RT3] a tool that uses %s, whatever it makes of the refusal, leaves its turn to the store",
    async (_name, act) => {
      const path = database();
      const at = gate();
      let isFirst = true;
      const swallowed: unknown[] = [];
      const tool = hostTool("work", async (host) => {
        if (!isFirst) return "ok";
        await at.pass();
        await act(host).catch((thrown: unknown) => swallowed.push(thrown));
        return "wrong";
      });
      const answers = { ...GO, make: [callTool("make", {}), say("Made.")] };
      const make = hostTool("make", async (host) => {
        await host.createSession({ sessionId: "s:kept" });
        return "made";
      });
      const first = await desk(path, { tools: [tool, make], answers, leaseMs: 600_000 });
      await first.session.turn("make").result;
      const turn = first.session.turn("go", { key: "k" });
      await at.begun;
      const closed = first.runtime.close({ graceMs: 1 });
      expect((await rejectionOf(first.session.turn("x").result)).code).toBe("runtime_closed");
      setTimeout(() => at.open(), 20);
      await closed;
      expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
      isFirst = false;
      const next = await desk(path, { tools: [tool, make], answers });
      expect((await next.session.turn("go", { key: "k" }).result).text).toBe("Done.");
      const told = (await transcript(next.session)).slice(-4);
      expect(told.map((line) => line.replace("call_2", "call_1"))).toEqual(TOLD);
    },
  );

  test("[RT3] a finished answer is not thrown away because turn.after asks for a session too late", async () => {
    const path = database();
    const at = gate();
    let isFirst = true;
    const late = plugin("late", (ctx) =>
      ctx.isRoot
        ? {
            turn: {
              after: async () => {
                if (isFirst) await at.pass();
                return [directive.createSession({ sessionId: "new" })];
              },
            },
          }
        : {},
    );
    const first = await desk(path, { plugins: [late] });
    const turn = first.session.turn("hi", { key: "k" });
    await at.begun;
    const closed = first.runtime.close({ graceMs: 1 });
    setTimeout(() => at.open(), 20);
    await closed;
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    isFirst = false;
    const next = await desk(path, { plugins: [late] });
    expect((await next.session.turn("hi", { key: "k" }).result).text).toBe("Answer to hi.");
    expect(next.model.requests).toHaveLength(0);
    expect(await next.runtime.sessions.exists("new")).toBe(true);
  });

  test("[RT3] turns above and below are left together, their leases are free, and both end elsewhere", async () => {
    const path = database();
    const at = gate();
    let isFirst = true;
    const dig = hostTool("dig", async () => {
      if (isFirst) await at.pass();
      return "dug";
    });
    const answers = {
      go: [callTool("spawn", { task: "dig" }), say("Done.")],
      dig: [callTool("dig", {}), say("Dug.")],
    };
    const options = { tools: [dig], plugins: [subagents()], answers, leaseMs: 600_000 };
    const first = await desk(path, { ...options, owner: "first" });
    const turn = first.session.turn("go", { key: "k" });
    await at.begun;
    await first.runtime.close({ graceMs: 1 });
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    isFirst = false;
    const next = await desk(path, { ...options, owner: "second" });
    const report = await next.session.turn("go", { key: "k" }).result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: { text: "Dug." } });
  });

  test("[RT3] a turn in memory is cancelled, and what its tool was refused is no failure of the tool", async () => {
    const at = gate();
    const { session, runtime } = await stage({
      tools: [
        hostTool("work", async (host, _args, { signal }) => {
          void at.pass();
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          return host.startTurn((await host.createSession({})).sessionId, "hi");
        }),
      ],
      script: [callTool("work", {}), say("Done.")],
    });
    const turn = session.turn("go");
    await at.begun;
    await runtime.close({ graceMs: 1 });
    const { outcome, toolCalls } = await turn.result;
    expect(outcome).toMatchObject({
      kind: "stopped",
      reason: "cancelled",
      message: "the runtime was closed",
    });
    for (const { output } of toolCalls) expect(output.outcome).not.toMatchObject({ code: "runtime_closed" });
  });
});

describe("turns that wait", () => {
  test("[QC3] a turn beside whose sleeping child a call is at work is not cut for it", async () => {
    const path = database();
    const at = gate();
    const { tool: ask, keys } = asking();
    const answers = {
      go: [
        callTools([
          ["spawn", { task: "wait" }],
          ["work", {}],
        ]),
        say("Done."),
      ],
      wait: [callTool("ask", {}), say("Waited.")],
    };
    const paying = hostTool(
      "work",
      async () => {
        await at.pass();
        return "ok";
      },
      { replay: "unsafe" },
    );
    const options = { tools: [paying, ask], plugins: [subagents()], answers };
    const first = await desk(path, options);
    const turn = first.session.turn("go", { key: "k" });
    await at.begun;
    await until(() => keys.length === 1);
    const closed = first.runtime.close({ graceMs: 300 });
    at.open();
    await closed;
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    const next = await desk(path, options);
    const again = next.session.turn("go", { key: "k" });
    await next.runtime.resolve(keys[0] ?? "", { ok: "yes" });
    const { toolCalls, text } = await again.result;
    expect(text).toBe("Done.");
    expect(toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["success", "success"]);
  });

  test("[QC3] a value that comes within the grace is taken, and the turns above and below end", async () => {
    const { tool: ask, keys } = asking();
    const answers = {
      go: [callTool("spawn", { task: "wait" }), say("Done.")],
      wait: [callTool("ask", {}), say("Waited.")],
    };
    const { runtime, session } = await desk(database(), { tools: [ask], plugins: [subagents()], answers });
    const turn = session.turn("go");
    await until(() => keys.length === 1);
    const [child] = (await runtime.sessions.list()).items.filter(({ id }) => id !== "s");
    await parked(await runtime.session(child?.id ?? ""));
    const closed = runtime.close(ENOUGH);
    expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
    await closed;
    expect((await turn.result).text).toBe("Done.");
  });

  test("[QC3] a session below that is closed while its turn sleeps is waited for again, not reported as a failure", async () => {
    const { tool: ask, keys } = asking();
    const answers = {
      go: [callTool("spawn", { task: "wait" }), say("Done.")],
      wait: [callTool("ask", {}), say("Waited.")],
    };
    const { runtime, session } = await desk(database(), { tools: [ask], plugins: [subagents()], answers });
    const turn = session.turn("go");
    await until(() => keys.length === 1);
    const [child] = (await runtime.sessions.list()).items.filter(({ id }) => id !== "s");
    const below = await runtime.session(child?.id ?? "");
    await parked(below);
    await below.close();
    await runtime.resolve(keys[0] ?? "", { ok: "yes" });
    const { text, toolCalls } = await turn.result;
    expect(text).toBe("Done.");
    expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: { text: "Waited." } });
  });

  test("[QC4] a tool that uses its own session while that is closed leaves its turn, and opening it again finishes it", async () => {
    const at = gate();
    let isFirst = true;
    const first = await desk(database(), {
      tools: [
        hostTool("work", async () => {
          if (!isFirst) return "ok";
          isFirst = false;
          await at.pass();
          await first.session.enqueue("more");
          return "wrong";
        }),
      ],
      answers: GO,
    });
    const turn = first.session.turn("go", { key: "k" });
    await at.begun;
    const closed = first.session.close();
    at.open();
    await closed;
    expect((await rejectionOf(turn.result)).code).toBe("session_closed");
    const again = await first.runtime.session("s");
    expect((await again.turn("go", { key: "k" }).result).text).toBe("Done.");
    expect(await transcript(again)).toEqual(TOLD);
  });

  test("[QC2] a pause before a retry is left to the store after the grace, and resumed", async () => {
    const path = database();
    let runs = 0;
    const flaky = hostTool("work", async () => {
      runs += 1;
      return runs === 1 ? toolFailure({ message: "not yet", retry: { safe: true } }) : "ok";
    });
    const manifest = { ...flaky.manifest, retry: { attempts: 2, delayMs: 300 } };
    const retried: ToolDefinition = { ...flaky, manifest };
    const first = await desk(path, { tools: [retried], answers: GO });
    const turn = first.session.turn("go", { key: "k" });
    await until(() => runs === 1);
    await first.runtime.close({ graceMs: 1 });
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    const { runtime } = worker(path, { tools: [retried], answers: GO });
    expect((await runtime.recover()).resumed).toHaveLength(1);
    expect(await transcript(await runtime.session("s"))).toEqual(TOLD);
    expect(runs).toBe(2);
  });

  test("[RT1] a tenant's turn does within the grace of the whole what it could before", async () => {
    const at = gate();
    const path = database();
    const { runtime } = worker(path, {
      tools: [
        hostTool("work", async (host) => {
          await at.pass();
          const { sessionId } = await host.createSession({});
          return (await host.startTurn(sessionId, "hi")).text;
        }),
      ],
      answers: GO,
    });
    const session = await runtime.scope("acme").session("s");
    const turn = session.turn("go");
    await at.begun;
    const closed = runtime.scope("acme").close(ENOUGH);
    at.open();
    await closed;
    expect((await turn.result).toolCalls[0]?.output.outcome).toMatchObject({ value: "Answer to hi." });
  });
});
