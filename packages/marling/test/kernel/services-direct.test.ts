// Model calls that plugins and tools make themselves: what is asked, what comes back, and what is in the ledger.

import type { DirectLlmCompletion, ToolContext } from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { BACKINGS, live, quickTool } from "./durable-support.ts";
import { protocol } from "./protocol-support.ts";
import { act, acting, answering, codeOf, hostTool, ledger, lines } from "./services-support.ts";
import { play, plugin, rejectionOf } from "./tools-support.ts";

const USED = { usage: { input: 10, output: 2 } };
const ANSWERS = {
  Summarize: [say("Short.", USED)],
  Nothing: [say("Free.")],
  Fail: [failWith({ kind: "overloaded", message: "busy", usage: { input: 5 } })],
} as const;

describe.each(BACKINGS)("on $name", ({ open }) => {
  const go = (round: Parameters<typeof answering>[0][string]) => answering({ ...ANSWERS, Go: round });

  test("[K123] in a tool its usage is in the ledger under source and model, and in the report, summed", async () => {
    const ask = hostTool("ask", async (host, _args, ctx: ToolContext) => {
      await host.directCompletion({ messages: "Summarize" }, "memory");
      await host.directCompletion({ messages: "Summarize", model: "small" }, "memory");
      await host.directCompletion({ messages: "Nothing" }, "free");
      return (await ctx.directCompletion({ messages: "Summarize" })).text;
    });
    const { session } = await live({
      store: open()(),
      models: { small: scriptedModel(answering(ANSWERS)) },
      tools: [ask],
      script: go([callTool("ask", {}, { usage: { input: 1 } })]),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ kind: "success", value: "Short." });
    const spent = ["ask default 10+2", "memory default 10+2", "memory small 10+2"];
    expect(lines(report.childUsage)).toEqual(spent);
    expect(ledger(session)).toEqual([...spent, "turn default 1+0"]);
    expect(report.modelCalls).toHaveLength(2);
    await session.turn("Go").result;
    expect(ledger(session)).toEqual([
      "ask default 20+4",
      "memory default 20+4",
      "memory small 20+4",
      "turn default 2+0",
    ]);
  });

  test("[K123] in hooks it is part of the turn", async () => {
    const ask = async (host: unknown, source: string): Promise<undefined> => {
      await (host as HostServices).directCompletion({ messages: "Summarize" }, source);
      return undefined;
    };
    const asking = plugin("asking", {
      prompt: ({ host }) => ask(host, "prompt"),
      toolCalls: { before: ({ host }) => ask(host, "before"), after: ({ host }) => ask(host, "after") },
      context: {
        prepareTurn: { transform: ({ host }, prepared) => ask(host, "context").then(() => prepared) },
      },
    });
    const { session } = await live({
      store: open()(),
      plugins: [asking],
      tools: [quickTool("quick")],
      script: go([callTool("quick")]),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.issues).toEqual([]);
    const inReport = lines(report.childUsage);
    expect(inReport).toEqual(ledger(session));
    expect(inReport.filter((line) => !line.startsWith("prompt"))).toEqual([
      "after default 10+2",
      "before default 10+2",
      "context default 10+2",
    ]);
    expect(inReport.some((line) => line.startsWith("prompt default"))).toBe(true);
  });

  test("[K123] beside turns it is in the ledger at once, and stays there when the session is opened again", async () => {
    const reopen = open();
    const options = {
      plugins: [
        acting({
          "do.ask": (host) => host.directCompletion({ messages: "Summarize" }, "memory"),
          "do.free": (host) => host.directCompletion({ messages: "Nothing" }, "memory"),
        }),
      ],
      script: answering(ANSWERS),
    };
    const { session, runtime } = await live({ store: reopen(), ...options });
    expect(await act(session, "do.ask")).toEqual({
      text: "Short.",
      model: "default",
      usage: { input: 10, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
    });
    expect(ledger(session)).toEqual(["memory default 10+2"]);
    const { revision } = session.read();
    await act(session, "do.free");
    expect(session.read().revision).toBe(revision);
    expect(session.read().messages).toEqual([]);
    await session.close();
    expect(ledger(await runtime.session("s"))).toEqual(["memory default 10+2"]);
  });

  test("[K123] after a commit a handler of it may ask as well", async () => {
    const after = plugin("after", {
      session: {
        onEvent: async (event) => {
          if (event.kind === "turn_persisted")
            await event.host.directCompletion({ messages: "Summarize" }, "after");
        },
      },
    });
    const { session } = await live({ store: open()(), plugins: [after], script: go([say("Hi.")]) });
    const { report } = await play(session.turn("Go"));
    expect(report.issues).toEqual([]);
    expect(ledger(session)).toEqual(["after default 10+2"]);
  });

  test("[K133] the protocol may ask before a model call, once per call of the model", async () => {
    const texts: string[] = [];
    const asking = protocol({
      beforeLlmCall: async ({ directCompletions, sessions, sessionGraph, sessionId }, request) => {
        const { text } = await directCompletions.directCompletion({ messages: "Summarize" }, "route");
        texts.push(`${text} ${request.messages.length} ${(await sessions.snapshotCurrent()).sessionId}`);
        expect(Object.keys(directCompletions)).toEqual(["directCompletion", "directLlmCompletion"]);
        expect(Object.keys(sessions)).not.toContain("createSession");
        expect(sessionGraph).not.toHaveProperty("startTurn");
        expect(sessionId).toBe("s");
        return undefined;
      },
    });
    const { session } = await live({
      store: open()(),
      plugins: [asking],
      tools: [quickTool("quick")],
      script: go([callTool("quick")]),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.outcome).toMatchObject({ kind: "finished" });
    expect(texts).toEqual(["Short. 1 s", "Short. 3 s"]);
    expect(ledger(session)).toEqual(["route default 20+4"]);
  });

  test("[K124] the full answer of the model comes back, and the request has no tools and no history", async () => {
    const answers: DirectLlmCompletion[] = [];
    const ask = hostTool("ask", async (host) => {
      answers.push(
        await host.directLlmCompletion(
          {
            system: "Be short.",
            messages: [
              { role: "user", content: "First" },
              { role: "assistant", content: "Yes?" },
              { role: "user", content: "Summarize" },
            ],
            parameters: { temperature: 0 },
            outputSchema: { type: "object" },
          },
          "memory",
        ),
      );
      return "done";
    });
    const { session, model } = await live({
      store: open()(),
      tools: [ask],
      instructions: "You are an agent.",
      script: answering({
        Go: [callTool("ask")],
        Summarize: [say("Short.", { ...USED, reasoning: "Hm." })],
      }),
    });
    await session.turn("Go").result;
    const request = model.requests.find(
      ({ messages }) =>
        messages.length === 3 && messages[0]?.role === "user" && messages[1]?.parts[0]?.kind === "text",
    );
    // The scripted model counts the assistant messages behind the last user message: this is its first round.
    expect(answers).toEqual([
      {
        model: "default",
        usage: { input: 10, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
        response: {
          finish: "stop",
          usage: { input: 10, output: 2, cacheRead: 0, cacheWrite: 0, reasoning: 0 },
          parts: [
            { kind: "reasoning", text: "Hm." },
            { kind: "text", text: "Short." },
          ],
        },
      },
    ]);
    expect(request).toMatchObject({
      model: "default",
      system: "Be short.",
      tools: [],
      toolChoice: "none",
      parameters: { temperature: 0 },
      outputSchema: { type: "object" },
      scope: { sessionId: "s" },
    });
    expect(request?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  });

  test("[K123] a call that failed is an error with the code of the model, and what it used is in the ledger", async () => {
    const ask = hostTool("ask", async (host) => {
      const error = await rejectionOf(host.directCompletion({ messages: "Fail" }, "memory"));
      return { code: error.code, details: error.details as never };
    });
    const { session } = await live({
      store: open()(),
      tools: [ask],
      plugins: [
        acting({ "do.fail": (host) => codeOf(host.directCompletion({ messages: "Fail" }, "beside")) }),
      ],
      script: go([callTool("ask")]),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "success",
      value: { code: "direct_completion_failed", details: { code: "overloaded" } },
    });
    expect(await act(session, "do.fail")).toBe("direct_completion_failed");
    expect(ledger(session)).toEqual(["beside default 5+0", "memory default 5+0"]);
  });

  test("[K123] a model that the runtime does not have is refused before anything is asked", async () => {
    const { session, model } = await live({
      store: open()(),
      plugins: [
        acting({ "do.ask": (host) => codeOf(host.directCompletion({ messages: "Hi", model: "huge" }, "x")) }),
      ],
      script: answering({}),
    });
    expect(await act(session, "do.ask")).toBe("provider_unavailable");
    expect(model.requests).toEqual([]);
  });
});
