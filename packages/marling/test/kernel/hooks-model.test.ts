// Hooks around model calls, and the policies that are asked before a tool runs.

import { createRuntime, type Plugin, type PluginParts } from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { ApprovalDecision } from "../../src/plugin/hook-context.ts";
import {
  echoTool,
  outcomeOf,
  passTime,
  play,
  plugin,
  scene,
  TestClock,
  transcript,
  watchedStore,
} from "./hooks-support.ts";

describe("model.request", () => {
  test("patches reach the request: records are merged, the tool choice is replaced, later hooks see earlier ones", async () => {
    const seen: unknown[] = [];
    const { session, model } = await scene({
      script: [say("Hello.")],
      plugins: [
        plugin("a", {
          model: {
            request: ({ round, request }) => {
              seen.push(round, request.parameters);
              return {
                parameters: { temperature: 0.1, topP: 0.9 },
                providerOptions: { vendor: { cache: true } },
                toolChoice: "none",
              };
            },
          },
        }),
        plugin("b", {
          model: {
            request: ({ request }) => {
              seen.push(request.parameters);
              return { parameters: { temperature: 0.7 }, headers: { "x-trace": "1" } };
            },
          },
        }),
      ],
    });
    await play(session);

    expect(seen).toEqual([0, {}, { temperature: 0.1, topP: 0.9 }]);
    expect(model.requests[0]).toMatchObject({
      parameters: { temperature: 0.7, topP: 0.9 },
      providerOptions: { vendor: { cache: true } },
      headers: { "x-trace": "1" },
      toolChoice: "none",
    });
  });

  test("messages and tools are not for changing here", async () => {
    const { session, model } = await scene({
      script: [say("Hello.")],
      plugins: [plugin("p", { model: { request: () => ({ messages: [] }) as never } })],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ reason: "runtime_error", code: "hook_returned_nonsense" });
    expect(report.issues).toMatchObject([
      { pluginId: "p", hook: "model.request", message: expect.stringContaining("messages") },
    ]);
    expect(model.requests).toEqual([]);
  });

  test("header values are sent and never stored, reported or traced", async () => {
    const stored: unknown[] = [];
    const store = watchedStore({ onCommit: (commit) => void stored.push(commit) });
    const { session, model, traces } = await scene({
      store,
      script: [failWith({ kind: "overloaded", retryAfterMs: 0 }), say("Hello.")],
      plugins: [plugin("p", { model: { request: () => ({ headers: { authorization: "sesame" } }) } })],
    });
    const played = await play(session);

    expect(model.requests.map(({ headers }) => headers)).toEqual([
      { authorization: "sesame" },
      { authorization: "sesame" },
    ]);
    expect(stored.length).toBeGreaterThan(0);
    expect(JSON.stringify([stored, played, traces, await session.history()])).not.toContain("sesame");
  });
});

describe("model.error", () => {
  const decide = (error: (PluginParts["model"] & object)["error"]): Plugin =>
    plugin("p", { model: { error: error as never } });

  test("is told what failed, and may ask to try again at once", async () => {
    const seen: unknown[] = [];
    const { session, model } = await scene({
      script: [failWith({ kind: "auth", message: "expired" }), say("Hello.")],
      plugins: [
        decide(({ round, attempt, model: name, failure }) => {
          seen.push({ round, attempt, name, kind: failure.kind, message: failure.message });
          return { kind: "retry", afterMs: 0 };
        }),
      ],
    });
    const { report, events } = await play(session);

    expect(seen).toEqual([{ round: 0, attempt: 1, name: "default", kind: "auth", message: "expired" }]);
    expect(model.requests).toHaveLength(2);
    expect(report.text).toBe("Hello.");
    expect(report.modelCalls).toMatchObject([
      { attempt: 1, outcome: "failed", code: "auth" },
      { attempt: 2, outcome: "completed" },
    ]);
    expect(events.filter(({ kind }) => kind === "attempt_reset")).toMatchObject([
      { attempt: 1, reason: "expired" },
    ]);
  });

  test("falls back to another model by its name", async () => {
    const first = scriptedModel([failWith({ kind: "auth" }), say("Never.")]);
    const spare = scriptedModel([say("From the spare.")]);
    const runtime = createRuntime({
      model: first,
      models: { spare },
      plugins: [decide(() => ({ kind: "fall_back", model: "spare" }))],
    });
    const report = await (await runtime.session("s")).turn("Hi").result;
    await runtime.close();

    expect(report.text).toBe("From the spare.");
    expect(report.modelCalls.map(({ model, outcome }) => `${model} ${outcome}`)).toEqual([
      "default failed",
      "spare completed",
    ]);
    expect([first.requests.length, spare.requests.length]).toEqual([1, 1]);
    expect(spare.requests[0]?.model).toBe("spare");
  });

  test("a fall back to a model that does not exist stops the turn and names it", async () => {
    const { session } = await scene({
      script: [failWith({ kind: "auth" })],
      plugins: [decide(() => ({ kind: "fall_back", model: "nobody" }))],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "stopped", message: expect.stringContaining("nobody") });
  });

  test("compacts and tries again with what the compactor left", async () => {
    const { session, model } = await scene({
      script: [say("First."), failWith({ kind: "context_overflow" }), say("Short again.")],
      plugins: [
        plugin("p", {
          model: {
            error: ({ failure }) =>
              failure.kind === "context_overflow"
                ? { kind: "compact_and_retry", instructions: "brief" }
                : undefined,
          },
          context: {
            compact: {
              compact: ({ instructions, state }) => ({
                initialNodes: [
                  {
                    kind: "message",
                    message: { role: "user", content: `${instructions}: ${state.messageCount} messages` },
                  },
                ],
              }),
            },
          },
        }),
      ],
    });
    await play(session);
    const { report } = await play(session, "Again");

    expect(report.text).toBe("Short again.");
    expect(JSON.stringify(model.requests[2]?.messages)).toContain("brief: 3 messages");
    expect(JSON.stringify(model.requests[2]?.messages)).not.toContain("First.");
    expect(transcript(session)).toEqual([
      "user: brief: 3 messages",
      "user: Again",
      "assistant: Short again.",
    ]);
    expect(session.read().frames).toHaveLength(2);
  });

  test("may let a failure stand that the default policy would try again", async () => {
    const { session, model } = await scene({
      script: [failWith({ kind: "overloaded" }), say("Never.")],
      plugins: [decide(() => ({ kind: "fail" }))],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "overloaded" });
    expect(model.requests).toHaveLength(1);
  });

  test("the first answer decides, the next plugin is not asked; without one the default policy answers", async () => {
    const asked: string[] = [];
    const answering = (id: string, answer: { readonly kind: "fail" } | undefined): Plugin =>
      plugin(id, {
        model: {
          error: () => {
            asked.push(id);
            return answer;
          },
        },
      });
    const clock = new TestClock();
    const { session, model } = await scene({
      clock,
      script: [failWith({ kind: "overloaded" }), failWith({ kind: "auth" })],
      plugins: [answering("a", undefined), answering("b", undefined)],
    });
    const { report } = await passTime(clock, play(session));
    expect(asked).toEqual(["a", "b", "a", "b"]);
    expect(model.requests).toHaveLength(2);
    expect(report.outcome).toMatchObject({ reason: "provider_error", code: "auth" });

    asked.length = 0;
    const other = await scene({
      script: [failWith({ kind: "overloaded" })],
      plugins: [answering("a", { kind: "fail" }), answering("b", undefined)],
    });
    await play(other.session);
    expect(asked).toEqual(["a"]);
  });

  test("the default policy tries a retryable failure four times and another one once", async () => {
    const clock = new TestClock();
    const busy = await scene({
      clock,
      script: Array.from({ length: 9 }, () => failWith({ kind: "overloaded" })),
    });
    const { report } = await passTime(clock, play(busy.session));
    expect(busy.model.requests).toHaveLength(4);
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "overloaded" });

    const barred = await scene({ script: [failWith({ kind: "auth" }), say("Never.")] });
    await play(barred.session);
    expect(barred.model.requests).toHaveLength(1);
  });

  test("a plugin that always asks to try again does not go on for ever", async () => {
    const { session, model } = await scene({
      script: Array.from({ length: 99 }, () => failWith({ kind: "auth" })),
      plugins: [decide(() => ({ kind: "retry", afterMs: 0 }))],
    });
    const { report } = await play(session);

    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "auth" });
    expect(model.requests.length).toBeLessThan(99);
  });
});

