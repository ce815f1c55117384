// The hooks after a turn, and who is told of its commit and when.

import { type Directive, defineTool, directive, type Plugin, switchFrame, toolSuccess } from "marling";
import { createPluginHost } from "marling/plugin";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { tell } from "../../src/kernel/lifecycle.ts";
import type { ResidentSession } from "../../src/kernel/resident-session.ts";
import { standardDriverFactory } from "../../src/plugin/standard-protocol.ts";
import { custom, play, plugin, pluginEvents, scene, transcript, watchedStore } from "./hooks-support.ts";

const ends = (answer: () => readonly Directive[]) => plugin("p", { turn: { after: answer } });

test.each([
  ["abort_turn", directive.abortTurn({ code: "late", message: "Too late." })],
  ["replace_tool_args", directive.replaceToolArgs({})],
  ["short_circuit_tool", directive.shortCircuitTool(toolSuccess(1))],
])("[K45] %s is not allowed after a turn, and nothing but the input is kept", async (name, refused) => {
  const { session } = await scene({ script: [say("Hello.")], plugins: [ends(() => [refused])] });
  const { report } = await play(session);

  expect(report.outcome).toMatchObject({
    kind: "stopped",
    reason: "runtime_error",
    code: "directive_not_allowed",
  });
  expect(report.issues).toMatchObject([
    { pluginId: "p", hook: "turn.after", message: expect.stringContaining(name) },
  ]);
  expect(transcript(session)).toEqual(["user: Hi"]);
});

test("[K45] messages enqueued after a turn are committed with it and shown to the next", async () => {
  const told = ["end of 1", "end of 2"];
  const { session, model } = await scene({
    script: [say("One."), say("Two.")],
    plugins: [
      ends(() => [directive.enqueueMessages([{ role: "system", content: told.shift() ?? "never" }])]),
    ],
  });
  await play(session);
  expect(transcript(session)).toEqual(["user: Hi", "assistant: One.", "system: end of 1"]);

  await play(session, "Again");
  expect(transcript(session)).toEqual([
    "user: Hi",
    "assistant: One.",
    "system: end of 1",
    "user: Again",
    "assistant: Two.",
    "system: end of 2",
  ]);
  expect(model.requests[1]?.messages).toHaveLength(4);
});

test("[K45] the hook is given what the turn came to", async () => {
  const seen: unknown[] = [];
  const { session } = await scene({
    script: [
      callTool("echo", { text: "one" }, { usage: { input: 3 } }),
      say("Done.", { usage: { input: 4, output: 1 } }),
    ],
    plugins: [plugin("p", { turn: { after: ({ turn }) => void seen.push(turn) as undefined } })],
  });
  const { report } = await play(session);

  expect(seen).toMatchObject([
    {
      turnId: report.turnId,
      outcome: { kind: "finished", by: "message", text: "Done." },
      assistantOutput: "Done.",
      usage: { input: 7, output: 1 },
      toolCalls: [{ name: "echo", args: { text: "one" } }],
      modelCalls: [{ round: 0 }, { round: 1 }],
      issues: [],
    },
  ]);
});

test("[K46] events of hooks after a turn are told after the commit, in order", async () => {
  const { session } = await scene({
    script: [say("Hello.")],
    plugins: [
      plugin("a", {
        turn: {
          before: () => directive.emitEvents([custom("before")]),
          after: () => directive.emitEvents([custom("one"), custom("two")]),
        },
      }),
      plugin("b", { turn: { after: () => directive.emitEvents([custom("three")]) } }),
    ],
  });
  const { events } = await play(session);

  const committed = events.findIndex(({ kind }) => kind === "committed");
  expect(pluginEvents(events.slice(0, committed))).toEqual(["a: before"]);
  expect(pluginEvents(events.slice(committed))).toEqual(["a: one", "a: two", "b: three"]);
});

