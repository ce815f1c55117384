// Operations: who is meant, what is checked before a handler runs, and what comes back.

import { expect, test } from "vitest";
import { z } from "zod";
import { pendingResult, toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import type { PluginOperations, SessionParam } from "../../src/plugin/operation.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import type { PluginSession } from "../../src/plugin/plugin-session.ts";
import { plugin, readView, rejection, sessionOf, thrownBy } from "./samples.ts";

const withOperations = (operations: PluginOperations): PluginSession =>
  sessionOf([plugin("a", { operations })]);
const handler = () => null;

test("[K63] operations are listed by kind (query, command, task), and by name within a kind", () => {
  const session = sessionOf([
    plugin("a", {
      operations: {
        tasks: { t: { handler, description: "Does it." } },
        commands: { y: { handler }, b: { handler } },
        queries: {
          z: { handler, input: z.object({ n: z.number() }), output: z.string(), session: "required" },
        },
      },
    }),
    plugin("b", { operations: { queries: { a: { handler } } } }),
  ]);
  expect(session.pluginOperations().map(({ kind, name, pluginId }) => [kind, name, pluginId])).toEqual([
    ["query", "a", "b"],
    ["query", "z", "a"],
    ["command", "b", "a"],
    ["command", "y", "a"],
    ["task", "t", "a"],
  ]);
  const [, z1] = session.pluginOperations();
  expect(z1).toMatchObject({
    session: "required",
    inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    outputSchema: { type: "string" },
  });
  expect(session.pluginOperations().at(-1)).toMatchObject({
    description: "Does it.",
    session: "optional",
    inputSchema: {},
    outputSchema: {},
  });
});

test("[K145] actions are listed by name, after the others, and share their namespace", () => {
  const session = withOperations({
    actions: { b: { handler }, a: { handler } },
    queries: { q: { handler } },
  });
  expect(session.pluginActions().map(({ name }) => name)).toEqual(["a", "b"]);
  expect(session.pluginOperations().map(({ name }) => name)).toEqual(["q"]);
  expect(session.operations().map(({ name, kind }) => [name, kind])).toEqual([
    ["q", "query"],
    ["a", "action"],
    ["b", "action"],
  ]);
  expect(
    thrownBy(() => withOperations({ actions: { q: { handler } }, queries: { q: { handler } } })).code,
  ).toBe("duplicate_operation");
});

const meant = (session: SessionParam): PluginSession =>
  withOperations({ queries: { q: { session, handler: (ctx) => ctx.sessionId ?? "none" } } });

test.each<[SessionParam, boolean, string]>([
  ["required", true, "s"],
  ["required", false, "missing_session"],
  ["optional", true, "s"],
  ["optional", false, "none"],
  ["forbidden", true, "unexpected_session"],
  ["forbidden", false, "none"],
])(
  "[K64] an operation whose session is %s, with this session as default: %s, comes to %s",
  async (param, isDefault, expected) => {
    const call = meant(param).queryPlugin("q", {}, { defaultToCurrentSession: isDefault });
    const outcome = await call.then(
      ({ output }) => output,
      (thrown: { code: string }) => thrown.code,
    );
    expect(outcome).toBe(expected);
  },
);

test("[K64] an explicit null is no session, so that a forbidden operation can be called", async () => {
  expect((await meant("forbidden").queryPlugin("q", {}, { session: null })).output).toBe("none");
  expect((await rejection(meant("required").queryPlugin("q", {}, { session: null }))).code).toBe(
    "missing_session",
  );
});

test("[K147] an empty own id is never the default, and an explicit id wins unchecked", async () => {
  const operations: PluginOperations = { queries: { q: { handler: (ctx) => ctx.sessionId ?? "none" } } };
  const nameless = createPluginHost([plugin("a", { operations })]).buildSession("");
  expect((await nameless.queryPlugin("q")).output).toBe("none");
  expect((await nameless.queryPlugin("q", {}, { session: "elsewhere" })).output).toBe("elsewhere");
  expect((await meant("optional").queryPlugin("q", {}, { defaultToCurrentSession: false })).output).toBe(
    "none",
  );
  const error = await rejection(meant("forbidden").queryPlugin("q", {}, { session: "elsewhere" }));
  expect([error.code, error.message]).toEqual([
    "unexpected_session",
    "operation q: expected no session, found elsewhere",
  ]);
});

test("[K147] nameless sessions are not registered, so there may be several", () => {
  const host = createPluginHost([]);
  host.buildSession("");
  host.buildSession("");
  expect(thrownBy(() => host.session("")).code).toBe("unknown_session");
});

test("[K65] an unknown name and the wrong kind are unknown operations", async () => {
  const session = withOperations({ commands: { c: { handler } } });
  expect((await rejection(session.queryPlugin("nope"))).message).toBe(
    "operation nope: expected a query, found none with this name",
  );
  const wrong = await rejection(session.queryPlugin("c"));
  expect([wrong.code, wrong.message]).toEqual([
    "unknown_operation",
    "operation c: expected a query, found a command",
  ]);
  expect((await rejection(session.runPluginTask("c"))).code).toBe("unknown_operation");
  expect((await rejection(session.invokePluginAction("c"))).code).toBe("unknown_operation");
});

test("[K66] a query returns its owner and JSON; a handler that fails fails the query", async () => {
  const session = withOperations({
    queries: {
      good: { handler: async () => ({ count: 3, gone: undefined }) },
      bad: {
        handler: () => {
          throw new Error("no index");
        },
      },
      odd: { handler: () => () => 1 },
    },
  });
  expect(await session.queryPlugin("good")).toEqual({ pluginId: "a", output: { count: 3 } });
  const error = await rejection(session.queryPlugin("bad"));
  expect([error.code, error.message, error.details]).toEqual([
    "operation_failed",
    "query bad of plugin a failed: no index",
    { operation: "bad", pluginId: "a" },
  ]);
  const odd = await rejection(session.queryPlugin("odd"));
  expect([odd.code, (odd.cause as { code?: string }).code]).toEqual([
    "operation_failed",
    "invalid_operation_output",
  ]);
});

test("[OI2] a query sees reading services and nothing else", async () => {
  let keys: readonly string[] = [];
  const session = withOperations({
    queries: {
      q: {
        handler: async ({ sessions }) => {
          keys = Object.keys(sessions);
          return (await sessions.snapshotCurrent()).sessionId;
        },
      },
    },
  });
  const services = {
    sessions: { snapshotCurrent: async () => readView(), createSession: async () => ({ sessionId: "x" }) },
  };
  expect((await session.queryPlugin("q", {}, { services })).output).toBe("s");
  expect(keys).toEqual(["snapshotCurrent", "snapshotSession", "toolCatalog"]);
  const without = await rejection(session.queryPlugin("q"));
  expect((without.cause as { code?: string }).code).toBe("host_service_unavailable");
});

test("[OI1] a command's outcome has output, events and directives; anything else is the output", async () => {
  const session = withOperations({
    commands: {
      full: {
        handler: () => ({
          output: 1,
          events: [{ kind: "status", key: "k", label: "L" }],
          directives: [{ kind: "queue_turn", input: "go on", key: "k1" }],
        }),
      },
      other: { handler: () => ({ output: 1, extra: true }) },
      bare: { handler: () => undefined },
    },
  });
  expect(await session.runPluginCommand("full")).toEqual({
    pluginId: "a",
    outcome: {
      output: 1,
      events: [{ kind: "status", key: "k", label: "L" }],
      directives: [{ kind: "queue_turn", input: "go on", key: "k1" }],
    },
  });
  expect((await session.runPluginCommand("other")).outcome.output).toEqual({ output: 1, extra: true });
  expect((await session.runPluginCommand("bare")).outcome).toEqual({
    output: null,
    events: [],
    directives: [],
  });
});

test.each([
  ["events", { output: 1, events: [{ kind: "x" }] }],
  ["directives", { output: 1, directives: [{ kind: "abort_turn" }] }],
  ["a queued input", { output: 1, directives: [{ kind: "queue_turn", input: 3 }] }],
])("[OI1] a command with nonsense as %s fails", async (_name, outcome) => {
  const session = withOperations({ commands: { c: { handler: () => outcome } } });
  const error = await rejection(session.runPluginCommand("c"));
  expect([error.code, (error.cause as { code?: string }).code]).toEqual([
    "operation_failed",
    "invalid_directive",
  ]);
});

test("[K68] a task gets a scope of its own and a signal that cancels it", async () => {
  const cancel = new AbortController();
  const session = withOperations({
    tasks: {
      wait: {
        handler: ({ signal, scope }) =>
          new Promise((resolve) => {
            signal.addEventListener("abort", () => resolve(`${scope} cancelled`));
          }),
      },
      name: { handler: ({ scope }) => scope },
    },
  });
  const running = session.runPluginTask("wait", {}, { signal: cancel.signal, scope: "run-1" });
  cancel.abort();
  expect((await running).outcome.output).toBe("run-1 cancelled");
  expect((await session.runPluginTask("name")).outcome.output).toBe("s:plugin_task:name:0");
  expect((await session.runPluginTask("name")).outcome.output).toBe("s:plugin_task:name:1");
});

test("[K69] arguments that the schema refuses do not reach the handler", async () => {
  let calls = 0;
  const session = withOperations({
    queries: {
      q: {
        input: z.object({ n: z.number().default(7) }),
        handler: (_ctx, args) => {
          calls += 1;
          return args;
        },
      },
    },
  });
  const error = await rejection(session.queryPlugin("q", { n: "x" }));
  expect(error.code).toBe("invalid_operation_args");
  expect(error.message).toMatch(/^invalid q args: \/n: /);
  expect((await rejection(session.queryPlugin("q", { n: () => 1 }))).code).toBe("invalid_operation_args");
  expect(calls).toBe(0);
  expect((await session.queryPlugin("q")).output).toEqual({ n: 7 });
});

test("[K69] the session is checked before the arguments", async () => {
  const session = withOperations({ queries: { q: { session: "required", input: z.string(), handler } } });
  expect((await rejection(session.queryPlugin("q", 3, { session: null }))).code).toBe("missing_session");
});

const actions: PluginOperations = {
  actions: {
    plain: { handler: (_ctx, args) => ({ got: args }) },
    refuse: { handler: () => toolFailure({ code: "no", message: "Not today." }) },
    later: { handler: () => pendingResult() },
    broken: {
      handler: () => {
        throw new Error("boom");
      },
    },
    needy: { session: "required", handler },
    lonely: { session: "forbidden", handler },
  },
};

test("[K71] an action answers in its result: success, failure, pending and throws alike", async () => {
  const session = withOperations(actions);
  expect(await session.invokePluginAction("plain", [1])).toEqual(toolSuccess({ got: [1] }));
  expect(await session.invokePluginAction("refuse")).toEqual(
    toolFailure({ code: "no", message: "Not today." }),
  );
  expect(await session.invokePluginAction("later")).toEqual(pendingResult());
});

test("[K71] a typed call turns failure, pending and a wrong shape into errors", async () => {
  const session = withOperations(actions);
  const output = z.object({ got: z.number() });
  expect(await session.callPluginAction("plain", 3, { output })).toEqual({ got: 3 });
  const failure = await rejection(session.callPluginAction("refuse"));
  expect([failure.code, failure.message]).toEqual(["operation_failed", "action refuse failed: Not today."]);
  const pending = await rejection(session.callPluginAction("later"));
  expect([pending.code, pending.message]).toEqual([
    "operation_failed",
    "action later failed: expected a completed output, found a pending result",
  ]);
  const shape = await rejection(session.callPluginAction("plain", "x", { output }));
  expect(shape.code).toBe("operation_failed");
  expect(shape.message).toMatch(/^action plain failed: invalid plain output: \/got: /);
});

test("[K146] arguments that are not JSON do not reach an action", async () => {
  let calls = 0;
  const session = withOperations({
    actions: {
      count: {
        handler: () => {
          calls += 1;
        },
      },
    },
  });
  expect((await rejection(session.callPluginAction("count", { at: 1n }))).code).toBe(
    "invalid_operation_args",
  );
  expect(calls).toBe(0);
});

test("[K146] unknown actions and wrong sessions are errors that name the action", async () => {
  const session = withOperations(actions);
  for (const [name, options, code] of [
    ["nope", {}, "unknown_operation"],
    ["needy", { session: null }, "missing_session"],
    ["lonely", {}, "unexpected_session"],
  ] as const) {
    const error = await rejection(session.callPluginAction(name, {}, options));
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(name)]);
  }
});

test("[K146] an action that throws is a failed result", async () => {
  expect(await withOperations(actions).invokePluginAction("broken")).toEqual(
    toolFailure({ code: "action_failed", source: "plugin", message: "boom" }),
  );
});
