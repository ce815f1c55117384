// Ruling 14: a plugin is retired in code, and the first commit of each session afterwards records it.

import { createRuntime, type Plugin, type Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
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
import { plugin, TestClock } from "./hooks-support.ts";

const RETIRED = { "old-guard": "replaced by the new one" };

const guard = (seen: string[] = []): Plugin =>
  plugin("old-guard", {
    turn: { before: () => void seen.push("guarded") },
  });

async function retirements(session: Session): Promise<readonly unknown[]> {
  return (await session.history()).flatMap((node) =>
    node.kind === "plugin_retired" ? [{ pluginId: node.pluginId, reason: node.reason, at: node.at }] : [],
  );
}

test.each(BACKINGS)(
  "[RP1] the first commit records it once, and the session runs without it: $name",
  async ({ open }) => {
    const store = open();
    const first = await live({ store: store(), plugins: [guard()], script: [say("guarded")] });
    await first.session.run("one");
    await first.runtime.close();

    const refused = unattended({ store: store() });
    await expect(refused.runtime.session("s")).rejects.toMatchObject({ code: "needs_binding" });
    await refused.runtime.close();

    const clock = new TestClock();
    const options = { store: store(), retired: RETIRED, clock, script: [say("two"), say("three")] };
    const { session, runtime } = await live(options);
    expect(session.isReadOnly).toBe(false);
    expect(await retirements(session)).toEqual([]);
    await session.run("two");
    const record = { pluginId: "old-guard", reason: "replaced by the new one", at: clock.now() };
    expect(await retirements(session)).toEqual([record]);
    await session.run("three");
    expect(await retirements(session)).toEqual([record]);
    expect(session.read().messages).toHaveLength(6);
    await runtime.close();

    // No commit names it any more: a runtime that knows nothing of it drives the session.
    const after = await live({ store: store(), script: [say("four")] });
    expect((await after.session.run("four")).text).toBe("four");
    expect(await retirements(after.session)).toEqual([record]);
  },
);

test("[RP1] an operation beside turns records it as well", async () => {
  const path = database();
  const first = await live({ store: sqliteStore({ path }), plugins: [guard()] });
  await first.runtime.close();
  const { session } = await live({ store: sqliteStore({ path }), retired: RETIRED });
  await session.configure({ instructions: "new words" });
  expect(await retirements(session)).toHaveLength(1);
});

test("[RP2] a turn whose journal has begun keeps its plugins until it has finished", async () => {
  const path = database();
  const [at, seen] = [gate(), [] as string[]];
  const first = await mortal({
    store: sqliteStore({ path }),
    plugins: [guard()],
    script: [callTool("work")],
    tools: [gatedTool("work", at)],
  });
  first.session.turn("go", { key: "k" });
  await at.begun;
  await first.die();

  const without = unattended({ store: sqliteStore({ path }), retired: RETIRED, tools: [quickTool("work")] });
  expect((await without.runtime.recover()).skipped).toMatchObject([
    { code: "needs_binding", message: expect.stringContaining("plugin old-guard") },
  ]);
  const open = await without.runtime.session("s");
  const ways = [
    () => open.turn("go", { key: "k" }).result,
    () => open.run("next"),
    () => open.configure({ maxTurns: 3 }),
  ];
  for (const way of ways) await expect(way()).rejects.toMatchObject({ code: "needs_binding" });
  await without.runtime.close();

  const again = await live({
    store: sqliteStore({ path }),
    plugins: [guard(seen)],
    script: [say("done"), say("next")],
    tools: [quickTool("work")],
  });
  expect((await again.session.turn("go", { key: "k" }).result).text).toBe("done");
  await again.runtime.close();
  const { session } = await live({
    store: sqliteStore({ path }),
    retired: RETIRED,
    script: [say("after")],
    tools: [quickTool("work")],
  });
  expect((await session.run("after")).text).toBe("after");
  expect(await retirements(session)).toHaveLength(1);
});

test("[RP2] a turn that was cancelled keeps nothing: it is ended where its plugin is retired", async () => {
  const path = database();
  const at = gate();
  const first = await mortal({
    store: sqliteStore({ path }),
    plugins: [guard()],
    script: [callTool("work")],
    tools: [gatedTool("work", at)],
  });
  first.session.turn("go", { key: "k" });
  await at.begun;
  await first.die();

  const { runtime } = unattended({
    store: sqliteStore({ path }),
    retired: RETIRED,
    tools: [quickTool("work")],
  });
  const reader = await runtime.sessions.open("s");
  expect(reader.isReadOnly).toBe(true);
  await reader.cancel("s:turn:1", "its plugin is gone");
  await runtime.recover();
  const session = await runtime.session("s");
  expect(await session.pending()).toEqual([]);
  expect(await retirements(session)).toHaveLength(1);
  expect((await session.turn("go", { key: "k" }).result).outcome).toMatchObject({ reason: "cancelled" });
});

test("[RP1] a fork at an older commit is checked against what is retired, and its first commit records it", async () => {
  const path = database();
  const first = await live({
    store: sqliteStore({ path }),
    plugins: [guard()],
    script: [say("one"), say("two")],
  });
  await first.session.run("one");
  const old = (await first.session.history()).at(-1)?.id as string;
  await first.session.run("two");
  await first.runtime.close();
  const { session, runtime } = await live({
    store: sqliteStore({ path }),
    retired: RETIRED,
    script: [say("three")],
  });
  await session.run("three");
  const fork = await runtime.sessions.fork("s", { as: "fork", at: old });
  expect(await retirements(fork)).toHaveLength(1);
  const plain = unattended({ store: sqliteStore({ path }) });
  await expect(plain.runtime.sessions.fork("s", { as: "other", at: old })).rejects.toMatchObject({
    code: "needs_binding",
  });
});

test("[RP1] the record is no message, and nothing but the kernel writes one", async () => {
  const { session } = await live({ store: BACKINGS[0]?.open()() as never });
  const node = { kind: "plugin_retired", pluginId: "guard", reason: "forged", at: 0 };
  await expect(session.appendNodes([node as never])).rejects.toThrow("plugin_retired");
});

test.each([
  ["a list", ["guard"]],
  ["a blank reason", { guard: " " }],
  ["no reason", { guard: undefined }],
])("option retired: %s is refused", (_name, retired) => {
  expect(() => createRuntime({ retired: retired as never })).toThrow(/option retired/);
});

test("option retired: a plugin that is given is refused", () => {
  expect(() => createRuntime({ plugins: [guard()], retired: RETIRED })).toThrow(/option retired\.old-guard/);
});
