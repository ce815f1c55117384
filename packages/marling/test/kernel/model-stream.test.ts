// What stream and response hooks make of a model call, and what they are told of its end.

import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
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

const streamed = (id: string, change: (chunk: string) => string) =>
  plugin(id, { output: { stream: ({ chunk }) => ({ chunk: change(chunk) }) } });

/** A plugin that notes why streams finished. */
function finishes(reasons: string[], id = "finishes") {
  return plugin(id, { output: { streamFinished: ({ reason }) => void reasons.push(reason) } });
}

describe("stream hooks", () => {
  test("[K48] each hook gets the chunk of the one before; the last chunk is shown and kept", async () => {
    const seen: string[] = [];
    const upper = streamed("upper", (chunk) => chunk.toUpperCase());
    const suffix = plugin("suffix", {
      output: {
        stream: ({ chunk, sessionId }) => {
          seen.push(`${sessionId}:${chunk}`);
          return { chunk: `${chunk}!` };
        },
      },
    });
    const model = scriptedModel([say("ab", { chunks: ["a", "b"] }), say("next")]);
    const session = await open({ model, plugins: [upper, suffix] });
    const { report, events } = await watch(session.turn("Hi"));
    expect(seen).toEqual(["s:A", "s:B"]);
    expect(textsOf(events)).toEqual(["A!", "B!"]);
    expect(report.text).toBe("A!B!");
    await session.run("Again");
    expect(model.requests[1]?.messages[1]).toEqual({
      role: "assistant",
      parts: [{ kind: "text", text: "A!B!" }],
    });
  });

  test("[K48] reasoning and events of every hook are emitted, those of the first before those of the second", async () => {
    const talker = (id: string) =>
      plugin(id, {
        output: {
          stream: ({ chunk }) => ({
            chunk,
            reasoningDeltas: [`${id} thinks`],
            events: [{ kind: "status", key: id, label: `${id} saw ${chunk}` }],
          }),
        },
      });
    const session = await open({ model: scriptedModel([say("yes")]), plugins: [talker("a"), talker("b")] });
    const { events } = await watch(session.turn("Hi"));
    const told = events.filter(({ kind }) =>
      ["reasoning_delta", "plugin_event", "text_delta"].includes(kind),
    );
    expect(told).toEqual([
      { kind: "reasoning_delta", round: 0, text: "a thinks" },
      { kind: "plugin_event", pluginId: "a", event: { kind: "status", key: "a", label: "a saw yes" } },
      { kind: "reasoning_delta", round: 0, text: "b thinks" },
      { kind: "plugin_event", pluginId: "b", event: { kind: "status", key: "b", label: "b saw yes" } },
      { kind: "text_delta", round: 0, text: "yes" },
    ]);
  });

  test("[K48] chunks pass slow hooks one after the other, and what comes between them keeps its place", async () => {
    const slow = plugin("slow", {
      output: {
        stream: async ({ chunk }) => {
          if (chunk === "one ") await quiet();
          return { chunk };
        },
      },
    });
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "one " });
      sink({ kind: "reasoning_delta", text: "hm" });
      sink({ kind: "text_delta", text: "two" });
      return responseOf("one two");
    });
    const { events } = await watch((await open({ model, plugins: [slow] })).turn("Hi"));
    const told = events.flatMap((event) => ("text" in event ? [event.text] : []));
    expect(told).toEqual(["one ", "hm", "two"]);
  });

  test("[K48] a chunk that hooks let nothing through of is neither shown nor kept, and no hook sees an empty one", async () => {
    const seen: string[] = [];
    const censor = plugin("censor", {
      output: {
        stream: ({ chunk }) => {
          seen.push(chunk);
          return { chunk: chunk === "secret" ? "" : chunk };
        },
      },
    });
    const model = port((sink) => {
      for (const text of ["a", "", "secret", "b"]) sink({ kind: "text_delta", text });
      return responseOf("asecretb");
    });
    const { report, events } = await watch((await open({ model, plugins: [censor] })).turn("Hi"));
    expect(seen).toEqual(["a", "secret", "b"]);
    expect(textsOf(events)).toEqual(["a", "b"]);
    expect(report.text).toBe("ab");
  });

  test("[K48] a text of which nothing is let through stays hidden: it is not shown as unstreamed prose", async () => {
    const silence = streamed("silence", () => "");
    const model = scriptedModel([callTool("nothing", {}, { text: "I will call" }), say("over")]);
    const session = await open({ model, plugins: [silence] });
    const { events } = await watch(session.turn("Hi"));
    expect(textsOf(events)).toEqual([]);
    const said = session.read().messages.filter(({ role }) => role === "assistant");
    expect(said[0]?.parts.map(({ kind }) => kind)).toEqual(["tool_call"]);
  });

  test("[K48] several texts of a response stay apart when hooks changed none of them", async () => {
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "Let me see. " });
      sink({ kind: "text_delta", text: "It is 4." });
      return responseOf([
        { kind: "text", text: "Let me see. ", phase: "commentary" },
        { kind: "text", text: "It is 4.", phase: "final_answer" },
      ]);
    });
    const session = await open({ model, plugins: [streamed("same", (chunk) => chunk)] });
    expect((await session.run("2 + 2?")).text).toBe("It is 4.");
  });

  test("[K48] a stream hook that fails ends the turn by its name, and what was paid for is reported", async () => {
    const reasons: string[] = [];
    const broken = plugin("broken", {
      output: {
        stream: () => {
          throw new Error("no");
        },
      },
    });
    const model = port((sink, signal) => {
      sink({ kind: "usage", usage: usage(7, 3) });
      sink({ kind: "text_delta", text: "a" });
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve(responseOf("late")));
      });
    });
    const session = await open({ model, plugins: [broken, finishes(reasons)] });
    const { report, events } = await watch(session.turn("Hi"));
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "runtime_error", code: "hook_failed" });
    expect(report.issues).toMatchObject([{ pluginId: "broken", hook: "output.stream" }]);
    expect(textsOf(events)).toEqual([]);
    expect(reasons).toEqual(["provider_error"]);
    expect(report.modelCalls).toMatchObject([{ outcome: "failed", code: "hook_failed", usage: usage(7, 3) }]);
    expect(session.usage().entries).toEqual([{ source: "turn", model: "default", usage: usage(7, 3) }]);
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user"]);
  });
});

