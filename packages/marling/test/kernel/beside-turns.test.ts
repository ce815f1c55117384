// Tasks, processes, monitors and injected inputs, as plugins and hosts use them on a runtime.

import { definePlugin, defineTool, type MonitorSnapshot, type Plugin, type TaskRecord } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { BACKINGS, database, live, mortal } from "./durable-support.ts";

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe.each(BACKINGS)("on $name", ({ open }) => {
  test("[K111] an injected input reaches the running turn at its next checkpoint, once per id, and not as words of the user", async () => {
    let inject = async (): Promise<void> => undefined;
    const injecting = definePlugin({
      id: "injecting",
      build: ({ sessionId }) => ({
        ready: ({ host }) => {
          inject = () =>
            host.injectTurnInput(sessionId, {
              id: "note-1",
              message: { role: "user", content: "Mind the gap." },
            });
        },
      }),
    });
    const look = defineTool({
      name: "look",
      description: "Looks.",
      input: { type: "object" },
      execute: async () => {
        await inject();
        await inject();
        return "seen";
      },
    });
    const { session, model } = await live({
      store: open()(),
      plugins: [injecting()],
      tools: [look],
      script: [callTool("look", {}), say("Minded.")],
    });
    const turn = session.turn("Go.");
    const accepted: unknown[] = [];
    for await (const event of turn) if (event.kind === "input_accepted") accepted.push(event);
    expect((await turn.result).text).toBe("Minded.");
    expect(accepted).toEqual([{ kind: "input_accepted", inputIds: ["s:input:2"], checkpoint: "after_work" }]);
    const last = model.requests.at(-1)?.messages.filter(({ role }) => role === "system" || role === "user");
    expect(last?.map(({ role, parts }) => [role, parts[0]])).toEqual([
      ["user", { kind: "text", text: "Go." }],
      ["system", { kind: "text", text: "Runtime note: Mind the gap." }],
    ]);
    await inject();
    expect(model.requests).toHaveLength(2);
  });

  test("[K166] queries see processes, commands start, signal, await and cancel them", async () => {
    const { session } = await live({ store: open()(), plugins: [processes()] });
    expect(await session.command("jobs.run", {}).then(({ output }) => output)).toEqual({
      state: "completed",
      result: { heard: "hello" },
      parent: "s:plugin_command:jobs.run:1",
    });
    expect(await session.query("jobs.seen", {})).toEqual({ states: ["completed"], methods: ["get", "list"] });
    expect(await session.command("jobs.cancel", {}).then(({ output }) => output)).toBe("cancelled");
    expect(session.tasks.list().map(({ id, state }) => [id, state])).toEqual([
      ["job", "completed"],
      ["endless", "cancelled"],
    ]);
  });

  test("a monitor's line becomes a turn that is not the user's, and closing leaves no process", async () => {
    const { session, model, runtime } = await live({
      store: open()(),
      script: () => say("Noted."),
    });
    await session.monitors.start({ id: "watch", command: "echo $$; exec sleep 600" });
    await vi.waitUntil(() => session.read().turnIndex === 1, { timeout: 10_000 });
    const [message] = session.read().messages;
    const [part] = message?.parts ?? [];
    const text = part?.kind === "text" ? part.text : "";
    const pid = Number(/(\d+)\s*$/.exec(text)?.[1]);
    expect(message?.role).toBe("system");
    expect(text).toContain("watch");
    expect(model.requests).toHaveLength(1);
    expect(session.tasks.list().map(({ id, kind, state }) => [id, kind, state])).toEqual([
      ["monitor:watch", "monitor", "running"],
    ]);
    expect(isAlive(pid)).toBe(true);
    await runtime.close();
    expect(isAlive(pid)).toBe(false);
  });
});

