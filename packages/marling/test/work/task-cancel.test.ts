// Cancelling tasks: SPEC.md, WT7-WT11.

import { expect, test } from "vitest";
import { codeOf, heldWork, idsOf, openDesk, settle, spec, told, untilAborted } from "./task-support.ts";

test("[K114] [WT9] the callback of a registered task is called once, with its record, however often it is cancelled", async () => {
  const { tasks } = openDesk();
  const called: string[] = [];
  const cancel = ({ id, state }: { readonly id: string; readonly state: string }): void => {
    called.push(`${id} ${state}`);
  };
  await tasks.register("s", spec("t"), { cancel });
  const both = await Promise.all([tasks.cancel("s", "t", { reason: "enough" }), tasks.cancel("s", "t")]);
  await tasks.cancel("s", "t");
  await tasks.cancelManaged("s", "t");
  expect(called).toEqual(["t cancel_requested"]);
  expect(both.map(({ state, cancelReason }) => [state, cancelReason])).toEqual([
    ["cancelled", "enough"],
    ["cancelled", "enough"],
  ]);
});

test("[K114] [WT9] a callback that fails, or takes its time, is not called again", async () => {
  const { tasks } = openDesk();
  const called: string[] = [];
  await tasks.register("s", spec("failing"), {
    cancel: ({ id }) => {
      called.push(id);
      throw new Error("no answer");
    },
  });
  await tasks.register("s", spec("slow"), {
    cancel: async ({ id }) => {
      called.push(id);
      await settle();
    },
  });
  expect(await codeOf(tasks.cancel("s", "failing"))).toBe("task_cancel_failed");
  expect((await tasks.cancel("s", "failing")).state).toBe("cancelled");
  const slow = tasks.cancel("s", "slow");
  await Promise.resolve();
  await tasks.cancelManaged("s", "slow");
  expect((await slow).state).toBe("cancelled");
  expect(called).toEqual(["failing", "slow"]);
});

test("[WT7] cancels at one time stop the task once", async () => {
  const stopped: string[] = [];
  const { tasks } = openDesk({
    cancelMonitor: async (_, monitorId) => {
      stopped.push(monitorId);
      await settle();
    },
  });
  await tasks.register("s", spec("monitor:m", { kind: "monitor" }));
  await Promise.all([tasks.cancel("s", "monitor:m"), tasks.cancel("s", "monitor:m"), tasks.cancelAll("s")]);
  expect(stopped).toEqual(["m"]);
});

test("[K114] [WT9] the callback of a task that ended otherwise is never called", async () => {
  const { tasks } = openDesk();
  const called: string[] = [];
  const cancel = ({ id }: { readonly id: string }): void => {
    called.push(id);
  };
  await tasks.register("s", spec("done"), { cancel });
  await tasks.register("s", spec("forgotten"), { cancel });
  tasks.complete("s", "done", { state: "completed" });
  tasks.unregister("s", "forgotten");
  await tasks.cancel("s", "done");
  await tasks.cancelAll("s");
  await tasks.closeAll();
  expect(called).toEqual([]);
});

test("[K116] [WT7] cancelling an ended task returns it unchanged; an unknown one is refused", async () => {
  const { tasks, clock, events } = openDesk();
  await tasks.register("s", spec("t"));
  tasks.complete("s", "t", { state: "completed", result: 7 });
  const before = tasks.get("s", "t");
  clock.advance(10);
  expect(await tasks.cancel("s", "t")).toBe(before);
  expect(before?.state).toBe("completed");
  expect(told(events)).toEqual(["registered t", "completed t"]);
  await expect(tasks.cancel("s", "nope")).rejects.toThrow(
    "task nope: expected a task of session s, found none of this id",
  );
  expect(await codeOf(tasks.cancel("other", "t"))).toBe("unknown_task");
});

