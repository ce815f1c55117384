// Cases about effects in one run: every host passes them, whether it remembers or not.

import assert from "node:assert/strict";
import { deferred } from "../../base/deferred.ts";
import type { Json } from "../../model/json.ts";
import { type EffectCase, effect, fail, performed } from "./effect-host-case.ts";

export const callCases: readonly EffectCase[] = [
  {
    rule: "JE1",
    title: "an effect is performed, and its outcome is returned",
    run: async ({ effects }) => {
      assert.deepEqual(await performed(effects, effect("0.tool.c1.1"), { n: [1, null, "x"] }), {
        outcome: { n: [1, null, "x"] },
        isPerformed: true,
      });
    },
  },
  {
    rule: "JE1",
    title: "effects with other keys, of other turns and of other sessions are other effects",
    run: async ({ effects }) => {
      const requests = [
        effect("0.tool.c1.1"),
        effect("0.tool.c2.1"),
        effect("0.tool.c1.1", { turnId: "t2" }),
        effect("0.tool.c1.1", { sessionId: "b" }),
      ];
      for (const [index, request] of requests.entries())
        assert.deepEqual(await performed(effects, request, index), { outcome: index, isPerformed: true });
    },
  },
  {
    rule: "JE1",
    title: "effects run at once, and one that waits holds up no other",
    run: async ({ effects }) => {
      const gate = deferred<Json>();
      const slow = effects.run(effect("0.tool.slow.1"), () => gate.promise);
      const others = await Promise.all(
        ["b", "c", "d"].map((name) => performed(effects, effect(`0.tool.${name}.1`), name)),
      );
      assert.deepEqual(
        others.map(({ outcome }) => outcome),
        ["b", "c", "d"],
      );
      gate.resolve("a");
      assert.equal(await slow, "a");
    },
  },
  {
    rule: "JE1",
    title: "effects of every kind are performed",
    run: async ({ effects }) => {
      const kinds = [
        "environment",
        "hook_phase",
        "model_call",
        "tool_attempt",
        "code_cell",
        "checkpoint",
        "wait",
        "timer",
      ] as const;
      for (const kind of kinds)
        assert.equal((await performed(effects, effect(`0.${kind}`, { kind }), kind)).outcome, kind);
    },
  },
  {
    rule: "JE3",
    title: "an effect that was never begun is performed, not taken for one that was cut",
    run: async ({ effects }) => {
      const cut = (): Promise<Json> => Promise.resolve("cut");
      assert.equal(await effects.run<Json>(effect("0.tool.c1.1"), async () => "done", { cut }), "done");
    },
  },
  {
    rule: "JE4",
    title: "what an effect throws is passed on as it is, and the effect may be performed again",
    run: async ({ effects }) => {
      await fail(effects, effect("0.model_call", { kind: "model_call" }));
      const again = await performed(effects, effect("0.model_call", { kind: "model_call" }), "done");
      assert.deepEqual(again, { outcome: "done", isPerformed: true });
    },
  },
  {
    rule: "JE4",
    title: "a fault of one effect leaves the others of its turn alone",
    run: async ({ effects }) => {
      const [, other] = await Promise.all([
        fail(effects, effect("0.tool.c1.1")),
        performed(effects, effect("0.tool.c2.1"), "done"),
      ]);
      assert.equal(other.outcome, "done");
    },
  },
  {
    rule: "JE6",
    title: "an effect is handed its plan",
    run: async ({ effects }) => {
      const request = effect("0.timer.c1.2", { kind: "timer" });
      const outcome = await effects.run<Json>(request, async (plan) => ({ plan: plan ?? null }), {
        plan: { due: 5 },
      });
      assert.deepEqual(outcome, { plan: { due: 5 } });
    },
  },
  {
    rule: "JE2",
    title: "a turn that nothing is known of can be written and forgotten",
    run: async ({ effects }) => {
      await effects.flush?.(effect("any"), "all");
      effects.forget?.(effect("any"));
      assert.equal((await performed(effects, effect("0.tool.c1.1"), 1)).outcome, 1);
    },
  },
];