describe("a hook that ends the stream", () => {
  const stopAt = (word: string) =>
    plugin("stop", { output: { stream: ({ chunk }) => ({ chunk, abortStream: chunk === word }) } });

  test("[K49] the text so far is kept as an answer, and nothing of what follows is shown", async () => {
    const reasons: string[] = [];
    const aborted: boolean[] = [];
    const model = port(async (sink, signal) => {
      for (const text of ["one ", "two ", "three "]) sink({ kind: "text_delta", text });
      await quiet();
      sink({ kind: "reasoning_delta", text: "and on" });
      sink({ kind: "attempt_reset", reason: "too late", retryAfterMs: 0 });
      sink({ kind: "text_delta", text: "four" });
      sink({ kind: "usage", usage: usage(10, 2) });
      await quiet();
      aborted.push(signal.aborted);
      sink({ kind: "text_delta", text: "five" });
      return responseOf("one two three four five");
    });
    const session = await open({ model, plugins: [stopAt("two "), finishes(reasons)] });
    const { report, events } = await watch(session.turn("Count"));
    await quiet();
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "one two " });
    expect(events.flatMap((event) => ("text" in event ? [event.text] : []))).toEqual(["one ", "two "]);
    expect(reasons).toEqual(["aborted"]);
    expect(report.modelCalls).toEqual([
      { round: 0, attempt: 1, model: "default", outcome: "aborted", finish: "stop", usage: usage(10, 2) },
    ]);
    expect(aborted).toEqual([true]);
  });

  test("[K49] a hook that comes later may raise it too, and every hook still sees the chunk", async () => {
    const seen: string[] = [];
    const last = plugin("last", {
      output: {
        stream: ({ chunk }) => {
          seen.push(chunk);
          return { chunk: `${chunk}.` };
        },
      },
    });
    const model = scriptedModel([say("stop now", { chunks: ["stop", " now"] })]);
    const session = await open({ model, plugins: [stopAt("stop"), last] });
    expect((await session.run("Hi")).text).toBe("stop.");
    expect(seen).toEqual(["stop"]);
  });

  test("[K49] usage is waited for up to two seconds, then the call is over without it", async () => {
    const clock = new KernelClock();
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "stop" });
      return new Promise(() => {});
    });
    const session = await open({ model, clock, plugins: [stopAt("stop")] });
    const turn = session.turn("Hi");
    let isDone = false;
    turn.result.then(() => {
      isDone = true;
    });
    await quiet();
    clock.advance(1_999);
    await quiet();
    expect(isDone).toBe(false);
    clock.advance(1);
    const report = await turn.result;
    expect(report).toMatchObject({ text: "stop", usage: usage(0, 0) });
    expect(clock.pending).toBe(0);
  });

  test("[K49] usage that comes within the two seconds ends the wait at once and is counted", async () => {
    const clock = new KernelClock();
    const trailing = deferred<void>();
    const model = port(async (sink) => {
      sink({ kind: "text_delta", text: "stop" });
      await trailing.promise;
      sink({ kind: "usage", usage: usage(5, 1) });
      return new Promise(() => {});
    });
    const session = await open({ model, clock, plugins: [stopAt("stop")] });
    const turn = session.turn("Hi");
    await quiet();
    clock.advance(1_500);
    trailing.resolve();
    expect((await turn.result).usage).toEqual(usage(5, 1));
    expect(clock.pending).toBe(0);
  });

  test("[K49] a call that ends by itself meanwhile brings its usage with its response", async () => {
    const model = scriptedModel([
      say("stop now", { chunks: ["stop", " now"], usage: { input: 8, output: 2 } }),
    ]);
    const session = await open({ model, plugins: [stopAt("stop")] });
    const { report } = await session.run("Hi");
    expect(report).toMatchObject({ text: "stop", usage: usage(8, 2) });
  });

  test("[K49] response hooks run on the text so far", async () => {
    const rewrite = plugin("rewrite", {
      output: {
        response: ({ response }) => ({
          response: { ...response, parts: [{ kind: "text", text: `<${response.finish}>` }] },
        }),
      },
    });
    const model = scriptedModel([say("stop now", { chunks: ["stop", " now"] })]);
    const session = await open({ model, plugins: [stopAt("stop"), rewrite] });
    expect((await session.run("Hi")).text).toBe("<stop>");
  });
});

