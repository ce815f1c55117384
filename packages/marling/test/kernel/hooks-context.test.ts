// Context transforms at the front of a turn, and the projector at the back of a call.

import { type Message, toolFailure } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { outcomeOf, play, plugin, resultsIn, scene, transcript } from "./hooks-support.ts";

describe("a context transform that fails", () => {
  const log: string[] = [];
  const failures = [
    [
      "throws",
      "hook_failed",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects", "hook_failed", () => Promise.reject(new Error("broken"))],
    ["returns nonsense", "hook_returned_nonsense", () => ({ messages: "all of them" }) as never],
  ] as const;

  // Ruling 1: the turn ends as stopped; the input and the outcome are committed, nothing else.
  test.each(failures)(
    "[K21] %s: the turn stops, and only its input and outcome are committed",
    async (_how, code, transform) => {
      log.length = 0;
      const counting = plugin("counting", (ctx) => {
        const turns = ctx.durable({ version: 1, initial: () => 0 });
        return {
          context: {
            prepareTurn: {
              priority: 9,
              transform: () => {
                turns.update((count) => count + 1);
                return undefined;
              },
            },
          },
          operations: { queries: { "counting.turns": { handler: () => turns.get() } } },
        };
      });
      const broken = plugin("broken", {
        context: { prepareTurn: { priority: 5, transform } },
        turn: {
          before: () => void log.push("before") as undefined,
          after: () => void log.push("after") as undefined,
        },
        prompt: () => void log.push("prompt") as undefined,
      });
      const { session, model } = await scene({ script: [say("Never.")], plugins: [counting, broken] });
      const before = session.read();
      const { report, events } = await play(session);

      expect(report.outcome).toMatchObject({ kind: "stopped", reason: "runtime_error", code });
      expect(report.issues).toMatchObject([{ code, pluginId: "broken", hook: "context.prepare_turn" }]);
      expect(report.issues[0]?.message).toContain("plugin broken");
      expect(log).toEqual([]);
      expect(model.requests).toEqual([]);
      expect(events.map(({ kind }) => kind)).toEqual(["turn_started", "error", "committed"]);
      expect(transcript(session)).toEqual(["user: Hi"]);
      expect(session.read()).toMatchObject({
        turnIndex: 1,
        revision: before.revision + 1,
        frames: before.frames,
      });
      expect(await session.query("counting.turns", {})).toBe(0);
      expect(session.usage().entries).toEqual([]);
    },
  );

  test("[K21] asking again with the same key gives the stored outcome, and the next turn is taken", async () => {
    let isBroken = true;
    const { session } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("p", {
          context: {
            prepareTurn: {
              transform: () => {
                if (isBroken) throw new Error("broken");
                return undefined;
              },
            },
          },
        }),
      ],
    });
    const first = await session.turn("Hi", { key: "k" }).result;
    isBroken = false;

    expect(await session.turn("Hi", { key: "k" }).result).toEqual(first);
    expect((await play(session, "Again")).report.text).toBe("Hello.");
    expect(transcript(session)).toEqual(["user: Hi", "user: Again", "assistant: Hello."]);
  });

  test("[K21] tools that cannot be composed end the turn the same way", async () => {
    const named = [0, 1].map((index) => ({
      manifests: () => [{ id: `t${index}`, name: "t", description: "T." }],
      contract: () => undefined,
      execute: async () => "never",
    }));
    const { session } = await scene({
      script: [say("Never.")],
      plugins: [
        plugin("p", {
          context: {
            prepareTurn: { transform: (_ctx, prepared) => ({ ...prepared, toolProviders: named as never }) },
          },
        }),
      ],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({
      kind: "stopped",
      reason: "runtime_error",
      code: "tool_catalog_failed",
    });
    expect(transcript(session)).toEqual(["user: Hi"]);
  });
});

