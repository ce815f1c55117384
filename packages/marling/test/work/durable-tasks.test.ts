// Tasks that survive a restart: SPEC.md, WT22-WT26.

import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { JsonObject } from "../../src/model/json.ts";
import type { TaskContext, TaskRun, TaskSpec } from "../../src/work/task.ts";
import { codeOf, type Desk, heldWork, idsOf, openDesk, settle, spec, told } from "./task-support.ts";

const RERUN: Partial<TaskSpec> = { durable: { recovery: "rerun", input: { path: "/a" } } };
const REPORT: Partial<TaskSpec> = { durable: { recovery: "report" } };
const EXTERNAL: Partial<TaskSpec> = { durable: { recovery: "external" } };
const nobody = (): undefined => undefined;

/** What a crash leaves of a session, read back from text. */
function crash({ tasks }: Desk, sessionId = "s"): JsonObject {
  const component = tasks.exportDurable(sessionId);
  if (component === undefined) throw new Error("expected durable tasks, found none");
  return JSON.parse(JSON.stringify(component));
}

/** Work that writes down what it was given, and goes on. */
function recorder(): { readonly run: TaskRun; readonly contexts: TaskContext[] } {
  const contexts: TaskContext[] = [];
  const run: TaskRun = (context) => {
    contexts.push(context);
    return new Promise(() => undefined);
  };
  return { run, contexts };
}

test("[WT22] a durable task begins when its record is stored", async () => {
  const written = deferred<void>();
  const { tasks, events } = openDesk({ onDurableChange: () => written.promise });
  const work = heldWork();
  const spawned = tasks.spawnManaged("s", spec("t", RERUN), work.run);
  await settle();
  expect([work.signals.length, tasks.get("s", "t")?.state]).toEqual([0, "pending"]);
  tasks.transition("s", "t", "running");
  expect(tasks.get("s", "t")?.state).toBe("pending");
  written.resolve();
  expect((await spawned).state).toBe("running");
  expect(work.signals).toHaveLength(1);
  expect(told(events)).toEqual(["registered t", "state_changed t"]);
});

test("[WT22] a durable task that cannot be stored fails and is not run", async () => {
  const { tasks, faults } = openDesk({ onDurableChange: () => Promise.reject(new Error("disk full")) });
  const work = heldWork();
  await expect(tasks.spawnManaged("s", spec("t", RERUN), work.run)).rejects.toThrow("disk full");
  await expect(tasks.register("s", spec("r", EXTERNAL))).rejects.toThrow("disk full");
  await settle();
  expect(work.signals).toEqual([]);
  expect(tasks.list("s").map(({ id, state, failure }) => [id, state, failure?.message])).toEqual([
    ["t", "failed", "disk full"],
    ["r", "failed", "disk full"],
  ]);
  expect(faults.map(({ kind, task }) => [kind, task])).toEqual([
    ["record_not_stored", "t"],
    ["record_not_stored", "r"],
  ]);
});

test("[WT22] a durable task that is cancelled while it is stored is not run", async () => {
  const written = deferred<void>();
  const { tasks } = openDesk({ onDurableChange: () => written.promise });
  const work = heldWork();
  const spawned = tasks.spawnManaged("s", spec("t", RERUN), work.run);
  await tasks.cancel("s", "t");
  written.resolve();
  expect((await spawned).state).toBe("cancelled");
  expect(work.signals).toEqual([]);
});

test("[WT23] every change of a durable task is told to whoever stores it, and no other", async () => {
  const { tasks, stored } = openDesk();
  await tasks.register("s", spec("plain"));
  tasks.progress("s", "plain", 1);
  tasks.complete("s", "plain", { state: "completed" });
  expect(stored).toEqual([]);
  await tasks.register("s", spec("t", EXTERNAL));
  expect(stored.splice(0)).toEqual(["s"]);
  tasks.progress("s", "t", 1);
  tasks.transition("s", "t", "waiting");
  expect(stored.splice(0)).toEqual(["s", "s"]);
  tasks.transfer("s", "next", ["t"]);
  expect(stored.splice(0)).toEqual(["next", "s"]);
  await tasks.cancel("next", "t");
  expect(stored.splice(0)).toEqual(["next", "next"]);
  tasks.unregister("next", "t");
  expect(stored).toEqual(["next"]);
  expect([tasks.exportDurable("s"), tasks.exportDurable("next")]).toEqual([undefined, undefined]);
});

