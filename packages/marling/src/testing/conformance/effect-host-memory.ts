// Cases about hosts that remember: what another process finds.

import assert from "node:assert/strict";
import type { EffectHost, EffectRequest } from "../../effects/contract.ts";
import type { Json } from "../../model/json.ts";
import { type EffectCase, effect, fail, never, performed } from "./effect-host-case.ts";

const MODEL: EffectRequest = effect("0.model_call", { kind: "model_call" });
const TOOL: EffectRequest = effect("0.tool.c1.1");
const HOOK: EffectRequest = effect("0.hook.turn_before", { kind: "hook_phase" });
const VALUES: readonly Json[] = [
  null,
  false,
  0,
  "",
  "\u2028 it's 👩‍👧",
  [],
  {},
  { proto: [{ a: null }] },
  "x".repeat(1 << 20),
];

const BESIDE: EffectRequest = effect("0.tool.c2.1");
const NESTED: EffectRequest = effect("0.tool.c1:00.1");
const NESTED_OUTCOME: Json = { value: 1, within: [TOOL.key] };

/** Records an effect inside `TOOL`, and one inside that, as a run does that was cut in `TOOL`. */
async function recordNested(effects: EffectHost): Promise<void> {
  const deeper = effect("0.tool.c1.1.0.tool.c1:00.1/direct.0", { kind: "direct_completion" });
  await performed(effects, deeper, { value: 2, within: [TOOL.key, NESTED.key] });
  await performed(effects, NESTED, NESTED_OUTCOME);
}

function memoryCase(rule: string, title: string, run: EffectCase["run"]): EffectCase {
  return { rule, title, needs: "remembers", run };
}

