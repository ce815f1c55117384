// Hooks before a turn: what their directives do, and what is left when one of them fails.

import { type Directive, directive } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { custom, outcomeOf, play, plugin, pluginEvents, scene, transcript } from "./hooks-support.ts";

const note = (role: "user" | "system" | "assistant" | "tool" | "event", content: string): Directive =>
  directive.enqueueMessages([{ role, content }]);

test("[K2] a trace is written under the name of the plugin whose hook returned it, in every phase", async () => {
  const trace = (name: string): Directive =>
    directive.emitTrace({ name, payload: { n: 1 }, context: { by: "test" } });
  const { session, traces } = await scene({
    script: [callTool("echo", { text: "one" }), say("Done.")],
    plugins: [
      plugin("a", { turn: { before: () => trace("start") }, toolCalls: { before: () => trace("call") } }),
      plugin("b", {
        turn: {
          before: () => trace("start"),
          checkpoint: () => trace("checkpoint"),
          after: () => trace("end"),
        },
        toolCalls: { after: () => trace("result") },
      }),
    ],
  });
  await play(session);

  expect(traces.map(({ name }) => name)).toEqual([
    "plugin.a.start",
    "plugin.b.start",
    "plugin.a.call",
    "plugin.b.result",
    "plugin.b.checkpoint",
    "plugin.b.checkpoint",
    "plugin.b.end",
  ]);
  expect(traces[0]).toMatchObject({
    sessionId: "s",
    turnId: "s:turn:1",
    payload: { n: 1 },
    context: { by: "test" },
  });
});

test("[K2] messages and events carry the plugin that they came from", async () => {
  const { session } = await scene({
    script: [say("Hello.")],
    plugins: [
      plugin("a", { turn: { before: () => [note("user", "of a"), directive.emitEvents([custom("seen")])] } }),
      plugin("b", { turn: { before: () => [note("user", "of b"), directive.emitEvents([custom("seen")])] } }),
    ],
  });
  const { events } = await play(session);

  expect(pluginEvents(events)).toEqual(["a: seen", "b: seen"]);
  expect(session.read().messages.map(({ origin }) => origin)).toEqual([
    undefined,
    { kind: "plugin", pluginId: "a", transient: false },
    { kind: "plugin", pluginId: "b", transient: false },
    undefined,
  ]);
});

describe("a hook that throws takes everything of its phase with it", () => {
  const wishes = (): readonly Directive[] => [
    note("user", "never"),
    directive.emitEvents([custom("never")]),
    directive.emitTrace({ name: "never" }),
    directive.createSession({ sessionId: "never" }),
  ];
  const failing = plugin("second", {
    turn: {
      before: () => {
        throw new Error("broken");
      },
    },
  });

  test("[K3] before a turn: no message, event, trace or session of an earlier hook", async () => {
    const asked: string[] = [];
    const { session, runtime, traces, model } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("first", { turn: { before: wishes } }),
        failing,
        plugin("third", { turn: { before: () => void asked.push("third") as undefined } }),
      ],
    });
    const { report, events } = await play(session);

    expect(report.outcome).toEqual({
      kind: "stopped",
      reason: "runtime_error",
      code: "hook_failed",
      message: "plugin second: hook turn.before failed: broken",
    });
    expect(report.issues).toMatchObject([{ code: "hook_failed", pluginId: "second", hook: "turn.before" }]);
    expect(asked).toEqual([]);
    expect(pluginEvents(events)).toEqual([]);
    expect(traces).toEqual([]);
    expect(await runtime.sessions.exists("never")).toBe(false);
    expect(model.requests).toEqual([]);
    expect(transcript(session)).toEqual(["user: Hi"]);
  });

  test.each(["checkpoint", "after"] as const)("[K3] at turn.%s: nothing of an earlier hook", async (hook) => {
    const broken = (): never => {
      throw new Error("broken");
    };
    const { session, runtime, traces } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("first", { turn: { [hook]: wishes } }),
        plugin("second", { turn: { [hook]: broken } }),
      ],
    });
    const { report, events } = await play(session);

    expect(report.outcome).toMatchObject({ reason: "runtime_error", code: "hook_failed" });
    expect(report.issues).toMatchObject([{ pluginId: "second", hook: `turn.${hook}` }]);
    expect(pluginEvents(events)).toEqual([]);
    expect(traces).toEqual([]);
    expect(await runtime.sessions.exists("never")).toBe(false);
    expect(transcript(session)).toEqual(["user: Hi"]);
  });

  test.each(["before", "after"] as const)("[K3] toolCalls.%s: nothing of an earlier hook", async (hook) => {
    const broken = (): never => {
      throw new Error("broken");
    };
    const own = wishes().filter(({ kind }) => hook === "after" || kind !== "enqueue_messages");
    const { session, runtime, traces } = await scene({
      script: [callTool("echo", { text: "one" }), say("Done.")],
      plugins: [
        plugin("first", { toolCalls: { [hook]: () => own } }),
        plugin("second", { toolCalls: { [hook]: broken } }),
      ],
    });
    const { report, events } = await play(session);

    expect(outcomeOf(report)).toMatchObject({ code: `${hook}_tool_call_failed` });
    expect(pluginEvents(events)).toEqual([]);
    expect(traces).toEqual([]);
    expect(await runtime.sessions.exists("never")).toBe(false);
    expect(transcript(session).filter((line) => line.includes("never"))).toEqual([]);
  });

  test("[K3] a directive that is not allowed keeps those before it from being applied", async () => {
    const { session, runtime } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("first", { turn: { before: wishes } }),
        plugin("second", { turn: { before: () => directive.replaceToolArgs({}) } }),
      ],
    });
    await play(session);
    expect(await runtime.sessions.exists("never")).toBe(false);
    expect(transcript(session)).toEqual(["user: Hi"]);
  });
});

