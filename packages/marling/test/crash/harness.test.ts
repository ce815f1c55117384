// The crash test notices what it is for: each scenario of `broken` breaks one promise.

import { crashAtEveryEffect } from "marling/testing";
import { expect, test } from "vitest";

const scenario = (path: string): URL => new URL(path, import.meta.url);

async function whys(module: string, only: RegExp): Promise<readonly string[]> {
  const thrown: unknown = await crashAtEveryEffect(scenario(module), { only }).then(
    () => undefined,
    (error: unknown) => error,
  );
  const { report } = thrown as { report?: { failures: readonly { why: string }[] } };
  return report?.failures.map(({ why }) => why) ?? [String(thrown)];
}

test.each([
  ["[CL1] an outcome that was acknowledged and is not there any more is noticed", "drops-outcomes"],
  ["[CW4] and that of a tenant", "drops-tenant-outcomes"],
])(
  "%s",
  async (_name, broken) => {
    const found = await whys(`./broken/${broken}.mjs`, /after store\.journal\.append|before store\.commit/);
    expect(found).toContainEqual(
      expect.stringMatching(
        /attempt 1 of a \(call_1\) in turn \S+ of session s ran again although it was finished/,
      ),
    );
    expect(found).toContainEqual(expect.stringMatching(/^model call .* ran again although it was finished/));
  },
  60_000,
);

test("[CL2] a call that must not run twice and does is noticed", async () => {
  const found = await whys("./broken/drops-marks.mjs", /tool unsafe/);
  expect(found).toContainEqual(
    expect.stringMatching(
      /attempt 1 of unsafe \(call_1\) in turn \S+ of session s must not run twice, and did/,
    ),
  );
}, 60_000);

test("[CE2] another end is noticed, and where it differs", async () => {
  expect(await whys("./broken/second-tool.mjs", /done tool/)).toEqual([
    'it came to another end: end.messages.2.parts.0.text is "2", and was "1" without a crash',
  ]);
}, 60_000);

test("[CE4] an input that was accepted and is not settled is noticed", async () => {
  const found = await whys("./broken/loses-inputs.mjs", /after store\.admit|before model call/);
  expect(found.length).toBeGreaterThan(0);
  for (const why of found)
    expect(why).toMatch(/the input of turn .+ in session s was accepted, and is not settled/);
}, 60_000);

test("[CE7] a message id that is in a session twice is noticed", async () => {
  await expect(crashAtEveryEffect(scenario("./broken/repeats-messages.mjs"))).rejects.toThrow(
    /message answer is in session s more than once/,
  );
}, 60_000);

test("[CW2] a method of a store that the crash test does not know fails it", async () => {
  await expect(crashAtEveryEffect(scenario("./broken/unknown-method.mjs"))).rejects.toThrow(
    /found also sneak, which is not watched/,
  );
}, 60_000);

test("a scenario that comes to another end when it is run again is refused", async () => {
  await expect(crashAtEveryEffect(scenario("./broken/another-end.mjs"))).rejects.toThrow(
    /is not repeatable: run again after its end, it came to another end: end\.life is 2, and was 1/,
  );
}, 60_000);

test("a module without a scenario is refused", async () => {
  await expect(crashAtEveryEffect(scenario("./scenarios/sample-tools.mjs"))).rejects.toThrow(
    /sample-tools\.mjs to export a scenario with answer and run, found undefined/,
  );
});

test("boundaries are found at the store, the SQL commit, the model, tools, hooks and what is published", async () => {
  const { boundaries, kills, lives } = await crashAtEveryEffect(scenario("./scenarios/hooks.mjs"), {
    only: /^none$/,
  });
  expect([kills, lives]).toEqual([0, 2]);
  expect(boundaries).toEqual(
    expect.arrayContaining([
      "before store.admit #1",
      "after store.commit #2",
      "before store.journal.append #1",
      "before sql COMMIT #1",
      "after sql COMMIT #1",
      "before model call #1",
      "before model bytes #2",
      "after model bytes #1",
      "after model call #1",
      "before tool stateful call_1 #1",
      "begun tool stateful call_1 #1",
      "done tool stateful call_2 #1",
      "after tool stateful call_2 #1",
      "before hook counting turn.before #1",
      "after hook counting turn.checkpoint #1",
      "before hook counting toolCalls.after #1",
      "after hook counting output.stream #1",
      "after hook counting session.onEvent #1",
      "before hook counting operations counting.seen #1",
      "published text_delta #1",
      "published tool_finished #1",
      "published committed #1",
    ]),
  );
}, 60_000);

test("a limit spreads over the scenario, and shards share it", async () => {
  const text = scenario("./scenarios/text.mjs");
  const only = /after sql COMMIT/;
  const { boundaries } = await crashAtEveryEffect(text, { only: /^none$/ });
  const commits = boundaries.filter((name) => only.test(name)).length;
  const few = await crashAtEveryEffect(text, { only, limit: 2 });
  expect([few.kills, few.lives]).toEqual([2, 2 + 2 * 2]);
  const even = await crashAtEveryEffect(text, { only, shard: { index: 0, of: 2 } });
  expect(even.kills).toBe(Math.ceil(commits / 2));
}, 120_000);
