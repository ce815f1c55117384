// Steps of tasks, which a later attempt does not do again: SPEC.md, WT27.

import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { JsonObject } from "../../src/model/json.ts";
import type { TaskContext, TaskSpec } from "../../src/work/task.ts";
import { codeOf, type Desk, openDesk, settle, spec } from "./task-support.ts";

const RERUN: Partial<TaskSpec> = { durable: { recovery: "rerun", input: { path: "/a" } } };

/** Begins a task and hands out what its work was given; the work goes on until it is asked to end. */
async function begun(desk: Desk, more: Partial<TaskSpec> = RERUN): Promise<TaskContext> {
  const given = deferred<TaskContext>();
  await desk.tasks.spawnManaged("s", spec("t", more), (context) => {
    given.resolve(context);
    return new Promise((_, reject) => {
      context.signal.addEventListener("abort", () => reject(context.signal.reason), { once: true });
    });
  });
  return given.promise;
}

/** What a crash leaves of session "s", read back from text. */
function left({ tasks }: Desk): JsonObject {
  return JSON.parse(JSON.stringify(tasks.exportDurable("s")));
}

/** The next attempt of the task that a crash left, in a registry of its own. */
async function again(component: JsonObject): Promise<TaskContext> {
  const given = deferred<TaskContext>();
  openDesk().tasks.restoreDurable("s", component, () => (context) => {
    given.resolve(context);
    return new Promise(() => undefined);
  });
  return given.promise;
}

test("[WT27] what a step came to is stored, and a later attempt gets it without doing it again", async () => {
  const desk = openDesk();
  const { step } = await begun(desk);
  expect(await step("fetch", () => ({ rows: [1, 2] }))).toEqual({ rows: [1, 2] });
  expect(await step("nothing", () => undefined)).toBe(null);
  expect(left(desk)).toMatchObject({ tasks: [{ steps: { fetch: { rows: [1, 2] }, nothing: null } }] });

  const next = await again(left(desk));
  expect(next.record.attempt).toBe(2);
  let runs = 0;
  const count = (): number => {
    runs += 1;
    return runs;
  };
  expect(await next.step("fetch", count)).toEqual({ rows: [1, 2] });
  expect(await next.step("nothing", count)).toBe(null);
  expect(await next.step("new", count)).toBe(1);
});

test("[WT27] a step returns when it is stored, and so does a second call of its key", async () => {
  const written = deferred<void>();
  let isSlow = false;
  const desk = openDesk({ onDurableChange: () => (isSlow ? written.promise : undefined) });
  const { step } = await begun(desk);
  isSlow = true;
  const returned: string[] = [];
  let runs = 0;
  const charge = (): number => {
    runs += 1;
    return runs;
  };
  const first = step("charge", charge).then((value) => returned.push(`first ${value}`));
  await settle();
  const second = step("charge", charge).then((value) => returned.push(`second ${value}`));
  await settle();
  expect([returned, runs]).toEqual([[], 1]);
  written.resolve();
  await Promise.all([first, second]);
  expect([[...returned].sort(), runs]).toEqual([["first 1", "second 1"], 1]);
});

test("[WT27] a step that cannot be stored is not done: it rejects, and the next call does it", async () => {
  let isFull = false;
  const desk = openDesk({
    onDurableChange: () => (isFull ? Promise.reject(new Error("disk full")) : undefined),
  });
  const { step } = await begun(desk);
  isFull = true;
  await expect(step("charge", () => 1)).rejects.toThrow("disk full");
  expect(desk.tasks.get("s", "t")?.steps ?? {}).toEqual({});
  isFull = false;
  expect(await step("charge", () => 2)).toBe(2);
  expect(left(desk)).toMatchObject({ tasks: [{ steps: { charge: 2 } }] });
});

test("[WT27] what a step threw is not stored; callers of one key share it, and the next call tries again", async () => {
  const desk = openDesk();
  const { step } = await begun(desk);
  let runs = 0;
  const flaky = async (): Promise<string> => {
    runs += 1;
    await settle();
    if (runs === 1) throw new Error("no network");
    return `run ${runs}`;
  };
  const both = await Promise.allSettled([step("call", flaky), step("call", flaky)]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(left(desk)).not.toHaveProperty("tasks.0.steps.call");
  expect(await Promise.all([step("call", flaky), step("call", flaky)])).toEqual(["run 2", "run 2"]);
  expect(runs).toBe(2);
});

test("[WT27] steps of different keys run at once, and neither loses the other", async () => {
  const desk = openDesk();
  const { step } = await begun(desk);
  const [a, b] = [deferred<string>(), deferred<string>()];
  const both = [step("a", () => a.promise), step("b", () => b.promise)];
  b.resolve("B");
  a.resolve("A");
  expect(await Promise.all(both)).toEqual(["A", "B"]);
  expect(left(desk)).toMatchObject({ tasks: [{ steps: { a: "A", b: "B" } }] });
});

test("[WT27] a step has a key of its own for services that take each key once, the same in every attempt", async () => {
  const desk = openDesk();
  const keys: string[] = [];
  const note = ({ idempotencyKey }: { readonly idempotencyKey: string }): Promise<never> => {
    keys.push(idempotencyKey);
    return Promise.reject(new Error("cut off"));
  };
  const { step } = await begun(desk);
  const component = left(desk);
  await step("one", note).catch(() => undefined);
  await step("two", note).catch(() => undefined);
  await (await again(component)).step("one", note).catch(() => undefined);
  expect(new Set(keys).size).toBe(2);
  expect(keys[2]).toBe(keys[0]);
});

test("[WT27] steps end with their task: a step is told, and what it comes to is refused", async () => {
  const desk = openDesk({ graceMs: 0 });
  const { step, signal } = await begun(desk, { ...RERUN, cancelPolicy: "abort_local" });
  const going = deferred<string>();
  let told: AbortSignal | undefined;
  const late = step("slow", (context) => {
    told = context.signal;
    return going.promise;
  });
  await desk.tasks.cancel("s", "t");
  expect(told?.aborted).toBe(true);
  going.resolve("too late");
  await expect(late).rejects.toBe(signal.reason);
  await expect(step("another", () => 1)).rejects.toBe(signal.reason);
  expect(desk.tasks.get("s", "t")).toMatchObject({ state: "cancelled" });
  expect(desk.tasks.get("s", "t")?.steps ?? {}).toEqual({});
});

test("[WT27] a step without a key, or with a result that is not JSON, is refused", async () => {
  const { step } = await begun(openDesk());
  expect(await codeOf(step(" ", () => 1))).toBe("invalid_task");
  expect(await codeOf(step("__proto__", () => 1))).toBe("invalid_task");
  expect(await codeOf(step("fn", () => () => 1))).toBe("invalid_json");
  expect(await step("constructor", () => "its own")).toBe("its own");
});

test("[WT27] steps of a task that is not durable are steps all the same, for as long as it runs", async () => {
  const desk = openDesk();
  const { step } = await begun(desk, {});
  expect(await step("a", () => 1)).toBe(1);
  expect(await step("a", () => 2)).toBe(1);
  expect(desk.stored).toEqual([]);
});
