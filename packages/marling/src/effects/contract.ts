// The one seam to the world: everything nondeterministic in a turn is an effect with a deterministic key.

import type { EffectKey, SessionId, TurnId } from "../model/ids.ts";

export type EffectKind =
  | "environment"
  | "hook_phase"
  | "model_call"
  | "tool_attempt"
  | "code_cell"
  | "checkpoint"
  | "wait"
  | "timer";

export interface EffectRequest {
  readonly sessionId: SessionId;
  readonly turnId: TurnId;
  /** `<round>.<kind>.<discriminator>`, unique in the turn and the same in every run of it. */
  readonly key: EffectKey;
  readonly kind: EffectKind;
}

/**
 * Performs effects.
 * Contract: `run` calls `perform` at most once per key and returns its outcome, or returns the outcome that is known
 * for the key without calling it. Outcomes are plain JSON. What `perform` throws is a fault of the machinery: it is
 * passed on and never remembered.
 */
export interface EffectHost {
  run<T>(request: EffectRequest, perform: () => Promise<T>): Promise<T>;
}