/** A plugin whose operations use the process services, and that says what it was given. */
function processes(): Plugin {
  type Signalled = { readonly signals: AsyncIterable<unknown> };
  return definePlugin({
    id: "jobs",
    build: () => ({
      operations: {
        queries: {
          "jobs.seen": {
            handler: async ({ processes: seen }) => ({
              states: (await seen.list("s")).map(({ state }) => state),
              methods: Object.keys(seen).sort(),
            }),
          },
        },
        commands: {
          "jobs.run": {
            handler: async ({ processes: service }) => {
              await service.start("s", { id: "job", kind: "other", producer: "jobs" }, async (context) => {
                for await (const heard of (context as unknown as Signalled).signals) return { heard };
                return undefined;
              });
              await service.signal("s", "job", "hello");
              const { state, result = null } = await service.await("s", "job");
              return { state, result, parent: service.parentInvocation };
            },
          },
          "jobs.cancel": {
            handler: async ({ processes: service }) => {
              await service.start(
                "s",
                { id: "endless", kind: "other", producer: "jobs" },
                ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
              );
              return (await service.cancel("s", "endless")).state;
            },
          },
        },
      },
    }),
  })();
}

/** A plugin that counts to three, stopping at two in its first attempt. */
function counting(seen: TaskRecord[]): Plugin {
  return definePlugin({
    id: "counting",
    build: ({ sessionId }) => ({
      background: {
        count: async ({ record, progress }) => {
          seen.push(record);
          progress({ at: 2 });
          if (record.attempt === 1) await new Promise(() => {});
          return { counted: 3, from: record.progress ?? null };
        },
      },
      operations: {
        commands: {
          "counting.start": {
            handler: async ({ processes: service }) => {
              const durable = { recovery: "rerun", input: { to: 3 } } as const;
              await service.start(sessionId, {
                id: "c",
                kind: "other",
                producer: "counting",
                label: "count",
                durable,
              });
              return null;
            },
          },
        },
      },
    }),
  })();
}

test("a durable task of a dead process runs again with its input and its last progress", async () => {
  const path = database();
  const first: TaskRecord[] = [];
  const one = await mortal({ store: sqliteStore({ path }), plugins: [counting(first)] });
  await one.session.command("counting.start", {});
  await vi.waitUntil(async () => {
    const stored = await sqliteStoreOf(path);
    return (JSON.stringify(stored) ?? "").includes('"at":2');
  });
  await one.die();
  const again: TaskRecord[] = [];
  const { session } = await live({ store: sqliteStore({ path }), plugins: [counting(again)] });
  await vi.waitUntil(() => session.tasks.list()[0]?.state === "completed");
  expect(session.tasks.list()).toMatchObject([
    { id: "c", state: "completed", attempt: 2, result: { counted: 3, from: { at: 2 } } },
  ]);
  expect(again).toMatchObject([{ attempt: 2, durable: { recovery: "rerun", input: { to: 3 } } }]);
});

/** What is stored of the work of session "s". */
async function sqliteStoreOf(path: string): Promise<unknown> {
  const store = sqliteStore({ path });
  try {
    return (await store.load("s" as never))?.components.work;
  } finally {
    await store.close();
  }
}

test("a fork begins without the work of its source, and a closed session's monitors are there again", async () => {
  const path = database();
  const { runtime, session } = await live({ store: sqliteStore({ path }), script: () => say("Noted.") });
  await session.monitors.start({ id: "once", command: "true", wakePolicy: "notify" });
  const ended = async (): Promise<MonitorSnapshot> => session.monitors.snapshot();
  await vi.waitUntil(async () => (await ended()).monitors[0]?.state === "exited", { timeout: 10_000 });
  const fork = await runtime.sessions.fork("s", { as: "t" });
  expect((await fork.monitors.snapshot()).monitors).toEqual([]);
  await session.close();
  const reopened = await runtime.session("s");
  expect((await reopened.monitors.snapshot()).monitors.map(({ state }) => state)).toEqual(["exited"]);
});
