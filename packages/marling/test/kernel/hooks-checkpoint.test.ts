// Checkpoints: what hooks may add to a running turn, and how they end it.

import { type Directive, directive, toolSuccess } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { custom, play, plugin, pluginEvents, scene, transcript } from "./hooks-support.ts";

type Checkpoint = "after_work" | "before_completion";

/** A plugin that returns directives at the first checkpoint of a kind. */
function once(kind: Checkpoint, directives: readonly Directive[]): ReturnType<typeof plugin> {
  let isFirst = true;
  return plugin("p", {
    turn: {
      checkpoint: ({ checkpoint }) => {
        if (checkpoint !== kind || !isFirst) return undefined;
        isFirst = false;
        return directives;
      },
    },
  });
}

const note = (content: string): Directive => directive.enqueueMessages([{ role: "user", content }]);

test("[K42] hooks are asked after each batch of work and before the turn completes, with what is in flight", async () => {
  const log: string[] = [];
  const { session } = await scene({
    script: [callTool("echo", { text: "one" }), callTool("echo", { text: "two" }), say("Done.")],
    plugins: [
      plugin("p", {
        turn: {
          checkpoint: ({ checkpoint, state, sessionId }) => {
            log.push(`${sessionId} ${checkpoint} ${state.messageCount} ${state.lastMessage?.role}`);
            return undefined;
          },
        },
      }),
    ],
  });
  await play(session);

  expect(log).toEqual(["s after_work 3 tool", "s after_work 5 tool", "s before_completion 6 assistant"]);
});

