// Tasks as tools and hooks ask for them: kernel.md 10.6-10.8, rows 112-118, 164 and 165.

import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { HostServices } from "../../src/plugin/host-services.ts";
import type { TaskRecord } from "../../src/work/task.ts";
import { BACKINGS, gate, gatedStep, live, never } from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { act, acting, codeOf, hostTool } from "./services-support.ts";
import { eventually, jobs, simple, states, taskOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

/** What a tool of a turn comes to. */
async function inTool(act: (host: HostServices) => Promise<unknown>, store = BACKINGS[0]?.open()()) {
  let came: unknown;
  const { session, runtime, model } = await live({
    store: store as never,
    script: [callTool("act"), say("done")],
    tools: [
      hostTool("act", async (host) => {
        came = await act(host);
        return "done";
      }),
    ],
  });
  const { outcome } = await session.turn("go").result;
  expect(outcome).toEqual({ kind: "finished", by: "message", text: "done" });
  return { came, session, runtime, model };
}

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[K112] waiting for hidden tasks includes those that they start", async () => {
    const log: string[] = [];
    await inTool(async (host) => {
      const second = gate();
      await host.spawnHiddenTask("s", "first", async () => {
        log.push("first");
        await host.spawnHiddenTask("s", "second", async () => {
          await second.pass();
          log.push("second");
        });
        second.open();
      });
      await host.awaitHiddenTasks("s");
      log.push("waited");
    }, open()());
    expect(log).toEqual(["first", "second", "waited"]);
  });

  test("[K112] the first failure of a hidden task is thrown to whoever waits; nothing of them is listed", async () => {
    const { came, session } = await inTool(async (host) => {
      await host.spawnHiddenTask("s", "bad", () => Promise.reject(new Error("no luck")));
      const thrown = await codeOf(host.awaitHiddenTasks("s"));
      return [thrown, await codeOf(host.awaitHiddenTasks("s")), await host.listBackgroundTasks("s")];
    }, open()());
    expect(came).toEqual(["task_failed", undefined, []]);
    expect(session.tasks.list()).toEqual([]);
  });

  test("[K113] a second live task of an id is refused, and an ended one gives way", async () => {
    const end = deferred<string>();
    const { session } = await inTool(async (host) => {
      await host.spawnManagedTask("s", simple("a"), () => end.promise);
      expect(await codeOf(host.spawnManagedTask("s", simple("a"), () => 1))).toBe("duplicate_task");
      expect(await codeOf(host.registerBackgroundTask("s", simple("a")))).toBe("duplicate_task");
      end.resolve("first");
      await eventually(async () => states(await host.listBackgroundTasks("s"))).toEqual(["a completed"]);
      await host.spawnManagedTask("s", simple("a"), () => "second");
    }, open()());
    await eventually(() => session.tasks.list()).toMatchObject([{ id: "a", result: "second", attempt: 1 }]);
  });

  test("[K113] a task goes on when its turn has ended, and says what it threw", async () => {
    const end = deferred<never>();
    const { session } = await inTool(
      (host) => host.spawnManagedTask("s", simple("a"), () => end.promise),
      open()(),
    );
    expect(states(session.tasks.list())).toEqual(["a running"]);
    end.reject(new Error("no luck"));
    await expect
      .poll(() => taskOf(session, "a"))
      .toMatchObject({
        state: "failed",
        failure: { code: "task_failed", message: "no luck" },
      });
  });

  test("[K114] the callback of a registered task is called once, whoever cancels and how often", async () => {
    const calls: TaskRecord[] = [];
    const { session } = await inTool(async (host) => {
      await host.registerBackgroundTask("s", simple("a"), (task) => void calls.push(task));
      await Promise.all([host.cancelBackgroundTask("s", "a"), host.cancelBackgroundTask("s", "a")]);
      await host.cancelManagedTask("s", "a");
      expect(await host.cancelBackgroundTask("s", "a")).toMatchObject({ id: "a", state: "cancelled" });
    }, open()());
    expect(states(calls)).toEqual(["a cancel_requested"]);
    expect(states(session.tasks.list())).toEqual(["a cancelled"]);
  });

  test("[K115] only a live task ends, only with an ended state; it flips between running and waiting", async () => {
    const { came } = await inTool(async (host) => {
      const seen: unknown[] = [];
      const look = async (): Promise<void> => void seen.push(...states(await host.listBackgroundTasks("s")));
      await host.registerBackgroundTask("s", simple("a"));
      await host.completeBackgroundTask("s", "a", "waiting");
      await look();
      await host.transitionBackgroundTaskLiveState("s", "a", "waiting");
      await look();
      await host.transitionBackgroundTaskLiveState("s", "a", "completed");
      await look();
      await host.transitionBackgroundTaskLiveState("s", "a", "running");
      await look();
      await host.completeBackgroundTask("s", "a", { state: "completed", result: 7 });
      await host.completeBackgroundTask("s", "a", "failed");
      await host.transitionBackgroundTaskLiveState("s", "a", "running");
      await host.completeBackgroundTask("s", "nobody", "failed");
      const [task] = await host.listBackgroundTasks("s");
      return [...seen, task?.state, task?.result];
    }, open()());
    expect(came).toEqual(["a running", "a waiting", "a waiting", "a running", "completed", 7]);
  });

  test("[K116] to cancel a subagent cancels the turns of its session; others are signalled", async () => {
    const at = gate();
    const signals: boolean[] = [];
    const { session, runtime } = await live({
      store: open()(),
      script: [gatedStep(at, say("too late"))],
      plugins: [
        acting({
          start: async (host) => {
            const { sessionId } = await host.createSession({ sessionId: "child" });
            const { turnId } = await host.startTurnStream(sessionId, "work");
            await host.registerBackgroundTask(
              "s",
              simple("agent", { kind: "subagent", childSessionId: "child" }),
            );
            await host.spawnManagedTask("s", simple("plain"), ({ signal }) => {
              signal.addEventListener("abort", () => void signals.push(true), { once: true });
              return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
            });
            return turnId;
          },
          cancel: async (host, id) => states([await host.cancelBackgroundTask("s", id as string)]),
        }),
      ],
    });
    const turnId = await act(session, "start");
    await at.begun;
    expect(await act(session, "cancel", "agent")).toEqual(["agent cancelled"]);
    const child = await runtime.session("child");
    await eventually(() => child.cancel(turnId as string)).toBe("completed");
    expect(transcript(child)).toEqual(["user: work"]);
    expect(signals).toEqual([]);
    expect(await act(session, "cancel", "plain")).toEqual(["plain cancelled"]);
    expect(signals).toEqual([true]);
    at.open();
  });

  test("[K117] to cancel all leaves out what has ended, and says what it cancelled, oldest first", async () => {
    const { came } = await inTool(async (host) => {
      await host.registerBackgroundTask("s", simple("over"));
      await host.completeBackgroundTask("s", "over", "completed");
      for (const id of ["a", "b"]) await host.registerBackgroundTask("s", simple(id));
      return [states(await host.cancelAllBackgroundTasks("s")), states(await host.listBackgroundTasks("s"))];
    }, open()());
    expect(came).toEqual([
      ["a cancelled", "b cancelled"],
      ["over completed", "a cancelled", "b cancelled"],
    ]);
  });

  test("[K118] handles are checked, moved to a child and cancelled when nobody keeps them", async () => {
    const { came } = await inTool(async (host) => {
      await host.createSession({ sessionId: "child" });
      for (const id of ["a", "b", "c"]) await host.registerBackgroundTask("s", simple(id));
      await host.registerBackgroundTask("child", simple("b"));
      await host.validateAsyncHandlesVisible("s", ["a", "b"]);
      return {
        missing: await codeOf(host.validateAsyncHandlesVisible("s", ["a", "x"])),
        conflict: await codeOf(host.transferAsyncHandles("s", "child", ["a", "b"])),
        moved: await codeOf(host.transferAsyncHandles("s", "child", ["a", "x"])),
        invisible: await codeOf(host.validateAsyncHandlesVisible("s", ["a"])),
        there: [...states(await host.listBackgroundTasks("child"))].sort(),
        cancelled: states(await host.cancelUnreferencedAsyncHandles("s", ["c"])),
        here: states(await host.listBackgroundTasks("s")),
      };
    }, open()());
    expect(came).toEqual({
      missing: "unknown_task",
      conflict: "duplicate_task",
      moved: undefined,
      invisible: "unknown_task",
      there: ["a running", "b running"],
      cancelled: ["b cancelled"],
      here: ["b cancelled", "c running"],
    });
  });

  test("[K164] to unregister is silent and stops nothing; unknown tasks can be cancelled and unregistered", async () => {
    const end = deferred<void>();
    let isAborted = false;
    let isDone = false;
    const { came } = await inTool(async (host) => {
      await host.spawnManagedTask("s", simple("a"), async ({ signal }) => {
        await end.promise;
        isAborted = signal.aborted;
        isDone = true;
      });
      await host.unregisterBackgroundTask("s", "a");
      await host.unregisterBackgroundTask("s", "a");
      await host.cancelManagedTask("s", "nobody");
      return [await host.listBackgroundTasks("s"), await codeOf(host.cancelBackgroundTask("s", "nobody"))];
    }, open()());
    expect(came).toEqual([[], "unknown_task"]);
    end.resolve();
    await eventually(() => isDone).toBe(true);
    expect(isAborted).toBe(false);
  });

  test("[K165] to cancel all goes on in order to the first that fails, and those before stay cancelled", async () => {
    const { came } = await inTool(async (host) => {
      const order: string[] = [];
      const cancel = (task: TaskRecord): void => {
        order.push(task.id);
        if (task.id === "b") throw new Error("not this one");
      };
      for (const id of ["a", "b", "c"]) await host.registerBackgroundTask("s", simple(id), cancel);
      return [
        await codeOf(host.cancelAllBackgroundTasks("s")),
        order,
        states(await host.listBackgroundTasks("s")),
      ];
    }, open()());
    expect(came).toEqual([
      "task_cancel_failed",
      ["a", "b"],
      ["a cancelled", "b cancel_requested", "c running"],
    ]);
  });

  test("[WT13] closing a session cancels its tasks, except those that are kept and those that move to its parent", async () => {
    const { plugin: background, run, attempts } = jobs();
    const { session, runtime } = await live({
      store: open()(),
      plugins: [
        background,
        acting({
          start: async (host) => {
            await host.createSession({ sessionId: "child" });
            await host.spawnManagedTask("child", simple("cancelled"), run);
            await host.spawnManagedTask("child", simple("kept", { closePolicy: "keep" }), run);
            await host.spawnManagedTask("child", simple("moved", { closePolicy: "transfer" }), run);
          },
          close: (host) => host.closeSession("child"),
        }),
      ],
    });
    await act(session, "start");
    const events: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const { kind, task } of session.tasks.watch({ signal: stop.signal }))
        events.push(`${task.id} ${kind}`);
    })();
    await act(session, "close");
    expect(states(session.tasks.list())).toEqual(["moved running"]);
    expect(attempts.map(({ context }) => context.signal.aborted)).toEqual([true, false, false]);
    attempts[2]?.finish("done");
    await eventually(() => taskOf(session, "moved")).toMatchObject({ state: "completed", result: "done" });
    stop.abort();
    await watching;
    expect(events).toEqual(["moved transferred", "moved completed"]);
    await runtime.close();
    expect(attempts[1]?.context.signal.aborted).toBe(true);
  });

  test("[WT14] closing the runtime asks all work to end, hidden work too, and waits for it", async () => {
    const ended: string[] = [];
    const { runtime } = await inTool(async (host) => {
      const work =
        (name: string) =>
        ({ signal }: { readonly signal: AbortSignal }) =>
          new Promise<void>((resolve) =>
            signal.addEventListener(
              "abort",
              () => {
                ended.push(name);
                resolve();
              },
              { once: true },
            ),
          );
      await host.spawnManagedTask("s", simple("a"), work("managed"));
      await host.spawnHiddenTask("s", "b", work("hidden"));
      await host.spawnManagedTask("s", simple("deaf"), never);
    }, open()());
    await runtime.close();
    expect(ended.sort()).toEqual(["hidden", "managed"]);
  });

  test("[K112] hooks that have the tasks in their view reach them, and those that have not do not", async () => {
    const seen: Record<string, unknown> = {};
    const { session } = await live({
      store: open()(),
      script: [say("done")],
      plugins: [
        plugin("p", {
          prompt: async ({ host }) => {
            seen.prompt = typeof host.spawnHiddenTask;
            await host.awaitHiddenTasks("s");
          },
          turn: {
            before: ({ host }) => {
              seen.turn = "spawnManagedTask" in host;
            },
          },
          context: {
            prepareTurn: {
              transform: async ({ host }) => {
                await host.spawnManagedTask("s", simple("a"), () => "made by a transform");
              },
            },
          },
        }),
      ],
    });
    await session.turn("go").result;
    expect(seen).toEqual({ prompt: "function", turn: false });
    await eventually(() => taskOf(session, "a")).toMatchObject({ result: "made by a transform" });
  });
});

