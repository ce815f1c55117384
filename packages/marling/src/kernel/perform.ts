// Perform: one effect of the machine, done in the world.

import { isPromise } from "../base/deferred.ts";
import { unreachable } from "../base/unreachable.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import type { EffectOutcome, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { performCheckpoint } from "./checkpoint.ts";
import { performCode } from "./code-cell.ts";
import { dispatchCalls } from "./dispatch.ts";
import { performEnvironment } from "./environment.ts";
import { performModelCall } from "./model-call.ts";
import type { TurnRun } from "./turn-run.ts";

/** The outcome of an effect; at once where nothing is waited for. */
export function perform(
  turn: TurnRun,
  effect: TurnEffect,
  records: readonly TurnRecord[],
): Awaitable<EffectOutcome> {
  const { key, kind } = effect;
  switch (kind) {
    case "environment": {
      const made = performEnvironment(turn, effect, records);
      return isPromise(made) ? made.then(() => ({ kind, key })) : { kind, key };
    }
    case "model_call":
      return performModelCall(turn, effect, records).then((result) => ({ kind, key, result }));
    case "tool_calls": {
      const options = { path: "model", round: effect.round, canPark: true } as const;
      return dispatchCalls(turn, effect.calls, options).then((calls) => ({ kind, key, calls }));
    }
    case "code_cell":
      return performCode(turn, effect, records).then((result) => {
        turn.log.toolCalls.push(...result.calls.map(({ modelReturn: _shown, ...record }) => record));
        return { kind, key, result };
      });
    case "checkpoint":
      return performCheckpoint(turn, effect, records).then((delivery) => ({ kind, key, delivery }));
    default:
      return unreachable(effect);
  }
}
