// Durable tasks go on without anybody opening their session: rule RC4 of recovery.ts, and WT27 across restarts.

import { definePlugin, memoryStore, type Plugin, type ProcessRun } from "marling";
import { sqliteStore } from "marling/sqlite";
import { expect, test, vi } from "vitest";
import { database, live, mortal, never, unattended } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { acting } from "./services-support.ts";
import { durable, eventually, type Jobs, jobs, start, starting, states, taskOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

/** A file in which task "a" of session "s" was cut off by a crash. */
async function interrupted(
  path: string,
  { recovery = "rerun", plugins }: { recovery?: "rerun" | "report" | "external"; plugins?: Jobs } = {},
): Promise<void> {
  const background = plugins ?? jobs();
  const first = await mortal({ store: sqliteStore({ path }), plugins: starting(background) });
  await start(first.session, durable("a", recovery));
  await eventually(() => background.attempts.length).toBe(1);
  await first.die();
}

/** The sessions with work that nobody has. */
async function resumableIn(path: string): Promise<readonly string[]> {
  const store = sqliteStore({ path });
  try {
    return await store.resumable(Date.now());
  } finally {
    await store.close();
  }
}

/** Looks again, often enough for what is still to come. */
async function sweeps(runtime: { recover(): Promise<unknown> }): Promise<void> {
  for (let times = 0; times < 5; times += 1) await runtime.recover();
}

test("[RC4] a task that a crash cut off goes on in a new runtime without its session being opened", async () => {
  const path = database();
  await interrupted(path);
  const after = jobs();
  const { runtime } = unattended({ store: sqliteStore({ path }), plugins: starting(after) });
  expect(await runtime.recover()).toEqual({
    resumed: [],
    resumedWork: [{ sessionId: "s" }],
    skipped: [],
  });
  await eventually(() => after.attempts.length).toBe(1);
  expect(after.attempts[0]?.context.record).toMatchObject({ id: "a", sessionId: "s", attempt: 2 });
  after.attempts[0]?.finish("done by itself");
  await expect.poll(() => resumableIn(path)).toEqual([]);
  await sweeps(runtime);
  expect(taskOf(await runtime.session("s"), "a")).toMatchObject({
    state: "completed",
    attempt: 2,
    result: "done by itself",
  });
  expect(after.attempts).toHaveLength(1);
});

test("[RC4] a task to report is reported; one that others run waits, and opens nothing", async () => {
  const [told, external] = [database(), database()];
  await interrupted(told, { recovery: "report" });
  const first = unattended({ store: sqliteStore({ path: told }), plugins: starting(jobs()) });
  await first.runtime.recover();
  await expect.poll(() => resumableIn(told)).toEqual([]);
  expect(taskOf(await first.runtime.session("s"), "a")?.failure?.code).toBe("task_interrupted");

  const background = jobs();
  const before = await mortal({ store: sqliteStore({ path: external }), plugins: starting(background) });
  await start(before.session, durable("a", "external"));
  await before.die();
  const { runtime } = unattended({ store: sqliteStore({ path: external }), plugins: starting(jobs()) });
  expect((await runtime.recover()).resumedWork).toEqual([]);
});

test("[RC4] what nobody here can run is tried once, and left to a runtime that can", async () => {
  const path = database();
  await interrupted(path);
  const opened: string[] = [];
  const changed = definePlugin({
    id: "jobs",
    build: ({ sessionId }) => {
      opened.push(sessionId);
      return {};
    },
  });
  const idle = unattended({ store: sqliteStore({ path }), plugins: [changed(), acting({})] });
  await sweeps(idle.runtime);
  await expect.poll(() => resumableIn(path)).toEqual(["s"]);
  await sweeps(idle.runtime);
  expect(opened).toEqual(["s"]);
  const after = jobs();
  const { runtime } = unattended({ store: sqliteStore({ path }), plugins: starting(after) });
  await runtime.recover();
  await eventually(() => after.attempts.length).toBe(1);
  after.attempts[0]?.finish("done");
  await expect.poll(() => resumableIn(path)).toEqual([]);
});

test("[RC4] [RC2] a runtime without the plugin of a session skips it, says so, and leaves its task", async () => {
  const path = database();
  await interrupted(path);
  const { runtime } = unattended({ store: sqliteStore({ path }) });
  const { resumedWork, skipped } = await runtime.recover();
  expect([resumedWork, skipped.map(({ sessionId }) => sessionId)]).toEqual([[], ["s"]]);
  expect(await resumableIn(path)).toEqual(["s"]);
});

test("[RC4] a session that was closed here with live tasks is left alone here, and goes on elsewhere", async () => {
  const path = database();
  const [here, there] = [jobs(), jobs()];
  const { runtime, session } = await live({ store: sqliteStore({ path }), plugins: starting(here) });
  await start(session, durable("a"));
  await session.close();
  await sweeps(runtime);
  expect(here.attempts).toHaveLength(1);
  const other = unattended({ store: sqliteStore({ path }), plugins: starting(there) });
  await other.runtime.recover();
  await eventually(() => there.attempts.length).toBe(1);
  expect(there.attempts[0]?.context.record.attempt).toBe(2);
  await sweeps(runtime);
  expect(here.attempts).toHaveLength(1);
});

test("[RC4] work that a living runtime has is not taken from it", async () => {
  const path = database();
  const [here, there] = [jobs(), jobs()];
  const { session } = await live({ store: sqliteStore({ path }), plugins: starting(here) });
  await start(session, durable("a"));
  const other = unattended({ store: sqliteStore({ path }), plugins: starting(there) });
  await sweeps(other.runtime);
  expect(there.attempts).toEqual([]);
  expect(states(session.tasks.list())).toEqual(["a running"]);
});

test("[RC4] a session that is open here, whose tasks another runtime had and left, goes on with them", async () => {
  const path = database();
  const [first, second] = [jobs(), jobs()];
  const dying = await mortal({ store: sqliteStore({ path }), plugins: starting(first) });
  await start(dying.session, durable("a"));
  const { runtime, session } = await live({ store: sqliteStore({ path }), plugins: starting(second) });
  expect(second.attempts).toEqual([]);
  await dying.die();
  await runtime.recover();
  await eventually(() => second.attempts.length).toBe(1);
  expect(states(session.tasks.list())).toEqual(["a running"]);
});

test("[RC4] tasks of tenants go on as well, in their runtimes", async () => {
  const path = database();
  const [before, after] = [jobs(), jobs()];
  const acmes = (background: Jobs): readonly Plugin[] => [
    background.plugin,
    acting({ start: async (host, spec) => host.spawnManagedTask("chat", spec as never) }),
  ];
  const first = await mortal({ store: sqliteStore({ path }), plugins: acmes(before) });
  await start(await first.runtime.scope("acme").session("chat"), durable("a"));
  await first.die();
  const { runtime } = unattended({ store: sqliteStore({ path }), plugins: acmes(after) });
  expect((await runtime.recover()).resumedWork).toEqual([{ sessionId: "chat", tenant: "acme" }]);
  await eventually(() => after.attempts.length).toBe(1);
  expect(after.attempts[0]?.context.record.sessionId).toBe("chat");
});

test("[RC4] a store that lives with its process has nothing to go on with", async () => {
  const background = jobs();
  const { runtime, session } = await live({ store: memoryStore(), plugins: starting(background) });
  await start(session, durable("a"));
  await session.close();
  expect((await runtime.recover()).resumedWork).toEqual([]);
  expect(background.attempts).toHaveLength(1);
});

test("[WT27] steps that were done before a crash are not done again, and the one that was cut off is", async () => {
  const path = database();
  const done: string[] = [];
  const work =
    (life: string): ProcessRun =>
    async ({ step, record }) => {
      const order = await step("order", () => {
        done.push(`${life} order`);
        return { number: 7 };
      });
      const paid = await step("pay", async ({ idempotencyKey }) => {
        done.push(`${life} pay ${idempotencyKey}`);
        return life === "first" ? never() : "paid";
      });
      return { order, paid, attempt: record.attempt };
    };
  const buying = (life: string): readonly Plugin[] => [
    plugin("jobs", { background: { job: work(life) } }),
    acting({ start: async (host, spec) => host.spawnManagedTask("s", spec as never) }),
  ];
  const first = await mortal({ store: sqliteStore({ path }), plugins: buying("first") });
  await start(first.session, durable("a"));
  await eventually(() => done.length).toBe(2);
  await first.die();
  const { runtime } = unattended({ store: sqliteStore({ path }), plugins: buying("second") });
  await runtime.recover();
  await expect
    .poll(async () => taskOf(await runtime.session("s"), "a"))
    .toMatchObject({ state: "completed", result: { order: { number: 7 }, paid: "paid", attempt: 2 } });
  const [, cutOff, repeated] = done;
  expect(done).toHaveLength(3);
  expect(done[0]).toBe("first order");
  expect(cutOff).toMatch(/^first pay \S+$/);
  expect(repeated).toBe(cutOff?.replace("first", "second"));
});
