// Tasks of a session, running and registered: SPEC.md, WT1-WT6.

import { expect, test } from "vitest";
import type { TaskState } from "../../src/work/task.ts";
import { codeOf, heldWork, idsOf, openDesk, settle, spec, told } from "./task-support.ts";

test("[K113] [WT1] a managed task with the id of a live one is refused; an ended one is replaced", async () => {
  const { tasks, clock } = openDesk();
  const first = heldWork();
  const second = heldWork();
  await tasks.spawnManaged("s", spec("t"), first.run);
  await expect(tasks.spawnManaged("s", spec("t"), second.run)).rejects.toThrow(
    "task t of session s: expected an id that no live task of the session has, found one of builder that is running",
  );
  expect(await codeOf(tasks.register("s", spec("t")))).toBe("duplicate_task");
  expect(second.signals).toEqual([]);

  first.end.resolve("done");
  await settle();
  clock.advance(5);
  await tasks.spawnManaged("s", spec("t", { label: "again" }), second.run);
  expect(tasks.list("s")).toEqual([
    {
      id: "t",
      sessionId: "s",
      kind: "other",
      producer: "builder",
      label: "again",
      cancelPolicy: "cooperative",
      closePolicy: "cancel",
      state: "running",
      attempt: 1,
      createdAt: 1_005,
      updatedAt: 1_005,
    },
  ]);
});

test("[K113] [WT1] what an ended task's work still does leaves the task that replaced it alone", async () => {
  const { tasks } = openDesk();
  const first = heldWork();
  await tasks.spawnManaged("s", spec("t"), first.run);
  tasks.complete("s", "t", { state: "failed", failure: { code: "given_up", message: "too slow" } });
  await tasks.spawnManaged("s", spec("t"), heldWork().run);
  first.end.resolve("late");
  await settle();
  expect(tasks.get("s", "t")?.state).toBe("running");
});

test("[WT1] two sessions may have tasks of one id and see only their own", async () => {
  const { tasks } = openDesk();
  await tasks.register("s", spec("t", { label: "mine" }));
  await tasks.register("other", spec("t", { label: "theirs" }));
  expect(tasks.list("s").map(({ label }) => label)).toEqual(["mine"]);
  expect(tasks.listAll().map(({ label }) => label)).toEqual(["mine", "theirs"]);
});

test("[WT2] a managed task runs before the call returns and completes with what its work returns", async () => {
  const { tasks, clock } = openDesk();
  const work = heldWork();
  const spawned = tasks.spawnManaged("s", spec("t"), work.run);
  expect(work.signals).toHaveLength(1);
  await spawned;
  clock.advance(30);
  work.end.resolve({ files: 3 });
  await settle();
  const { state, result, createdAt, updatedAt, completedAt } = tasks.get("s", "t") ?? {};
  expect({ state, result, createdAt, updatedAt, completedAt }).toEqual({
    state: "completed",
    result: { files: 3 },
    createdAt: 1_000,
    updatedAt: 1_030,
    completedAt: 1_030,
  });
});

test("[WT2] work that throws, at once or later, or returns what is not JSON, fails its task", async () => {
  const { tasks } = openDesk();
  await tasks.spawnManaged("s", spec("at-once"), () => {
    throw new Error("no disk");
  });
  await tasks.spawnManaged("s", spec("later"), async () => {
    throw new Error("no net");
  });
  await tasks.spawnManaged("s", spec("odd"), () => Number.NaN);
  await tasks.spawnManaged("s", spec("silent"), () => undefined);
  await settle();
  expect(
    tasks.list("s").map(({ id, state, failure }) => [id, state, failure?.code, failure?.message]),
  ).toEqual([
    ["at-once", "failed", "task_failed", "no disk"],
    ["later", "failed", "task_failed", "no net"],
    ["odd", "failed", "invalid_json", "task odd: result: expected a finite number, found NaN"],
    ["silent", "completed", undefined, undefined],
  ]);
});

