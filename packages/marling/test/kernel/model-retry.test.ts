// Model calls that fail: tried again, elsewhere or not at all, and always accounted for.

import {
  defineTool,
  type ModelSink,
  type PluginParts,
  type Session,
  type Turn,
  type TurnReport,
} from "marling";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  KernelClock,
  open,
  plugin,
  port,
  quiet,
  responseOf,
  shownText,
  textsOf,
  usage,
  watch,
} from "./model-support.ts";

/** Lets a turn wait out its pauses; returns how long each of them was. */
async function waits(clock: KernelClock, turn: Turn): Promise<readonly number[]> {
  const found: number[] = [];
  let isDone = false;
  const done = (): void => {
    isDone = true;
  };
  turn.result.then(done, done);
  for (await quiet(); !isDone; await quiet()) {
    let waited = 0;
    for (; clock.pending > 0; waited += 50) clock.advance(50);
    found.push(waited);
  }
  return found;
}

type ErrorHook = NonNullable<NonNullable<PluginParts["model"]>["error"]>;
const onError = (error: ErrorHook) => plugin("policy", { model: { error } });

async function failedTurn(session: Session): Promise<TurnReport> {
  return session.turn("Hi").result;
}

describe("the default policy", () => {
  test("tries a retryable failure again after 250, 500 and 1000 ms, and lets the fourth failure stand", async () => {
    const clock = new KernelClock();
    const model = scriptedModel(() => failWith({ kind: "overloaded", message: "busy" }));
    const session = await open({ model, clock });
    const turn = session.turn("Hi");
    expect(await waits(clock, turn)).toEqual([250, 500, 1_000]);
    const report = await turn.result;
    expect(model.requests).toHaveLength(4);
    expect(report.outcome).toEqual({
      kind: "stopped",
      reason: "provider_error",
      code: "overloaded",
      message: "busy",
    });
    expect(report.modelCalls.map(({ attempt, outcome, code }) => ({ attempt, outcome, code }))).toEqual([
      { attempt: 1, outcome: "failed", code: "overloaded" },
      { attempt: 2, outcome: "failed", code: "overloaded" },
      { attempt: 3, outcome: "failed", code: "overloaded" },
      { attempt: 4, outcome: "failed", code: "overloaded" },
    ]);
  });

  test.each(["auth", "invalid_request", "content_filter", "context_overflow", "unknown"] as const)(
    "lets a failure of kind %s stand at once",
    async (kind) => {
      const model = scriptedModel([failWith({ kind })]);
      const { outcome } = await failedTurn(await open({ model, clock: new KernelClock() }));
      expect(outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: kind });
      expect(model.requests).toHaveLength(1);
    },
  );

  test("waits as long as a rate limit says, and such waits use up no try", async () => {
    const clock = new KernelClock();
    const limited = failWith({ kind: "rate_limit", retryAfterMs: 2_000 });
    const busy = failWith({ kind: "overloaded" });
    const model = scriptedModel([limited, busy, limited, busy, limited, busy, say("there")]);
    const session = await open({ model, clock });
    const turn = session.turn("Hi");
    expect(await waits(clock, turn)).toEqual([2_000, 250, 2_000, 500, 2_000, 1_000]);
    expect((await turn.result).text).toBe("there");
  });

  test("waits as long as another failure says too, but such a wait is a try", async () => {
    const clock = new KernelClock();
    const model = scriptedModel(() => failWith({ kind: "overloaded", retryAfterMs: 100 }));
    const turn = (await open({ model, clock })).turn("Hi");
    expect(await waits(clock, turn)).toEqual([100, 100, 100]);
  });

  test("waits for rate limits 90 seconds in all and 60 at a time; then they are failures like others", async () => {
    const clock = new KernelClock();
    const model = scriptedModel(() => failWith({ kind: "rate_limit", retryAfterMs: 100_000 }));
    const session = await open({ model, clock });
    const turn = session.turn("Hi");
    expect(await waits(clock, turn)).toEqual([60_000, 60_000, 60_000, 60_000]);
    expect((await turn.result).outcome).toMatchObject({ reason: "provider_error", code: "rate_limit" });
  });

  test("gives a rate limit that always says `at once` no more than ninety waits", async () => {
    const model = scriptedModel(() => failWith({ kind: "rate_limit", retryAfterMs: 0 }));
    expect((await failedTurn(await open({ model }))).outcome).toMatchObject({ code: "rate_limit" });
    expect(model.requests).toHaveLength(1 + 90 + 3);
  });

  test("tells watchers of each retry and how long it waits", async () => {
    const clock = new KernelClock();
    const model = scriptedModel([failWith({ kind: "timeout", message: "too slow" }), say("there")]);
    const turn = (await open({ model, clock })).turn("Hi");
    await waits(clock, turn);
    const { events } = await watch(turn);
    expect(events.map(({ kind }) => kind)).toEqual([
      "turn_started",
      "model_call",
      "model_call",
      "attempt_reset",
      "model_call",
      "text_delta",
      "model_call",
      "usage",
      "committed",
    ]);
    const reset = { kind: "attempt_reset", round: 0, attempt: 1, reason: "too slow", retryAfterMs: 250 };
    expect(events[3]).toEqual(reset);
  });
});

