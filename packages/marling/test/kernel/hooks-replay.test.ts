// A turn that is run again from its recorded effects: hooks are not asked, directives are not applied, and the commit is
// the same.

import { createRuntime, directive, type EffectHost, type Plugin, toolSuccess } from "marling";
import { callTools, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { custom, echoTool, play, plugin, pluginEvents } from "./hooks-support.ts";
import { customOf } from "./trace-support.ts";

/** Remembers outcomes as JSON and performs only what it does not know. */
function recordingEffects(): EffectHost & { readonly performed: string[] } {
  const known = new Map<string, string>();
  const performed: string[] = [];
  return {
    performed,
    run: async (request, perform, options) => {
      const name = `${request.turnId} ${request.key}`;
      const recorded = known.get(name);
      if (recorded !== undefined) return JSON.parse(recorded);
      performed.push(name);
      const outcome = await perform(options?.plan);
      known.set(name, JSON.stringify(outcome));
      return outcome;
    },
  };
}

/** A plugin that counts each time it is asked, in memory and in its durable state, and wants things in every phase. */
function busy(asked: string[]): Plugin {
  return plugin("busy", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    const ask = (hook: string): void => {
      asked.push(hook);
      count.update((value) => value + 1);
    };
    const note = (content: string) => directive.enqueueMessages([{ role: "user", content }]);
    return {
      turn: {
        before: () => {
          ask("before");
          return [
            note("before"),
            directive.createSession({ sessionId: "child" }),
            directive.emitEvents([custom("begun")]),
          ];
        },
        checkpoint: ({ checkpoint }) => {
          ask(checkpoint);
          return checkpoint === "after_work"
            ? [note("checkpoint"), directive.emitTrace({ name: "mark" })]
            : undefined;
        },
        after: () => {
          ask("after");
          return [note("after"), directive.enqueueMessages([{ role: "assistant", content: "not taken" }])];
        },
      },
      toolCalls: {
        before: ({ args }) => {
          ask("call");
          const { text } = args as { text: string };
          return text === "two"
            ? directive.shortCircuitTool(toolSuccess("settled"))
            : directive.replaceToolArgs({ text: `${text}!` });
        },
        after: ({ args }) => {
          ask("result");
          return note(`after ${JSON.stringify(args)}`);
        },
      },
      operations: { queries: { "busy.count": { handler: () => count.get() } } },
    };
  });
}

test("[DR3] a replayed turn asks no hook, applies no directive and commits the same", async () => {
  const effects = recordingEffects();
  const run = async (script: Parameters<typeof scriptedModel>[0]) => {
    const asked: string[] = [];
    const ran: string[] = [];
    const traces: string[] = [];
    const runtime = createRuntime({
      model: scriptedModel(script),
      effects,
      tools: [echoTool((text) => ran.push(text))],
      plugins: [busy(asked)],
      trace: { record: (record) => void traces.push(...customOf(record).map(({ name }) => name)) },
    });
    const session = await runtime.session("s");
    const { report, events } = await play(session);
    const count = await session.query("busy.count", {});
    const hasChild = await runtime.sessions.exists("child");
    const { messages } = session.read();
    await runtime.close();
    return {
      asked,
      ran,
      traces,
      hasChild,
      performed: effects.performed.splice(0).length,
      told: pluginEvents(events),
      kept: { report, messages, count },
    };
  };
  const live = await run([
    callTools([
      ["echo", { text: "one" }],
      ["echo", { text: "two" }],
      ["echo", { text: "three" }],
    ]),
    say("Done."),
  ]);
  const replayed = await run([]);

  expect(live).toMatchObject({
    ran: ["one!", "three!"],
    traces: ["plugin.busy.mark"],
    hasChild: true,
    told: ["busy: begun"],
  });
  expect(live.kept.count).toBe(live.asked.length);
  expect(live.kept.report.issues).toMatchObject([{ code: "message_role_dropped" }]);
  expect(replayed).toMatchObject({
    asked: [],
    ran: [],
    traces: [],
    hasChild: false,
    performed: 0,
    told: ["busy: begun"],
  });
  expect(replayed.kept).toEqual(live.kept);
});
