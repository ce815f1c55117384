// Ticks through a runtime: cron and interval on a clock that moves when the test says so. work/TRIGGERS.md.

import { memoryStore } from "marling";
import { cron, interval } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { BACKINGS, database, live, unattended } from "./durable-support.ts";
import { TestClock } from "./hooks-support.ts";
import { codeOf } from "./services-support.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";
import { eventually, occurred } from "./triggers-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const NOON = Date.UTC(2026, 5, 1, 12);

const payloads = (session: Parameters<typeof occurred>[0]) => occurred(session).map(({ payload }) => payload);
const missedOf = (traces: readonly CustomTrace[]) =>
  traces.filter(({ name }) => name === "trigger_ticks_missed").map(({ payload }) => payload);

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[TR13] ticks fire when they are due, each once", async () => {
    const clock = new TestClock({ startsAt: NOON });
    const { runtime, session } = await live({ store: open()(), clock, script: () => say("tick") });
    const subscription = await runtime.triggers.subscribe({ sessionId: "s", ...interval(10 * SECOND) });
    expect(subscription.nextAt).toBe(NOON + 10 * SECOND);
    clock.advance(9 * SECOND);
    await runtime.recover();
    expect(occurred(session)).toEqual([]);
    clock.advance(SECOND);
    await eventually(() => payloads(session)).toEqual([{ scheduledAt: "2026-06-01T12:00:10.000Z" }]);
    await eventually(() => clock.pending).toBeGreaterThan(0);
    for (let second = 0; second < 10; second += 1) {
      clock.advance(SECOND);
      await runtime.recover();
    }
    expect(payloads(session)).toEqual([
      { scheduledAt: "2026-06-01T12:00:10.000Z" },
      { scheduledAt: "2026-06-01T12:00:20.000Z" },
    ]);
    expect(occurred(session)[0]).toMatchObject({ source: "interval.tick", at: "2026-06-01T12:00:10.000Z" });
    expect(occurred(session)[0]).not.toHaveProperty("topic");
  });

  test("[TR13] a tick is for its own subscription and for no other", async () => {
    const clock = new TestClock({ startsAt: NOON });
    const { runtime, session } = await live({ store: open()(), clock, script: () => say("tick") });
    const other = await runtime.session("other");
    await runtime.triggers.subscribe({ sessionId: "s", ...cron("*/30 * * * *") });
    await runtime.triggers.subscribe({ sessionId: "other", ...cron("0 13 * * *") });
    clock.advance(HOUR / 2);
    await runtime.recover();
    clock.advance(HOUR / 2);
    await runtime.recover();
    expect(payloads(session)).toEqual([
      { scheduledAt: "2026-06-01T12:30:00.000Z" },
      { scheduledAt: "2026-06-01T13:00:00.000Z" },
    ]);
    expect(payloads(other)).toEqual([{ scheduledAt: "2026-06-01T13:00:00.000Z" }]);
  });

  test("[TR16] a subscription that is turned on again begins with the next tick, and nothing was missed", async () => {
    const clock = new TestClock({ startsAt: NOON });
    const { runtime, session } = await live({ store: open()(), clock, script: () => say("tick") });
    const { id } = await runtime.triggers.subscribe({ sessionId: "s", ...cron("@hourly") });
    await runtime.triggers.setEnabled(id, false);
    clock.advance(5 * HOUR + 10);
    await runtime.recover();
    expect((await runtime.triggers.setEnabled(id, true)).nextAt).toBe(NOON + 6 * HOUR);
    await runtime.recover();
    expect(occurred(session)).toEqual([]);
    clock.advance(HOUR);
    await runtime.recover();
    expect(payloads(session)).toEqual([{ scheduledAt: "2026-06-01T18:00:00.000Z" }]);
  });

  test("[TR19] a schedule that cannot be read is refused where it is asked for, and leaves nothing", async () => {
    const { runtime } = await live({ store: open()() });
    const { triggers } = runtime;
    expect(await codeOf(triggers.subscribe({ sessionId: "s", ...cron("61 * * * *") }))).toBe(
      "invalid_schedule",
    );
    expect(await codeOf(triggers.subscribe({ sessionId: "s", ...interval(5) }))).toBe("invalid_schedule");
    const topical = { sessionId: "s", ...cron("@daily"), topic: "t" };
    expect(await codeOf(triggers.subscribe(topical))).toBe("invalid_input");
    expect((await triggers.subscriptions()).items).toEqual([]);
  });
});

