// Perform: one effect of the machine, done in the world.

import { unreachable } from "../base/unreachable.ts";
import type { EffectOutcome, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { performCheckpoint } from "./checkpoint.ts";
import { performCode } from "./code-cell.ts";
import { dispatchCalls } from "./dispatch.ts";
import { performEnvironment } from "./environment.ts";
import { performModelCall } from "./model-call.ts";
import type { TurnRun } from "./turn-run.ts";

export async function perform(
  turn: TurnRun,
  effect: TurnEffect,
  records: readonly TurnRecord[],
): Promise<EffectOutcome> {
  const { key } = effect;
  switch (effect.kind) {
    case "environment":
      await performEnvironment(turn, effect, records);
      return { kind: "environment", key };
    case "model_call":
      return { kind: "model_call", key, result: await performModelCall(turn, effect, records) };
    case "tool_calls":
      return {
        kind: "tool_calls",
        key,
        calls: await dispatchCalls(turn, effect.calls, {
          path: "model",
          round: effect.round,
          canPark: turn.session.parts.effects.remembers === true,
        }),
      };
    case "code_cell": {
      const result = await performCode(turn, effect, records);
      turn.log.toolCalls.push(...result.calls.map(({ modelReturn: _shown, ...record }) => record));
      return { kind: "code_cell", key, result };
    }
    case "checkpoint":
      return { kind: "checkpoint", key, delivery: await performCheckpoint(turn, effect, records) };
    default:
      return unreachable(effect);
  }
}