test("[WT23] record, input, progress and result are in what is stored, with its version", async () => {
  const { tasks, clock } = openDesk();
  await tasks.register("s", spec("plain"));
  await tasks.register("s", spec("t", { ...RERUN, label: "index", maxAttempts: 3 }));
  tasks.progress("s", "t", { done: 4 });
  clock.advance(2);
  tasks.complete("s", "t", { state: "completed", result: "ok" });
  expect(tasks.exportDurable("s")).toEqual({
    version: 1,
    tasks: [
      {
        id: "t",
        kind: "other",
        producer: "builder",
        label: "index",
        cancelPolicy: "cooperative",
        closePolicy: "keep",
        maxAttempts: 3,
        durable: { recovery: "rerun", input: { path: "/a" } },
        state: "completed",
        attempt: 1,
        progress: { done: 4 },
        result: "ok",
        createdAt: 1_000,
        updatedAt: 1_002,
        completedAt: 1_002,
      },
    ],
  });
});

test("[WT23] ended tasks come back as they were, and nothing of it is stored or told again", async () => {
  const before = openDesk();
  for (const id of ["a", "b"]) await before.tasks.register("s", spec(id, REPORT));
  before.tasks.complete("s", "a", { state: "completed", result: { n: 1 } });
  before.tasks.complete("s", "b", { state: "failed", failure: { code: "odd", message: "" } });
  const after = openDesk();
  const restored = after.tasks.restoreDurable("s", crash(before), nobody);
  expect(restored).toEqual(before.tasks.list("s"));
  expect(after.tasks.list("s")).toEqual(before.tasks.list("s"));
  expect([after.stored, after.events]).toEqual([[], []]);
});

test.each([
  [{ version: 2, tasks: [] }, "unsupported_version", "expected durable tasks of version 1, found 2"],
  [{ tasks: [] }, "unsupported_version", "found undefined"],
  [[], "invalid_snapshot", "session s: durable tasks: expected an object"],
  [{ version: 1 }, "invalid_snapshot", "durable tasks.tasks: expected a list"],
  [{ version: 1, tasks: [{ id: "t" }] }, "invalid_snapshot", "durable tasks.tasks[0].state: expected one of"],
])(
  "[WT23] what this version did not write is refused, and nothing is restored: %j",
  (component, code, message) => {
    const { tasks } = openDesk();
    const restore = (): unknown => tasks.restoreDurable("s", component, nobody);
    expect(restore).toThrow(expect.objectContaining({ code, message: expect.stringContaining(message) }));
    expect(tasks.list("s")).toEqual([]);
  },
);

test("[WT23] a stored task that is malformed, twice there or not durable is refused", async () => {
  const desk = openDesk();
  await desk.tasks.register("s", spec("t", REPORT));
  const [task] = crash(desk).tasks as readonly JsonObject[];
  const { durable, ...plain } = task as JsonObject;
  for (const tasks of [[{ ...task, attempt: 0 }], [{ ...task, createdAt: "now" }], [task, task], [plain]]) {
    const restore = (): unknown => openDesk().tasks.restoreDurable("s", { version: 1, tasks }, nobody);
    expect(restore).toThrow(expect.objectContaining({ code: "invalid_snapshot" }));
  }
  expect(durable).toEqual({ recovery: "report" });
});

test("[WT24] a task to be run again gets one attempt more, its input and its last progress, once that is stored", async () => {
  const before = openDesk();
  await before.tasks.spawnManaged("s", spec("t", RERUN), heldWork().run);
  before.tasks.progress("s", "t", { line: 12 });
  const component = crash(before);

  const written = deferred<void>();
  const after = openDesk({ onDurableChange: () => written.promise });
  after.clock.advance(500);
  const { run, contexts } = recorder();
  const [restored] = after.tasks.restoreDurable("s", component, ({ id }) => (id === "t" ? run : undefined));
  expect(restored).toMatchObject({ state: "pending", attempt: 2, createdAt: 1_000, updatedAt: 1_500 });
  await settle();
  expect(contexts).toEqual([]);
  written.resolve();
  await settle();
  expect(contexts.map(({ record }) => record)).toMatchObject([
    { attempt: 2, progress: { line: 12 }, durable: { input: { path: "/a" } }, state: "running" },
  ]);
  expect(crash(after)).toMatchObject({ tasks: [{ id: "t", attempt: 2, state: "running" }] });
});

