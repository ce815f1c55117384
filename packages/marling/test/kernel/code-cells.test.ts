// Cells of code: what runs them, what they may reach, and what becomes of their calls. The executor is a stub.

import { defineTool, directive, type TurnEvent, toolFailure } from "marling";
import { say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { AsyncQueue } from "../../src/base/async-queue.ts";
import { deferred } from "../../src/base/deferred.ts";
import type { SandboxMessage } from "../../src/kernel/resident-session.ts";
import type {
  CodeExecutionContext,
  CodeExecutor,
  ExecRequest,
  ExecResponse,
} from "../../src/plugin/protocol.ts";
import type { TurnRecord } from "../../src/turn/effect.ts";
import { codeProtocol } from "./code-support.ts";
import { KernelClock, open, plugin, quiet, resident, watch } from "./model-support.ts";

type Run = (ctx: CodeExecutionContext, request: ExecRequest) => Promise<ExecResponse> | ExecResponse;
const executor = (run: Run): CodeExecutor => ({ executeCode: async (ctx, request) => run(ctx, request) });
const quietly: ExecResponse = { observations: [] };

const echo = defineTool({
  name: "echo",
  description: "Says what it is told.",
  input: z.object({ text: z.string() }),
  execute: ({ text }) => `echo ${text}`,
});

describe("running a cell", () => {
  test("[K158 stub] the executor gets language, code and that it may finish; the model sees what the code observed", async () => {
    const requests: ExecRequest[] = [];
    const running = executor((_ctx, request) => {
      requests.push(request);
      return { observations: ["one", "two"] };
    });
    const model = scriptedModel([say("run print(1)"), say("done")]);
    const session = await open({ model, plugins: [codeProtocol(running)] });
    const { report, events } = await watch(session.turn("Go"));
    expect(requests).toEqual([{ language: "js", code: "print(1)", acceptFinish: true }]);
    expect(report.text).toBe("done");
    expect(model.requests[1]?.messages.at(-1)).toEqual({
      role: "user",
      parts: [{ kind: "text", text: "one\ntwo" }],
    });
    expect(events.filter(({ kind }) => kind.startsWith("code_"))).toEqual([
      { kind: "code_started", language: "js", code: "print(1)" },
      { kind: "code_finished", language: "js", output: "one\ntwo", durationMs: expect.any(Number) },
    ]);
  });

  test("[K158 stub] code may finish the turn with a value", async () => {
    const finishing = executor(() => ({ observations: ["over"], terminalFinish: { answer: 42 } }));
    const session = await open({
      model: scriptedModel([say("run finish()")]),
      plugins: [codeProtocol(finishing)],
    });
    expect((await session.run("Go")).value).toEqual({ answer: 42 });
  });

  test("[K158 stub] an error of the code is an observation, and no issue of the turn", async () => {
    const failing = executor(() => ({ observations: ["so far"], error: "ReferenceError: x" }));
    const model = scriptedModel([say("run x"), say("I see")]);
    const session = await open({ model, plugins: [codeProtocol(failing)] });
    const { report, events } = await watch(session.turn("Go"));
    expect(report).toMatchObject({ text: "I see", issues: [] });
    expect(events).toContainEqual(
      expect.objectContaining({ kind: "code_finished", output: "so far", error: "ReferenceError: x" }),
    );
  });

  test("[K158 stub] without an executor the code is told so, and the host by code", async () => {
    const model = scriptedModel([say("run 1"), say("I cannot run code")]);
    const session = await open({ model, plugins: [codeProtocol()] });
    const report = await session.turn("Go").result;
    const message = "session s: expected a plugin with a code executor, found none";
    expect(report.text).toBe("I cannot run code");
    expect(report.issues).toEqual([{ kind: "runtime", code: "code_execution_unavailable", message }]);
    expect(model.requests[1]?.messages.at(-1)?.parts).toEqual([{ kind: "text", text: `Error: ${message}` }]);
  });

  test("[K157] [K158 stub] an executor that breaks is code_runtime_stopped, by its plugin's name; the turn goes on", async () => {
    const broken = executor(() => {
      throw new Error("worker exited with code 134");
    });
    const session = await open({
      model: scriptedModel([say("run 1"), say("sorry")]),
      plugins: [codeProtocol(broken)],
    });
    const { text, issues } = await session.turn("Go").result;
    expect(text).toBe("sorry");
    expect(issues).toEqual([
      {
        kind: "plugin",
        code: "code_runtime_stopped",
        message: "session s: plugin code: executeCode failed: worker exited with code 134",
        pluginId: "code",
        hook: "executeCode",
      },
    ]);
  });

  test("[K158 stub] a cancelled cell has its grace to answer; one that does not is left to itself", async () => {
    const clock = new KernelClock();
    const late = deferred<void>();
    const signals: AbortSignal[] = [];
    const deaf = executor(async (ctx) => {
      signals.push(ctx.signal);
      await late.promise;
      const replies = await ctx.callTools([{ name: "echo", args: { text: "late" } }]);
      return { observations: replies.map(({ output }) => output.outcome.kind) };
    });
    const session = await open({
      model: scriptedModel([say("run loop()")]),
      clock,
      tools: [echo],
      plugins: [codeProtocol(deaf)],
    });
    const turn = session.turn("Go");
    await quiet();
    await session.cancel(turn.id);
    expect(signals[0]?.aborted).toBe(true);
    await quiet();
    clock.advance(50);
    const report = await turn.result;
    expect(report.outcome).toMatchObject({ reason: "cancelled" });
    late.resolve();
    await quiet();
    expect(report.toolCalls).toEqual([]);
    expect(session.read().messages.map(({ parts }) => parts[0])).toEqual([
      { kind: "text", text: "Go" },
      { kind: "code", language: "js", code: "loop()" },
      { kind: "error", text: "The turn was cancelled while the code ran." },
    ]);
  });
});

describe("what code may reach", () => {
  /** Runs one cell after a turn, and hands over what it could reach. */
  async function contextOf(options: { readonly extension?: unknown } = {}) {
    const contexts: CodeExecutionContext[] = [];
    const running = executor((ctx) => {
      contexts.push(ctx);
      return { observations: [`cell ${contexts.length}`] };
    });
    const session = await open({
      model: scriptedModel([say("run a()"), say("first"), say("run b()"), say("second")]),
      tools: [echo],
      plugins: [
        codeProtocol(running),
        plugin("triggering", { triggers: [{ resourceType: "repo", alias: "main", event: "push" }] }),
      ],
    });
    await session.run("One");
    await session.turn("Two", options).result;
    const [, context] = contexts;
    if (context === undefined) throw new Error("expected two cells to run");
    return { context, session };
  }

  test("[K142 stub] the catalog, the frame, the turn and the services of the session", async () => {
    const { context } = await contextOf();
    expect(context).toMatchObject({
      sessionId: "s",
      frameId: "s:frame:initial",
      turnContext: { turnId: "s:turn:2" },
    });
    expect(context.toolCatalog.names).toEqual(["echo"]);
    expect(context.tools.map(({ name }) => name)).toEqual(["echo"]);
    expect((await context.sessions.snapshotCurrent()).sessionId).toBe("s");
    expect(typeof context.sessionLifecycle.createSession).toBe("function");
    expect(typeof context.sessionGraph.appendSessionNodes).toBe("function");
    expect(context.completedCalls).toEqual([]);
    expect(Object.isFrozen(context)).toBe(true);
  });

  test("[K162] messages and protocol events in order, the environment, the extension, triggers, and what its processes are children of", async () => {
    const extension = new Map();
    const { context } = await contextOf({ extension });
    const told = (context.chronologicalProjection as unknown as readonly TurnRecord[]).map((item) =>
      item.kind === "message" ? [item.message.role, item.message.parts[0]] : [item.kind, item.payload],
    );
    expect(told).toEqual([
      ["user", { kind: "text", text: "One" }],
      ["assistant", { kind: "code", language: "js", code: "a()" }],
      ["user", { kind: "output", text: "cell 1" }],
      ["protocol_event", { ran: "cell 1" }],
      ["assistant", { kind: "prose", text: "first" }],
      ["user", { kind: "text", text: "Two" }],
      ["assistant", { kind: "code", language: "js", code: "b()" }],
    ]);
    expect(context.chronologicalProjection).toBe(context.chronologicalProjection);
    expect(context.environment).toEqual({ frameId: "s:frame:initial", model: "default" });
    expect(context.protocolExtension).toBe(extension);
    expect(context.triggers.triggers.map(({ sourceType }) => sourceType)).toEqual(["main.push"]);
    expect(context.parentInvocation).toBe(context.processes.parentInvocation);
    expect(context.parentInvocation).toContain("s:turn:2");
  });

  test("[K162] code may cancel its turn", async () => {
    const giving = executor((ctx) => {
      ctx.cancel("the code gave up");
      return quietly;
    });
    const session = await open({
      model: scriptedModel([say("run quit()")]),
      plugins: [codeProtocol(giving)],
    });
    expect((await session.turn("Go").result).outcome).toMatchObject({
      reason: "cancelled",
      message: "the code gave up",
    });
  });

  test("[K142 stub] events reach the watchers of the turn, messages the sender of the session, those of kind code nobody", async () => {
    const talking = executor((ctx) => {
      const event: TurnEvent = {
        kind: "plugin_event",
        pluginId: "code",
        event: { kind: "custom", name: "tick", payload: 1 },
      };
      ctx.emit(event);
      ctx.message({ kind: "print", text: "hello" });
      ctx.message({ kind: "code", text: "hidden" });
      return quietly;
    });
    const scene = await resident({
      model: scriptedModel([say("run talk()"), say("done")]),
      plugins: [codeProtocol(talking)],
    });
    const channel = new AsyncQueue<SandboxMessage>();
    scene.session.setMessageSender(channel);
    const events: TurnEvent[] = [];
    const turn = await scene.submit("Go");
    turn.events.emit = (event) => void events.push(event);
    await turn.done.promise;
    scene.session.clearMessageSender();
    const heard: SandboxMessage[] = [];
    for await (const message of channel) heard.push(message);
    expect(heard).toEqual([{ kind: "print", text: "hello" }]);
    expect(events.map(({ kind }) => kind)).toContain("plugin_event");
  });

  test("[K142 stub] a catalog that cannot be resolved fails the cell's turn before the code runs", async () => {
    let rounds = 0;
    const moving = plugin("moving", {
      snapshot: () => null,
      revision: () => rounds,
      toolCatalog: () => {
        if (rounds > 0) throw new Error("no catalog");
        return undefined;
      },
      output: {
        response: () => {
          rounds += 1;
        },
      },
    });
    let ran = 0;
    const counting = executor(() => {
      ran += 1;
      return quietly;
    });
    const session = await open({
      model: scriptedModel([say("run 1")]),
      plugins: [codeProtocol(counting), moving],
    });
    expect((await session.turn("Go").result).outcome).toMatchObject({
      reason: "runtime_error",
      code: "hook_failed",
    });
    expect(ran).toBe(0);
  });
});

describe("tool calls from code", () => {
  const calling = (
    calls: Parameters<CodeExecutionContext["callTools"]>[0],
    replies: unknown[],
  ): CodeExecutor =>
    executor(async (ctx) => {
      for (const { callId, name, output } of await ctx.callTools(calls)) {
        const { outcome } = output;
        replies.push([
          callId,
          name,
          outcome.kind === "success" ? outcome.value : (outcome as { code?: string }).code,
        ]);
      }
      return { observations: [`${ctx.completedCalls.length} calls`] };
    });

  test("[K161 stub] no calls, no replies", async () => {
    const replies: unknown[] = [];
    const session = await open({
      model: scriptedModel([say("run a"), say("b")]),
      plugins: [codeProtocol(calling([], replies))],
    });
    expect((await session.turn("Go").result).toolCalls).toEqual([]);
    expect(replies).toEqual([]);
  });

  test("[K161 stub] replies are in order; what fails is a reply, and every call is in the report and was watched", async () => {
    const replies: unknown[] = [];
    const wanted = [
      { name: "echo", args: { text: "1" } },
      { name: "nothing", args: {} },
      { name: "echo", args: { text: 7 } },
      { name: "echo", args: () => "no JSON" },
      { name: "echo", args: { text: "2" } },
    ];
    const session = await open({
      model: scriptedModel([say("run a"), say("b")]),
      tools: [echo],
      plugins: [codeProtocol(calling(wanted, replies))],
    });
    const { report, events } = await watch(session.turn("Go"));
    expect(replies).toEqual([
      ["s:turn:1.0.code_cell:00", "echo", "echo 1"],
      ["s:turn:1.0.code_cell:01", "nothing", "tool_unavailable"],
      ["s:turn:1.0.code_cell:02", "echo", "invalid_tool_args"],
      ["s:turn:1.0.code_cell:03", "echo", "invalid_tool_args"],
      ["s:turn:1.0.code_cell:04", "echo", "echo 2"],
    ]);
    expect(report.toolCalls.map(({ name, output }) => [name, output.outcome.kind])).toEqual([
      ["echo", "success"],
      ["nothing", "failure"],
      ["echo", "failure"],
      ["echo", "failure"],
      ["echo", "success"],
    ]);
    expect(Object.keys(report.toolCalls[0] ?? {}).sort()).toEqual([
      "args",
      "callId",
      "durationMs",
      "name",
      "output",
    ]);
    const parents = events.flatMap((event) => (event.kind === "tool_started" ? [event.parentCallId] : []));
    expect(parents).toEqual(Array.from({ length: 5 }, () => "s:turn:1.0.code_cell"));
  });

  test("[K161 stub] code may call again and again: no two calls of a cell have one id", async () => {
    const ids: string[] = [];
    const twice = executor(async (ctx) => {
      for (const text of ["1", "2"]) {
        const replies = await ctx.callTools([{ name: "echo", args: { text } }]);
        ids.push(...replies.map(({ callId }) => callId));
      }
      return quietly;
    });
    const session = await open({
      model: scriptedModel([say("run a"), say("b")]),
      tools: [echo],
      plugins: [codeProtocol(twice)],
    });
    await session.run("Go");
    expect(ids).toEqual(["s:turn:1.0.code_cell:00", "s:turn:1.0.code_cell:01"]);
  });

  test("[K161 stub] the hooks around tool calls see them like any other; what they enqueue comes at the next checkpoint", async () => {
    const replies: unknown[] = [];
    const guarding = plugin("guarding", {
      toolCalls: {
        before: ({ args }) =>
          (args as { text: string }).text === "secret"
            ? directive.shortCircuitTool(toolFailure({ code: "denied", message: "No." }))
            : undefined,
        after: () => directive.enqueueMessages([{ role: "user", content: "A call was made." }]),
      },
    });
    const wanted = ["open", "secret"].map((text) => ({ name: "echo", args: { text } }));
    const model = scriptedModel([say("run a"), say("b")]);
    const session = await open({
      model,
      tools: [echo],
      plugins: [codeProtocol(calling(wanted, replies)), guarding],
    });
    await session.run("Go");
    expect(replies).toEqual([
      ["s:turn:1.0.code_cell:00", "echo", "echo open"],
      ["s:turn:1.0.code_cell:01", "echo", "denied"],
    ]);
    const last = model.requests[1]?.messages.slice(-2).map(({ parts }) => parts[0]);
    expect(last).toEqual([
      { kind: "text", text: "2 calls" },
      { kind: "text", text: "A call was made." },
    ]);
  });
});
