// Whom operations wait for, what they are given, and the older form of them.

import { definePlugin, defineTool, type OperationOptions } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { plugin, stage } from "./tools-support.ts";

const CUSTOM = { kind: "custom", name: "stamp", payload: { n: 1 } } as const;

describe("whom operations wait for", () => {
  const waiting = (begun: () => void, gate: Promise<void>): ReturnType<typeof defineTool> =>
    defineTool({
      name: "wait",
      description: "Waits.",
      input: { type: "object" },
      execute: async () => {
        begun();
        await gate;
        return null;
      },
    });

  test("[K70] a query answers while a turn runs, from what is committed; a command waits for its turn", async () => {
    const [begun, gate] = [deferred<void>(), deferred<void>()];
    const log: string[] = [];
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: () => {
            count.update((n) => n + 1);
            return undefined;
          },
        },
        operations: {
          queries: {
            "counter.get": {
              session: "required",
              handler: async (query) => ({
                count: count.get(),
                messages: (await query.sessions.snapshotCurrent()).messages.length,
              }),
            },
          },
          commands: { "counter.log": { session: "required", handler: () => void log.push("command") } },
        },
      };
    });
    const { session } = await stage({
      tools: [waiting(begun.resolve, gate.promise)],
      plugins: [counting],
      script: [callTool("wait"), say("Done.")],
    });
    const turn = session.turn("Go");
    await begun.promise;
    const command = session.command("counter.log");
    expect(await session.query("counter.get")).toEqual({ count: 0, messages: 0 });
    expect(log).toEqual([]);
    gate.resolve();
    await turn.result;
    await command;
    expect(log).toEqual(["command"]);
    expect(await session.query("counter.get")).toEqual({ count: 1, messages: 4 });
  });

  test("[K68] a task gets a scope of its own and a signal that aborts with the caller's", async () => {
    const scopes: string[] = [];
    const begun = deferred<void>();
    const tasks = plugin("desk", {
      operations: {
        tasks: {
          "desk.long": {
            session: "required",
            handler: (ctx) => {
              scopes.push(ctx.scope);
              return new Promise((resolve) => {
                ctx.signal.addEventListener("abort", () => resolve({ output: "stopped", events: [CUSTOM] }));
                begun.resolve();
              });
            },
          },
          "desk.short": {
            session: "required",
            handler: (ctx) => {
              scopes.push(ctx.scope);
              return { output: ctx.signal.aborted, events: [CUSTOM] };
            },
          },
        },
      },
    });
    const { session } = await stage({ plugins: [tasks] });
    const controller = new AbortController();
    const receipt = session.task("desk.long", {}, { signal: controller.signal });
    await begun.promise;
    controller.abort();
    expect(await receipt).toMatchObject({ output: "stopped", events: [{ pluginId: "desk", event: CUSTOM }] });
    expect(await session.task("desk.short")).toMatchObject({ output: false });
    expect(scopes).toEqual(["s:plugin_task:desk.long:1", "s:plugin_task:desk.short:2"]);
    expect((await session.history()).filter(({ kind }) => kind === "protocol_event")).toHaveLength(2);
  });

  test("[K68] commands and tasks of one session run one after the other, in the order they were asked for", async () => {
    const log: string[] = [];
    const gates = [deferred<void>(), deferred<void>()];
    const slow = plugin("desk", {
      operations: {
        commands: {
          "desk.first": {
            session: "required",
            handler: () => gates[0]?.promise.then(() => log.push("first")),
          },
        },
        tasks: {
          "desk.second": {
            session: "required",
            handler: () => gates[1]?.promise.then(() => log.push("second")),
          },
        },
      },
    });
    const { session } = await stage({ plugins: [slow], script: [say("Done.")] });
    const all = [
      session.command("desk.first"),
      session.task("desk.second"),
      session.turn("Go").result.then(() => log.push("turn")),
    ];
    gates[1]?.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(log).toEqual([]);
    gates[0]?.resolve();
    await Promise.all(all);
    expect(log).toEqual(["first", "second", "turn"]);
  });

  test.each<[OperationOptions | undefined, unknown]>([
    [undefined, "s"],
    [{ session: "elsewhere" }, "elsewhere"],
    [{ session: null }, null],
  ])("[K67] a call with %j reaches the handler with session %j", async (options, expected) => {
    const echo = plugin("desk", {
      operations: {
        commands: { "desk.who": { session: "optional", handler: (ctx) => ctx.sessionId ?? null } },
      },
    });
    const { session } = await stage({ plugins: [echo] });
    expect((await session.command("desk.who", {}, options)).output).toBe(expected);
  });

  test("[K67] the typed handle of a plugin that the session has not is refused by name", async () => {
    const missing = definePlugin({ id: "missing", build: () => ({ operations: { queries: {} } }) });
    const { session } = await stage();
    expect(() => session.plugin(missing)).toThrow(
      expect.objectContaining({ code: "unknown_plugin", details: { pluginId: "missing" } }),
    );
  });

  test("[K67] actions give failures in their result, and commit what they did", async () => {
    const store = memoryStore();
    const acting = plugin("desk", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        operations: {
          actions: {
            "desk.act": {
              session: "required",
              handler: (_ctx, args) => {
                count.update((n) => n + 1);
                if (args === "throw") throw new Error("No.");
                return count.get();
              },
            },
          },
        },
      };
    });
    const first = await stage({ store, plugins: [acting] });
    expect((await first.session.action("desk.act")).outcome).toEqual({ kind: "success", value: 1 });
    expect((await first.session.action("desk.act", "throw")).outcome).toMatchObject({
      kind: "failure",
      message: "No.",
    });
    expect(first.session.read().revision).toBe(2);
    await first.runtime.close();
    const second = await stage({ store, plugins: [acting] });
    expect((await second.session.action("desk.act")).outcome).toEqual({ kind: "success", value: 2 });
  });
});
