// How hooks of several plugins around one call compose (architecture, ruling 4; ADR 0004).

import {
  type Directive,
  directive,
  type Json,
  type Plugin,
  type ToolOutput,
  toolFailure,
  toolSuccess,
} from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { custom, outcomeOf, type Played, play, plugin, pluginEvents, scene } from "./hooks-support.ts";

type Before = (args: Json) => readonly Directive[];
type After = (result: ToolOutput) => readonly Directive[];

const textOf = (args: Json): string => (args as { readonly text: string }).text;
const shownOf = ({ outcome }: ToolOutput): Json =>
  outcome.kind === "success" ? (outcome.value as Json) : outcome.kind;

const replace = (text: string): Directive => directive.replaceToolArgs({ text });
const deny = (message: string): Directive =>
  directive.shortCircuitTool(toolFailure({ code: "denied", message }));
const answer = (value: string): Directive => directive.shortCircuitTool(toolSuccess(value));
const abort = (message: string): Directive => directive.abortTurn({ code: "aborted", message });

interface Ran extends Played {
  readonly ran: readonly string[];
  readonly traces: readonly { readonly name: string; readonly payload: Json }[];
}

/** One turn with one call of `echo` with "one", and these plugins around it. */
async function run(plugins: readonly Plugin[]): Promise<Ran> {
  const { session, ran, traces } = await scene({
    script: [callTool("echo", { text: "one" }), say("Done.")],
    plugins,
  });
  return { ...(await play(session)), ran, traces };
}

function before(id: string, hook: Before, log: string[] = []): Plugin {
  return plugin(id, {
    toolCalls: {
      before: ({ args }) => {
        log.push(`${id} ${textOf(args)}`);
        return hook(args);
      },
    },
  });
}

function after(id: string, hook: After, log: string[] = []): Plugin {
  return plugin(id, {
    toolCalls: {
      after: ({ result }) => {
        log.push(`${id} ${shownOf(result)}`);
        return hook(result);
      },
    },
  });
}

describe("replaced arguments and the other hooks", () => {
  test("[K35] later hooks see the replacement at once, earlier ones once more", async () => {
    const log: string[] = [];
    const { ran } = await run([
      before("a", () => [], log),
      before("b", () => [], log),
      before("c", () => [replace("two")], log),
      before("d", () => [], log),
    ]);

    expect(log).toEqual(["a one", "b one", "c one", "a two", "b two", "d two"]);
    expect(ran).toEqual(["two"]);
  });

  test("[K35] an earlier guard refuses what it would have refused from the model", async () => {
    const guard: Before = (args) => (textOf(args) === "forbidden" ? [deny("Never that.")] : []);
    const { report, ran } = await run([
      before("guard", guard),
      before("rewriter", () => [replace("forbidden")]),
    ]);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "Never that." });
    expect(report.toolCalls[0]?.args).toEqual({ text: "forbidden" });
  });

  test("[K35] in the second look an abort counts, and side effects are not repeated", async () => {
    const again = [
      directive.emitEvents([custom("seen")]),
      directive.emitTrace({ name: "seen" }),
      answer("not in the second look"),
    ];
    const guard: Before = (args) => (textOf(args) === "two" ? [...again, abort("Stop.")] : again.slice(0, 2));
    const { report, events, traces, ran } = await run([
      before("a", guard),
      before("b", () => [replace("two")]),
    ]);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toEqual({ code: "aborted", message: "Stop." });
    expect(pluginEvents(events)).toEqual(["a: seen"]);
    expect(traces.map(({ name }) => name)).toEqual(["plugin.a.seen"]);
  });

  test("[K35] a success in the second look does not settle the call", async () => {
    const { report, ran } = await run([
      before("a", (args) => (textOf(args) === "two" ? [answer("from a")] : [])),
      before("b", () => [replace("two")]),
    ]);

    expect(ran).toEqual(["two"]);
    expect(outcomeOf(report)).toEqual({ value: "echo: two" });
  });

  test("[K35] two plugins that both always replace fail the call and are both named", async () => {
    const log: string[] = [];
    const { report, ran, events, traces } = await run([
      before("left", () => [replace("by left")], log),
      before("right", () => [replace("by right")], log),
      before("last", () => [], log),
    ]);

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toMatchObject({
      code: "replacement_conflict",
      message: expect.stringMatching(/right.*left/),
    });
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(log).toEqual(["left one", "right by left", "left by right"]);
    expect(pluginEvents(events)).toEqual(["right: before_tool_call.directive_conflict"]);
    expect(traces.map(({ name }) => name)).toEqual(["before_tool_call.directive_conflict"]);
  });

  test("[K35] replacers that agree on the second look are no conflict", async () => {
    const trim: Before = (args) => [replace(textOf(args).trim())];
    const { ran } = await run([
      before("trim", trim),
      before("shout", (args) => [replace(`${textOf(args).toUpperCase()}`)]),
    ]);
    expect(ran).toEqual(["ONE"]);
  });

  test("[K35] a replacement that changes nothing is shown to nobody", async () => {
    const log: string[] = [];
    const { ran } = await run([before("a", () => [], log), before("b", () => [replace("one")], log)]);

    expect(log).toEqual(["a one", "b one"]);
    expect(ran).toEqual(["one"]);
  });

  test("[K35] a plugin that has refused the call is not asked again", async () => {
    const log: string[] = [];
    const { report } = await run([
      before("guard", () => [deny("No.")], log),
      before("b", () => [replace("two")], log),
    ]);

    expect(log).toEqual(["guard one", "b one"]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "No." });
  });

  test("[K35] a replacement that the schema refuses is shown to nobody, and a standing denial is kept", async () => {
    const log: string[] = [];
    const { report, ran } = await run([
      before("a", () => [deny("No.")], log),
      before("b", () => [directive.replaceToolArgs({ text: 7 })], log),
      before("c", () => [], log),
    ]);

    expect(ran).toEqual([]);
    expect(log).toEqual(["a one", "b one"]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "No." });
  });
});

