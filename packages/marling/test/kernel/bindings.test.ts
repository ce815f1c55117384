// E19 and ruling 14: a runtime that lacks a plugin, the model or a tool source of a session never drives it.
// Every way to drive a session, on a runtime that lacks each of the things the session needs.

import type { Runtime, Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import {
  finishCutTurn,
  having,
  leaveBeside,
  leaveCutTurn,
  NEEDED,
  newWorld,
  running,
  storedOf,
} from "./bindings-support.ts";
import {
  BACKINGS,
  database,
  gate,
  gatedTool,
  live,
  mortal,
  quickTool,
  unattended,
} from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { failureOf } from "./tools-support.ts";
import { MAIL } from "./triggers-support.ts";

type Drive = (runtime: Runtime, session: Session) => Promise<unknown>;

/** Reports what recovery skipped as it would be thrown. */
const recover: Drive = async (runtime) => {
  const { resumed, skipped } = await runtime.recover();
  expect(resumed).toEqual([]);
  const [first] = skipped;
  throw Object.assign(new Error(first?.message), { code: first?.code });
};

/** Ways to drive a session that is not open. */
const CLOSED: readonly (readonly [string, Drive])[] = [
  [
    "opening it and asking again",
    async (runtime) => (await runtime.session("s")).turn("pay it back", { key: "k" }).result,
  ],
  ["opening it and asking for something else", async (runtime) => (await runtime.session("s")).run("next")],
  ["recovery", recover],
  [
    "a delivery",
    async (runtime, session) => {
      await runtime.triggers.emit({ source: MAIL, key: "m1", payload: { subject: "hello" } });
      return recover(runtime, session);
    },
  ],
];

/** Ways to drive a session that was opened before another runtime committed to it. */
const OPEN: readonly (readonly [string, Drive])[] = [
  ["a turn", (_runtime, session) => session.run("next")],
  ["the same turn", (_runtime, session) => session.turn("pay it back", { key: "k" }).result],
  [
    "an input that joins",
    async (_runtime, session) => {
      const { inputId } = await session.enqueue("next");
      const row = (await session.pending()).find((one) => one.inputId === inputId);
      return session.turn("next", { id: row?.turnId as string }).result;
    },
  ],
  ["recovery", recover],
  ["a command", (_runtime, session) => session.command("desk.note", {})],
  ["a task", (_runtime, session) => session.task("desk.file", {})],
  ["a compaction", (_runtime, session) => session.compact()],
  ["a change of the policy", (_runtime, session) => session.configure({ instructions: "other" })],
  [
    "a change of the authority",
    (_runtime, session) => session.authorize({ hiddenTools: ["x"] }, { reason: "why" }),
  ],
];

const refusal = (name: string) => ({ code: "needs_binding", message: expect.stringContaining(name) });

describe.each(NEEDED)(
  "a turn that was cut during its model call, and a runtime without %s",
  (without, name) => {
    test.each(CLOSED)("[E19] %s is refused by name, and the turn stays as it is", async (_way, drive) => {
      const [path, world] = [database(), newWorld()];
      const open = () => sqliteStore({ path });
      await leaveCutTurn(open(), world);
      const full = running(open(), having(world));
      await full.runtime.triggers.subscribe({ sessionId: "s", source: MAIL });
      await full.die();
      const before = await storedOf(open());
      const { runtime } = running(open(), having(world, without));
      world.asked.length = 0;
      await expect(drive(runtime, undefined as never)).rejects.toMatchObject(refusal(name));
      await runtime.close();
      expect(await storedOf(open())).toEqual(before);
      expect(world).toEqual({ refunds: [], asked: [], worked: [] });
      await finishCutTurn(open(), world);
    });

    test.each(OPEN)("[E19] %s is refused where it was opened before", async (_way, drive) => {
      const [path, world] = [database(), newWorld()];
      const open = () => sqliteStore({ path });
      const { runtime, session } = await leaveBeside(open, world, without);
      const before = await storedOf(open());
      await expect(drive(runtime, session)).rejects.toMatchObject(refusal(name));
      await runtime.close();
      expect(await storedOf(open())).toEqual(before);
      expect(world).toEqual({ refunds: [], asked: [], worked: [] });
      await finishCutTurn(open(), world);
    });
  },
);

test.each(NEEDED.slice(0, 2))("[E19] a fork needs %s by its own newest commit", async (without, name) => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), having(world, without));
  await expect(runtime.sessions.fork("s", { as: "fork" })).rejects.toMatchObject(refusal(name));
});