test("[WT24] a task that ran again ends like any other", async () => {
  const before = openDesk();
  await before.tasks.spawnManaged("s", spec("t", RERUN), heldWork().run);
  const after = openDesk();
  after.tasks.restoreDurable("s", crash(before), () => async () => "second time");
  expect(await after.tasks.settled("s", "t")).toMatchObject({
    state: "completed",
    attempt: 2,
    result: "second time",
  });
  expect(told(after.events)).toEqual(["state_changed t", "state_changed t", "completed t"]);
});

test("[WT24] after the last attempt a task is not run again", async () => {
  const first = openDesk();
  await first.tasks.spawnManaged("s", spec("t", { ...RERUN, maxAttempts: 2 }), heldWork().run);
  const second = openDesk();
  second.tasks.restoreDurable("s", crash(first), () => heldWork().run);
  await settle();
  const third = openDesk();
  const { run, contexts } = recorder();
  const restored = third.tasks.restoreDurable("s", crash(second), () => run);
  await settle();
  expect(contexts).toEqual([]);
  expect(restored).toMatchObject([{ state: "failed", attempt: 2, failure: { code: "task_interrupted" } }]);
});

test("[WT24] a task to be reported is failed as interrupted", async () => {
  const before = openDesk();
  await before.tasks.spawnManaged("s", spec("t", REPORT), heldWork().run);
  const after = openDesk();
  after.clock.advance(7);
  after.tasks.restoreDurable("s", crash(before), () => {
    throw new Error("nobody is to be asked");
  });
  expect(after.tasks.get("s", "t")).toMatchObject({
    state: "failed",
    failure: {
      code: "task_interrupted",
      message: "task t of builder: the runtime ended during attempt 1",
    },
    completedAt: 1_007,
  });
  expect([told(after.events), after.stored]).toEqual([["failed t"], ["s"]]);
});

test("[WT24] an external task waits for whoever runs it, who can adopt it and report its end", async () => {
  const before = openDesk();
  await before.tasks.register("s", spec("t", EXTERNAL), { cancel: () => undefined });
  before.tasks.progress("s", "t", "sent");
  const after = openDesk();
  after.tasks.restoreDurable("s", crash(before), nobody);
  expect(after.tasks.get("s", "t")).toMatchObject({ state: "waiting", attempt: 1, progress: "sent" });
  const called: string[] = [];
  const cancel = ({ id }: { readonly id: string }): void => {
    called.push(id);
  };
  expect(after.tasks.adopt("s", "t", cancel)?.id).toBe("t");
  expect(after.tasks.adopt("s", "unknown", cancel)).toBeUndefined();
  after.tasks.transition("s", "t", "running");
  expect((await after.tasks.cancel("s", "t")).state).toBe("cancelled");
  expect(called).toEqual(["t"]);
});

test("[WT24] an external task that waits already comes back without a change", async () => {
  const before = openDesk();
  await before.tasks.register("s", spec("t", EXTERNAL));
  before.tasks.transition("s", "t", "waiting");
  const after = openDesk();
  expect(after.tasks.restoreDurable("s", crash(before), nobody)).toEqual(before.tasks.list("s"));
  expect(after.stored).toEqual([]);
});

test("[WT24] a task that nobody here can run waits, and runs when somebody can", async () => {
  const first = openDesk();
  await first.tasks.spawnManaged("s", spec("t", RERUN), heldWork().run);
  const second = openDesk();
  second.tasks.restoreDurable("s", crash(first), nobody);
  expect(second.tasks.get("s", "t")).toMatchObject({ state: "pending", attempt: 1 });
  second.tasks.transition("s", "t", "running");
  expect(second.tasks.get("s", "t")?.state).toBe("pending");
  const third = openDesk();
  const { run, contexts } = recorder();
  third.tasks.restoreDurable("s", crash(second), () => run);
  await settle();
  expect(contexts.map(({ record: { attempt } }) => attempt)).toEqual([2]);
});