describe("replaced results and the other hooks", () => {
  test("[K40] later hooks see the replacement, earlier ones once more, and may still refuse it", async () => {
    const log: string[] = [];
    const { report } = await run([
      after("a", (result) => (shownOf(result) === "secret" ? [deny("Not that.")] : []), log),
      after("b", () => [answer("secret")], log),
      after("c", () => [], log),
    ]);

    expect(log).toEqual(["a echo: one", "b echo: one", "a secret", "c secret"]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "Not that." });
  });

  test("[K144] of several replacements the first stays, and the conflict is told", async () => {
    const log: string[] = [];
    const { report, events } = await run([
      after("z", () => [answer("first"), answer("again")], log),
      after("a", () => [answer("second")], log),
    ]);

    expect(outcomeOf(report)).toEqual({ value: "first" });
    expect(log).toEqual(["z echo: one", "a first"]);
    expect(pluginEvents(events)).toEqual(["z: after_tool_call.directive_conflict"]);
  });

  test("[K144] after a call the first of two denials wins, whatever the plugins are called", async () => {
    const { report } = await run([after("z", () => [deny("By z.")]), after("a", () => [deny("By a.")])]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "By z." });
  });

  test("[K144] after a call abort beats denial beats success", async () => {
    const { report } = await run([
      after("a", () => [answer("fine")]),
      after("b", () => [deny("No.")]),
      after("c", () => [abort("Stop.")]),
    ]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "No." });
  });
});

describe("who wins before a call", () => {
  const conflict = (events: Ran["events"]): readonly unknown[] =>
    events.flatMap((event) =>
      event.kind === "plugin_event" &&
      event.event.kind === "custom" &&
      event.event.name === "before_tool_call.directive_conflict"
        ? [event.event.payload]
        : [],
    );
  const call = { toolName: "echo", callId: "call_1" };

  test.each([
    ["denial over success", [answer("fine")], [deny("No.")], { code: "denied", message: "No." }],
    ["denial over a later success", [deny("No.")], [answer("fine")], { code: "denied", message: "No." }],
    ["abort over success", [answer("fine")], [abort("Stop.")], { code: "aborted", message: "Stop." }],
    ["abort over a later success", [abort("Stop.")], [answer("fine")], { code: "aborted", message: "Stop." }],
    [
      "abort over denial, whose text is kept",
      [deny("No.")],
      [abort("Stop.")],
      { code: "denied", message: "No." },
    ],
    [
      "abort over a later denial, whose text is kept",
      [abort("Stop.")],
      [deny("No.")],
      { code: "denied", message: "No." },
    ],
  ])("[K144] %s", async (_name, first, second, expected) => {
    const { report, ran } = await run([before("a", () => first), before("b", () => second)]);
    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toEqual(expected);
  });

  test("[K144] the conflict is an event and a trace with both plugins and how strongly they decided", async () => {
    const { events, traces } = await run([
      before("a", () => [deny("No.")]),
      before("b", () => [abort("Stop.")]),
    ]);
    const payload = {
      winner: "b",
      winnerStrength: "abort",
      ignored: "a",
      ignoredStrength: "denial",
      ...call,
    };

    expect(conflict(events)).toEqual([payload]);
    expect(traces).toMatchObject([{ name: "before_tool_call.directive_conflict", payload }]);
  });

  test.each([
    ["denials", deny("By z."), deny("By a."), { code: "denied", message: "By a." }],
    ["successes", answer("by z"), answer("by a"), { value: "by a" }],
    ["aborts", abort("By z."), abort("By a."), { code: "aborted", message: "By a." }],
  ])(
    "[K144] of equal %s the plugin with the smaller id wins, in either order",
    async (_name, byZ, byA, expected) => {
      const z = before("z", () => [byZ]);
      const a = before("a", () => [byA]);
      const runs = [await run([z, a]), await run([a, z])];

      expect(runs.map(({ report }) => outcomeOf(report))).toEqual([expected, expected]);
      expect(runs.map(({ events }) => conflict(events))).toMatchObject([
        [{ winner: "a", ignored: "z" }],
        [{ winner: "a", ignored: "z" }],
      ]);
    },
  );

  test("[K144] one plugin may change its mind without a conflict: its last word counts", async () => {
    const { report, events } = await run([before("a", () => [deny("First."), deny("Second.")])]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "Second." });
    expect(conflict(events)).toEqual([]);
  });

  test("[K144] a plugin's own abort does not hide its denial, and its success does not lift it", async () => {
    const { report } = await run([before("a", () => [deny("No."), answer("fine"), abort("Stop.")])]);
    expect(outcomeOf(report)).toEqual({ code: "denied", message: "No." });
  });

  test("[K144] what cannot be applied wins over every verdict before it", async () => {
    const { report } = await run([
      before("a", () => [deny("No.")]),
      before("b", () => [abort("Stop."), directive.createSession({ sessionId: "s" }), deny("Too late.")]),
    ]);
    expect(outcomeOf(report)).toMatchObject({ code: "plugin_session_create_failed" });
  });
});