describe("after downtime", () => {
  /** Subscribes with hourly ticks at noon, and comes back a few hours later. */
  async function away(missed: "skip" | "latest" | "all", hours: number) {
    const path = database();
    const before = await live({ store: sqliteStore({ path }), clock: new TestClock({ startsAt: NOON }) });
    await before.runtime.triggers.subscribe({ sessionId: "s", ...cron("@hourly", { missed }) });
    await before.runtime.close();
    const clock = new TestClock({ startsAt: NOON + hours * HOUR });
    const traces: CustomTrace[] = [];
    const after = await live({
      store: sqliteStore({ path }),
      clock,
      script: () => say("tick"),
      trace: customTraces(traces),
    });
    await after.runtime.recover();
    return { ...after, clock, traces };
  }

  test("[TR23] latest: the newest tick fires and says how many were missed, and since when", async () => {
    const { session, traces, runtime } = await away("latest", 3.5);
    expect(payloads(session)).toEqual([
      {
        scheduledAt: "2026-06-01T15:00:00.000Z",
        missed: { count: 2, since: "2026-06-01T13:00:00.000Z" },
      },
    ]);
    expect(missedOf(traces)).toMatchObject([{ source: "cron.tick", count: 2, since: NOON + HOUR }]);
    await runtime.recover();
    expect(occurred(session)).toHaveLength(1);
  });

  test("[TR23] all: each of them fires, in order", async () => {
    const { session, traces } = await away("all", 3.5);
    expect(payloads(session)).toEqual([
      { scheduledAt: "2026-06-01T13:00:00.000Z" },
      { scheduledAt: "2026-06-01T14:00:00.000Z" },
      { scheduledAt: "2026-06-01T15:00:00.000Z" },
    ]);
    expect(missedOf(traces)).toEqual([]);
  });

  test("[TR24] skip: none fires, which is traced and shown, and told by the next one that does", async () => {
    const { session, traces, runtime, clock } = await away("skip", 3.5);
    expect(occurred(session)).toEqual([]);
    expect(missedOf(traces)).toMatchObject([{ count: 3, since: NOON + HOUR }]);
    const [subscription] = (await runtime.triggers.subscriptions()).items;
    expect(subscription).toMatchObject({ nextAt: NOON + 4 * HOUR, missed: { count: 3, since: NOON + HOUR } });
    clock.advance(HOUR / 2);
    await runtime.recover();
    expect(payloads(session)).toEqual([
      {
        scheduledAt: "2026-06-01T16:00:00.000Z",
        missed: { count: 3, since: "2026-06-01T13:00:00.000Z" },
      },
    ]);
    expect((await runtime.triggers.subscriptions()).items[0]).not.toHaveProperty("missed");
  });

  test("[TR14] a clock that was set back fires nothing again", async () => {
    const path = database();
    const options = { script: () => say("tick") };
    const before = await live({
      store: sqliteStore({ path }),
      clock: new TestClock({ startsAt: NOON }),
      ...options,
    });
    await before.runtime.triggers.subscribe({ sessionId: "s", ...cron("@hourly") });
    await before.runtime.close();
    for (const hours of [1, 0.5, 1, 0, 1.5]) {
      const { runtime } = unattended({
        store: sqliteStore({ path }),
        clock: new TestClock({ startsAt: NOON + hours * HOUR }),
        ...options,
      });
      await runtime.recover();
      await runtime.close();
    }
    const { session } = await live({
      store: sqliteStore({ path }),
      ...options,
      clock: new TestClock({ startsAt: NOON }),
    });
    expect(payloads(session)).toEqual([{ scheduledAt: "2026-06-01T13:00:00.000Z" }]);
  });

  test("[TR15] two runtimes on one file fire each tick once", async () => {
    const path = database();
    const clock = new TestClock({ startsAt: NOON });
    const options = { script: () => say("tick"), clock };
    const one = await live({ store: sqliteStore({ path }), ...options });
    const two = unattended({ store: sqliteStore({ path }), ...options });
    for (const name of ["x", "y"])
      await one.runtime.triggers.subscribe({ sessionId: "s", name, ...interval(60 * SECOND) });
    for (let minute = 0; minute < 5; minute += 1) {
      clock.advance(60 * SECOND);
      await Promise.all([one.runtime.recover(), two.runtime.recover()]);
    }
    await Promise.all([one.runtime.close(), two.runtime.close()]);
    const { runtime, session } = await live({ store: sqliteStore({ path }), ...options });
    await runtime.recover();
    const ticks = occurred(session).map(
      ({ subscription, payload }) =>
        `${subscription} ${(payload as { scheduledAt: string }).scheduledAt.slice(14, 16)}`,
    );
    expect([...ticks].sort()).toEqual(
      ["x", "y"].flatMap((name) => ["01", "02", "03", "04", "05"].map((minute) => `${name} ${minute}`)),
    );
  });
});