describe("approval.request", () => {
  const decision = (id: string, answer: ApprovalDecision | undefined): Plugin =>
    plugin(id, { approval: { request: () => answer } });
  const script = [callTool("echo", { text: "one" }), say("Done.")];
  const ask = { decision: "ask", reason: "By ask.", expiresMs: 1 } as const;
  const deny = { decision: "deny", reason: "By deny." } as const;
  const allow = { decision: "allow" } as const;

  test.each([
    ["nobody minds", [undefined, allow], { value: "echo: one" }],
    ["deny beats allow", [allow, deny], { code: "approval_denied", message: "By deny." }],
    [
      "deny beats ask, whoever comes first",
      [ask, deny, allow],
      { code: "approval_denied", message: "By deny." },
    ],
    ["deny beats a later ask", [deny, ask], { code: "approval_denied", message: "By deny." }],
    // Nobody answers: what was asked fails closed.
    [
      "ask beats allow",
      [allow, ask, allow],
      { code: "approval_expired", message: "Nobody decided about the call in time." },
    ],
  ])("%s", async (_name, answers, expected) => {
    const { session, ran } = await scene({
      script,
      plugins: answers.map((answer, index) => decision(`p${index}`, answer)),
    });
    const { report } = await play(session);

    expect(outcomeOf(report)).toEqual(expected);
    expect(ran).toEqual("value" in expected ? ["one"] : []);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  });

  test("policies are asked about the arguments as hooks left them, and not about calls that are settled", async () => {
    const asked: unknown[] = [];
    const { session } = await scene({
      script: [
        callTool("echo", { text: "one" }),
        callTool("echo", { text: 7 }),
        callTool("nothing", {}),
        say("Done."),
      ],
      plugins: [
        plugin("p", {
          toolCalls: {
            before: ({ args }) =>
              (args as { text?: unknown }).text === "one"
                ? { kind: "replace_tool_args", args: { text: "two" } }
                : undefined,
          },
          approval: { request: (ctx) => void asked.push(ctx) as undefined },
        }),
      ],
    });
    await play(session);

    expect(asked).toEqual([{ sessionId: "s", toolName: "echo", callId: "call_1", args: { text: "two" } }]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects", () => Promise.reject(new Error("broken"))],
    ["answers nonsense", () => ({ decision: "maybe" }) as never],
  ])("a policy that %s denies the call, and is named", async (_how, request) => {
    const ran: string[] = [];
    const model = scriptedModel(script);
    const runtime = createRuntime({
      model,
      tools: [echoTool((text) => ran.push(text))],
      plugins: [plugin("p", { approval: { request } }), decision("q", allow)],
    });
    const report = await (await runtime.session("s")).turn("Hi").result;
    await runtime.close();

    expect(ran).toEqual([]);
    expect(outcomeOf(report)).toMatchObject({ code: "approval_denied" });
    expect(JSON.stringify(report)).toContain("plugin p: hook approval.request");
  });
});
