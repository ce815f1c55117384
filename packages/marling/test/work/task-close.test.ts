// Tasks that change their session, and sessions and runtimes that close: SPEC.md, WT12-WT14.

import { expect, test } from "vitest";
import { codeOf, heldWork, idsOf, openDesk, settle, spec, told, untilAborted } from "./task-support.ts";

test("[WT12] a transfer moves tasks as they are, and their work goes on", async () => {
  const { tasks, clock, events } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  await tasks.register("next", spec("own"));
  tasks.transition("s", "t", "waiting");
  clock.advance(3);
  expect(tasks.transfer("s", "next", ["t", "unknown", "t"]).map(({ id, state }) => [id, state])).toEqual([
    ["t", "waiting"],
  ]);
  expect([idsOf(tasks.list("s")), idsOf(tasks.list("next"))]).toEqual([[], ["own", "t"]]);
  expect(events.at(-1)).toMatchObject({
    kind: "transferred",
    task: { id: "t", sessionId: "next", createdAt: 1_000, updatedAt: 1_003 },
    fromSessionId: "s",
    toSessionId: "next",
  });
  work.end.resolve("done");
  await settle();
  expect(tasks.get("next", "t")).toMatchObject({ state: "completed", result: "done", sessionId: "next" });
});

test("[WT12] a transfer to the same session, or of nothing, is nothing", async () => {
  const { tasks, events } = openDesk();
  await tasks.register("s", spec("t"));
  expect([tasks.transfer("s", "s", ["t"]), tasks.transfer("s", "next", [])]).toEqual([[], []]);
  expect(told(events)).toEqual(["registered t"]);
});

test("[WT12] a live task of one of the ids refuses a transfer before anything is moved; an ended one gives way", async () => {
  const { tasks } = openDesk();
  for (const id of ["a", "b"]) await tasks.register("s", spec(id));
  await tasks.register("next", spec("b"));
  expect(() => tasks.transfer("s", "next", ["a", "b"])).toThrow("task b of session next");
  expect([idsOf(tasks.list("s")), idsOf(tasks.list("next"))]).toEqual([["a", "b"], ["b"]]);
  tasks.complete("next", "b", { state: "completed" });
  tasks.transfer("s", "next", ["a", "b"]);
  expect(tasks.list("next").map(({ id, state }) => [id, state])).toEqual([
    ["a", "running"],
    ["b", "running"],
  ]);
});

test("[WT13] a closing session keeps, cancels and transfers its tasks as each says", async () => {
  const { tasks } = openDesk();
  const kept = heldWork();
  await tasks.spawnManaged("s", spec("kept", { closePolicy: "keep" }), kept.run);
  await tasks.spawnManaged("s", spec("plain"), untilAborted);
  await tasks.spawnManaged("s", spec("moved", { closePolicy: "transfer" }), untilAborted);
  await tasks.spawnManaged("s", spec("clash", { closePolicy: "transfer" }), untilAborted);
  await tasks.register("parent", spec("clash", { label: "the parent's" }));
  await tasks.closeSession("s", { parentSessionId: "parent" });
  expect(tasks.listAll().map(({ id, sessionId, state }) => [id, sessionId, state])).toEqual([
    ["kept", "s", "running"],
    ["plain", "s", "cancelled"],
    ["clash", "s", "cancelled"],
    ["clash", "parent", "running"],
    ["moved", "parent", "running"],
  ]);
  expect(kept.signals[0]?.aborted).toBe(false);
});

test("[WT13] without a parent what was to be transferred is cancelled", async () => {
  const { tasks } = openDesk();
  await tasks.spawnManaged("s", spec("t", { closePolicy: "transfer" }), untilAborted);
  await tasks.closeSession("s");
  expect(tasks.get("s", "t")).toMatchObject({ state: "cancelled", cancelReason: "the session was closed" });
});

