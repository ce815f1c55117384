// Usage as models report it: checked before anything counts it, on every way from a port into a ledger.

import type { ModelOutcome, Session, TokenUsage } from "marling";
import { expect, test } from "vitest";
import { open, port, responseOf, usage, watch } from "./model-support.ts";
import { act, acting } from "./services-support.ts";

/** What a port may say in the place of a count. */
const NO_COUNTS: readonly unknown[] = [
  -60,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  1.5,
  2 ** 60,
  "7",
  true,
  [],
  {},
];
const BUCKETS = ["input", "output", "cacheRead", "cacheWrite", "reasoning"] as const;
const BROKEN: readonly unknown[] = [
  ...NO_COUNTS.map((count, index) => ({ ...usage(1, 1), [BUCKETS[index % 5] ?? ""]: count })),
  "60",
  null,
  [60],
];
const asUsage = (raw: unknown): TokenUsage => raw as TokenUsage;

/** All that a session has counted is whole numbers from 0 on. */
function expectCounted(session: Session, tokens: number): void {
  const counts = session.usage().entries.flatMap((entry) => Object.values(entry.usage));
  expect(counts.filter((count) => !Number.isSafeInteger(count) || count < 0)).toEqual([]);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(tokens);
}

test.each(BROKEN)("[CP2] an answer with the usage %j is a failed call that counts nothing", async (raw) => {
  const model = port(() => responseOf("Hi.", { usage: asUsage(raw) }));
  const session = await open({ model });
  const { report } = await watch(session.turn("Go"));
  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "invalid_usage" });
  expect(report.outcome).toHaveProperty("message", expect.stringMatching(/^model default: usage/));
  expect([model.requests.length, report.usage]).toEqual([1, usage(0, 0)]);
  expectCounted(session, 0);
});

test.each(BROKEN)(
  "[CP2] a streamed usage %j fails its call, and what was told before it counts",
  async (raw) => {
    const model = port((sink) => {
      sink({ kind: "usage", usage: usage(3, 4) });
      sink({ kind: "usage", usage: asUsage(raw) });
      return responseOf("Hi.", { usage: usage(0, 0) });
    });
    const session = await open({ model });
    const { report } = await watch(session.turn("Go"));
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "invalid_usage" });
    expect(report.usage).toEqual(usage(3, 4));
    expectCounted(session, 7);
  },
);

test.each(BROKEN)("[CP2] a failure with the usage %j stays that failure, without the usage", async (raw) => {
  const failure = { kind: "auth", message: "no key", retryable: false, usage: asUsage(raw) } as const;
  const session = await open({ model: port((): ModelOutcome => ({ kind: "failure", failure })) });
  const { report } = await watch(session.turn("Go"));
  expect(report.outcome).toMatchObject({ kind: "stopped", code: "auth", message: "no key" });
  expectCounted(session, 0);
});

test("[CP2] what is not told of a usage is 0, and members of other names are left out", async () => {
  const told = [undefined, {}, { input: 5 }, { output: 2, reasoning: null, price: 9 }];
  const session = await open({ model: port(() => responseOf("Hi.", { usage: asUsage(told.shift()) })) });
  const reports = [];
  for (const text of ["a", "b", "c", "d"]) reports.push(await session.turn(text).result);
  expect(reports.map((report) => report.usage)).toEqual([usage(0, 0), usage(0, 0), usage(5, 0), usage(0, 2)]);
  expect(session.usage().entries.map((entry) => entry.usage)).toEqual([usage(5, 2)]);
});

test("[CP2] a usage below 0 buys nothing of a budget back", async () => {
  const call = { kind: "tool_call", callId: "c", name: "missing", args: "{}" } as const;
  const model = port(() => responseOf([call], { usage: usage(-60, 0), finish: "tool_use" }));
  const session = await open({ model });
  await session.authorize({ budget: { tokens: 10 } }, { reason: "small" });
  expect((await session.turn("Go").result).outcome).toMatchObject({ kind: "stopped", code: "invalid_usage" });
  expect(model.requests).toHaveLength(1);
});

test.each(BROKEN)("[CP2] a direct completion with the usage %j fails and counts nothing", async (raw) => {
  const asking = acting({
    "do.ask": (host) => host.directCompletion({ messages: "Q" }, "asking").then(({ text }) => text),
  });
  const session = await open({
    model: port(() => responseOf("Hi.", { usage: asUsage(raw) })),
    plugins: [asking],
  });
  await expect(act(session, "do.ask")).rejects.toThrow(/usage/);
  expectCounted(session, 0);
});

test.each([
  ["nothing", undefined],
  ["a response without parts", { kind: "response", response: {} }],
  ["a failure without anything", { kind: "failure" }],
])("[CP1] a port that answers %s has failed its call, of a turn and of a plugin", async (_what, raw) => {
  const asking = acting({ "do.ask": (host) => host.directCompletion({ messages: "Q" }, "asking") });
  const session = await open({ model: port(() => raw as never), plugins: [asking] });
  expect((await session.turn("Go").result).outcome).toMatchObject({ code: "model_port_returned_nonsense" });
  await expect(act(session, "do.ask")).rejects.toThrow("expected a response or a failure, found neither");
});
