// Durable tasks through a runtime: they survive its end, are written when they moved, and go on in one place.
// Rules WK1 and WK3 of session-work.ts, WT22-WT26 of work/SPEC.md.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { BACKINGS, database, gate, gatedTool, live, mortal, unattended } from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { act, answering, codeOf, hostTool } from "./services-support.ts";
import { durable, eventually, jobs, simple, start, starting, states, taskOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

/** Counts commits. */
function counting(): { readonly around: CallStore; commits(): number } {
  let commits = 0;
  return {
    around: (method, call) => {
      if (method === "commit") commits += 1;
      return call();
    },
    commits: () => commits,
  };
}

describe("after a crash", () => {
  test("[WT24] a task that a tool started runs again, with its input, its last progress and one attempt more", async () => {
    const path = database();
    const [before, after] = [jobs(), jobs()];
    const stored = counting();
    const first = await mortal({
      store: sqliteStore({ path }),
      script: [callTool("begin"), say("started")],
      tools: [hostTool("begin", (host) => host.spawnManagedTask("s", durable("a")))],
      plugins: [before.plugin],
      around: stored.around,
    });
    expect((await first.session.turn("go").result).text).toBe("started");
    await eventually(() => before.attempts.length).toBe(1);
    const had = stored.commits();
    before.attempts[0]?.context.progress({ step: 1 });
    await eventually(() => stored.commits()).toBe(had + 1);
    await first.die();
    before.attempts[0]?.context.progress({ step: 2 });

    const { session } = await live({ store: sqliteStore({ path }), plugins: [after.plugin] });
    await eventually(() => after.attempts.length).toBe(1);
    expect(after.attempts[0]?.context.record).toMatchObject({
      id: "a",
      sessionId: "s",
      producer: "jobs",
      label: "job",
      attempt: 2,
      durable: { recovery: "rerun", input: { of: "a" } },
      progress: { step: 1 },
    });
    after.attempts[0]?.finish({ sum: 3 });
    await expect
      .poll(() => session.tasks.list())
      .toMatchObject([{ id: "a", state: "completed", attempt: 2, result: { sum: 3 } }]);
  });

  test("[WT24] what it came to is still there after the next restart, and nothing of it runs again", async () => {
    const path = database();
    const [before, after] = [jobs(), jobs()];
    const first = await mortal({ store: sqliteStore({ path }), plugins: starting(before) });
    await start(first.session, durable("a"));
    before.attempts[0]?.finish("all of it");
    await eventually(() => taskOf(first.session, "a")?.state).toBe("completed");
    await first.session.turn("a commit that has it").result;
    await first.die();
    const { session } = await live({ store: sqliteStore({ path }), plugins: starting(after) });
    expect(session.tasks.list()).toMatchObject([
      { id: "a", state: "completed", attempt: 1, result: "all of it" },
    ]);
    expect(after.attempts).toEqual([]);
  });

  test("[WT24] `report` is failed as interrupted, `external` waits, and can be completed then", async () => {
    const path = database();
    const [before, after] = [jobs(), jobs()];
    const first = await mortal({ store: sqliteStore({ path }), plugins: starting(before) });
    await start(first.session, durable("told", "report"));
    await act(first.session, "register", durable("elsewhere", "external") as never);
    await start(first.session, durable("limited", "rerun", { maxAttempts: 1 }));
    await first.die();
    const second = await mortal({ store: sqliteStore({ path }), plugins: starting(after) });
    expect(second.session.tasks.list()).toMatchObject([
      { id: "told", state: "failed", failure: { code: "task_interrupted" } },
      { id: "elsewhere", state: "waiting" },
      { id: "limited", state: "failed", failure: { code: "task_interrupted" } },
    ]);
    expect(after.attempts).toEqual([]);
    await second.session.turn("a commit that has it").result;
    await second.die();
    const { session } = await live({ store: sqliteStore({ path }), plugins: starting(jobs()) });
    expect(states(session.tasks.list())).toEqual(["told failed", "elsewhere waiting", "limited failed"]);
  });

  test("[WT24] a task whose plugin is gone waits for a runtime that has it", async () => {
    const path = database();
    const [before, after] = [jobs(), jobs()];
    const first = await mortal({ store: sqliteStore({ path }), plugins: starting(before) });
    await start(first.session, durable("a"));
    await first.die();
    const second = unattended({ store: sqliteStore({ path }) });
    await expect(second.runtime.session("s")).rejects.toMatchObject({ code: "needs_binding" });
    expect(await second.runtime.recover()).toMatchObject({
      resumedWork: [],
      skipped: [{ sessionId: "s", code: "needs_binding" }],
    });
    await second.runtime.close();
    const { session } = await live({ store: sqliteStore({ path }), plugins: starting(after) });
    await eventually(() => states(session.tasks.list())).toEqual(["a running"]);
    expect(after.attempts[0]?.context.record.attempt).toBe(2);
  });

  test("[K113] a tool that runs again finds the durable task that it started", async () => {
    const path = database();
    const [before, after, at] = [jobs(), jobs(), gate()];
    let runs = 0;
    const options = {
      script: answering({ go: [callTool("begin"), say("started")] }),
      tools: [
        hostTool("begin", async (host) => {
          await host.spawnManagedTask("s", durable("a"));
          runs += 1;
          if (runs === 1) await at.pass();
          return "begun";
        }),
      ],
    };
    const first = await mortal({ ...options, store: sqliteStore({ path }), plugins: [before.plugin] });
    first.session.turn("go");
    await at.begun;
    await first.die();
    const { session, runtime } = await live({
      ...options,
      store: sqliteStore({ path }),
      plugins: [after.plugin],
    });
    await runtime.recover();
    expect(runs).toBe(2);
    expect(transcript(session).slice(-2)).toEqual(["tool: result begun", "assistant: started"]);
    expect(after.attempts).toHaveLength(1);
    expect(session.tasks.list()).toMatchObject([{ id: "a", state: "running", attempt: 2 }]);
  });

  test("[WT13] a task that moved to the parent runs again there, and only there", async () => {
    const path = database();
    const [before, after] = [jobs(), jobs()];
    const first = await mortal({ store: sqliteStore({ path }), plugins: starting(before) });
    await act(first.session, "child");
    await act(first.session, "childTask", durable("a", "rerun", { closePolicy: "transfer" }) as never);
    await act(first.session, "closeChild");
    await first.session.turn("a commit that has it").result;
    await first.die();
    const { session, runtime } = await live({ store: sqliteStore({ path }), plugins: starting(after) });
    const child = await runtime.session("child");
    await eventually(() => states(session.tasks.list())).toEqual(["a running"]);
    expect(child.tasks.list()).toEqual([]);
    expect(after.attempts.map(({ context: { record } }) => [record.sessionId, record.attempt])).toEqual([
      ["s", 2],
    ]);
  });

  test("[OS2] a session that is open for its turns only stays open until its tasks are done", async () => {
    const path = database();
    const [before, after, at] = [jobs(), jobs(), gate()];
    const options = {
      script: answering({ go: [callTool("wait"), say("done")] }),
      tools: [gatedTool("wait", at)],
    };
    const first = await mortal({ ...options, store: sqliteStore({ path }), plugins: starting(before) });
    await start(first.session, durable("a"));
    first.session.turn("go");
    await at.begun;
    await first.die();
    at.open();
    const { runtime } = unattended({ ...options, store: sqliteStore({ path }), plugins: starting(after) });
    await runtime.recover();
    await eventually(() => after.attempts.length).toBe(1);
    expect(after.attempts[0]?.context.signal.aborted).toBe(false);
    after.attempts[0]?.finish("done by itself");
    await expect
      .poll(async () => taskOf(await runtime.session("s"), "a"))
      .toMatchObject({
        state: "completed",
        attempt: 2,
        result: "done by itself",
      });
  });
});

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[WT25] closing a session interrupts its durable tasks, and opening it again runs them again", async () => {
    const background = jobs();
    const { runtime, session } = await live({ store: open()(), plugins: starting(background) });
    await start(session, durable("a"));
    await start(session, simple("plain", { producer: "jobs", label: "job" }));
    background.attempts[0]?.context.progress("half");
    await session.close();
    expect(background.attempts.map(({ context }) => context.signal.aborted)).toEqual([true, true]);
    const again = await runtime.session("s");
    await eventually(() => states(again.tasks.list())).toEqual(["a running"]);
    expect(background.attempts[2]?.context.record).toMatchObject({ attempt: 2, progress: "half" });
  });

  test("[WK1] nothing of it is forked, however the fork is made and opened", async () => {
    const background = jobs();
    const { runtime, session } = await live({
      store: open()(),
      plugins: [
        ...starting(background),
        plugin("forking", {
          operations: {
            actions: {
              fork: {
                session: "required",
                handler: async (ctx) => {
                  await ctx.host.createSession({ sessionId: "copy", start: { kind: "current_session" } });
                },
              },
            },
          },
        }),
      ],
    });
    await start(session, durable("a"));
    const fork = await runtime.sessions.fork("s", { as: "fork" });
    await act(session, "fork");
    const copy = await runtime.session("copy");
    expect([fork.tasks.list(), copy.tasks.list()]).toEqual([[], []]);
    await fork.close();
    await copy.close();
    expect((await runtime.session("fork")).tasks.list()).toEqual([]);
    expect((await runtime.session("copy")).tasks.list()).toEqual([]);
    expect(states(session.tasks.list())).toEqual(["a running"]);
    expect(background.attempts).toHaveLength(1);
  });

  test("[WK1] changes that come together are one commit, and what does not move is not written", async () => {
    const background = jobs();
    const { around, commits } = counting();
    const { session } = await live({ store: open()(), around, plugins: starting(background) });
    await start(session, durable("a"));
    await start(session, durable("b"));
    await eventually(() => states(session.tasks.list())).toEqual(["a running", "b running"]);
    const first = await settledCount(commits);
    for (let step = 1; step <= 100; step += 1)
      for (const { context } of background.attempts) context.progress({ step });
    expect(await settledCount(commits)).toBe(first + 1);
    session.tasks.list();
    await session.monitors.snapshot();
    await act(session, "start", simple("plain", { producer: "jobs", label: "job" }) as never);
    expect(await settledCount(commits)).toBe(first + 1);
    // While one commit is under way everything else waits for the next one.
    for (let step = 1; step <= 50; step += 1) {
      background.attempts[0]?.context.progress({ step });
      await Promise.resolve();
    }
    expect(await settledCount(commits)).toBeLessThan(first + 26);
  });

  test("[WK1] a turn that runs meanwhile commits, and its commit has what moved", async () => {
    const background = jobs();
    const at = gate();
    const { runtime, session } = await live({
      store: open()(),
      script: [callTool("wait"), say("done")],
      tools: [gatedTool("wait", at)],
      plugins: starting(background),
    });
    await start(session, durable("a"));
    const turn = session.turn("go");
    await at.begun;
    background.attempts[0]?.context.progress("during the turn");
    at.open();
    for (let step = 0; step < 20; step += 1) {
      background.attempts[0]?.context.progress({ step });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await turn.result).outcome).toEqual({ kind: "finished", by: "message", text: "done" });
    background.attempts[0]?.finish("fine");
    await eventually(() => taskOf(session, "a")?.state).toBe("completed");
    await session.close();
    const again = await runtime.session("s");
    expect(again.tasks.list()).toMatchObject([{ id: "a", result: "fine", progress: { step: 19 } }]);
    expect(transcript(again)).toEqual([
      "user: go",
      "assistant: call wait",
      "tool: result wait done",
      "assistant: done",
    ]);
  });

  test("[WT13] a durable task moves to the parent when the child closes, and its work goes on", async () => {
    const background = jobs();
    const { runtime, session } = await live({ store: open()(), plugins: starting(background) });
    await act(session, "child");
    await act(session, "childTask", durable("a", "rerun", { closePolicy: "transfer" }) as never);
    await act(session, "closeChild");
    expect(states(session.tasks.list())).toEqual(["a running"]);
    expect(background.attempts[0]?.context.signal.aborted).toBe(false);
    background.attempts[0]?.finish("done");
    await eventually(() => taskOf(session, "a")).toMatchObject({ sessionId: "s", result: "done" });
    expect((await runtime.session("child")).tasks.list()).toEqual([]);
  });

  test("[WT22] what a restart could not run again is refused, and so is a task without work", async () => {
    const background = jobs();
    const { session } = await live({
      store: open()(),
      plugins: [
        ...starting(background),
        plugin("more", {
          operations: {
            actions: {
              given: {
                session: "required",
                handler: (ctx) =>
                  codeOf(
                    ctx.host.spawnManagedTask("s", durable("x", "rerun", { label: "other" }), () => 1),
                  ) as never,
              },
            },
          },
        }),
      ],
    });
    expect(await act(session, "given")).toBe("invalid_task");
    expect(await codeOf(start(session, simple("none")))).toContain("expected work to run");
    expect(session.tasks.list()).toEqual([]);
  });
});

/** How many there are when no more come for a while. */
async function settledCount(count: () => number): Promise<number> {
  for (let before = -1; ; ) {
    if (before === count()) return before;
    before = count();
    for (let turns = 0; turns < 20; turns += 1) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
