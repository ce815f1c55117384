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
  run<T>(request: EffectRequest, perform: () => Promise<T>, options?: EffectOptions<T>): Promise<T>;
  /** Writes what is known of a turn and not written yet; called before code that is no effect. */
  flush?(turn: TurnName): Promise<void>;
  /** The turn is committed: nothing of it is needed any longer. */
  forget?(turn: TurnName): void;
}

export interface TurnName {
  readonly sessionId: SessionId;
  readonly turnId: TurnId;
}

export interface EffectOptions<T> {
  /**
   * The outcome of an effect that began in an earlier run and whose end is not known. With it, the beginning is written
   * before `perform` is called, and such an effect is never performed again.
   */
  cut?(): Promise<T>;
}