test("[WT13] one task that cannot be cancelled does not keep the others from it", async () => {
  const { tasks } = openDesk();
  await tasks.register("s", spec("stuck"), {
    cancel: () => {
      throw new Error("stuck");
    },
  });
  await tasks.spawnManaged("s", spec("t"), untilAborted);
  expect(await codeOf(tasks.closeSession("s"))).toBe("task_cancel_failed");
  expect(tasks.list("s").map(({ state }) => state)).toEqual(["cancel_requested", "cancelled"]);
});

test("[WT13] the ended tasks of a closed session can be forgotten; durable ones stay while another lives", async () => {
  const { tasks, events } = openDesk();
  const durable = { recovery: "report" } as const;
  for (const [id, more] of [
    ["plain", {}],
    ["stored", { durable }],
    ["live", { durable }],
  ] as const) {
    await tasks.register("s", spec(id, more));
    if (id !== "live") tasks.complete("s", id, { state: "completed" });
  }
  const count = events.length;
  tasks.forgetEnded("s");
  expect(idsOf(tasks.list("s"))).toEqual(["stored", "live"]);
  tasks.complete("s", "live", { state: "completed" });
  tasks.forgetEnded("s");
  tasks.forgetEnded("nobody");
  expect([tasks.listAll(), events.length - count]).toEqual([[], 1]);
});

test("[WT14] a closing runtime signals all work, calls back, and waits for the end of it", async () => {
  const { tasks, clock, events, faults } = openDesk({ graceMs: 50 });
  const [listed, forgotten] = [heldWork(), heldWork()];
  await tasks.spawnManaged("s", spec("listed"), listed.run);
  await tasks.spawnManaged("s", spec("forgotten"), forgotten.run);
  tasks.unregister("s", "forgotten");
  await tasks.register("s", spec("external"), {
    cancel: () => {
      throw new Error("no answer");
    },
  });
  const waited = tasks.settled("s", "listed");
  const closed = tasks.closeAll();
  expect([listed.signals[0]?.aborted, forgotten.signals[0]?.aborted]).toEqual([true, true]);
  listed.end.reject(new Error("aborted"));
  forgotten.end.resolve(undefined);
  await closed;
  expect(clock.pending).toBe(0);
  expect((await waited).state).toBe("cancelled");
  expect(told(events).slice(3)).toEqual(["cancelled listed", "cancelled external"]);
  expect(faults).toMatchObject([{ kind: "cancel_failed", sessionId: "s", task: "external" }]);
});

test("[WT14] work that ignores the signal is forgotten after the grace time", async () => {
  const { tasks, clock } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  let isClosed = false;
  const closed = tasks.closeAll({ graceMs: 200 }).then(() => {
    isClosed = true;
  });
  clock.advance(199);
  await settle();
  expect(isClosed).toBe(false);
  clock.advance(1);
  await closed;
  work.end.reject(new Error("much later"));
  await settle();
  expect(tasks.get("s", "t")?.state).toBe("cancelled");
});

test("[WT14] nothing begins or changes after the runtime was closed", async () => {
  const { tasks, events } = openDesk();
  await tasks.register("s", spec("t", { durable: { recovery: "external" } }));
  await tasks.closeAll();
  await tasks.closeAll();
  const count = events.length;
  expect(await codeOf(tasks.spawnManaged("s", spec("new"), () => 1))).toBe("runtime_closed");
  expect(await codeOf(tasks.register("s", spec("new")))).toBe("runtime_closed");
  tasks.complete("s", "t", { state: "completed" });
  tasks.progress("s", "t", 1);
  expect([idsOf(tasks.list("s")), tasks.get("s", "t")?.state, events.length - count]).toEqual([
    ["t"],
    "running",
    0,
  ]);
});

test("[WT14] leaving the block that owns the registry closes it", async () => {
  const work = heldWork();
  work.end.resolve(undefined);
  const { tasks } = openDesk();
  {
    await using owned = tasks;
    await owned.spawnManaged("s", spec("t"), untilAborted);
  }
  expect(tasks.get("s", "t")?.state).toBe("cancelled");
});
