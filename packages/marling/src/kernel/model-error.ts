// What happens after a failed model call: plugins are asked first, then the default policy answers.

import { unreachable } from "../base/unreachable.ts";
import type { ModelFailure } from "../model/model-response.ts";
import type { ModelErrorDecision } from "../plugin/hook-context.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { compactInTurn } from "./compact.ts";
import type { TurnRun } from "./turn-run.ts";

export const MAX_ATTEMPTS = 4;
const BASE_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
const LONGEST_RETRY_AFTER_MS = 60_000;

export interface RetryPlan {
  readonly model: string;
}

export interface FailedCall {
  readonly failure: ModelFailure;
  /** 1 for the first. */
  readonly attempt: number;
  readonly round: number;
  readonly model: string;
  readonly records: readonly TurnRecord[];
}

/** How to go on after a failure, or `undefined` to let the failure stand. */
export async function decideOnFailure(turn: TurnRun, failed: FailedCall): Promise<(RetryPlan & { readonly waitMs: number }) | undefined> {
  if (turn.control.isCancelled || failed.failure.kind === "cancelled") return undefined;
  const decision = (await askPlugins(turn, failed)) ?? defaultDecision(failed);
  switch (decision.kind) {
    case "fail":
      return undefined;
    case "retry":
      return { model: failed.model, waitMs: Math.max(0, decision.afterMs ?? delayOf(failed)) };
    case "fall_back":
      return { model: decision.model, waitMs: 0 };
    case "compact_and_retry":
      return (await compactInTurn(turn, failed.records, decision.instructions)) ? { model: failed.model, waitMs: 0 } : undefined;
    default:
      return unreachable(decision);
  }
}

async function askPlugins(turn: TurnRun, failed: FailedCall): Promise<ModelErrorDecision | undefined> {
  const { plugins, id } = turn.session;
  // Plugins may ask for more attempts than the default policy makes, but not for ever.
  if (failed.attempt >= MAX_ATTEMPTS * 4) return { kind: "fail" };
  const { failure, attempt, round, model } = failed;
  return plugins.decideOnModelError({ sessionId: id, round, attempt, model, failure });
}

function defaultDecision({ failure, attempt }: FailedCall): ModelErrorDecision {
  return failure.retryable && attempt < MAX_ATTEMPTS ? { kind: "retry" } : { kind: "fail" };
}

function delayOf({ failure, attempt }: FailedCall): number {
  if (failure.retryAfterMs !== undefined) return Math.min(failure.retryAfterMs, LONGEST_RETRY_AFTER_MS);
  return Math.min(BASE_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS);
}
