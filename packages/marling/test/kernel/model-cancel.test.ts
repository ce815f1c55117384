// Cancelling while the model speaks: the words that were shown stay, and the session is free at once.

import { defineTool } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { deferred } from "../../src/base/deferred.ts";
import { isPromptResumeSafe } from "../../src/turn/project-messages.ts";
import {
  KernelClock,
  open,
  plugin,
  port,
  quiet,
  responseOf,
  textsOf,
  usage,
  watch,
} from "./model-support.ts";

/** A port that says something and then answers nothing any more, whatever its signal says. */
function deafPort(then: readonly ReturnType<typeof say>[] = []) {
  const later = scriptedModel(then);
  let isFirst = true;
  const signals: AbortSignal[] = [];
  return {
    id: "deaf",
    signals,
    requests: later.requests,
    call: ((request, options) => {
      if (!isFirst) return later.call(request, options);
      isFirst = false;
      signals.push(options.signal);
      for (const text of ["Once ", "upon"]) options.sink({ kind: "text_delta", text });
      options.sink({ kind: "usage", usage: usage(6, 2) });
      return new Promise(() => {});
    }) satisfies ReturnType<typeof port>["call"],
  };
}

describe("a turn that is cancelled while the model streams", () => {
  test("keeps the words that were shown as the model's message, and its usage", async () => {
    const model = deafPort();
    const session = await open({ model });
    const turn = session.turn("Tell me a story");
    await quiet();
    expect(await session.cancel(turn.id, "enough")).toBe("requested");
    const { report, events } = await watch(turn);
    expect(report.outcome).toEqual({
      kind: "stopped",
      reason: "cancelled",
      code: "cancelled",
      message: "enough",
    });
    expect(report.text).toBe("Once upon");
    expect(textsOf(events)).toEqual(["Once ", "upon"]);
    expect(session.read().messages.map(({ role, parts }) => [role, parts])).toEqual([
      ["user", [{ kind: "text", text: "Tell me a story" }]],
      ["assistant", [expect.objectContaining({ text: "Once upon" })]],
    ]);
    expect(report.modelCalls).toEqual([
      {
        round: 0,
        attempt: 1,
        model: "default",
        outcome: "cancelled",
        finish: "cancelled",
        usage: usage(6, 2),
      },
    ]);
    expect(model.signals[0]?.aborted).toBe(true);
  });

  test("frees the session at once, though the port never answers; the next request has the words", async () => {
    const model = deafPort([say("There was a mouse.")]);
    const session = await open({ model });
    const turn = session.turn("Tell me a story");
    await quiet();
    await session.cancel(turn.id);
    expect((await session.run("Go on")).text).toBe("There was a mouse.");
    expect(model.requests[0]?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  });

  test("shows nothing of what the port sends afterwards, to nobody", async () => {
    const wake = deferred<void>();
    const model = port(async (sink) => {
      sink({ kind: "text_delta", text: "before" });
      await wake.promise;
      sink({ kind: "text_delta", text: "after" });
      return responseOf("before after");
    });
    const session = await open({ model });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    await turn.result;
    wake.resolve();
    await quiet();
    expect(textsOf((await watch(turn)).events)).toEqual(["before"]);
    expect(session.read().messages.at(-1)?.parts).toMatchObject([{ text: "before" }]);
  });

  test("waits for the hook that looks at a chunk, and asks it about no other", async () => {
    const wake = deferred<void>();
    const asked: string[] = [];
    const slow = plugin("slow", {
      output: {
        stream: async ({ chunk }) => {
          asked.push(chunk);
          await wake.promise;
          return { chunk };
        },
      },
    });
    const session = await open({ model: deafPort(), plugins: [slow] });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    wake.resolve();
    const report = await turn.result;
    expect(asked).toEqual(["Once "]);
    expect(report).toMatchObject({ text: "Once ", outcome: { reason: "cancelled" } });
  });

  test("leaves no message of the model when nothing was shown", async () => {
    const session = await open({ model: port(() => new Promise(() => {})) });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    await turn.result;
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user"]);
  });

  test("is cancelled by the signal it was given, with the reason of the signal", async () => {
    const controller = new AbortController();
    const session = await open({ model: deafPort() });
    const turn = session.turn("Hi", { signal: controller.signal });
    await quiet();
    controller.abort(new Error("the tab was closed"));
    expect((await turn.result).outcome).toMatchObject({ reason: "cancelled", message: "the tab was closed" });
  });

  test("ends the wait for trailing usage too", async () => {
    const clock = new KernelClock();
    const stop = plugin("stop", { output: { stream: ({ chunk }) => ({ chunk, abortStream: true }) } });
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "so far" });
      return new Promise(() => {});
    });
    const session = await open({ model, clock, plugins: [stop] });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    expect(await turn.result).toMatchObject({ text: "so far", outcome: { reason: "cancelled" } });
    expect(clock.pending).toBe(0);
  });
});

test("a turn that is cancelled before its model call makes none", async () => {
  const model = scriptedModel([say("never")]);
  const gate = deferred<void>();
  const slow = plugin("slow", { model: { request: () => gate.promise } });
  const session = await open({ model, plugins: [slow] });
  const turn = session.turn("Hi");
  await quiet();
  await session.cancel(turn.id);
  gate.resolve();
  expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
  expect(model.requests).toEqual([]);
});

test("a turn that is cancelled between a response and its tool calls leaves a history the model can be sent", async () => {
  const ran: string[] = [];
  const noop = defineTool({
    name: "noop",
    description: "Does nothing.",
    input: z.object({}),
    execute: () => void ran.push("noop"),
  });
  const cancelling = plugin("cancelling", {
    output: {
      response: async () => {
        await session.cancel("s:turn:1");
        return undefined;
      },
    },
  });
  const model = scriptedModel([callTool("noop"), say("next")]);
  const session = await open({ model, tools: [noop], plugins: [cancelling] });
  expect((await session.turn("Hi").result).outcome).toMatchObject({ reason: "cancelled" });
  expect(ran).toEqual([]);
  expect(isPromptResumeSafe(session.read().messages)).toBe(true);
  const kinds = session.read().messages.flatMap(({ parts }) => parts.map(({ kind }) => kind));
  expect(kinds).toEqual(["text", "tool_call", "tool_result"]);
});
