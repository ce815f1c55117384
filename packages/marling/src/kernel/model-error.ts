// What happens after a failed model call: plugins are asked first, then the default policy answers.
//   ME1  a failure that may be retried is, up to four tries, each wait twice the one before.
//   ME2  a provider that says when to come back is waited for, and such a wait uses up no try within its budget.
//   ME3  plugins may ask for more tries than the default policy makes, but not for ever.

import { unreachable } from "../base/unreachable.ts";
import type { ModelFailure } from "../model/model-response.ts";
import type { ModelErrorDecision } from "../plugin/hook-context.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { compactInTurn } from "./compact.ts";
import type { TurnRun } from "./turn-run.ts";

export const MAX_TRIES = 4;
const MOST_TRIES = 16;
const BASE_DELAY_MS = 250;
const LONGEST_DELAY_MS = 10_000;
const LONGEST_RETRY_AFTER_MS = 60_000;
const THROTTLE_BUDGET_MS = 90_000;
/** What a wait counts at least, so that a provider that says "at once" for ever runs out of budget too. */
const SHORTEST_THROTTLE_MS = 1_000;

/** How the next attempt of a call is made. */
export interface RetryPlan {
  readonly model: string;
  /** Which try it is, waits that a provider asked for not counted. */
  readonly tries: number;
  /** How long the provider has made the call wait so far. */
  readonly throttledMs: number;
}

export const FIRST_ATTEMPT: Omit<RetryPlan, "model"> = Object.freeze({ tries: 1, throttledMs: 0 });

export interface FailedCall {
  readonly failure: ModelFailure;
  /** 1 for the first, every request counted. */
  readonly attempt: number;
  readonly round: number;
  readonly plan: RetryPlan;
  readonly records: readonly TurnRecord[];
}

/** How to go on after a failure, or `undefined` to let the failure stand. */
export async function decideOnFailure(
  turn: TurnRun,
  failed: FailedCall,
): Promise<(RetryPlan & { readonly waitMs: number }) | undefined> {
  const { failure, plan, records } = failed;
  if (turn.control.isCancelled || failure.kind === "cancelled" || plan.tries >= MOST_TRIES) return undefined;
  const decided = await askPlugins(turn, failed);
  if (decided === undefined) return defaultPlan(failed);
  const next = { ...plan, tries: plan.tries + 1, waitMs: 0 };
  switch (decided.kind) {
    case "fail":
      return undefined;
    case "retry":
      return { ...next, waitMs: decided.afterMs ?? delayOf(failed) };
    case "fall_back":
      return { ...next, model: decided.model };
    case "compact_and_retry":
      return (await compactInTurn(turn, records, decided.instructions)) ? next : undefined;
    default:
      return unreachable(decided);
  }
}

async function askPlugins(turn: TurnRun, failed: FailedCall): Promise<ModelErrorDecision | undefined> {
  const { plugins, id } = turn.session;
  const { failure, attempt, round, plan } = failed;
  return plugins.decideOnModelError({ sessionId: id, round, attempt, model: plan.model, failure });
}

function defaultPlan(failed: FailedCall): (RetryPlan & { readonly waitMs: number }) | undefined {
  const { failure, plan } = failed;
  if (!failure.retryable) return undefined;
  const waitMs = delayOf(failed);
  const throttledMs = plan.throttledMs + Math.max(waitMs, SHORTEST_THROTTLE_MS);
  const isThrottled = failure.kind === "rate_limit" && failure.retryAfterMs !== undefined;
  if (isThrottled && throttledMs <= THROTTLE_BUDGET_MS) return { ...plan, throttledMs, waitMs };
  return plan.tries < MAX_TRIES ? { ...plan, tries: plan.tries + 1, waitMs } : undefined;
}

function delayOf({ failure, plan }: FailedCall): number {
  if (failure.retryAfterMs !== undefined)
    return Math.min(Math.max(0, failure.retryAfterMs), LONGEST_RETRY_AFTER_MS);
  return Math.min(BASE_DELAY_MS * 2 ** (plan.tries - 1), LONGEST_DELAY_MS);
}