test("[K32] of several aborts before a turn the last wins, and the messages are kept", async () => {
  const after: unknown[] = [];
  const { session, model } = await scene({
    script: [say("Never.")],
    plugins: [
      plugin("a", {
        turn: {
          before: () => [directive.abortTurn({ code: "first", message: "One." }), note("user", "of a")],
          after: ({ turn }) => void after.push(turn.outcome) as undefined,
        },
      }),
      plugin("b", {
        turn: {
          before: () => [
            directive.abortTurn({ code: "second", message: "Two." }),
            note("system", "of b"),
            directive.emitEvents([custom("still told")]),
          ],
        },
      }),
    ],
  });
  const { report, events } = await play(session);
  const stopped = { kind: "stopped", reason: "plugin_abort", code: "second", message: "Two." };

  expect(report.outcome).toEqual(stopped);
  expect(after).toEqual([stopped]);
  expect(model.requests).toEqual([]);
  expect(transcript(session)).toEqual(["user: Hi", "user: of a", "system: of b"]);
  const issue = { kind: "plugin", code: "second", message: "Two.", pluginId: "b", hook: "turn.before" };
  expect(report.issues).toEqual([issue]);
  expect(events.map(({ kind }) => kind)).toEqual(["turn_started", "plugin_event", "error", "committed"]);
  expect(events).toContainEqual({ kind: "error", issue });
});

test("[K32] an aborted turn settles its input: asking again runs nothing", async () => {
  let asked = 0;
  const abort = plugin("a", {
    turn: {
      before: () => {
        asked += 1;
        return directive.abortTurn({ code: "closed", message: "Not now." });
      },
    },
  });
  const { session } = await scene({ plugins: [abort] });
  const first = await session.turn("Hi", { key: "k" }).result;
  const again = session.turn("Hi", { key: "k" });

  expect(await again.result).toEqual(first);
  expect((await again.accepted).status).toBe("duplicate");
  expect(asked).toBe(1);
});

test.each([
  ["replace_tool_args", directive.replaceToolArgs({ text: "x" })],
  [
    "short_circuit_tool",
    { kind: "short_circuit_tool", output: { outcome: { kind: "success", value: 1 } } } as Directive,
  ],
])("[K33] %s is not allowed before a turn", async (kind, refused) => {
  const { session, model } = await scene({
    script: [say("Hello.")],
    plugins: [plugin("guard", { turn: { before: () => refused } })],
  });
  const { report } = await play(session);

  expect(report.outcome).toMatchObject({
    kind: "stopped",
    reason: "runtime_error",
    code: "directive_not_allowed",
  });
  expect(report.issues).toMatchObject([
    { code: "directive_not_allowed", pluginId: "guard", hook: "turn.before" },
  ]);
  expect(report.issues[0]?.message).toContain(kind);
  expect(report.issues[0]?.message).toContain("guard");
  expect(model.requests).toEqual([]);
});

