// The tasks of sessions as processes: kernel.md row 166. Queries read; commands, tasks, the call before a model call and
// code do things with them.

import { say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import type { ProcessReadService, ProcessService } from "../../src/plugin/work-host.ts";
import { codeProtocol } from "./code-support.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { protocol } from "./protocol-support.ts";
import { codeOf } from "./services-support.ts";
import { durable, eventually, jobs, simple, states } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

/** Starts a process, talks to it, waits for it and cancels another. */
async function useAll(processes: ProcessService): Promise<unknown> {
  const heard: unknown[] = [];
  const started = await processes.start("s", simple("a"), async ({ signals }) => {
    for await (const message of signals) {
      heard.push(message);
      if (message === "enough") break;
    }
    return { heard };
  });
  await processes.signal("s", "a", { n: 1 });
  await processes.signal("s", "a", "enough");
  const ended = await processes.await("s", "a");
  await processes.start(
    "s",
    simple("b"),
    ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true })),
  );
  const cancelled = await processes.cancel("s", "b");
  return {
    started: started.state,
    ended: [ended.state, ended.result],
    cancelled: cancelled.state,
    late: await codeOf(processes.signal("s", "a", 1)),
    unknown: await codeOf(processes.await("s", "x")),
    get: (await processes.get("s", "a"))?.state,
    list: states(await processes.list("s")),
    outside: await codeOf(processes.list("elsewhere")),
  };
}

const USED = {
  started: "running",
  ended: ["completed", { heard: [{ n: 1 }, "enough"] }],
  cancelled: "cancelled",
  late: "unknown_task",
  unknown: "unknown_task",
  get: "completed",
  list: ["a completed", "b cancelled"],
  outside: "unknown_session",
};

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[K166] a query sees processes and has nothing to start or end them with", async () => {
    let given: ProcessReadService | undefined;
    const { session } = await live({
      store: open()(),
      plugins: [
        plugin("p", {
          operations: {
            queries: {
              look: {
                session: "required",
                handler: async ({ processes }) => {
                  given = processes;
                  return [...states(await processes.list("s")), (await processes.get("s", "x")) ?? null];
                },
              },
            },
            commands: {
              begin: {
                session: "required",
                handler: async ({ processes }) => {
                  await processes.start("s", simple("a"), () => "done");
                  await processes.await("s", "a");
                },
              },
            },
          },
        }),
      ],
    });
    await session.command("begin");
    expect(await session.query("look")).toEqual(["a completed", null]);
    expect(Object.keys(given ?? {}).sort()).toEqual(["get", "list"]);
  });

  test("[K166] a command starts, signals, awaits and cancels, and says what its processes are children of", async () => {
    let parent: string | undefined;
    const { session } = await live({
      store: open()(),
      plugins: [
        plugin("p", {
          operations: {
            commands: {
              use: {
                session: "required",
                handler: async ({ processes }) => {
                  parent = processes.parentInvocation;
                  return (await useAll(processes)) as never;
                },
              },
            },
          },
        }),
      ],
    });
    expect((await session.command("use")).output).toEqual(USED);
    expect(parent).toBe("s:plugin_command:use:1");
  });

  test("[K166] so does a task, under the scope of its run", async () => {
    let names: readonly string[] = [];
    const { session } = await live({
      store: open()(),
      plugins: [
        plugin("p", {
          operations: {
            tasks: {
              use: {
                session: "required",
                handler: async ({ processes, scope }) => {
                  names = [processes.parentInvocation, scope];
                  return (await useAll(processes)) as never;
                },
              },
            },
          },
        }),
      ],
    });
    expect((await session.task("use")).output).toEqual(USED);
    expect(names).toEqual(["s:plugin_task:use:1", "s:plugin_task:use:1"]);
  });

  test("[K166] so does the call before a model call, inside its turn", async () => {
    let used: unknown;
    let parent: string | undefined;
    const { session } = await live({
      store: open()(),
      script: [say("done")],
      plugins: [
        protocol({
          beforeLlmCall: async ({ processes }) => {
            parent = processes.parentInvocation;
            used = await useAll(processes);
            return undefined;
          },
        }),
      ],
    });
    const { turnId } = await session.turn("go").result;
    expect(used).toEqual(USED);
    expect(parent).toBe(`${turnId}.0.model_call`);
  });

  test("[K166] so does code, whose processes are children of its cell", async () => {
    let used: unknown;
    let names: readonly (string | undefined)[] = [];
    const { session } = await live({
      store: open()(),
      script: [say("run it"), say("done")],
      plugins: [
        codeProtocol({
          executeCode: async (context) => {
            names = [context.processes.parentInvocation, context.parentInvocation];
            used = await useAll(context.processes);
            return { observations: ["ran"] };
          },
        }),
      ],
    });
    const { turnId } = await session.turn("go").result;
    expect(used).toEqual(USED);
    expect(names[0]).toBe(names[1]);
    expect(names[0]?.startsWith(`${turnId}.`)).toBe(true);
  });

  test("[K166] a process that was moved, and one that runs again after an opening, still get their messages", async () => {
    const background = jobs();
    const command = (name: string, run: (processes: ProcessService) => Promise<unknown>) => ({
      [name]: {
        session: "required" as const,
        handler: async ({ processes }: { readonly processes: ProcessService }) => void (await run(processes)),
      },
    });
    const { runtime, session } = await live({
      store: open()(),
      plugins: [
        background.plugin,
        plugin("p", {
          operations: {
            commands: {
              ...command("start", (processes) => processes.start("s", durable("a"))),
              ...command("tell", (processes) => processes.signal("s", "a", "hello")),
            },
            actions: {
              child: {
                session: "required",
                handler: async ({ host }) => {
                  await host.createSession({ sessionId: "child" });
                  await host.spawnManagedTask("child", simple("moved"), background.run);
                  await host.transferAsyncHandles("child", "s", ["moved"]);
                },
              },
            },
          },
        }),
      ],
    });
    await session.command("start");
    await session.close();
    const again = await runtime.session("s");
    await eventually(() => background.attempts.length).toBe(2);
    await again.command("tell");
    const [first] = await take(background.attempts[1]?.context.signals);
    expect(first).toBe("hello");
    await again.action("child");
    expect(states(again.tasks.list())).toEqual(["a running", "moved running"]);
  });
});

async function take(messages: AsyncIterable<unknown> | undefined): Promise<readonly unknown[]> {
  for await (const message of messages ?? []) return [message];
  return [];
}