test("[WT2] progress shows in the record until the task has ended", async () => {
  const { tasks, events } = openDesk();
  const work = heldWork();
  const reporters: ((value: unknown) => void)[] = [];
  await tasks.spawnManaged("s", spec("t"), (context) => {
    reporters.push(context.progress);
    return work.run(context);
  });
  reporters[0]?.({ percent: 10 });
  expect(tasks.get("s", "t")?.progress).toEqual({ percent: 10 });
  tasks.progress("s", "t", { percent: 20 });
  expect(() => reporters[0]?.(() => 1)).toThrow("task t: progress: expected a JSON value");
  tasks.complete("s", "t", { state: "completed" });
  reporters[0]?.({ percent: 99 });
  expect(tasks.get("s", "t")?.progress).toEqual({ percent: 20 });
  expect(told(events)).toEqual(["registered t", "progress t", "progress t", "completed t"]);
});

test("[K115] [WT3] only a terminal state ends a task, and only a live task ends", async () => {
  const { tasks, events } = openDesk();
  await tasks.register("s", spec("t"));
  for (const state of ["pending", "running", "waiting", "cancel_requested"] satisfies TaskState[])
    tasks.complete("s", "t", { state });
  expect(tasks.get("s", "t")?.state).toBe("running");

  tasks.complete("s", "t", { state: "failed", failure: { code: "gone", message: "the host is gone" } });
  tasks.complete("s", "t", { state: "completed", result: "too late" });
  tasks.complete("s", "unknown", { state: "completed" });
  const { state, failure, result } = tasks.get("s", "t") ?? {};
  expect([state, failure, result]).toEqual([
    "failed",
    { code: "gone", message: "the host is gone" },
    undefined,
  ]);
  expect(told(events)).toEqual(["registered t", "failed t"]);
});

test("[K115] [WT3] a completed task keeps its result, and its work is not stopped", async () => {
  const { tasks } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  tasks.complete("s", "t", { state: "completed", result: [1] });
  expect(tasks.get("s", "t")?.result).toEqual([1]);
  expect(work.signals[0]?.aborted).toBe(false);
  work.end.reject(new Error("after the end"));
  await settle();
  expect(tasks.get("s", "t")?.state).toBe("completed");
});

test("[K115] [WT3] a live task flips between running and waiting; everything else is nothing", async () => {
  const { tasks, events } = openDesk();
  await tasks.register("s", spec("t"));
  tasks.transition("s", "t", "waiting");
  expect(tasks.get("s", "t")?.state).toBe("waiting");
  tasks.transition("s", "t", "waiting");
  tasks.transition("s", "t", "completed");
  tasks.transition("s", "t", "cancel_requested");
  tasks.transition("s", "t", "pending");
  tasks.transition("s", "unknown", "running");
  tasks.transition("s", "t", "running");
  tasks.complete("s", "t", { state: "completed" });
  tasks.transition("s", "t", "waiting");
  expect(tasks.get("s", "t")?.state).toBe("completed");
  expect(
    events.slice(1).map((event) => (event.kind === "state_changed" ? event.previous : event.kind)),
  ).toEqual(["running", "waiting", "completed"]);
});

test("[WT3] a task that was registered as pending begins when it is told to", async () => {
  const { tasks } = openDesk();
  await tasks.register("s", spec("t"), { state: "pending" });
  expect(tasks.get("s", "t")?.state).toBe("pending");
  tasks.transition("s", "t", "running");
  expect(tasks.get("s", "t")?.state).toBe("running");
});

test("[K164] [WT4] to unregister is silent, fine for an unknown task, and does not stop the work", async () => {
  const { tasks, events } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  tasks.unregister("s", "unknown");
  tasks.unregister("nobody", "t");
  tasks.unregister("s", "t");
  expect(tasks.list("s")).toEqual([]);
  expect(work.signals[0]?.aborted).toBe(false);
  work.end.resolve("done");
  await settle();
  expect(tasks.list("s")).toEqual([]);
  expect(told(events)).toEqual(["registered t"]);
});

test("[K164] [WT4] a task that is waited for and then unregistered is unknown", async () => {
  const { tasks } = openDesk();
  await tasks.register("s", spec("t"));
  const waited = codeOf(tasks.settled("s", "t"));
  tasks.unregister("s", "t");
  expect(await waited).toBe("unknown_task");
  expect(await codeOf(tasks.settled("s", "t"))).toBe("unknown_task");
});

