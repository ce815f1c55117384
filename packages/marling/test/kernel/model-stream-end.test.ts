// How a stream ends: what the hooks are told, what is shown when nothing was streamed, and what a chunk costs.

import { createHook } from "node:async_hooks";
import type { Plugin, TurnEvent } from "marling";
import { failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import {
  KernelClock,
  open,
  plugin,
  port,
  quiet,
  resident,
  responseOf,
  shownText,
  textsOf,
  usage,
  watch,
} from "./model-support.ts";

/** A plugin that notes why streams finished, among what else is noted. */
const finishes = (log: string[], id = "finishes"): Plugin =>
  plugin(id, {
    output: { streamFinished: ({ reason, sessionId }) => void log.push(`${sessionId} ${reason}`) },
  });

describe("stream finished", () => {
  test("[K51] a call that is answered finishes once as complete, in every round", async () => {
    const log: string[] = [];
    const model = scriptedModel([say("one"), say("two")]);
    const session = await open({ model, plugins: [finishes(log)] });
    await session.run("Hi");
    expect(log).toEqual(["s complete"]);
    await session.run("Hi");
    expect(log).toEqual(["s complete", "s complete"]);
  });

  test("[K51] a call whose text was not streamed finishes as complete too, after its text was shown", async () => {
    const log: string[] = [];
    const model = port(() => responseOf("unstreamed"));
    const events: TurnEvent[] = [];
    const told = plugin("told", {
      output: { streamFinished: () => void log.push(textsOf(events).join("")) },
    });
    const scene = await resident({ model, plugins: [told] });
    const turn = await scene.submit("Hi");
    turn.events.emit = (event) => void events.push(event);
    await turn.done.promise;
    expect(log).toEqual(["unstreamed"]);
  });

  test("[K51] a call that is given up at once finishes as provider_error", async () => {
    const log: string[] = [];
    const session = await open({
      model: scriptedModel([failWith({ kind: "auth" })]),
      plugins: [finishes(log)],
    });
    await session.turn("Hi").result;
    expect(log).toEqual(["s provider_error"]);
  });

  test("[K51] every attempt that is given up is an attempt_reset, and the end is told once", async () => {
    const log: string[] = [];
    const clock = new KernelClock();
    const model = scriptedModel([
      ...Array.from({ length: 3 }, () => failWith({ kind: "overloaded" })),
      say("there"),
    ]);
    const session = await open({ model, clock, plugins: [finishes(log)] });
    const turn = session.turn("Hi");
    for (let wait = 0; wait < 3; wait += 1) {
      await quiet();
      clock.advance(10_000);
    }
    await turn.result;
    expect(log).toEqual(["s attempt_reset", "s attempt_reset", "s attempt_reset", "s complete"]);
  });

  test("[K51] a call that is cancelled while it waits to be tried again finishes as cancelled", async () => {
    const log: string[] = [];
    const session = await open({
      model: scriptedModel([failWith({ kind: "overloaded" })]),
      clock: new KernelClock(),
      plugins: [finishes(log)],
    });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    expect((await turn.result).outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
    expect(log).toEqual(["s attempt_reset", "s cancelled"]);
  });

  test("[K51] a call that is cancelled while it streams finishes as cancelled", async () => {
    const log: string[] = [];
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "a" });
      return new Promise(() => {});
    });
    const session = await open({ model, plugins: [finishes(log)] });
    const turn = session.turn("Hi");
    await quiet();
    await session.cancel(turn.id);
    await turn.result;
    expect(log).toEqual(["s cancelled"]);
  });

  test("[K51] a call that fails after a hook asked to end it was ended by the hook", async () => {
    const log: string[] = [];
    const stop = plugin("stop", { output: { stream: ({ chunk }) => ({ chunk, abortStream: true }) } });
    const model = scriptedModel([failWith({ kind: "network", chunks: ["so far"] })]);
    const session = await open({ model, plugins: [stop, finishes(log)] });
    expect((await session.run("Hi")).text).toBe("so far");
    expect(log).toEqual(["s aborted"]);
  });

  test("[K51] a reset of the port is told in its place: hooks have dropped what they kept before the next chunk", async () => {
    const log: string[] = [];
    const keeper = plugin("keeper", {
      output: {
        stream: ({ chunk }) => {
          log.push(chunk);
          return { chunk };
        },
        streamFinished: async ({ reason }) => {
          log.push(`${reason} begins`);
          await quiet();
          log.push(`${reason} ends`);
        },
      },
    });
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "wrong" });
      sink({ kind: "usage", usage: usage(3, 1) });
      sink({ kind: "attempt_reset", reason: "connection lost", retryAfterMs: 0 });
      sink({ kind: "text_delta", text: "right" });
      return responseOf("right", { usage: usage(4, 2) });
    });
    const session = await open({ model, plugins: [keeper] });
    const { report, events } = await watch(session.turn("Hi"));
    expect(log).toEqual([
      "wrong",
      "attempt_reset begins",
      "attempt_reset ends",
      "right",
      "complete begins",
      "complete ends",
    ]);
    expect(shownText(events)).toBe("right");
    expect(report.text).toBe("right");
    expect(report.modelCalls).toEqual([
      {
        round: 0,
        attempt: 1,
        model: "default",
        outcome: "failed",
        code: "attempt_reset",
        message: "connection lost",
        usage: usage(3, 1),
      },
      { round: 0, attempt: 1, model: "default", outcome: "completed", finish: "stop", usage: usage(4, 2) },
    ]);
    expect(session.usage().entries).toEqual([{ source: "turn", model: "default", usage: usage(7, 3) }]);
  });

  test("[K51] a reset of the port holds back the text after it, also where no hook looks at text", async () => {
    const release = deferred<void>();
    const model = port((sink) => {
      sink({ kind: "text_delta", text: "wrong" });
      sink({ kind: "attempt_reset", reason: "again", retryAfterMs: 0 });
      sink({ kind: "text_delta", text: "right" });
      return responseOf("right");
    });
    const slow = plugin("slow", {
      output: { streamFinished: ({ reason }) => (reason === "attempt_reset" ? release.promise : undefined) },
    });
    const events: TurnEvent[] = [];
    const scene = await resident({ model, plugins: [slow] });
    const turn = await scene.submit("Hi");
    turn.events.emit = (event) => void events.push(event);
    await quiet();
    expect(textsOf(events)).toEqual(["wrong"]);
    release.resolve();
    await turn.done.promise;
    expect(shownText(events)).toBe("right");
  });

  test("[K151] the first error stops later hooks; it is reported with its plugin, and the answer stands", async () => {
    const log: string[] = [];
    const broken = plugin("broken", {
      output: {
        streamFinished: () => {
          log.push("broken");
          throw new Error("cannot clean up");
        },
      },
    });
    const plugins = [finishes(log, "first"), broken, finishes(log, "last")];
    const session = await open({ model: scriptedModel([say("fine")]), plugins });
    const { report, events } = await watch(session.turn("Hi"));
    expect(log).toEqual(["s complete", "broken"]);
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "fine" });
    const issue = {
      kind: "plugin",
      code: "stream_finished_hook_failed",
      message: "plugin broken: hook output.stream_finished failed: cannot clean up",
      hook: "output.stream_finished",
      pluginId: "broken",
    };
    expect(report.issues).toEqual([issue]);
    expect(events).toContainEqual({ kind: "error", issue });
  });
});