test("[K20] transforms form a chain, highest priority first; what the model sees is not what is stored", async () => {
  const log: string[] = [];
  const adding = (id: string, priority: number) =>
    plugin(id, {
      context: {
        prepareTurn: {
          priority,
          transform: (_ctx, prepared) => {
            log.push(`${id} sees ${prepared.messages.length}`);
            const added = {
              id: `x_${id}`,
              role: "user",
              parts: [{ kind: "text", text: `by ${id}` }],
            } as unknown as Message;
            return { ...prepared, messages: [...prepared.messages, added] };
          },
        },
      },
    });
  const { session, model } = await scene({
    script: [say("Hello.")],
    plugins: [adding("low", 1), adding("first", 5), adding("second", 5)],
  });
  await play(session);

  expect(log).toEqual(["first sees 1", "second sees 2", "low sees 3"]);
  expect(model.requests[0]?.messages.map(({ parts }) => parts)).toMatchObject([
    [{ text: "Hi" }],
    [{ text: "by first" }],
    [{ text: "by second" }],
    [{ text: "by low" }],
  ]);
  expect(transcript(session)).toEqual(["user: Hi", "assistant: Hello."]);
});

test("[K4] the runtime's probe is told when each hook around a turn begins and ends, failing ones included", async () => {
  const log: string[] = [];
  const probe = {
    beginNamed: (name: string) => void log.push(`+${name}`),
    endNamed: (name: string) => void log.push(`-${name}`),
  };
  const { session } = await scene({
    script: [say("Hello.")],
    probe,
    plugins: [
      plugin("p", {
        context: { prepareTurn: { transform: () => undefined } },
        turn: { before: () => undefined, after: () => Promise.reject(new Error("broken")) },
      }),
    ],
  });
  log.length = 0;
  await play(session);

  const phases = ["context_transform", "before_turn", "after_turn"].map((phase) => `plugin_hook.${phase}.p`);
  expect(log).toEqual(phases.flatMap((phase) => [`+${phase}`, `-${phase}`]));
});

describe("the projector of tool results", () => {
  const script = [callTool("echo", { text: "one" }), say("Done.")];

  test("[K54] it changes what the model sees and nothing else", async () => {
    const seen: unknown[] = [];
    const afterwards: unknown[] = [];
    const { session, model } = await scene({
      script,
      plugins: [
        plugin("p", {
          toolResults: {
            projector: (ctx) => {
              seen.push(ctx);
              return `short for ${ctx.toolName}`;
            },
          },
          session: {
            onEvent: (event) =>
              void (event.kind === "turn_finalized" && afterwards.push(event.turn.toolCalls)),
          },
        }),
      ],
    });
    const { report, events } = await play(session);

    expect(resultsIn(model.requests[1])).toMatchObject([{ text: "short for echo" }]);
    expect(outcomeOf(report)).toEqual({ value: "echo: one" });
    expect(events.find(({ kind }) => kind === "tool_finished")).toMatchObject({
      record: { output: { outcome: { kind: "success", value: "echo: one" } } },
    });
    expect(afterwards).toMatchObject([[{ output: { outcome: { value: "echo: one" } } }]]);
    expect(seen).toMatchObject([
      {
        sessionId: "s",
        callId: "call_1",
        toolName: "echo",
        args: { text: "one" },
        output: { outcome: { value: "echo: one" } },
      },
    ]);
  });

  test("[K54] failed and denied calls are projected too, and stay errors for the model", async () => {
    const { session, model } = await scene({
      script,
      plugins: [
        plugin("p", {
          toolCalls: {
            before: () => ({
              kind: "short_circuit_tool",
              output: toolFailure({ code: "denied", message: "No." }),
            }),
          },
          toolResults: { projector: ({ output }) => `it was a ${output.outcome.kind}` },
        }),
      ],
    });
    const { report } = await play(session);

    expect(resultsIn(model.requests[1])).toMatchObject([{ text: "it was a failure", isError: true }]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "No." });
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects", () => Promise.reject(new Error("broken"))],
    ["returns nonsense", () => 7 as never],
  ])("[K55] one that %s is shown to the model as text; the call stands", async (_how, projector) => {
    const { session, model } = await scene({
      script,
      plugins: [plugin("p", { toolResults: { projector } })],
    });
    const { report } = await play(session);

    const [result] = resultsIn(model.requests[1]);
    expect(result?.text).toContain("plugin p");
    expect(result?.isError).toBeUndefined();
    expect(outcomeOf(report)).toEqual({ value: "echo: one" });
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  });
});