describe("response hooks", () => {
  const rewrite = (id: string, suffix: string) =>
    plugin(id, {
      output: {
        response: ({ response }) => ({
          response: {
            ...response,
            usage: usage(0, 0),
            parts: response.parts.map((part) =>
              part.kind === "text" ? { ...part, text: part.text + suffix } : part,
            ),
          },
          events: [{ kind: "status" as const, key: id, label: suffix }],
        }),
      },
    });

  test("[K50] each gets the response of the one before; the last is kept, and all events are told", async () => {
    const model = scriptedModel([say("x", { usage: { input: 4, output: 1 } })]);
    const session = await open({ model, plugins: [rewrite("a", "1"), rewrite("b", "2")] });
    const { report, events } = await watch(session.turn("Hi"));
    expect(report.text).toBe("x12");
    expect(events.flatMap((event) => (event.kind === "plugin_event" ? [event.pluginId] : []))).toEqual([
      "a",
      "b",
    ]);
    // What was used is the provider's to say.
    expect(report.usage).toEqual(usage(4, 1));
    expect(events).toContainEqual({ kind: "usage", round: 0, usage: usage(4, 1), total: usage(4, 1) });
  });

  test("[K50] none runs on a failed call, and one that fails ends the turn by its name", async () => {
    const asked: string[] = [];
    const broken = plugin("broken", {
      output: {
        response: ({ response }) => {
          asked.push(response.finish);
          throw new Error("no");
        },
      },
    });
    const model = scriptedModel([failWith({ kind: "auth" }), say("x")]);
    const session = await open({ model, plugins: [broken] });
    expect((await session.turn("Hi").result).outcome).toMatchObject({
      reason: "provider_error",
      code: "auth",
    });
    expect(asked).toEqual([]);
    const report = await session.turn("Hi").result;
    expect(report.outcome).toMatchObject({ reason: "runtime_error", code: "hook_failed" });
    expect(report.issues).toMatchObject([{ pluginId: "broken", hook: "output.response" }]);
  });
});