describe("session.tasks", () => {
  test("lists by kind, cancels with a reason, cancels all, and tells what happens", async () => {
    const { session } = await live({
      store: BACKINGS[1]?.open()() as never,
      plugins: [
        acting({
          start: async (host) => {
            await host.registerBackgroundTask("s", simple("a", { kind: "observer" }));
            await host.registerBackgroundTask("s", simple("b"));
            await host.registerBackgroundTask("s", simple("c"));
          },
        }),
      ],
    });
    const events: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const event of session.tasks.watch({ signal: stop.signal }))
        events.push(`${event.task.id} ${event.kind}`);
    })();
    await act(session, "start");
    expect(states(session.tasks.list({ kind: "observer" }))).toEqual(["a running"]);
    expect(await session.tasks.cancel("a", "no need")).toMatchObject({
      state: "cancelled",
      cancelReason: "no need",
    });
    expect(states(await session.tasks.cancelAll())).toEqual(["b cancelled", "c cancelled"]);
    expect(session.tasks.list({ includeTerminal: false })).toEqual([]);
    expect(await codeOf(session.tasks.cancel("x"))).toBe("unknown_task");
    stop.abort();
    await watching;
    expect(events).toEqual([
      "a registered",
      "b registered",
      "c registered",
      "a cancel_requested",
      "a cancelled",
      "b cancel_requested",
      "b cancelled",
      "c cancel_requested",
      "c cancelled",
    ]);
  });
});