test("[E19] a fork needs no tools of a turn that did not fork", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), having(world, "tools"));
  const fork = await runtime.sessions.fork("s", { as: "fork" });
  expect(fork.isReadOnly).toBe(false);
});

test.each(BACKINGS)(
  "[E19] a session that ended its turns is refused where the model or a plugin is missing: $name",
  async ({ open }) => {
    const [store, world] = [open(), newWorld()];
    const first = running(store(), having(world));
    await (await first.runtime.session("s", { model: "careful" })).configure({ instructions: "careful" });
    await first.runtime.close();
    for (const [without, name] of NEEDED.slice(0, 2)) {
      const { runtime } = running(store(), having(world, without));
      await expect(runtime.session("s")).rejects.toMatchObject(refusal(name));
      await runtime.close();
    }
    const { runtime } = running(store(), having(world, "tools"));
    expect((await runtime.session("s")).isReadOnly).toBe(false);
  },
);

test("[E19] opening a session with another model gives up the one that is gone", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), having(world, "model"));
  const session = await runtime.session("s", { model: "default" });
  expect((await session.turn("pay it back", { key: "k" }).result).text).toBe("by the wrong model");
});

test("[E19] a tool that its source no longer offers is a failed call", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), { ...having(world), tools: [quickTool("another")] });
  const session = await runtime.session("s");
  const report = await session.turn("pay it back", { key: "k" }).result;
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
});

test("[E19] a turn that was asked to end needs no tools", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), having(world, "tools"));
  const reader = await runtime.sessions.open("s");
  expect(reader.isReadOnly).toBe(true);
  expect(await reader.cancel("s:turn:1")).toBe("requested");
  expect((await runtime.recover()).resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
  expect(world.refunds).toEqual([]);
  expect(await (await runtime.session("s")).pending()).toEqual([]);
});

test("[BI6] a turn that has begun runs with the plugins it began with, and additional ones join the next", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), callTool("second")],
    tools: [quickTool("first"), gatedTool("second", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const seen: string[] = [];
  const added = plugin("added", {
    turn: { before: () => void seen.push("before") },
    toolCalls: { before: ({ toolName }) => void seen.push(toolName) },
  });
  const { session } = await live({
    store: sqliteStore({ path }),
    plugins: [added],
    script: [callTool("first"), say("done"), callTool("first"), say("again")],
    tools: [quickTool("first"), quickTool("second")],
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("done");
  expect(seen).toEqual([]);
  await session.run("again");
  expect(seen).toEqual(["before", "first"]);
});

test("[BI2] a turn that began with an additional plugin needs it, though no commit names it", async () => {
  const path = database();
  const [at, asked] = [gate(), [] as string[]];
  const guard = plugin("guard", { toolCalls: { before: ({ toolName }) => void asked.push(toolName) } });
  const first = await live({
    store: sqliteStore({ path }),
    script: [say("hello")],
    tools: [quickTool("first")],
  });
  await first.session.run("hi");
  await first.runtime.close();
  const second = await mortal({
    store: sqliteStore({ path }),
    plugins: [guard],
    script: [callTool("first")],
    tools: [gatedTool("first", at)],
  });
  second.session.turn("go", { key: "k" });
  await at.begun;
  await second.die();
  const without = unattended({ store: sqliteStore({ path }), tools: [quickTool("first")] });
  expect((await without.runtime.recover()).skipped).toMatchObject([refusal("plugin guard")]);
});

test("[E19] the error names everything that is missing", async () => {
  const [path, world] = [database(), newWorld()];
  await leaveCutTurn(sqliteStore({ path }), world);
  const { runtime } = running(sqliteStore({ path }), {});
  expect((await runtime.recover()).skipped).toMatchObject([
    {
      message: expect.stringContaining(
        "model careful and plugin mail and plugin desk and plugin approvals and tool source host_tools",
      ),
    },
  ]);
});