test("[K46] events of a turn that fails after its hooks are never told", async () => {
  const { session } = await scene({
    script: [say("Hello.")],
    plugins: [
      ends(() => [
        directive.emitEvents([custom("never")]),
        directive.abortTurn({ code: "late", message: "Too late." }),
      ]),
    ],
  });
  const { events } = await play(session);
  expect(pluginEvents(events)).toEqual([]);
});

describe("lifecycle events of a turn", () => {
  test("[K59] finalized before the commit, persisted after it, and the result after both", async () => {
    const log: string[] = [];
    let letGo = (): void => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const listener = plugin("p", {
      turn: { after: () => void log.push("turn.after") as undefined },
      session: {
        onEvent: async (event) => {
          if (event.kind === "turn_finalized") log.push(`finalized ${event.turn.outcome.kind}`);
          if (event.kind !== "turn_persisted") return;
          log.push(
            `persisted ${event.turnId} with ${event.state.messageCount} messages at ${event.state.revision}`,
          );
          await held;
          log.push("persisted done");
        },
      },
    });
    const store = watchedStore({
      onCommit: ({ settles }) => void log.push(settles === undefined ? "other commit" : "commit"),
    });
    const { session } = await scene({ script: [say("Hello.")], plugins: [listener], store });
    log.length = 0;
    const turn = session.turn("Hi");
    const result = turn.result.then((report) => void log.push(`result at ${report.revision}`));
    for await (const event of turn) if (event.kind === "committed") break;
    expect(session.read()).toMatchObject({ revision: 2, turnIndex: 1 });
    letGo();
    await result;

    expect(log).toEqual([
      "turn.after",
      "finalized finished",
      "commit",
      "persisted s:turn:1 with 2 messages at 2",
      "persisted done",
      "result at 2",
    ]);
    expect(transcript(session)).toEqual(["user: Hi", "assistant: Hello."]);
  });

  test("[K57] all handlers are told at once, and one that fails harms neither the others nor the turn", async () => {
    const log: string[] = [];
    const arrived: (() => void)[] = [];
    const both = new Promise<void>((resolve) => {
      arrived.push(resolve);
    });
    let waiting = 0;
    const meet = async (id: string): Promise<void> => {
      log.push(`${id} begins`);
      waiting += 1;
      if (waiting === 2) arrived[0]?.();
      await both;
      log.push(`${id} ends`);
    };
    const onPersisted = (id: string, tell: (id: string) => Promise<void>) =>
      plugin(id, {
        session: { onEvent: (event) => (event.kind === "turn_persisted" ? tell(id) : undefined) },
      });
    const { session } = await scene({
      script: [say("Hello.")],
      plugins: [
        onPersisted("a", meet),
        onPersisted("z", () => Promise.reject(new Error("broken z"))),
        onPersisted("b", meet),
        onPersisted("c", () => {
          throw new Error("broken c");
        }),
      ],
    });
    const { report, events } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "finished", text: "Hello." });
    expect(log).toEqual(["a begins", "b begins", "a ends", "b ends"]);
    const issue = (id: string) => ({
      kind: "lifecycle_hook_failed",
      code: "hook_failed",
      message: `plugin ${id}: hook session.on_event failed: broken ${id}`,
      pluginId: id,
      hook: "session.on_event",
    });
    expect(report.issues).toEqual([issue("c"), issue("z")]);
    expect(events.filter(({ kind }) => kind === "error")).toEqual([
      { kind: "error", issue: issue("c") },
      { kind: "error", issue: issue("z") },
    ]);
  });

  test("[K57] a handler of turn_finalized that fails does not keep the turn from being committed", async () => {
    const failing = plugin("p", {
      session: {
        onEvent: ({ kind }) => {
          if (kind === "turn_finalized") throw new Error("broken");
        },
      },
    });
    const { session } = await scene({ script: [say("Hello.")], plugins: [failing] });
    const { report } = await play(session);

    expect(report.outcome.kind).toBe("finished");
    expect(report.issues).toMatchObject([{ kind: "lifecycle_hook_failed", pluginId: "p" }]);
    expect(transcript(session)).toEqual(["user: Hi", "assistant: Hello."]);
  });

  test("[K58] without handlers no event is made", async () => {
    const told: unknown[] = [];
    const listening = plugin("p", { session: { onEvent: (event) => void told.push(event) } });
    const sessionOf = (plugins: readonly Plugin[]): ResidentSession =>
      ({
        plugins: createPluginHost(plugins).buildSession("s"),
        parts: { probe: undefined },
      }) as ResidentSession;
    const made: string[] = [];
    const event = () => {
      made.push("made");
      return { kind: "session_forked", sessionId: "s", from: "r" } as const;
    };

    expect(await tell(sessionOf([]), event)).toEqual([]);
    expect(made).toEqual([]);
    expect(await tell(sessionOf([listening]), event)).toEqual([]);
    expect(made).toEqual(["made"]);
    expect(told).toEqual([{ kind: "session_forked", sessionId: "s", from: "r" }]);
  });

  test("[K59] state that a handler of turn_persisted writes survives a later turn that fails", async () => {
    const counter = plugin("counter", (ctx) => {
      const seen = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: ({ state }) => {
            if (state.turnIndex > 0) throw new Error("broken");
            return undefined;
          },
        },
        session: {
          onEvent: ({ kind }) => (kind === "turn_persisted" ? seen.update((count) => count + 1) : undefined),
        },
        operations: { queries: { "counter.seen": { handler: () => seen.get() } } },
      };
    });
    const { session } = await scene({ script: [say("Hello.")], plugins: [counter] });
    await play(session);
    expect(await session.query("counter.seen", {})).toBe(1);
    const { report } = await play(session, "Again");

    expect(report.outcome).toMatchObject({ code: "hook_failed" });
    expect(await session.query("counter.seen", {})).toBe(2);
  });
});