describe("what a failed attempt leaves", () => {
  test("text that was streamed before the failure is taken back by the reset, and never stored", async () => {
    const clock = new KernelClock();
    const model = scriptedModel([
      failWith({ kind: "truncated_stream", chunks: ["Hel", "lo wor"] }),
      say("Good day."),
    ]);
    const session = await open({ model, clock });
    const turn = session.turn("Hi");
    await waits(clock, turn);
    const { report, events } = await watch(turn);
    expect(textsOf(events)).toEqual(["Hel", "lo wor", "Good day."]);
    expect(shownText(events)).toBe("Good day.");
    expect(report.text).toBe("Good day.");
    expect(JSON.stringify(await session.history())).not.toContain("Hel");
  });

  test("what a port sends after its call has failed is shown to nobody", async () => {
    const clock = new KernelClock();
    const sinks: ModelSink[] = [];
    const model = port((sink) => {
      sinks.push(sink);
      if (sinks.length === 2) return responseOf("right");
      return { kind: "failure", failure: { kind: "network", message: "gone", retryable: true } };
    });
    const turn = (await open({ model, clock })).turn("Hi");
    await quiet();
    sinks[0]?.({ kind: "text_delta", text: "wrong" });
    await waits(clock, turn);
    const { report, events } = await watch(turn);
    expect(textsOf(events)).toEqual(["right"]);
    expect(report.text).toBe("right");
  });

  test("usage of failed attempts is in the report, in its records and in the ledger of the session", async () => {
    const clock = new KernelClock();
    const model = scriptedModel([
      failWith({ kind: "overloaded", usage: { input: 10 } }),
      failWith({ kind: "overloaded", usage: { input: 20, output: 1 } }),
      say("there", { usage: { input: 30, output: 5 } }),
      failWith({ kind: "auth", usage: { input: 2 } }),
    ]);
    const session = await open({ model, clock });
    const turn = session.turn("Hi");
    await waits(clock, turn);
    const report = await turn.result;
    expect(report.modelCalls.map((call) => call.usage)).toEqual([usage(10, 0), usage(20, 1), usage(30, 5)]);
    expect(report.usage).toEqual(usage(60, 6));
    expect(session.usage().entries).toEqual([{ source: "turn", model: "default", usage: usage(60, 6) }]);
    await failedTurn(session);
    expect(session.usage().entries).toEqual([{ source: "turn", model: "default", usage: usage(62, 6) }]);
    expect(session.read().usage).toEqual(usage(62, 6));
  });

  test("usage that was only streamed counts for a failed attempt, and for an answer that reports none", async () => {
    const clock = new KernelClock();
    let calls = 0;
    const model = port((sink) => {
      calls += 1;
      sink({ kind: "usage", usage: usage(calls, 1) });
      if (calls === 2) return responseOf("there");
      return { kind: "failure", failure: { kind: "network", message: "gone", retryable: true } };
    });
    const turn = (await open({ model, clock })).turn("Hi");
    await waits(clock, turn);
    expect((await turn.result).modelCalls.map((call) => call.usage)).toEqual([usage(1, 1), usage(2, 1)]);
  });

  test("a port that throws, or answers with nonsense, is a failed call that says so", async () => {
    const thrown = port(() => {
      throw new Error("socket hang up");
    });
    expect((await failedTurn(await open({ model: thrown }))).outcome).toEqual({
      kind: "stopped",
      reason: "provider_error",
      code: "model_port_threw",
      message: "model default: the port threw: socket hang up",
    });
    const synchronous = { id: "sync", call: () => JSON.parse("{") as never };
    expect((await failedTurn(await open({ model: synchronous }))).outcome).toMatchObject({
      code: "model_port_threw",
    });
    const nonsense = port(() => undefined as never);
    expect((await failedTurn(await open({ model: nonsense }))).outcome).toMatchObject({
      code: "model_port_returned_nonsense",
    });
  });
});