test("[K116] [WT8] a monitor is stopped through the monitors, a subagent through its sessions, others by signal", async () => {
  const stopped: string[] = [];
  const { tasks } = openDesk({
    cancelMonitor: async (sessionId, monitorId) => {
      stopped.push(`monitor ${sessionId} ${monitorId}`);
    },
    cancelSubagent: async (sessionId, task) => {
      stopped.push(`subagent ${sessionId} ${task.childSessionId}`);
    },
  });
  await tasks.spawnManaged("s", spec("monitor:build", { kind: "monitor" }), untilAborted);
  await tasks.register("s", spec("agent", { kind: "subagent", childSessionId: "s/agent" }));
  await tasks.register("s", spec("called", { kind: "subagent", childSessionId: "s/called" }), {
    cancel: ({ id }) => {
      stopped.push(`callback ${id}`);
    },
  });
  const watcher = heldWork();
  await tasks.spawnManaged(
    "s",
    spec("watcher", { kind: "observer", cancelPolicy: "abort_local" }),
    watcher.run,
  );
  for (const { id } of tasks.list("s")) expect((await tasks.cancel("s", id)).state).toBe("cancelled");
  expect(stopped).toEqual(["monitor s build", "subagent s s/agent", "callback called"]);
  expect(watcher.signals[0]?.aborted).toBe(true);
});

test("[K116] [WT8] stopping a monitor may itself cancel the managed task", async () => {
  const { tasks, events } = openDesk({
    cancelMonitor: (sessionId, monitorId) => tasks.cancelManaged(sessionId, `monitor:${monitorId}`),
  });
  await tasks.spawnManaged("s", spec("monitor:build", { kind: "monitor" }), untilAborted);
  expect((await tasks.cancel("s", "monitor:build")).state).toBe("cancelled");
  await settle();
  expect(told(events)).toEqual([
    "registered monitor:build",
    "cancel_requested monitor:build",
    "cancelled monitor:build",
  ]);
});

test("[WT8] a monitor that was transferred is stopped where it was registered", async () => {
  const stopped: string[] = [];
  const { tasks } = openDesk({
    cancelMonitor: (sessionId, monitorId) => {
      stopped.push(`${sessionId} ${monitorId}`);
    },
  });
  await tasks.register("s", spec("monitor:build", { kind: "monitor" }));
  tasks.transfer("s", "next", ["monitor:build"]);
  await tasks.cancel("next", "monitor:build");
  expect(stopped).toEqual(["s build"]);
});

test("[WT8] a task that cannot be stopped stays cancel_requested and can be cancelled again", async () => {
  const failures = [new Error("the process is stuck")];
  const { tasks, events } = openDesk({
    cancelMonitor: () => {
      const failure = failures.pop();
      if (failure !== undefined) throw failure;
    },
  });
  const work = heldWork();
  await tasks.spawnManaged(
    "s",
    spec("monitor:m", { kind: "monitor", cancelPolicy: "abort_local" }),
    work.run,
  );
  await expect(tasks.cancel("s", "monitor:m")).rejects.toThrow(
    "task monitor:m of session s: expected the monitor of builder to stop, found: the process is stuck",
  );
  expect(tasks.get("s", "monitor:m")?.state).toBe("cancel_requested");
  tasks.transition("s", "monitor:m", "running");
  expect(tasks.get("s", "monitor:m")?.state).toBe("cancel_requested");
  expect((await tasks.cancel("s", "monitor:m")).state).toBe("cancelled");
  expect(told(events)).toEqual(["registered monitor:m", "cancel_requested monitor:m", "cancelled monitor:m"]);
});

test("[WT10] a cooperative task is cancelled when its work has ended, whatever the work says", async () => {
  const { tasks, clock } = openDesk({ graceMs: 50 });
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  const cancelled = tasks.cancel("s", "t", { reason: "enough" });
  await settle();
  expect(work.signals[0]?.reason).toMatchObject({ name: "AbortError", message: "enough" });
  expect(tasks.get("s", "t")?.state).toBe("cancel_requested");
  work.end.resolve("finished all the same");
  const { state, result } = await cancelled;
  expect([state, result, clock.pending]).toEqual(["cancelled", undefined, 0]);
});