/** A session with a schedule that runs, and beside it a stored subscription that is due and says this. */
async function besides(subscriptionId: string, definition: JsonObject) {
  const clock = new TestClock({ startsAt: NOON });
  const traces: CustomTrace[] = [];
  const store = memoryStore();
  const { runtime, session } = await live({
    store,
    clock,
    script: () => say("tick"),
    trace: customTraces(traces),
  });
  const [sessionId, source] = [session.id as never, "cron.tick"];
  const due = NOON + 1;
  const stored = {
    subscriptionId,
    sessionId,
    source,
    topic: subscriptionId,
    definition,
    createdAt: NOON,
    due,
  };
  await store.triggers?.subscribe(stored);
  await runtime.triggers.subscribe({ sessionId: "s", ...cron("@hourly") });
  clock.advance(HOUR);
  return {
    runtime,
    session,
    store,
    told: () => traces.filter(({ name }) => name === "trigger_schedule_failed").map(({ payload }) => payload),
  };
}

test("[TR19] a stored schedule that cannot be read here is told of once, and holds nobody else up", async () => {
  const config = { expression: "@hourly", timeZone: "Moon/Base" };
  const definition = { version: 1, source: "cron.tick", config, deliver: "turn" };
  const { runtime, session, told } = await besides("sub_moon", definition);
  await runtime.recover();
  await runtime.recover();
  expect(payloads(session)).toEqual([{ scheduledAt: "2026-06-01T13:00:00.000Z" }]);
  expect(told()).toMatchObject([{ subscriptionId: "sub_moon" }]);
});

test("[TR19] a subscription of another version is told of, stays, and holds nobody else up", async () => {
  const { runtime, session, store, told } = await besides("sub_later", { version: 2, cron: "@hourly" });
  await runtime.recover();
  expect(payloads(session)).toEqual([{ scheduledAt: "2026-06-01T13:00:00.000Z" }]);
  expect(told()).toEqual([
    { subscriptionId: "sub_later", message: "subscription: expected version 1, found 2" },
  ]);
  expect(await store.triggers?.get("sub_later")).toMatchObject({ due: NOON + 1 });
});

test("[TR17] no timer of a trigger keeps a process alive", async () => {
  const clock = new TestClock({ startsAt: NOON });
  const kinds: (boolean | undefined)[] = [];
  const watched = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    sleep: clock.sleep.bind(clock),
    after: (ms: number, fire: () => void, options?: { readonly isBackground?: boolean }) => {
      if (ms === 10 * SECOND) kinds.push(options?.isBackground);
      return clock.after(ms, fire);
    },
  };
  const { runtime } = await live({ store: BACKINGS[0]?.open()() as never, clock: watched });
  await runtime.triggers.subscribe({ sessionId: "s", ...interval(10 * SECOND) });
  await eventually(() => kinds).toEqual([true]);
  await runtime.close();
  expect(clock.pending).toBe(0);
});