describe("text that was not streamed", () => {
  const projected: string[] = [];
  const shout = plugin("shout", {
    output: {
      proseProjector: (text) => {
        projected.push(text);
        return text === "hidden" ? "" : text.toUpperCase();
      },
    },
  });

  test("[K56] is shown at once, text by text, through the prose projector; the history keeps it as it is", async () => {
    projected.length = 0;
    const parts = ["one", "hidden", "two"].map((text) => ({ kind: "text", text }) as const);
    const session = await open({ model: port(() => responseOf(parts)), plugins: [shout] });
    const { report, events } = await watch(session.turn("Hi"));
    expect(projected).toEqual(["one", "hidden", "two"]);
    expect(textsOf(events)).toEqual(["ONE", "TWO"]);
    expect(report.text).toBe("one\n\nhidden\n\ntwo");
  });

  test("[K56] commentary stays hidden beside a final answer", async () => {
    const model = port(() =>
      responseOf([
        { kind: "text", text: "thinking aloud", phase: "commentary" },
        { kind: "text", text: "4", phase: "final_answer" },
      ]),
    );
    const { events } = await watch((await open({ model })).turn("Hi"));
    expect(textsOf(events)).toEqual(["4"]);
  });

  test("[K56] the projector is not asked when anything was streamed", async () => {
    projected.length = 0;
    const session = await open({ model: scriptedModel([say("streamed")]), plugins: [shout] });
    const { events } = await watch(session.turn("Hi"));
    expect(textsOf(events)).toEqual(["streamed"]);
    expect(projected).toEqual([]);
  });

  test("[K56] a projector that returns a promise is told that it is synchronous, by its plugin", async () => {
    const late = plugin("late", { output: { proseProjector: (async (text: string) => text) as never } });
    const session = await open({ model: port(() => responseOf("x")), plugins: [late] });
    const { outcome, issues } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "hook_must_be_synchronous" });
    expect(issues).toMatchObject([{ pluginId: "late", hook: "proseProjector" }]);
  });
});

describe("what a chunk costs", () => {
  const idle = (count: number): readonly Plugin[] =>
    Array.from({ length: count }, (_, index) =>
      plugin(`idle-${index}`, { turn: { before: () => undefined }, output: { response: () => undefined } }),
    );

  test.each([0, 200])(
    "with %i plugins and no stream hook its event is out before the sink returns, and no promise is made",
    async (count) => {
      const events: TurnEvent[] = [];
      const emitted: number[] = [];
      let promises = 0;
      const spy = createHook({
        init: (_id, type) => {
          if (type === "PROMISE") promises += 1;
        },
      });
      const ready = deferred<void>();
      const model = port(async (sink) => {
        await ready.promise;
        const part = { kind: "text_delta", text: "x" } as const;
        sink(part);
        spy.enable();
        for (let chunk = 0; chunk < 100; chunk += 1) {
          const before = events.length;
          sink(part);
          emitted.push(events.length - before);
        }
        spy.disable();
        return responseOf("x".repeat(101));
      });
      const scene = await resident({ model, plugins: idle(count) });
      const turn = await scene.submit("Hi");
      turn.events.emit = (event) => void events.push(event);
      ready.resolve();
      await turn.done.promise;
      expect(emitted).toEqual(Array.from({ length: 100 }, () => 1));
      expect(promises).toBe(0);
      expect(textsOf(events)).toHaveLength(101);
    },
  );
});
