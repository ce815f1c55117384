// Async handles over the registry: SPEC.md, WT20, WT21.

import { expect, test } from "vitest";
import { AsyncHandles } from "../../src/work/async-handles.ts";
import { codeOf, heldWork, idsOf, openDesk, spec, untilAborted } from "./task-support.ts";

test("[K118] [WT20] handles are visible while they name live tasks of the session; the first that does not is named", async () => {
  const { tasks } = openDesk();
  const handles = new AsyncHandles(tasks);
  await tasks.register("s", spec("a"));
  await tasks.register("s", spec("b"));
  await tasks.register("s", spec("ended"));
  tasks.transition("s", "b", "waiting");
  tasks.complete("s", "ended", { state: "completed" });
  handles.validateVisible("s", []);
  handles.validateVisible("s", ["a", "b"]);
  expect(() => handles.validateVisible("s", ["a", "nope", "ended"])).toThrow(
    "handle nope: expected a live task of session s, found none of this id",
  );
  expect(() => handles.validateVisible("s", ["ended"])).toThrow("handle ended");
  expect(() => handles.validateVisible("other", ["a"])).toThrow("handle a");
});

test("[K118] [WT12] a handle that is handed over is visible there, no longer here, and goes on", async () => {
  const { tasks } = openDesk();
  const handles = new AsyncHandles(tasks);
  const work = heldWork();
  await tasks.spawnManaged("s", spec("a"), work.run);
  handles.transfer("s", "next", []);
  handles.transfer("s", "s", ["a"]);
  handles.transfer("s", "next", ["unknown", "a"]);
  handles.validateVisible("next", ["a"]);
  expect(() => handles.validateVisible("s", ["a"])).toThrow("handle a");
  expect([tasks.get("next", "a")?.state, work.signals[0]?.aborted]).toEqual(["running", false]);
});

test("[K118] [WT12] a handle that the other session has live is a conflict, and nothing is handed over", async () => {
  const { tasks } = openDesk();
  const handles = new AsyncHandles(tasks);
  for (const id of ["a", "b"]) await tasks.register("s", spec(id));
  await tasks.register("next", spec("b"));
  expect(() => handles.transfer("s", "next", ["a", "b"])).toThrow("task b of session next");
  handles.validateVisible("s", ["a", "b"]);
});

test("[K118] [WT21] what is not kept is cancelled and returned", async () => {
  const { tasks } = openDesk();
  const handles = new AsyncHandles(tasks);
  for (const id of ["a", "b", "c", "ended"]) await tasks.spawnManaged("s", spec(id), untilAborted);
  await tasks.cancelManaged("s", "ended");
  const cancelled = await handles.cancelUnreferenced("s", ["b", "unknown"]);
  expect(cancelled.map(({ id, state }) => [id, state])).toEqual([
    ["a", "cancelled"],
    ["c", "cancelled"],
  ]);
  expect(idsOf(tasks.list("s", { includeTerminal: false }))).toEqual(["b"]);
  expect(await handles.cancelUnreferenced("nobody", [])).toEqual([]);
});

test("[WT21] the first that cannot be cancelled rejects", async () => {
  const { tasks } = openDesk();
  const handles = new AsyncHandles(tasks);
  await tasks.register("s", spec("stuck"), { cancel: () => Promise.reject(new Error("stuck")) });
  await tasks.register("s", spec("after"));
  expect(await codeOf(handles.cancelUnreferenced("s", []))).toBe("task_cancel_failed");
  expect(tasks.get("s", "after")?.state).toBe("running");
});