describe("what fails after the commit", () => {
  test("[K59] a protocol that cannot restore itself in a new frame is reported, and the turn goes on there", async () => {
    const told: string[] = [];
    let restored = 0;
    const protocol = plugin("protocol", {
      protocol: {
        driver: standardDriverFactory(),
        session: {
          restoreSession: () => {
            restored += 1;
            if (restored > 1) throw new Error("broken");
          },
        },
      },
      session: { onEvent: ({ kind }) => void told.push(kind) },
    });
    const leave = defineTool({
      name: "leave",
      description: "Goes on elsewhere.",
      input: z.object({}),
      execute: () => switchFrame({ key: "next", task: "Go on." }),
    });
    const { session } = await scene({
      script: [callTool("leave", {}), say("Here.")],
      plugins: [protocol, plugin("p", { tools: [leave] })],
    });
    told.length = 0;
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "finished", text: "Here." });
    expect(report.issues).toMatchObject([{ message: expect.stringContaining("broken") }]);
    expect(transcript(session)).toEqual(["user: Go on.", "assistant: Here."]);
    expect(told).toEqual([
      "turn_finalized",
      "frame_opened",
      "turn_persisted",
      "turn_finalized",
      "turn_persisted",
    ]);
  });

  test("[K59] state of a listener that cannot be stored is reported; the turn stands", async () => {
    const store = watchedStore({
      beforeCommit: ({ operation }) => {
        if (operation.startsWith("persisted")) throw new Error("disk full");
      },
    });
    const counter = plugin("counter", (ctx) => {
      const seen = ctx.durable({ version: 1, initial: () => 0 });
      const onEvent = ({ kind }: { readonly kind: string }): void => {
        if (kind === "turn_persisted") seen.update((count) => count + 1);
      };
      return { session: { onEvent } };
    });
    const script = [say("Hello."), say("Again.")];
    const { session } = await scene({ script, plugins: [counter], store, storeRetryMs: 0 });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "finished", text: "Hello." });
    expect(report.issues).toMatchObject([{ message: expect.stringContaining("disk full") }]);
    expect((await play(session, "And?")).report.text).toBe("Again.");
  });
});