export const memoryCases: readonly EffectCase[] = [
  memoryCase("JE1", "an outcome that is known is returned, and nothing is performed", async ({ effects }) => {
    await performed(effects, TOOL, "first");
    assert.deepEqual(await performed(effects, TOOL, "second"), { outcome: "first", isPerformed: false });
  }),
  memoryCase("JE1", "an outcome is known in another process", async ({ effects, reopen }) => {
    await performed(effects, TOOL, "first");
    const other = await reopen();
    assert.deepEqual(await performed(other, TOOL, "second"), { outcome: "first", isPerformed: false });
  }),
  memoryCase("JE1", "the outcome of one effect is not that of another", async ({ effects, reopen }) => {
    await performed(effects, TOOL, "first");
    const other = await reopen();
    for (const request of [
      effect("0.tool.c1.2"),
      effect("0.tool.c1.1", { turnId: "t2" }),
      effect("0.tool.c1.1", { sessionId: "b" }),
    ])
      assert.equal((await performed(other, request, "another")).isPerformed, true);
  }),
  memoryCase(
    "JE2",
    "a tool attempt is written when it ends, before its siblings do",
    async ({ effects, reopen }) => {
      const hanging = effects.run<Json>(effect("0.tool.c2.1"), () => new Promise(() => undefined));
      hanging.catch(() => undefined);
      await performed(effects, TOOL, "first");
      assert.equal((await performed(await reopen(), TOOL, "second")).isPerformed, false);
    },
  ),
  memoryCase(
    "JE2",
    "an outcome is written before the next effect is performed",
    async ({ effects, reopen }) => {
      await performed(effects, MODEL, "first");
      await fail(effects, effect("1.model_call", { kind: "model_call" }));
      assert.equal((await performed(await reopen(), MODEL, "second")).isPerformed, false);
    },
  ),
  memoryCase("JE2", "an outcome is written when that is asked for", async ({ effects, reopen }) => {
    await performed(effects, MODEL, "first");
    await effects.flush?.(MODEL, "paid");
    assert.equal((await performed(await reopen(), MODEL, "second")).isPerformed, false);
  }),
  memoryCase("JE2", "what hooks came to is written when all is asked for", async ({ effects, reopen }) => {
    await performed(effects, HOOK, "first");
    await effects.flush?.(HOOK, "all");
    assert.equal((await performed(await reopen(), HOOK, "second")).isPerformed, false);
  }),
  memoryCase("JE2", "what was written is known after the turn left memory", async ({ effects }) => {
    await performed(effects, TOOL, "first");
    effects.forget?.(TOOL);
    assert.deepEqual(await performed(effects, TOOL, "second"), { outcome: "first", isPerformed: false });
  }),
  memoryCase("JE9", "a turn that is begun as a new one is remembered as any other", async (bench) => {
    const { effects, reopen } = bench;
    effects.begin?.(TOOL);
    await performed(effects, TOOL, "first");
    assert.equal((await performed(effects, TOOL, "second")).isPerformed, false);
    assert.equal((await performed(await reopen(), TOOL, "third")).outcome, "first");
  }),
  memoryCase("JE9", "beginning a turn forgets nothing of the others", async ({ effects }) => {
    await performed(effects, TOOL, "first");
    effects.begin?.(effect(TOOL.key, { turnId: "t2" }));
    assert.equal((await performed(effects, TOOL, "second")).outcome, "first");
  }),
  memoryCase("JE3", "an effect that was cut is told so, and not performed", async ({ effects, reopen }) => {
    await fail(effects, TOOL, { cut });
    assert.equal(await (await reopen()).run<Json>(TOOL, never, { cut }), "cut");
  }),
  memoryCase(
    "JE3",
    "what a cut effect is told to have come to is its outcome from then on",
    async ({ effects, reopen }) => {
      await fail(effects, TOOL, { cut });
      await (await reopen()).run<Json>(TOOL, never, { cut });
      const other = await reopen();
      assert.equal(await other.run<Json>(TOOL, never, { cut: never }), "cut");
    },
  ),
  memoryCase("JE3", "the mark is written before the effect begins", async ({ effects, reopen }) => {
    let other: EffectHost | undefined;
    const first = effects.run<Json>(
      TOOL,
      async () => {
        other = await reopen();
        throw new Error("the process is gone");
      },
      { cut },
    );
    await assert.rejects(first);
    assert.equal(await other?.run<Json>(TOOL, never, { cut }), "cut");
  }),
  memoryCase(
    "JE3",
    "an effect that may run twice is performed again after a crash",
    async ({ effects, reopen }) => {
      await fail(effects, TOOL);
      assert.deepEqual(await performed(await reopen(), TOOL, "second"), {
        outcome: "second",
        isPerformed: true,
      });
    },
  ),
  memoryCase("JE3", "an effect that ended was not cut", async ({ effects, reopen }) => {
    await effects.run<Json>(TOOL, async () => "done", { cut });
    assert.equal(await (await reopen()).run<Json>(TOOL, never, { cut: never }), "done");
  }),
  memoryCase("JE4", "a fault is not known in another process", async ({ effects, reopen }) => {
    await fail(effects, MODEL);
    await effects.flush?.(MODEL, "all");
    const other = await reopen();
    assert.equal((await other.knows?.(MODEL, MODEL.key)) ?? false, false);
    assert.equal((await performed(other, MODEL, "done")).isPerformed, true);
  }),
  memoryCase("JE5", "outcomes come back as they were", async ({ effects, reopen }) => {
    for (const [index, value] of VALUES.entries())
      await performed(effects, effect(`0.tool.c${index}.1`), value);
    const other = await reopen();
    for (const [index, value] of VALUES.entries())
      assert.deepEqual((await performed(other, effect(`0.tool.c${index}.1`), "another")).outcome, value);
  }),
  memoryCase("JE6", "the first plan holds in every run", async ({ effects, reopen }) => {
    const timer = effect("0.timer.c1.2", { kind: "timer" });
    await fail(effects, timer, { plan: { due: 5 } });
    const other = await reopen();
    const outcome = await other.run<Json>(timer, async (plan) => plan ?? null, { plan: { due: 9 } });
    assert.deepEqual(outcome, { due: 5 });
  }),
  memoryCase("JE1", "what is known, and what is still ahead, can be asked", async ({ effects, reopen }) => {
    const second = effect("0.tool.c2.1");
    assert.equal((await effects.isReplaying?.(TOOL)) ?? false, false);
    await performed(effects, TOOL, 1);
    await performed(effects, second, 2);
    const other = await reopen();
    if (other.knows === undefined || other.isReplaying === undefined) return;
    assert.deepEqual([await other.knows(TOOL, TOOL.key), await other.isReplaying(TOOL)], [true, true]);
    assert.deepEqual((await other.ahead?.(TOOL)) ?? [1, 2], [1, 2]);
    await performed(other, TOOL, 1);
    assert.equal(await other.isReplaying(TOOL), true);
    assert.deepEqual((await other.ahead?.(TOOL)) ?? [2], [2]);
    await performed(other, second, 2);
    assert.equal(await other.isReplaying(TOOL), false);
    assert.deepEqual((await other.ahead?.(TOOL)) ?? [], []);
    assert.equal(await other.knows(TOOL, MODEL.key), false);
  }),
  memoryCase("JE10", "outcomes inside a known effect are not ahead once it was replayed", async (given) => {
    const { effects, reopen } = given;
    await recordNested(effects);
    await performed(effects, TOOL, 3);
    await performed(effects, BESIDE, 4);
    const other = await reopen();
    await performed(other, TOOL, 3);
    assert.deepEqual((await other.ahead?.(TOOL)) ?? [4], [4]);
    await performed(other, BESIDE, 4);
    assert.equal((await other.isReplaying?.(TOOL)) ?? false, false);
  }),
  memoryCase("JE10", "nor are those inside an effect that was cut", async ({ effects, reopen }) => {
    await recordNested(effects);
    await fail(effects, TOOL, { cut });
    const other = await reopen();
    assert.equal((await other.isReplaying?.(TOOL)) ?? true, true);
    await other.run<Json>(TOOL, never, { cut });
    assert.equal((await other.isReplaying?.(TOOL)) ?? false, false);
  }),
  memoryCase(
    "JE10",
    "nor are those inside an effect that is performed again",
    async ({ effects, reopen }) => {
      await recordNested(effects);
      const other = await reopen();
      assert.equal((await performed(other, TOOL, "again")).isPerformed, true);
      assert.equal((await other.isReplaying?.(TOOL)) ?? false, false);
    },
  ),
  memoryCase("JE10", "who is done with an effect is told what was left inside it", async (given) => {
    const { effects, reopen } = given;
    await recordNested(effects);
    const other = await reopen();
    assert.deepEqual((await other.leave?.(TOOL, TOOL.key)) ?? [NESTED_OUTCOME], [NESTED_OUTCOME]);
    assert.equal((await other.isReplaying?.(TOOL)) ?? false, false);
    assert.deepEqual((await other.leave?.(TOOL, TOOL.key)) ?? [], []);
  }),
  memoryCase("JE10", "outcomes before a model call are not ahead behind it", async ({ effects, reopen }) => {
    await performed(effects, HOOK, 1);
    await performed(effects, MODEL, 2);
    await performed(effects, TOOL, 3);
    const other = await reopen();
    await performed(other, MODEL, 2);
    assert.deepEqual((await other.ahead?.(TOOL)) ?? [3], [3]);
    await performed(other, effect("1.model_call", { kind: "model_call" }), 4);
    assert.equal((await other.isReplaying?.(TOOL)) ?? false, false);
  }),
  memoryCase("JE3", "what has begun can be asked, whether its outcome is known or not", async (given) => {
    const { effects, reopen } = given;
    const second = effect("0.tool.c2.1");
    await performed(effects, TOOL, 1);
    await fail(effects, second, { cut });
    const other = await reopen();
    if (other.hasBegun === undefined || other.knows === undefined) return;
    const asked = [TOOL, second, MODEL].map(({ key }) => other.hasBegun?.(TOOL, key));
    assert.deepEqual(await Promise.all(asked), [true, true, false]);
    assert.equal(await other.knows(TOOL, second.key), false);
  }),
];

async function cut(): Promise<Json> {
  return "cut";
}
