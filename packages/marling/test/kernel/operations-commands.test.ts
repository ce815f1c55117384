// Operations of plugins as a host calls them: what they leave behind, and whom they wait for.

import { definePlugin, type MarlingError, type Plugin, type PluginParts } from "marling";
import { say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../src/store/memory.ts";
import { play, plugin, rejectionOf, stage, until } from "./tools-support.ts";

type Commands = NonNullable<NonNullable<PluginParts["operations"]>["commands"]>;

/** A plugin "desk" with one command, "desk.do". */
function desk(handler: Commands[string]["handler"]): Plugin {
  return plugin("desk", { operations: { commands: { "desk.do": { session: "required", handler } } } });
}

const STATUS = { kind: "status", key: "desk", label: "Open" } as const;
const CUSTOM = { kind: "custom", name: "stamp", payload: { n: 1 } } as const;

describe("what a command leaves behind", () => {
  test("[K67] events are nodes of the history, owned by their plugin, and in the receipt", async () => {
    const { session } = await stage({
      plugins: [desk(() => ({ output: "done", events: [STATUS, CUSTOM] }))],
    });
    const receipt = await session.command("desk.do", { any: 1 });
    expect(receipt).toEqual({
      output: "done",
      events: [
        { pluginId: "desk", event: STATUS },
        { pluginId: "desk", event: CUSTOM },
      ],
      pendingInputs: [],
    });
    expect((await session.history()).slice(1)).toMatchObject([
      { kind: "protocol_event", pluginId: "desk", payload: { pluginId: "desk", event: STATUS } },
      { kind: "protocol_event", pluginId: "desk", payload: { pluginId: "desk", event: CUSTOM } },
    ]);
    expect(session.read()).toMatchObject({ revision: 2, messages: [] });
  });

  test("[K67] events outlive the runtime", async () => {
    const store = memoryStore();
    const plugins = [desk(() => ({ output: null, events: [CUSTOM] }))];
    const first = await stage({ store, plugins });
    await first.session.command("desk.do");
    await first.runtime.close();
    const second = await stage({ store, plugins });
    expect((await second.session.history()).map(({ kind }) => kind)).toEqual([
      "frame_open",
      "protocol_event",
    ]);
  });

  test("[K67] queue_turn queues the next turn, which an idle session starts by itself", async () => {
    const { session, model } = await stage({
      plugins: [
        desk(() => ({
          output: null,
          directives: [
            { kind: "queue_turn", input: "First" },
            { kind: "queue_turn", input: { text: "Second" } },
          ],
        })),
      ],
      script: [say("One."), say("Two.")],
    });
    const receipt = await session.command("desk.do");
    expect(receipt.pendingInputs).toEqual([
      { inputId: "s:input:1", turnId: "s:turn:1" },
      { inputId: "s:input:2", turnId: "s:turn:2" },
    ]);
    await until(() => session.read().turnIndex === 2, "both turns to run");
    expect(session.read().messages.map(({ parts }) => parts[0])).toMatchObject([
      { text: "First" },
      { text: "One." },
      { text: "Second" },
      { text: "Two." },
    ]);
    expect(model.requests).toHaveLength(2);
  });

  test("[K67] the same key and content is the same input, and nothing runs again", async () => {
    const { session, model } = await stage({
      plugins: [
        desk(() => ({ output: null, directives: [{ kind: "queue_turn", input: "Once", key: "k" }] })),
      ],
      script: [say("One."), say("Never.")],
    });
    const first = await session.command("desk.do");
    await until(() => session.read().turnIndex === 1);
    const second = await session.command("desk.do");
    expect(second.pendingInputs).toEqual(first.pendingInputs);
    await play(session.turn("Once", { key: "k" }));
    expect([session.read().turnIndex, model.requests.length]).toEqual([1, 1]);
  });

  test("[K67] the same key with other content fails the command, and nothing of it is left", async () => {
    let input = "Once";
    const stateful = plugin("desk", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        operations: {
          queries: { "desk.count": { session: "required", handler: () => count.get() } },
          commands: {
            "desk.do": {
              session: "required",
              handler: () => {
                count.update((n) => n + 1);
                const directives = [
                  { kind: "queue_turn", input: `new ${input}` },
                  { kind: "queue_turn", input, key: "k" },
                ] as const;
                return { output: null, events: [CUSTOM], directives };
              },
            },
          },
        },
      };
    });
    const store = memoryStore();
    const { session } = await stage({ store, plugins: [stateful], script: () => say("Fine.") });
    await session.command("desk.do");
    await until(() => session.read().turnIndex === 2);
    const before = { view: session.read(), history: await session.history() };
    input = "Twice";
    const error = await rejectionOf(session.command("desk.do"));
    expect(error).toMatchObject({
      code: "operation_failed",
      details: { operation: "desk.do", pluginId: "desk" },
    });
    expect((error.cause as MarlingError).code).toBe("idempotency_conflict");
    expect(await store.pending("s" as never)).toEqual([]);
    expect({ view: session.read(), history: await session.history() }).toEqual(before);
    expect(await session.query("desk.count")).toBe(1);
  });

  test("[K67] queued inputs pass the hooks that inputs pass; a rejected one fails the command", async () => {
    const gate = plugin("gate", {
      input: {
        before: ({ input }) =>
          input.text === "bad" ? { reject: { code: "bad", message: "No." } } : { input: `${input.text}!` },
      },
    });
    const { session } = await stage({
      plugins: [
        gate,
        desk((_ctx, args) => ({ output: null, directives: [{ kind: "queue_turn", input: args as string }] })),
      ],
      script: [say("Fine.")],
    });
    await session.command("desk.do", "good");
    await until(() => session.read().turnIndex === 1);
    expect(session.read().messages[0]?.parts).toEqual([{ kind: "text", text: "good!" }]);
    const error = await rejectionOf(session.command("desk.do", "bad"));
    expect([error.code, (error.cause as MarlingError).code]).toEqual(["operation_failed", "input_rejected"]);
  });

  test("[K67] a command that changes nothing commits nothing; its output is what it returned", async () => {
    const { session } = await stage({ plugins: [desk(() => ({ output: 1, more: 2 }))] });
    expect(await session.command("desk.do")).toEqual({
      output: { output: 1, more: 2 },
      events: [],
      pendingInputs: [],
    });
    expect(session.read().revision).toBe(1);
  });

  test("[K67] plugin state is committed with the events of the command, or not at all", async () => {
    const store = memoryStore();
    const counting = definePlugin({
      id: "counter",
      build: (ctx) => {
        const count = ctx.durable({ version: 1, initial: () => 0 });
        return {
          operations: {
            queries: { "counter.get": { session: "required", handler: () => count.get() } },
            commands: {
              "counter.add": {
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
      },
    });
    const first = await stage({ store, plugins: [counting()] });
    const { query, command } = first.session.plugin(counting);
    expect((await command.add("")).output).toBe(1);
    expect(await rejectionOf(command.add("throw"))).toMatchObject({ code: "operation_failed" });
    expect(await query.get({})).toBe(1);
    await first.runtime.close();
    const second = await stage({ store, plugins: [counting()] });
    expect(await second.session.query("counter.get")).toBe(1);
  });

  test("[K67] a commit that the store refuses keeps its own code, and the state goes back", async () => {
    const store = memoryStore();
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        operations: {
          queries: { "counter.get": { session: "required", handler: () => count.get() } },
          commands: { "counter.add": { session: "required", handler: () => count.update((n) => n + 1) } },
        },
      };
    });
    const first = await stage({ store, plugins: [counting] });
    const second = await stage({ store, plugins: [counting] });
    await second.session.command("counter.add");
    expect(await rejectionOf(first.session.command("counter.add"))).toMatchObject({
      code: "revision_conflict",
      advice: "reload",
    });
    expect(await first.session.query("counter.get")).toBe(0);
  });
});
