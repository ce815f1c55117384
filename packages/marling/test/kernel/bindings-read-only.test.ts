// Ruling 17: `runtime.sessions.open` reads a session without creating or driving it.

import type { Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { having, leaveCutTurn, NEEDED, newWorld, running, storedOf } from "./bindings-support.ts";
import { BACKINGS, database, live, quickTool, unattended } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";

describe.each(BACKINGS)("on $name", ({ open }) => {
  test("[RO1] a session that is not there is unknown, and stays so", async () => {
    const { runtime } = unattended({ store: open()() });
    await expect(runtime.sessions.open("none")).rejects.toMatchObject({
      code: "unknown_session",
      details: { sessionId: "none" },
    });
    expect(await runtime.sessions.exists("none")).toBe(false);
  });

  test("[RO1] a session that this runtime may drive is the same object, opened either way", async () => {
    const { runtime, session } = await live({ store: open()(), script: [say("hello")] });
    const read = await runtime.sessions.open("s");
    expect(read).toBe(session);
    expect(read.isReadOnly).toBe(false);
    expect((await read.run("hi")).text).toBe("hello");
  });

  test("[RO2] where a plugin is missing, what reads works and everything else is needs_binding", async () => {
    const store = open();
    const guard = plugin("guard", {});
    const first = await live({ store: store(), plugins: [guard], script: [say("hello"), say("again")] });
    await first.session.run("hi");
    const { runtime } = unattended({ store: store() });
    const reader = await runtime.sessions.open("s");
    expect(reader.isReadOnly).toBe(true);
    expect(reader.read()).toEqual(first.session.read());
    expect(await reader.history()).toEqual(await first.session.history());
    expect(reader.usage()).toEqual(first.session.usage());
    expect(await reader.pending()).toEqual([]);
    expect(await reader.cancelPending([])).toEqual([]);
    expect(await runtime.approvals.list()).toEqual([]);
    await first.session.run("once more");
    expect((await runtime.sessions.open("s")).read()).toEqual(first.session.read());
    for (const [name, use] of DRIVING)
      await expect(
        settled(() => use(reader)),
        name,
      ).rejects.toMatchObject({ code: "needs_binding" });
    await expect(runtime.session("s")).rejects.toMatchObject({ code: "needs_binding" });
    await reader.close();
  });
});

const settled = async (use: () => unknown): Promise<unknown> => use();

/** Everything of a session but what reads. */
const DRIVING: readonly (readonly [string, (session: Session) => unknown])[] = [
  ["turn", (session) => session.turn("go").result],
  ["run", (session) => session.run("go")],
  ["enqueue", (session) => session.enqueue("go")],
  ["configure", (session) => session.configure({ maxTurns: 3 })],
  ["authorize", (session) => session.authorize({ hiddenTools: ["x"] }, { reason: "why" })],
  ["compact", (session) => session.compact()],
  ["appendNodes", (session) => session.appendNodes([{ kind: "plugin", type: "t", body: null }])],
  ["query", (session) => session.query("desk.count")],
  ["command", (session) => session.command("desk.note")],
  ["task", (session) => session.task("desk.file")],
  ["action", (session) => session.action("desk.old")],
  ["operations", (session) => session.operations()],
  ["plugin", (session) => session.plugin({ id: "guard" } as never)],
  ["applyExtension", (session) => session.applyExtension({})],
  ["tools.list", (session) => session.tools.list()],
  ["tools.state", (session) => session.tools.state()],
  ["tools.setMembership", (session) => session.tools.setMembership(["x"], true)],
  ["tools.setAvailability", (session) => session.tools.setAvailability(["x"], null)],
  ["tools.apply", (session) => session.tools.apply({ generation: 0, tools: {} })],
  ["tools.add", (session) => session.tools.add(quickTool("x") as never)],
  ["tasks.list", (session) => session.tasks.list()],
  ["tasks.cancel", (session) => session.tasks.cancel("t")],
  ["tasks.cancelAll", (session) => session.tasks.cancelAll()],
  ["tasks.watch", (session) => session.tasks.watch()],
  ["monitors.snapshot", (session) => session.monitors.snapshot()],
  ["monitors.start", (session) => session.monitors.start("m")],
  ["monitors.stop", (session) => session.monitors.stop("m")],
  ["monitors.takeUpdates", (session) => session.monitors.takeUpdates()],
];

test("[RO1] opening takes up nothing, and asking for the session to be driven does", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  // No recovery: a runtime that cannot see the work that is left.
  const hidden = sqliteStore({ path });
  const blind = Object.assign(Object.create(hidden), { workable: async () => [], resumable: async () => [] });
  const { runtime } = running(blind, having(world));
  world.asked.length = 0;
  const before = await storedOf(hidden);
  const session = await runtime.sessions.open("s");
  expect(session.isReadOnly).toBe(false);
  expect(await session.pending()).toMatchObject([{ status: "queued" }]);
  expect(await storedOf(hidden)).toEqual(before);
  expect(world.asked).toEqual([]);
  expect(await runtime.session("s")).toBe(session);
  await vi.waitUntil(async () => (await runtime.approvals.list()).length === 1, { timeout: 20_000 });
});