test("[WT24] a cancel that was asked for before the restart holds", async () => {
  const before = openDesk();
  const stuck = { cancel: () => new Promise<void>(() => undefined) };
  await before.tasks.register("s", spec("again", RERUN), stuck);
  await before.tasks.register("s", spec("far", { ...EXTERNAL, cancelPolicy: "external" }));
  void before.tasks.cancel("s", "again", { reason: "enough" });
  await before.tasks.cancel("s", "far");
  const { run, contexts } = recorder();
  const after = openDesk();
  after.tasks.restoreDurable("s", crash(before), () => run);
  await settle();
  expect(contexts).toEqual([]);
  expect(after.tasks.list("s").map(({ id, state, cancelReason }) => [id, state, cancelReason])).toEqual([
    ["again", "cancelled", "enough"],
    ["far", "cancel_requested", undefined],
  ]);
});

test("[WT24] what recovery changed and cannot be stored is reported and not run", async () => {
  const before = openDesk();
  await before.tasks.spawnManaged("s", spec("t", RERUN), heldWork().run);
  await before.tasks.register("s", spec("r", REPORT));
  const after = openDesk({ onDurableChange: () => Promise.reject(new Error("disk full")) });
  const { run, contexts } = recorder();
  after.tasks.restoreDurable("s", crash(before), () => run);
  await settle();
  expect([contexts, after.tasks.get("s", "t")?.state]).toEqual([[], "pending"]);
  expect(after.faults.map(({ kind, task }) => [kind, task])).toEqual([
    ["record_not_stored", "t"],
    ["record_not_stored", "r"],
  ]);
});

test("[WT25] a closing runtime leaves durable tasks as a crash would", async () => {
  const desk = openDesk();
  const { tasks, stored, events } = desk;
  const called: string[] = [];
  const cancel = ({ id }: { readonly id: string }): void => {
    called.push(id);
  };
  await tasks.spawnManaged(
    "s",
    spec("t", RERUN),
    ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve("gave up"), { once: true })),
  );
  await tasks.register("s", spec("far", EXTERNAL), { cancel });
  const component = crash(desk);
  const [writes, news] = [stored.length, events.length];
  const waited = codeOf(tasks.settled("s", "t"));
  await tasks.closeAll();
  expect(await waited).toBe("runtime_closed");
  expect(called).toEqual([]);
  expect(crash(desk)).toEqual(component);
  expect([stored.length - writes, events.length - news]).toEqual([0, 0]);
});

test("[WT25] a session that is given away interrupts its durable tasks and keeps the others", async () => {
  const desk = openDesk({ graceMs: 30 });
  const { tasks, clock, stored, events } = desk;
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t", RERUN), work.run);
  await tasks.register("s", spec("plain"));
  const [writes, news] = [stored.length, events.length];
  const waited = codeOf(tasks.settled("s", "t"));
  const interrupted = tasks.interruptDurable("s");
  expect(work.signals[0]?.aborted).toBe(true);
  expect(await waited).toBe("session_closed");
  clock.advance(30);
  await interrupted;
  work.end.resolve("late");
  await settle();
  expect(idsOf(tasks.list("s"))).toEqual(["plain"]);
  expect([stored.length - writes, events.length - news]).toEqual([0, 0]);
});

test("[WT13] [WT25] by default a durable task outlives the closing of its session", async () => {
  const { tasks } = openDesk();
  await tasks.spawnManaged("s", spec("t", RERUN), heldWork().run);
  await tasks.closeSession("s");
  expect(tasks.get("s", "t")?.state).toBe("running");
});

test("[WT26] tasks that are listed already are not restored", async () => {
  const desk = openDesk();
  const work = heldWork();
  await desk.tasks.spawnManaged("s", spec("t", RERUN), work.run);
  const { run, contexts } = recorder();
  expect(desk.tasks.restoreDurable("s", crash(desk), () => run)).toEqual([]);
  await settle();
  expect([contexts, desk.tasks.get("s", "t")?.attempt]).toEqual([[], 1]);
});