describe.each(["after_work", "before_completion"] as const)("at %s", (kind) => {
  const script =
    kind === "after_work" ? [callTool("echo", { text: "one" }), say("Done.")] : [say("One."), say("Two.")];

  test("[K42] messages join the turn and are committed", async () => {
    const { session, model } = await scene({ script, plugins: [once(kind, [note("and this")])] });
    const { report } = await play(session);

    expect(report.outcome.kind).toBe("finished");
    expect(transcript(session)).toContain("user: and this");
    expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain("and this");
  });

  test("[K42] events are told after all directives were applied, before the turn goes on", async () => {
    const { session, runtime } = await scene({
      script,
      plugins: [
        once(kind, [
          directive.emitEvents([custom("told")]),
          directive.createSession({ sessionId: "child" }),
          note("more"),
        ]),
      ],
    });
    const { events } = await play(session);

    expect(pluginEvents(events)).toEqual(["p: told"]);
    expect(await runtime.sessions.exists("child")).toBe(true);
    const kinds = events.map((event) =>
      event.kind === "model_call" ? `${event.kind} ${event.phase}` : event.kind,
    );
    expect(kinds.indexOf("plugin_event")).toBeGreaterThan(kinds.indexOf("model_call finished"));
    expect(kinds.indexOf("plugin_event")).toBeLessThan(kinds.lastIndexOf("model_call started"));
  });

  test("[K42] sessions are created and traces written at once", async () => {
    const { session, runtime, traces } = await scene({
      script,
      plugins: [
        once(kind, [directive.createSession({ sessionId: "child" }), directive.emitTrace({ name: "mark" })]),
      ],
    });
    await play(session);

    expect(await runtime.sessions.exists("child")).toBe(true);
    expect(traces.map(({ name }) => name)).toEqual(["plugin.p.mark"]);
  });

  test("[K42] a session that cannot be created ends the turn and names the plugin", async () => {
    const { session } = await scene({
      script,
      plugins: [once(kind, [directive.createSession({ sessionId: "s" })])],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({
      kind: "stopped",
      reason: "runtime_error",
      code: "plugin_session_create_failed",
    });
    expect(report.issues).toMatchObject([{ pluginId: "p", hook: "turn.checkpoint" }]);
    expect(transcript(session)).toEqual(["user: Hi"]);
  });

  test.each([
    ["replace_tool_args", directive.replaceToolArgs({})],
    ["short_circuit_tool", directive.shortCircuitTool(toolSuccess(1))],
  ])("[K42] %s is not allowed", async (name, refused) => {
    const { session } = await scene({ script, plugins: [once(kind, [note("never"), refused])] });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({
      kind: "stopped",
      reason: "runtime_error",
      code: "directive_not_allowed",
    });
    expect(report.issues).toMatchObject([
      { pluginId: "p", hook: "turn.checkpoint", message: expect.stringContaining(name) },
    ]);
    expect(transcript(session)).toEqual(["user: Hi"]);
  });

  // Ruling 1: the turn ends as stopped with the input kept; `result` does not reject.
  test("[K43] an abort ends the turn as a runtime error with the code of the plugin; only the input is kept", async () => {
    const { session } = await scene({
      script,
      plugins: [
        once(kind, [
          directive.abortTurn({ code: "not_this", message: "Not this one." }),
          directive.abortTurn({ code: "enough", message: "That is enough." }),
          note("never"),
          directive.emitEvents([custom("still told")]),
        ]),
      ],
    });
    const { report, events } = await play(session);

    expect(report.outcome).toEqual({
      kind: "stopped",
      reason: "runtime_error",
      code: "enough",
      message: "That is enough.",
    });
    const issue = {
      kind: "plugin",
      code: "enough",
      message: "That is enough.",
      pluginId: "p",
      hook: "turn.checkpoint",
    };
    expect(report.issues).toEqual([issue]);
    expect(pluginEvents(events)).toEqual(["p: still told"]);
    expect(transcript(session)).toEqual(["user: Hi"]);
    expect((await session.history()).filter(({ kind: node }) => node === "message")).toHaveLength(1);
    expect(session.read().turnIndex).toBe(1);
  });
});

test("[K43] after an abort the session takes the next turn, and what was paid for is in the ledger", async () => {
  const { session } = await scene({
    script: [say("One.", { usage: { input: 7, output: 2 } }), say("Two.")],
    plugins: [
      once("before_completion", [directive.abortTurn({ code: "enough", message: "That is enough." })]),
    ],
  });
  await play(session);
  const { report } = await play(session, "Again");

  expect(report.outcome).toMatchObject({ kind: "finished", text: "Two." });
  expect(transcript(session)).toEqual(["user: Hi", "user: Again", "assistant: Two."]);
  expect(session.usage().entries).toMatchObject([{ source: "turn", usage: { input: 7, output: 2 } }]);
});

test("[K44] a message at completion makes another model call; without one the answer stands", async () => {
  const { session, model } = await scene({
    script: [say("First."), say("Second.")],
    plugins: [
      once("before_completion", [directive.enqueueMessages([{ role: "system", content: "Are you sure?" }])]),
    ],
  });
  const { report } = await play(session);

  expect(model.requests).toHaveLength(2);
  expect(report.text).toBe("Second.");
  expect(transcript(session)).toEqual([
    "user: Hi",
    "assistant: First.",
    "system: Are you sure?",
    "assistant: Second.",
  ]);
});

test("[K44] a hook that always has more to say cannot make more calls than the turn's budget and one", async () => {
  let asked = 0;
  const nag = plugin("p", {
    turn: {
      checkpoint: ({ checkpoint }) => {
        asked += 1;
        return checkpoint === "before_completion" ? note(`more ${asked}`) : undefined;
      },
    },
  });
  const { session, model } = await scene({
    script: Array.from({ length: 9 }, () => say("Yes.")),
    plugins: [nag],
    turnBudget: 3,
  });
  const { report } = await play(session);

  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "max_turns" });
  expect(model.requests).toHaveLength(4);
});

test("[K44] transient messages reach the model and are never stored", async () => {
  const { session, model } = await scene({
    script: [say("First."), say("Second.")],
    plugins: [
      once("before_completion", [
        directive.enqueueMessages([{ role: "user", content: "psst", transient: true }]),
      ]),
    ],
  });
  await play(session);

  expect(JSON.stringify(model.requests[1]?.messages)).toContain("psst");
  expect(transcript(session)).toEqual(["user: Hi", "assistant: First.", "assistant: Second."]);
});