test("[WT10] work that ignores its signal is waited for within the grace time", async () => {
  const { tasks, clock } = openDesk({ graceMs: 50 });
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  const cancelled = tasks.cancel("s", "t");
  await settle();
  clock.advance(49);
  await settle();
  expect(tasks.get("s", "t")?.state).toBe("cancel_requested");
  clock.advance(1);
  expect((await cancelled).state).toBe("cancelled");
  work.end.reject(new Error("late"));
  await settle();
  expect(tasks.get("s", "t")?.state).toBe("cancelled");
});

test("[WT10] a local task is cancelled at once, an external one when its end is reported", async () => {
  const { tasks, clock } = openDesk();
  const local = heldWork();
  const remote = heldWork();
  await tasks.spawnManaged("s", spec("local", { cancelPolicy: "abort_local" }), local.run);
  await tasks.spawnManaged("s", spec("remote", { cancelPolicy: "external" }), remote.run);
  await tasks.register("s", spec("far", { cancelPolicy: "external" }));
  expect((await tasks.cancel("s", "local")).state).toBe("cancelled");
  expect((await tasks.cancel("s", "remote")).state).toBe("cancel_requested");
  expect((await tasks.cancel("s", "far")).state).toBe("cancel_requested");
  expect([local.signals[0]?.aborted, remote.signals[0]?.aborted, clock.pending]).toEqual([true, false, 0]);
  remote.end.resolve("done");
  tasks.complete("s", "far", { state: "completed", result: "was done before" });
  await settle();
  expect(tasks.list("s").map(({ id, state }) => [id, state])).toEqual([
    ["local", "cancelled"],
    ["remote", "cancelled"],
    ["far", "completed"],
  ]);
});

test("[K164] [WT3] to cancel a managed task signals, calls back and cancels at once; an unknown one is fine", async () => {
  const { tasks, events } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  await tasks.cancelManaged("s", "t");
  expect([tasks.get("s", "t")?.state, work.signals[0]?.aborted]).toEqual(["cancelled", true]);
  await tasks.cancelManaged("s", "unknown");
  await tasks.cancelManaged("nobody", "t");
  expect(told(events)).toEqual(["registered t", "cancelled t"]);
});

test("[WT3] a managed task whose callback fails is cancelled all the same, and the failure is told", async () => {
  const { tasks } = openDesk();
  await tasks.register("s", spec("t"), {
    cancel: () => {
      throw new Error("no answer");
    },
  });
  expect(await codeOf(tasks.cancelManaged("s", "t"))).toBe("task_cancel_failed");
  expect(tasks.get("s", "t")?.state).toBe("cancelled");
});

test("[K117] [WT11] to cancel all returns what it cancelled and leaves ended tasks out", async () => {
  const { tasks } = openDesk();
  for (const id of ["a", "b", "c"]) await tasks.register("s", spec(id));
  await tasks.register("other", spec("d"));
  tasks.complete("s", "b", { state: "completed" });
  tasks.transition("s", "c", "waiting");
  const cancelled = await tasks.cancelAll("s", { reason: "stop" });
  expect(cancelled.map(({ id, state, cancelReason }) => [id, state, cancelReason])).toEqual([
    ["a", "cancelled", "stop"],
    ["c", "cancelled", "stop"],
  ]);
  expect([tasks.get("s", "b")?.state, tasks.get("other", "d")?.state]).toEqual(["completed", "running"]);
  expect(await tasks.cancelAll("nobody")).toEqual([]);
});

test("[K165] [WT11] to cancel all goes one by one in list order; the first error ends it and undoes nothing", async () => {
  const { tasks } = openDesk();
  const order: string[] = [];
  const cancel = async ({ id }: { readonly id: string }): Promise<void> => {
    order.push(`${id} begins`);
    await settle();
    if (id === "b") throw new Error("b is stuck");
    order.push(`${id} ends`);
  };
  for (const id of ["a", "b", "c"]) await tasks.register("s", spec(id), { cancel });
  expect(await codeOf(tasks.cancelAll("s"))).toBe("task_cancel_failed");
  expect(order).toEqual(["a begins", "a ends", "b begins"]);
  expect(tasks.list("s").map(({ state }) => state)).toEqual(["cancelled", "cancel_requested", "running"]);
  expect(idsOf(tasks.list("s", { includeTerminal: false }))).toEqual(["b", "c"]);
});
