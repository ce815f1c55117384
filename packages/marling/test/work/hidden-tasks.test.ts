// Hidden tasks: SPEC.md, WT18, WT19.

import { afterEach, beforeEach, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { HiddenTasks } from "../../src/work/hidden-tasks.ts";
import type { TaskFault } from "../../src/work/task-keeper.ts";
import { codeOf, settle } from "./task-support.ts";

const unhandled: unknown[] = [];
const note = (reason: unknown): void => {
  unhandled.push(reason);
};

beforeEach(() => {
  process.on("unhandledRejection", note);
});

afterEach(async () => {
  await settle();
  process.off("unhandledRejection", note);
  expect(unhandled.splice(0)).toEqual([]);
});

function open(): { readonly hidden: HiddenTasks; readonly clock: ManualClock; readonly faults: TaskFault[] } {
  const clock = new ManualClock();
  const faults: TaskFault[] = [];
  return { hidden: new HiddenTasks({ clock, onFault: (fault) => faults.push(fault) }), clock, faults };
}

test("[K112] [WT18] waiting for hidden tasks includes those that they start meanwhile", async () => {
  const { hidden } = open();
  const done: string[] = [];
  const gate = deferred<void>();
  hidden.spawnHidden("s", "outer", async () => {
    await gate.promise;
    hidden.spawnHidden("s", "inner", async () => {
      await settle();
      hidden.spawnHidden("s", "innermost", async () => {
        await settle();
        done.push("innermost");
      });
      done.push("inner");
    });
    done.push("outer");
  });
  const awaited = hidden.awaitHidden("s").then(() => done.push("awaited"));
  await settle();
  expect(done).toEqual([]);
  gate.resolve();
  await awaited;
  expect(done).toEqual(["outer", "inner", "innermost", "awaited"]);
});

test("[WT18] without hidden tasks, and with those of another session only, there is nothing to wait for", async () => {
  const { hidden } = open();
  hidden.spawnHidden("other", "endless", () => new Promise(() => undefined));
  await hidden.awaitHidden("s");
  hidden.spawnHidden("s", "at once", () => undefined);
  await settle();
  await hidden.awaitHidden("s");
});

test("[WT18] two who wait are both told of the end", async () => {
  const { hidden } = open();
  const gates = [deferred<void>(), deferred<void>()];
  for (const [index, gate] of gates.entries()) hidden.spawnHidden("s", `task ${index}`, () => gate.promise);
  const both = Promise.all([hidden.awaitHidden("s"), hidden.awaitHidden("s")]);
  for (const gate of gates) {
    gate.resolve();
    await settle();
  }
  expect(await both).toEqual([undefined, undefined]);
});

test("[K112] [WT19] the first failure is told with its label, and the rest of the batch is forgotten", async () => {
  const { hidden, faults } = open();
  const [slow, slower] = [deferred<void>(), deferred<void>()];
  hidden.spawnHidden("s", "slow", () => slow.promise);
  hidden.spawnHidden("s", "slower", () => slower.promise);
  hidden.spawnHidden("s", "observer", async () => {
    throw new Error("no model");
  });
  const waited = hidden.awaitHidden("s");
  await expect(waited).rejects.toThrow(
    "hidden task observer of session s: expected its end, found: no model",
  );
  expect(await codeOf(waited)).toBe("task_failed");
  await hidden.awaitHidden("s");
  slow.reject(new Error("slow failed too"));
  slower.resolve();
  await settle();
  await hidden.awaitHidden("s");
  expect(faults).toMatchObject([{ kind: "hidden_task_failed", sessionId: "s", task: "slow" }]);
});

test("[K112] [WT19] a failure before anybody waits is kept, the first one for whoever does and the others reported", async () => {
  const { hidden, faults } = open();
  for (const label of ["a", "b"])
    hidden.spawnHidden("s", label, () => {
      throw new Error(`${label} failed`);
    });
  await settle();
  await expect(hidden.awaitHidden("s")).rejects.toThrow("a failed");
  await hidden.awaitHidden("s");
  expect(faults.map(({ task }) => task)).toEqual(["b"]);
});

test("[WT19] what is started after a failure was told is waited for again", async () => {
  const { hidden } = open();
  hidden.spawnHidden("s", "bad", () => Promise.reject(new Error("bad")));
  await expect(hidden.awaitHidden("s")).rejects.toThrow("bad");
  const gate = deferred<void>();
  const done: string[] = [];
  hidden.spawnHidden("s", "good", async () => {
    await gate.promise;
    done.push("good");
  });
  const awaited = hidden.awaitHidden("s");
  gate.resolve();
  await awaited;
  expect(done).toEqual(["good"]);
});

test("[WT19] the failure of a session that is forgotten is reported", async () => {
  const { hidden, faults } = open();
  hidden.spawnHidden("s", "bad", () => Promise.reject(new Error("bad")));
  await settle();
  hidden.forgetHidden("s");
  hidden.forgetHidden("nobody");
  await hidden.awaitHidden("s");
  expect(faults.map(({ task }) => task)).toEqual(["bad"]);
  hidden.spawnHidden("s", "late", async () => {
    await settle();
    throw new Error("late");
  });
  hidden.forgetHidden("s");
  await settle();
  await settle();
  expect(faults.map(({ task }) => task)).toEqual(["bad", "late"]);
});

test("[WT14] a closing runtime signals hidden tasks and waits for them within the grace time", async () => {
  const { hidden, clock } = open();
  const ended: string[] = [];
  hidden.spawnHidden("s", "polite", async ({ signal }) => {
    await clock.sleep(1_000_000, { signal }).catch(() => undefined);
    ended.push("polite");
    signal.throwIfAborted();
  });
  hidden.spawnHidden("s", "endless", () => new Promise(() => undefined));
  const closed = hidden.closeAll({ graceMs: 20 });
  await settle();
  expect(ended).toEqual(["polite"]);
  clock.advance(20);
  await closed;
  expect(() => hidden.spawnHidden("s", "late", () => 1)).toThrow("hidden task late of session s");
});