test("[K164] [WT5] the list has ended tasks too, oldest first", async () => {
  const { tasks, clock } = openDesk();
  await tasks.register("s", spec("b"));
  await tasks.register("s", spec("a", { kind: "observer" }));
  clock.advance(1);
  await tasks.register("s", spec("c"));
  tasks.complete("s", "b", { state: "completed" });
  tasks.complete("s", "c", { state: "cancelled" });
  expect(tasks.list("s").map(({ id, state }) => [id, state])).toEqual([
    ["b", "completed"],
    ["a", "running"],
    ["c", "cancelled"],
  ]);
  expect(idsOf(tasks.list("s", { includeTerminal: false }))).toEqual(["a"]);
  expect(idsOf(tasks.list("s", { kind: "other" }))).toEqual(["b", "c"]);
  expect(tasks.list("nobody")).toEqual([]);
});

test("[WT5] of the ended tasks those that ended last are kept", async () => {
  const { tasks } = openDesk({ endedLimit: 2 });
  for (const id of ["old", "a", "b", "live"]) await tasks.register("s", spec(id));
  tasks.complete("s", "a", { state: "completed" });
  tasks.complete("s", "b", { state: "completed" });
  tasks.complete("s", "old", { state: "completed" });
  expect(idsOf(tasks.list("s"))).toEqual(["old", "b", "live"]);
});

test("[WT6] records are frozen and are the JSON they look like", async () => {
  const { tasks } = openDesk();
  const result = { lines: ["one"] };
  await tasks.register("s", spec("t", { childSessionId: "s/child", parentTaskId: "p", idempotencyKey: "k" }));
  tasks.complete("s", "t", { state: "completed", result });
  result.lines.push("two");
  const record = tasks.get("s", "t");
  expect(Object.isFrozen(record) && Object.isFrozen(record?.result)).toBe(true);
  expect(JSON.parse(JSON.stringify(record))).toEqual({
    id: "t",
    sessionId: "s",
    kind: "other",
    producer: "builder",
    childSessionId: "s/child",
    parentTaskId: "p",
    idempotencyKey: "k",
    cancelPolicy: "cooperative",
    closePolicy: "cancel",
    state: "completed",
    attempt: 1,
    result: { lines: ["one"] },
    createdAt: 1_000,
    updatedAt: 1_000,
    completedAt: 1_000,
  });
});

test.each([
  [{ id: " " }, 'task.id: expected a text, found " "'],
  [{ kind: "job" }, 'task.kind: expected one of monitor, subagent, observer, other, found "job"'],
  [{ producer: undefined }, "task.producer: expected a text, found nothing"],
  [{ cancelPolicy: "kill" }, "task.cancelPolicy: expected one of cooperative, abort_local, external"],
  [{ closePolicy: 1 }, "task.closePolicy: expected one of keep, cancel, transfer, found 1"],
  [{ maxAttempts: 0 }, "task.maxAttempts: expected a whole number from 1 on, found 0"],
  [{ durable: {} }, "task.durable.recovery: expected one of rerun, report, external, found nothing"],
  [{ durable: { recovery: "rerun", input: () => 1 } }, "task.durable.input: expected a JSON value"],
  [{ closepolicy: "keep" }, "task.closepolicy: expected no other member than id, kind, producer,"],
  [{ state: "completed" }, "task.state: expected no other member than id, kind, producer,"],
  [{ toString: 1 }, "task.toString: expected no other member than id, kind, producer,"],
  [
    { durable: { recovery: "rerun", inputs: 1 } },
    "task.durable.inputs: expected no other member than recovery,",
  ],
])("[WT6] a malformed task is refused by the name of the member: %j", async (more, message) => {
  const { tasks } = openDesk();
  // A caller without types can hand in anything.
  const malformed = { ...spec("t"), ...more } as unknown as ReturnType<typeof spec>;
  await expect(tasks.register("s", malformed)).rejects.toThrow(message);
  expect(await codeOf(tasks.spawnManaged("s", malformed, () => 1))).toBe("invalid_task");
  expect(tasks.listAll()).toEqual([]);
});