describe("plugins decide", () => {
  test("the first answer holds: tried again after the time it says, more often than the default policy would", async () => {
    const clock = new KernelClock();
    const asked: unknown[] = [];
    const patient = onError([
      () => undefined,
      ({ attempt, model, round, failure, sessionId }) => {
        asked.push({ attempt, model, round, kind: failure.kind, sessionId });
        return attempt < 6 ? { kind: "retry", afterMs: 100 } : undefined;
      },
      () => ({ kind: "fail" }),
    ]);
    const model = scriptedModel(() => failWith({ kind: "auth" }));
    const turn = (await open({ model, clock, plugins: [patient] })).turn("Hi");
    expect(await waits(clock, turn)).toEqual([100, 100, 100, 100, 100]);
    expect(model.requests).toHaveLength(6);
    expect(asked[0]).toEqual({ attempt: 1, model: "default", round: 0, kind: "auth", sessionId: "s" });
    expect(asked).toHaveLength(6);
  });

  test("a plugin that wants to try for ever is stopped after sixteen tries", async () => {
    const stubborn = onError(() => ({ kind: "retry", afterMs: 0 }));
    const model = scriptedModel(() => failWith({ kind: "auth" }));
    expect((await failedTurn(await open({ model, plugins: [stubborn] }))).outcome).toMatchObject({
      code: "auth",
    });
    expect(model.requests).toHaveLength(16);
  });

  test("another model takes the call over; both are in the records and in the ledger", async () => {
    const model = scriptedModel([failWith({ kind: "overloaded", usage: { input: 3 } }), say("unused")]);
    const spare = scriptedModel([say("from the spare", { usage: { input: 4, output: 2 } })]);
    const fallBack = onError(() => ({ kind: "fall_back", model: "spare" }));
    const session = await open({ model, models: { spare }, plugins: [fallBack] });
    const { report, text } = await session.run("Hi");
    expect(text).toBe("from the spare");
    expect(report.modelCalls.map((call) => [call.attempt, call.model, call.outcome])).toEqual([
      [1, "default", "failed"],
      [2, "spare", "completed"],
    ]);
    expect(spare.requests[0]?.model).toBe("spare");
    expect(session.usage().entries).toEqual([
      { source: "turn", model: "default", usage: usage(3, 0) },
      { source: "turn", model: "spare", usage: usage(4, 2) },
    ]);
    expect(session.read().policy.model).toBe("default");
  });

  test("the fallback holds for its call: the next round asks the session's own model again", async () => {
    const noop = defineTool({
      name: "noop",
      description: "Does nothing.",
      input: z.object({}),
      execute: () => "ok",
    });
    const model = scriptedModel([failWith({ kind: "overloaded" }), say("back")]);
    const spare = scriptedModel([callTool("noop")]);
    const fallBack = onError(() => ({ kind: "fall_back", model: "spare" }));
    const session = await open({ model, models: { spare }, tools: [noop], plugins: [fallBack] });
    expect((await session.run("Hi")).text).toBe("back");
  });

  test("a fallback to a model that does not exist ends the turn and names the model", async () => {
    const model = scriptedModel([failWith({ kind: "overloaded" })]);
    const fallBack = onError(() => ({ kind: "fall_back", model: "nowhere" }));
    const { outcome } = await failedTurn(await open({ model, plugins: [fallBack] }));
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "provider_unavailable" });
    expect(outcome).toHaveProperty("message", expect.stringContaining("nowhere"));
  });

  test("a hook that fails while it decides ends the turn by its name; the attempt is still accounted for", async () => {
    const reasons: string[] = [];
    const broken = onError(() => {
      throw new Error("no idea");
    });
    const told = plugin("told", { output: { streamFinished: ({ reason }) => void reasons.push(reason) } });
    const model = scriptedModel([failWith({ kind: "overloaded", usage: { input: 9 } })]);
    const session = await open({ model, plugins: [broken, told] });
    const { outcome, issues } = await failedTurn(session);
    expect(outcome).toMatchObject({ reason: "runtime_error", code: "hook_failed" });
    expect(issues).toMatchObject([{ pluginId: "policy", hook: "model.error" }]);
    expect(session.usage().entries).toEqual([{ source: "turn", model: "default", usage: usage(9, 0) }]);
    expect(reasons).toEqual(["provider_error"]);
  });

  test("request hooks see every attempt and change only its request", async () => {
    const rounds: number[] = [];
    const tuned = plugin("tuned", {
      model: {
        error: () => ({ kind: "retry", afterMs: 0 }),
        request: ({ round, request }) => {
          rounds.push(round);
          return { parameters: { temperature: request.parameters.temperature === undefined ? 0 : 1 } };
        },
      },
    });
    const model = scriptedModel([failWith({ kind: "overloaded" }), say("there")]);
    await (await open({ model, plugins: [tuned] })).run("Hi");
    expect(rounds).toEqual([0, 0]);
    expect(model.requests.map(({ parameters }) => parameters)).toEqual([
      { temperature: 0 },
      { temperature: 0 },
    ]);
  });
});