test.each(NEEDED)(
  "[RO2] without %s a waiting call is decided and a turn is cancelled from there",
  async (without) => {
    const [path, world] = [database(), newWorld()];
    const full = running(sqliteStore({ path }), having(world));
    const session = await full.runtime.session("s", { model: "careful" });
    const turn = session.turn("pay it back");
    await vi.waitUntil(async () => (await full.runtime.approvals.list()).length === 1, { timeout: 20_000 });
    const { runtime } = running(sqliteStore({ path }), having(world, without));
    const reader = await runtime.sessions.open("s");
    expect(reader.isReadOnly).toBe(true);
    const [question] = await runtime.approvals.list({ sessionId: "s" });
    await runtime.approvals.decide(question as never, { decision: "allow", actor: "reader" });
    expect((await turn.result).text).toBe("refunded");
    const next = session.turn("again", { id: "next" });
    await next.accepted;
    expect(["requested", "settled", "ended"]).toContain(await reader.cancel("next"));
    await next.result;
    expect(world.asked).not.toContain("default");
  },
);

test("[RO2] an observer of a read-only session is told of what others commit", async () => {
  const path = database();
  const guard = plugin("guard", {});
  const first = await live({ store: sqliteStore({ path }), plugins: [guard], script: [say("hello")] });
  const { runtime } = unattended({ store: sqliteStore({ path }) });
  const reader = await runtime.sessions.open("s");
  const over = new AbortController();
  const seen: number[] = [];
  const watching = (async () => {
    for await (const observed of reader.observe({ signal: over.signal })) {
      if (observed.kind === "gap") seen.push(observed.view.messages.length);
      if (seen.includes(2)) return;
    }
  })();
  await first.session.run("hi");
  await watching;
  over.abort();
  expect(seen).toContain(2);
});

test("[RO3] a session that another runtime gave a plugin becomes read-only here, and drivable again without it", async () => {
  const path = database();
  const here = await live({ store: sqliteStore({ path }), script: [say("one"), say("two")] });
  await here.session.run("one");
  const there = await live({
    store: sqliteStore({ path }),
    plugins: [plugin("guard", {})],
    script: [say("guarded")],
  });
  await there.session.run("more");
  await expect(here.session.run("refused")).rejects.toMatchObject({ code: "needs_binding" });
  expect(here.session.isReadOnly).toBe(true);
  expect(here.session.read().messages).toHaveLength(4);
  await there.runtime.close();

  const third = await live({
    store: sqliteStore({ path }),
    retired: { guard: "not needed" },
    script: [say("seen"), callTool("x"), say("end")],
  });
  await third.runtime.recover();
  await vi.waitUntil(async () => (await third.session.pending()).length === 0, { timeout: 20_000 });
  await third.runtime.close();
  expect((await here.session.run("fine")).text).toBe("two");
  expect(here.session.isReadOnly).toBe(false);
});