describe("messages from hooks", () => {
  const roles = ["user", "system", "assistant", "tool", "event"] as const;

  test.each(["before", "after", "checkpoint"] as const)(
    "[K34] turn.%s: only messages of the roles user and system are taken, others are reported",
    async (hook) => {
      let isFirst = true;
      const all = (): Directive | undefined => {
        const wasFirst = isFirst;
        isFirst = false;
        return wasFirst
          ? directive.enqueueMessages(roles.map((role) => ({ role, content: `as ${role}` })))
          : undefined;
      };
      const { session } = await scene({
        script: [say("One."), say("Two.")],
        plugins: [plugin("p", { turn: { [hook]: all } })],
      });
      const { report } = await play(session);

      expect(report.outcome.kind).toBe("finished");
      expect(transcript(session).filter((line) => line.includes(": as "))).toEqual([
        "user: as user",
        "system: as system",
      ]);
      expect(report.issues.map(({ code, pluginId }) => `${pluginId} ${code}`)).toEqual([
        "p message_role_dropped",
        "p message_role_dropped",
        "p message_role_dropped",
      ]);
      expect(report.issues.map(({ message }) => message.slice(message.lastIndexOf(" ") + 1))).toEqual([
        "assistant",
        "tool",
        "event",
      ]);
    },
  );

  test("[K34] a message with parts of a tool call is not taken: no provider would read the history again", async () => {
    const parts = [{ kind: "tool_call", callId: "c", name: "echo", args: {} }];
    const { session } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("p", {
          turn: {
            before: () => [
              { kind: "enqueue_messages", messages: [{ role: "user", parts }] } as unknown as Directive,
              note("user", "fine"),
            ],
          },
        }),
      ],
    });
    const { report } = await play(session);

    expect(transcript(session)).toEqual(["user: Hi", "user: fine", "assistant: Hello."]);
    expect(report.issues).toMatchObject([{ code: "message_part_dropped", pluginId: "p" }]);
  });

  test("[K34] inline bytes are stored before the message is, and the policy is asked", async () => {
    const inline = (mediaType: string) => ({ kind: "inline", mediaType, base64: "aGk=" }) as const;
    const { session } = await scene({
      script: [say("Hello.")],
      attachmentPolicy: (source, producer) => source.mediaType !== "text/html" && producer === "plugin p",
      plugins: [
        plugin("p", {
          turn: {
            before: () =>
              directive.enqueueMessages([
                { role: "user", attachments: [inline("text/plain")] },
                { role: "user", attachments: [inline("text/html")] },
              ]),
          },
        }),
      ],
    });
    const { report } = await play(session);

    expect(session.read().messages[1]?.parts).toMatchObject([
      { kind: "attachment", source: { kind: "stored", bytes: 2 } },
    ]);
    expect(transcript(session)).toEqual(["user: Hi", "user: attachment", "assistant: Hello."]);
    expect(report.issues).toMatchObject([{ code: "attachment_source_policy_denied", pluginId: "p" }]);
  });
});

test.each(["before", "checkpoint", "after"] as const)(
  "[K47] turn.%s: no session is handed off by a directive",
  async (hook) => {
    const handoff = { kind: "handoff_session", sessionId: "other" } as unknown as Directive;
    const { session } = await scene({
      script: [say("Hello.")],
      plugins: [plugin("p", { turn: { [hook]: () => handoff } })],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({
      kind: "stopped",
      reason: "runtime_error",
      code: "directive_not_allowed",
    });
    expect(report.issues).toMatchObject([
      { code: "directive_not_allowed", pluginId: "p", hook: `turn.${hook}` },
    ]);
  },
);

test.each(["before", "after"] as const)(
  "[K47] toolCalls.%s: no session is handed off by a directive",
  async (hook) => {
    const handoff = { kind: "handoff_session", sessionId: "other" } as unknown as Directive;
    const { session } = await scene({
      script: [callTool("echo", { text: "one" }), say("Done.")],
      plugins: [plugin("p", { toolCalls: { [hook]: () => handoff } })],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(outcomeOf(report)).toMatchObject({ code: `${hook}_tool_call_failed` });
    expect(report.issues).toMatchObject([
      { code: "directive_not_allowed", pluginId: "p", hook: `tool_calls.${hook}` },
    ]);
  },
);
