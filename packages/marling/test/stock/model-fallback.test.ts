// Other models for calls that one cannot answer.

import { type Clock, createRuntime } from "marling";
import { modelFallback } from "marling/plugins";
import { failWith, type ScriptedFailure, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";

async function fallback(
  failures: readonly ScriptedFailure[],
  options: Partial<Parameters<typeof modelFallback>[0]> = {},
): Promise<readonly string[]> {
  const runtime = createRuntime({
    model: scriptedModel([...failures.map(failWith), say("first")]),
    models: { second: scriptedModel([failWith({ kind: "auth" })]), third: scriptedModel([say("third")]) },
    plugins: [modelFallback({ models: ["second", "third"], ...options })],
    clock: instantClock(),
  });
  onTestFinished(() => runtime.close());
  const { modelCalls, outcome } = await (await runtime.session("s")).turn("Go").result;
  return [...modelCalls.map(({ model, outcome: how }) => `${model} ${how}`), outcome.kind];
}

/** A clock on which every wait is over at once. */
function instantClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    sleep: async () => {},
    after: (_ms: number, run: () => void) => {
      const timer = setTimeout(run, 60_000);
      timer.unref();
      return () => clearTimeout(timer);
    },
  } as never;
}

test("[MF1] a failure that passes is tried again on the same model, then the next models are asked in order", async () => {
  expect(await fallback([{ kind: "overloaded" }, { kind: "overloaded" }])).toEqual([
    "default failed",
    "default failed",
    "second failed",
    "third completed",
    "finished",
  ]);
  expect(await fallback([{ kind: "overloaded" }])).toEqual([
    "default failed",
    "default completed",
    "finished",
  ]);
});

test("[MF1] a failure that does not pass goes to the next model at once, and others are left alone", async () => {
  expect(await fallback([{ kind: "auth" }])).toEqual([
    "default failed",
    "second failed",
    "third completed",
    "finished",
  ]);
  expect(await fallback([{ kind: "content_filter" }])).toEqual(["default failed", "stopped"]);
  expect(await fallback([{ kind: "content_filter" }], { on: ["content_filter"], models: ["third"] })).toEqual(
    ["default failed", "third completed", "finished"],
  );
});

test("[MF2] when all models failed, the last failure stands", async () => {
  expect(await fallback([{ kind: "auth" }], { models: ["second"] })).toEqual([
    "default failed",
    "second failed",
    "stopped",
  ]);
  expect(() => modelFallback({ models: [] })).toThrow("models: expected names of models, at least one");
  expect(() => modelFallback({} as never)).toThrow("models: expected");
});
