// What is told of tasks: SPEC.md, WT15-WT17.

import { expect, test } from "vitest";
import type { TaskEvent } from "../../src/work/task.ts";
import { heldWork, openDesk, settle, spec, told, untilAborted } from "./task-support.ts";

test("[WT15] every change is one event with the record after it, natural ends included", async () => {
  const { tasks, events } = openDesk();
  const work = heldWork();
  await tasks.spawnManaged("s", spec("t"), work.run);
  tasks.transition("s", "t", "waiting");
  tasks.progress("s", "t", "half");
  work.end.resolve("all");
  await settle();
  await tasks.spawnManaged("s", spec("u"), untilAborted);
  await tasks.cancel("s", "u", { reason: "enough" });
  await tasks.spawnManaged("s", spec("v"), () => {
    throw new Error("no");
  });
  await settle();
  expect(events.map(({ kind, task }) => [kind, task.id, task.state])).toEqual([
    ["registered", "t", "running"],
    ["state_changed", "t", "waiting"],
    ["progress", "t", "waiting"],
    ["completed", "t", "completed"],
    ["registered", "u", "running"],
    ["cancel_requested", "u", "cancel_requested"],
    ["cancelled", "u", "cancelled"],
    ["registered", "v", "running"],
    ["failed", "v", "failed"],
  ]);
  expect(events[5]).toMatchObject({ reason: "enough" });
});

test("[WT15] what a subscriber causes is told to all after what it was told of", async () => {
  const { tasks } = openDesk();
  const seen: string[] = [];
  tasks.subscribe(({ kind }) => {
    if (kind === "registered") tasks.complete("s", "t", { state: "completed" });
  });
  tasks.subscribe(({ kind }) => seen.push(kind));
  await tasks.register("s", spec("t"));
  expect(seen).toEqual(["registered", "completed"]);
});

test("[WT16] filters hold for every event, and a transfer concerns both its sessions", async () => {
  const { tasks } = openDesk();
  const bySession: TaskEvent[] = [];
  const byTarget: TaskEvent[] = [];
  const byKind: TaskEvent[] = [];
  const live: TaskEvent[] = [];
  tasks.subscribe((event) => bySession.push(event), { sessionId: "s" });
  tasks.subscribe((event) => byTarget.push(event), { sessionId: "next" });
  tasks.subscribe((event) => byKind.push(event), { kind: "observer" });
  tasks.subscribe((event) => live.push(event), { includeTerminal: false });
  await tasks.register("s", spec("a"));
  await tasks.register("s", spec("b", { kind: "observer" }));
  tasks.progress("s", "a", 1);
  tasks.transition("s", "b", "waiting");
  tasks.transfer("s", "next", ["a"]);
  await tasks.cancel("next", "a");
  tasks.complete("s", "b", { state: "completed" });
  expect(told(bySession)).toEqual([
    "registered a",
    "registered b",
    "progress a",
    "state_changed b",
    "transferred a",
    "completed b",
  ]);
  expect(told(byTarget)).toEqual(["transferred a", "cancel_requested a", "cancelled a"]);
  expect(told(byKind)).toEqual(["registered b", "state_changed b", "completed b"]);
  expect(told(live)).toEqual([
    "registered a",
    "registered b",
    "progress a",
    "state_changed b",
    "transferred a",
    "cancel_requested a",
  ]);
});

test("[WT17] a subscriber that throws is reported, and the others are told", async () => {
  const { tasks, events, faults } = openDesk();
  tasks.subscribe(() => {
    throw new Error("bad listener");
  });
  const late: TaskEvent[] = [];
  const stop = tasks.subscribe((event) => late.push(event));
  await tasks.register("s", spec("t"));
  stop();
  tasks.complete("s", "t", { state: "completed" });
  expect([told(events), told(late)]).toEqual([["registered t", "completed t"], ["registered t"]]);
  expect(faults.map(({ kind, task }) => [kind, task])).toEqual([
    ["listener_failed", "t"],
    ["listener_failed", "t"],
  ]);
});

test("[WT17] a slow reader skips the oldest events and reads on to the end of the registry", async () => {
  const { tasks } = openDesk();
  const reader = tasks.watch({ sessionId: "s" }, { limit: 2 })[Symbol.asyncIterator]();
  const first = reader.next();
  await tasks.register("other", spec("x"));
  await tasks.register("s", spec("a"));
  expect((await first).value).toMatchObject({ kind: "registered", task: { id: "a" } });
  for (const id of ["b", "c", "d"]) await tasks.register("s", spec(id));
  const ids = [];
  for (let at = 0; at < 2; at += 1) ids.push((await reader.next()).value?.task.id);
  expect(ids).toEqual(["c", "d"]);
  const last = reader.next();
  await tasks.closeAll();
  expect((await last).value).toMatchObject({ kind: "cancelled", task: { id: "c" } });
});

test("[WT17] a reader ends with its signal, without an error", async () => {
  const { tasks } = openDesk();
  const control = new AbortController();
  const reader = tasks.watch({}, { signal: control.signal })[Symbol.asyncIterator]();
  const waiting = reader.next();
  control.abort();
  expect(await waiting).toEqual({ value: undefined, done: true });
  const none = tasks.watch({}, { signal: control.signal })[Symbol.asyncIterator]();
  expect((await none.next()).done).toBe(true);
});
